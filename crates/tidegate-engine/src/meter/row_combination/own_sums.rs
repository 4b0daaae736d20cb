//! Sums that one thread writes, without a locked instruction.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault::Fault;
use crate::meter::metered_rows::DecidedRequest;
use crate::meter::row_columns::{LARGE, REPEATED, RowAmount};

/// The counts that one thread keeps: by outcome, and those that repeat an attempt.
const OWN_COUNTS: usize = REPEATED + 1;

/// The amounts that one thread keeps: [`RowAmount::Units`] and [`RowAmount::RefusedUnits`].
const OWN_AMOUNTS: usize = RowAmount::RefusedUnits as usize + 1;

/// The requests that one thread has counted; modulo 2^64. Nothing is ever taken out of the sums.
///
/// Only the thread that made them may add, by a load and a store; see [`super::OwnCombination`].
/// The atomics are relaxed: a sum publishes nothing else.
#[derive(Debug, Default)]
pub(super) struct OwnSums {
    counts: [AtomicU64; OWN_COUNTS],
    amounts: [AtomicU64; OWN_AMOUNTS],
}

impl OwnSums {
    /// The count at this position; zero where the thread keeps none.
    #[inline]
    pub(super) fn count(&self, position: usize) -> u64 {
        self.counts.get(position).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// The amount at this position; zero where the thread keeps none.
    #[inline]
    pub(super) fn amount(&self, position: usize) -> u64 {
        self.amounts.get(position).map_or(0, |amount| amount.load(Ordering::Relaxed))
    }

    /// Adds a request with its units. Where these are large, or complete a further [`LARGE`] of the
    /// sum, nothing is added, and it is false.
    #[inline]
    pub(super) fn add_small(&self, decided: DecidedRequest) -> bool {
        let Some(amount) = RowAmount::of_outcome(decided.outcome) else { return false };
        let sum = &self.amounts[amount as usize];
        let before = sum.load(Ordering::Relaxed);
        let after = before.wrapping_add(decided.units);
        if (decided.units | (before ^ after)) >= LARGE {
            return false;
        }
        self.add_request(decided);
        if Fault::OutcomeTwice.is_planted() {
            add(&self.counts[decided.outcome.index()], 1);
        }
        sum.store(after, Ordering::Relaxed);
        true
    }

    /// Adds a request without its units.
    #[inline]
    pub(super) fn add_request(&self, decided: DecidedRequest) {
        if decided.is_repeated {
            add(&self.counts[REPEATED], 1);
        }
        add(&self.counts[decided.outcome.index()], 1);
    }

    /// Adds units of admitted or of refused requests.
    pub(super) fn add_units(&self, amount: RowAmount, units: u64) {
        add(&self.amounts[amount as usize], units);
    }
}

/// Adds to a sum that this thread alone writes.
#[inline]
fn add(sum: &AtomicU64, more: u64) {
    sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
