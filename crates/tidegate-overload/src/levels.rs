//! Load levels: the signals of a resource, its pressure, and the level that follows from it.

pub(crate) mod level_control;
pub(crate) mod load_level;
pub(crate) mod signal;
pub(crate) mod signal_set;
pub(crate) mod slow_answers;
pub(crate) mod threshold_entry;
