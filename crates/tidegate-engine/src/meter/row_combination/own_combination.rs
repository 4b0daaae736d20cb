//! The combinations of rows that a thread has made, in which it counts without a locked instruction.

use core::marker::PhantomData;
use core::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{LARGE, RowCombination};
use crate::fault::Fault;
use crate::meter::metered_rows::DecidedRequest;
use crate::meter::row_columns::{REPEATED, RowAmount};

/// The counts that one thread keeps: by outcome, and those that repeat an attempt.
const OWN_COUNTS: usize = REPEATED + 1;

/// The amounts that one thread keeps: [`RowAmount::Units`] and [`RowAmount::RefusedUnits`].
const OWN_AMOUNTS: usize = RowAmount::RefusedUnits as usize + 1;

/// A combination in the hands of the thread that made it.
///
/// Only this type writes [`OwnSums`], and it never leaves its thread, nor do its copies: each sum
/// has one writer, which adds by a load and a store. Other threads know the combination as an `Arc`
/// of [`RowCombination`] and add to atomic sums.
#[derive(Clone, Debug)]
pub(crate) struct OwnCombination {
    combination: Arc<RowCombination>,
    /// Neither `Send` nor `Sync`.
    of_this_thread: PhantomData<Rc<()>>,
}

impl OwnCombination {
    /// The combination, which this thread has just made.
    pub(crate) fn new(combination: RowCombination) -> Self {
        Self { combination: Arc::new(combination), of_this_thread: PhantomData }
    }

    /// The same combination for all threads.
    #[inline]
    pub(crate) const fn shared(&self) -> &Arc<RowCombination> {
        &self.combination
    }

    /// Counts a request that is offered and decided at once.
    pub(crate) fn count_decided(&self, decided: DecidedRequest) {
        if !self.count_small(decided) {
            self.count_large(decided);
        }
    }

    /// The same where nothing is to be flushed by it; otherwise it counts nothing, and is false.
    #[inline]
    pub(crate) fn count_small(&self, decided: DecidedRequest) -> bool {
        let Some(amount) = RowAmount::of_outcome(decided.outcome) else { return false };
        let sum = &self.own.amounts[amount as usize];
        let before = sum.load(Ordering::Relaxed);
        let after = before.wrapping_add(decided.units);
        // Each time that the sum takes a further `LARGE`, it is flushed.
        if (decided.units | (before ^ after)) >= LARGE {
            return false;
        }
        self.count_request(decided);
        if Fault::OutcomeTwice.is_planted() {
            add(&self.own.counts[decided.outcome.index()], 1);
        }
        sum.store(after, Ordering::Relaxed);
        true
    }

    #[cold]
    fn count_large(&self, DecidedRequest { outcome, units, is_repeated }: DecidedRequest) {
        self.count_request(DecidedRequest { outcome, units, is_repeated });
        match RowAmount::of_outcome(outcome) {
            Some(amount) if units < LARGE => {
                add(&self.own.amounts[amount as usize], units);
                self.flush();
            }
            Some(amount) => self.add(amount, units),
            None => {}
        }
    }

    #[inline]
    fn count_request(&self, decided: DecidedRequest) {
        if decided.is_repeated {
            add(&self.own.counts[REPEATED], 1);
        }
        add(&self.own.counts[decided.outcome.index()], 1);
    }
}

impl Deref for OwnCombination {
    type Target = RowCombination;

    #[inline]
    fn deref(&self) -> &RowCombination {
        &self.combination
    }
}

/// What the thread of a combination has counted since it made it; modulo 2^64. The sums are never
/// taken: the combination knows what its rows have of them.
///
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
}

/// Adds to a sum that this thread alone writes.
#[inline]
fn add(sum: &AtomicU64, more: u64) {
    sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
