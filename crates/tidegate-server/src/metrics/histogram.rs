//! A histogram of short durations that many threads write at once: one atomic addition each, no
//! lock.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};

/// The upper ends of the buckets in nanoseconds: 1 us to 1 s. Longer durations fall in the last
/// bucket, which has no end.
const ENDS_NS: [u64; 15] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    50_000_000,
    250_000_000,
    1_000_000_000,
];

/// Spans, counted by how long they were.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; ENDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Counts one span. The sum wraps after 584 years of it.
    #[inline]
    pub(crate) fn observe(&self, span: Duration) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let bucket = ENDS_NS.iter().position(|end| nanos <= *end).unwrap_or(ENDS_NS.len());
        // Relaxed: each number is right by itself; a scrape in between may be off by the span in
        // flight.
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The sum in seconds, the count, and the buckets as their upper ends in seconds with their own
    /// counts.
    #[expect(clippy::cast_precision_loss, reason = "the page shows seconds as floating point")]
    pub(crate) fn snapshot(&self) -> (f64, u64, Vec<(f64, u64)>) {
        let ends = ENDS_NS.iter().map(|end| *end as f64 / 1e9).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<_> = ends.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        (self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9, count, buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_falls_into_the_first_bucket_that_holds_it() {
        let histogram = Histogram::default();
        for nanos in [0, 1_000, 1_001, 1_000_000_000, 1_000_000_001] {
            histogram.observe(Duration::from_nanos(nanos));
        }
        let (sum, count, buckets) = histogram.snapshot();
        assert_eq!(count, 5);
        assert!((sum - 2.000_002_002).abs() < 1e-9, "{sum}");
        let counts: Vec<u64> = buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!((counts[0], counts[1], counts[14], counts[15]), (2, 1, 1, 1));
        histogram.observe(Duration::MAX);
    }
}
