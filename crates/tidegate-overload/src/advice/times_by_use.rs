//! Sums of place times by the places in use, which many threads add to.

use core::time::Duration;
use std::sync::OnceLock;

use crate::sync::{AtomicU64, Ordering};

/// Below so many places in use each number has a bucket of its own.
const EXACT: u32 = 16;
/// Above, each power of two has so many buckets: the numbers of one are within an eighth.
const STEPS: u32 = 8;
/// The exponents of [`EXACT`] and [`STEPS`].
const EXACT_BITS: u32 = EXACT.trailing_zeros();
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// More places in use count as this many: no resource has more places.
const IN_USE_MAX: u32 = 1 << 20;
/// The number of buckets; with 16 bytes each, 2.3 KiB for a resource that has had a request.
const BUCKETS: usize = bucket_of(IN_USE_MAX) + 1;
/// The most of one request's time that counts: an hour, so that no sum wraps.
const TIME_MAX_US: u64 = 3_600_000_000;

/// The place times since the last call of [`TimesByUse::take`]. Its buckets are made when the
/// first one comes.
#[derive(Debug, Default)]
pub(crate) struct TimesByUse(OnceLock<Box<[UseBucket; BUCKETS]>>);

/// The requests that were admitted at about the same number of places in use.
#[derive(Debug, Default)]
struct UseBucket {
    // Relaxed, both: sums for advice. A request between the two additions is in the next sums with
    // its time, which moves a mean of hundreds by a part of one.
    count: AtomicU64,
    micros: AtomicU64,
}

/// The sums of one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UseSum {
    /// The places in use: the middle of the bucket.
    pub(crate) in_use: f64,
    /// How many requests were admitted at them.
    pub(crate) count: u64,
    /// For how long they kept their places together, in microseconds.
    pub(crate) micros: u64,
}

impl TimesByUse {
    /// Adds a request that was admitted when so many places were in use, itself included.
    #[inline]
    pub(crate) fn add(&self, in_use: u32, took: Duration) {
        let buckets = self.0.get_or_init(|| Box::new(core::array::from_fn(|_| UseBucket::default())));
        let micros = took.as_secs().saturating_mul(1_000_000).saturating_add(took.subsec_micros().into());
        let bucket = &buckets[bucket_of(in_use)];
        bucket.count.fetch_add(1, Ordering::Relaxed);
        bucket.micros.fetch_add(micros.min(TIME_MAX_US), Ordering::Relaxed);
    }

    /// Takes the sums out, by rising places in use; only those with any request.
    pub(crate) fn take(&self) -> Vec<UseSum> {
        let buckets = self.0.get().into_iter().flat_map(|buckets| buckets.iter().enumerate());
        let sums = buckets.filter(|(_, bucket)| bucket.count.load(Ordering::Relaxed) > 0);
        let sums = sums.map(|(index, bucket)| UseSum {
            in_use: middle_of(index),
            count: bucket.count.swap(0, Ordering::Relaxed),
            micros: bucket.micros.swap(0, Ordering::Relaxed),
        });
        sums.collect()
    }
}

/// The bucket of so many places in use.
#[inline]
const fn bucket_of(in_use: u32) -> usize {
    if in_use < EXACT {
        return in_use as usize;
    }
    let in_use = if in_use < IN_USE_MAX { in_use } else { IN_USE_MAX };
    let power = in_use.ilog2() - STEP_BITS;
    let doublings = power + STEP_BITS - EXACT_BITS;
    (EXACT + doublings * STEPS + (in_use >> power) - STEPS) as usize
}

/// The middle of a bucket.
fn middle_of(bucket: usize) -> f64 {
    let bucket = bucket as u32;
    if bucket < EXACT {
        return bucket.into();
    }
    let (doublings, step) = ((bucket - EXACT) / STEPS, (bucket - EXACT) % STEPS);
    let power = doublings + EXACT_BITS - STEP_BITS;
    let (first, width) = ((STEPS + step) << power, 1 << power);
    f64::from(first) + f64::from(width - 1) / 2.0
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_bucket_has_one_number_below_sixteen_and_numbers_within_an_eighth_above() {
        let mut before = 0;
        for in_use in (0..5_000).chain([IN_USE_MAX - 1, IN_USE_MAX]) {
            let (bucket, middle) = (bucket_of(in_use), middle_of(bucket_of(in_use)));
            let off = (middle - f64::from(in_use)).abs();
            assert!(off <= f64::from(in_use) / 16.0, "{in_use} in the bucket of {middle}");
            assert!(in_use >= EXACT || off == 0.0, "{in_use} in the bucket of {middle}");
            assert!(bucket >= before && bucket - before <= BUCKETS, "{in_use}");
            before = bucket;
        }
        assert_eq!((bucket_of(u32::MAX), BUCKETS), (BUCKETS - 1, 145));
    }

    #[test]
    fn sums_are_taken_once_in_order_and_a_time_counts_as_an_hour_at_most() {
        let times = TimesByUse::default();
        assert_eq!(times.take(), []);
        times.add(3, 2 * MS);
        times.add(1, Duration::MAX);
        times.add(3, 4 * MS);
        let sum = |in_use, count, micros| UseSum { in_use, count, micros };
        assert_eq!(times.take(), [sum(1.0, 1, TIME_MAX_US), sum(3.0, 2, 6_000)]);
        assert_eq!(times.take(), []);
    }
}
