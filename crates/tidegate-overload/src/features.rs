//! Features that degrade at a threshold and come back when they fit again.

pub(crate) mod config;
