//! The waits of a request before its attempt.

use std::sync::Arc;

use tidegate_overload::Obstacle;

use crate::leases::Flight;

/// How often a request waits for leases before it is refused instead: once for the ask, and again
/// where others were faster.
pub(crate) const ROUNDS_MAX: u8 = 3;

/// The store answers that a request has waited for so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waited<'a> {
    pub(crate) rounds: u8,
    pub(crate) landed: &'a [Arc<Flight>],
    /// Whether it was offered before, so that the overload plane knows its demand.
    pub(crate) is_offered: bool,
    /// Whether it came in the time of its ticket, and has waited since.
    pub(crate) had_ticket: bool,
    /// The obstacle of whose line it is the next, if it has waited in one.
    pub(crate) next_of: Option<Obstacle>,
}
