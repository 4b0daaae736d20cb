//! The experiments, one file a question.

pub(crate) mod authorize;
pub(crate) mod crashes;
pub(crate) mod deferral;
pub(crate) mod factors;
pub(crate) mod feature_steps;
pub(crate) mod forged_tickets;
pub(crate) mod idleness;
pub(crate) mod neighbour;
pub(crate) mod rates;
pub(crate) mod rehearsal;
pub(crate) mod step;
pub(crate) mod streams;
pub(crate) mod waits;
