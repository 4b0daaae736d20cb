//! The requests of the last ten seconds at a resource, by class and namespace.
//!
//! Requests only count; a tick takes the differences since the last one into the running second of
//! a window ([`activity_window`]). Times are counted by powers of two in eight steps
//! ([`time_counts`], [`time_histogram`]), so a percentile is at most an eighth above the true one.

pub(crate) mod activity_window;
pub(crate) mod recent_activity;
pub(crate) mod time_counts;
pub(crate) mod time_histogram;

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
