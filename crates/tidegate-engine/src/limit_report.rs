//! The state of one limit after a decision, as callers report it.

use core::time::Duration;

use tidegate_core::{LimitStatus, Timestamp};

/// The remaining quota of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitReport {
    /// The name of the limit.
    pub name: String,
    /// The largest number of units it admits at once.
    pub limit: u64,
    /// Units left.
    pub remaining: u64,
    /// When nothing is used any more, if nothing else is charged.
    pub reset_at: Timestamp,
    /// The span it counts over; `None` for concurrency.
    pub window: Option<Duration>,
    /// The IANA name of the time zone of its civil windows; `None` for limits without.
    pub civil_zone: Option<String>,
    /// Whether it is a shadow limit that would have refused the request.
    pub shadow_refused: bool,
    /// When the block of the key ends, as far as a report or a peek found one; `None` after an
    /// admission.
    pub blocked_until: Option<Timestamp>,
}

impl LimitReport {
    /// A report of a limit without a window that enforces; the rest is for the caller to set.
    pub fn new(name: String, limit: u64, remaining: u64, reset_at: Timestamp) -> Self {
        Self {
            name,
            limit,
            remaining,
            reset_at,
            window: None,
            shadow_refused: false,
            civil_zone: None,
            blocked_until: None,
        }
    }
}

impl From<LimitStatus<'_>> for LimitReport {
    fn from(status: LimitStatus<'_>) -> Self {
        Self {
            name: status.name.to_owned(),
            limit: status.limit,
            remaining: status.remaining,
            reset_at: status.reset_at,
            window: status.window,
            civil_zone: status.civil_zone.map(str::to_owned),
            shadow_refused: status.shadow_refused,
            blocked_until: status.blocked_until,
        }
    }
}
