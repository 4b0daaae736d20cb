//! Counts of durations that many threads add to, and that a tick takes out.

use core::time::Duration;
use std::sync::OnceLock;

use crate::activity::time_counts::{BINS, TimeCounts, bin_of};
use crate::sync::{AtomicU64, Ordering};

/// The durations since the last tick. Its counts are made when the first one comes.
#[derive(Debug, Default)]
pub(crate) struct TimeHistogram(OnceLock<Box<[AtomicU64; BINS]>>);

impl TimeHistogram {
    pub(crate) fn add(&self, time: Duration) {
        let bins = self.0.get_or_init(|| Box::new(core::array::from_fn(|_| AtomicU64::new(0))));
        // Relaxed, as below: a sum for people, ordered with nothing.
        bins[usize::from(bin_of(time))].fetch_add(1, Ordering::Relaxed);
    }

    /// Moves the durations to `counts`.
    pub(crate) fn take_into(&self, counts: &mut TimeCounts) {
        let Some(bins) = self.0.get() else { return };
        for (bin, count) in (0..).zip(bins.iter()) {
            if count.load(Ordering::Relaxed) > 0 {
                counts.add_bin(bin, count.swap(0, Ordering::Relaxed));
            }
        }
    }
}
