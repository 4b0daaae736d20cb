//! The kit that worlds are made of.

pub(crate) mod chance;
pub(crate) mod clock;
pub(crate) mod delays;
pub(crate) mod network;
pub(crate) mod queue;
pub(crate) mod zipf;
