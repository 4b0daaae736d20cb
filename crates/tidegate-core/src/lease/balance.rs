//! The usage of a key as far as one member knows: the usage in the ledger's last answer, and the
//! units that the member has admitted since.
//!
//! Refusals and header fields are made of it. For a caller that uses one member it is exact; of
//! what other members have admitted meanwhile it knows nothing, so it is at most one lease period
//! old.

use core::time::Duration;

use super::terms::{Terms, TermsKind, UNIT_BITS};
use crate::algorithm::Algorithm;
use crate::time::Timestamp;

/// The usage of a key, with the tokens in this member's hand counted as unused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Balance {
    /// When nothing is used any more if nothing else is charged: of a bucket when it is full, of a
    /// window its end.
    reset_at: Timestamp,
    /// Of a window, the units used in it.
    used: u64,
}

/// The usage that a ledger reports when it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LedgerLevel {
    /// Units used, those in holders' hands included.
    pub used: u64,
    /// After which time nothing is used any more, if nothing else is charged.
    pub reset_in: Duration,
}

impl Balance {
    /// The balance after the ledger reported `level` at `now`, of which `in_hand` tokens are this
    /// member's.
    pub(super) fn new(terms: &Terms, level: LedgerLevel, in_hand: u64, now: Timestamp) -> Self {
        // A ledger tells time in whole microseconds, and drains a bucket by them.
        let is_bucket = matches!(terms.kind, TermsKind::Bucket(_));
        let reset_in = level.reset_in.saturating_add(Duration::from_micros(u64::from(is_bucket)));
        let mut balance = Self { reset_at: now.saturating_add(reset_in), used: level.used };
        balance.give_back(terms, in_hand);
        balance
    }

    /// Counts `units` as used at `now`.
    pub(super) fn charge(&mut self, terms: &Terms, units: u64, now: Timestamp) {
        match &terms.kind {
            TermsKind::Bucket(_) => {
                let span = nanos(parts(terms, units).div_ceil(1 << UNIT_BITS));
                self.reset_at = self.reset_at.max(now).saturating_add(span);
            }
            TermsKind::Window(_) => {
                if now >= self.reset_at {
                    self.used = 0;
                }
                self.used = self.used.saturating_add(units);
            }
        }
    }

    /// Counts `units` as unused.
    pub(super) fn give_back(&mut self, terms: &Terms, units: u64) {
        match &terms.kind {
            // Rounded down, so that room is never promised too early.
            TermsKind::Bucket(_) => {
                self.reset_at = self.reset_at.saturating_sub(nanos(parts(terms, units) >> UNIT_BITS));
            }
            TermsKind::Window(_) => self.used = self.used.saturating_sub(units),
        }
    }

    /// The first instant at which there is room for `units` if nothing else is charged; at the
    /// earliest `now`.
    pub(super) fn room_at(&self, terms: &Terms, units: u64, now: Timestamp) -> Timestamp {
        match &terms.kind {
            TermsKind::Bucket(refill) => {
                let rest = u128::from(refill.burst.saturating_sub(units)) * u128::from(refill.per_us) * 1000;
                let rest = u64::try_from(rest / u128::from(refill.units)).unwrap_or(u64::MAX);
                self.reset_at.saturating_sub(Duration::from_nanos(rest)).max(now)
            }
            TermsKind::Window(window) if self.used.saturating_add(units) <= window.limit => now,
            TermsKind::Window(_) => self.reset_at.max(now),
        }
    }

    /// Units left of `algorithm` at `now`, rounded down; of a bucket a unit counts when seven
    /// eighths of it are there, as the answer took its time.
    pub fn remaining(&self, algorithm: &Algorithm, now: Timestamp) -> u64 {
        let used = match algorithm {
            _ if now >= self.reset_at => 0,
            Algorithm::Bucket(bucket) => {
                let left_ns = u128::from(self.reset_at.as_nanos() - now.as_nanos());
                let per_ns = u128::from(bucket.rate().per_ns());
                let parts = left_ns * u128::from(bucket.rate().units());
                u64::try_from(parts.saturating_sub(per_ns / 8).div_ceil(per_ns)).unwrap_or(u64::MAX)
            }
            _ => self.used,
        };
        algorithm.limit().saturating_sub(used)
    }

    /// When nothing is used any more if nothing else is charged; at the earliest `now`.
    pub fn reset_at(&self, now: Timestamp) -> Timestamp {
        self.reset_at.max(now)
    }
}

/// How long a bucket takes to refill so many units, in parts of a nanosecond.
fn parts(terms: &Terms, units: u64) -> u128 {
    let TermsKind::Bucket(refill) = &terms.kind else { return 0 };
    u128::from(units).saturating_mul(refill.unit_ns)
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
