//! The latency of a resource, as the ends of its work report it.
//!
//! Two exponentially weighted moving averages with a gain of 1/8, the smoothed round-trip time of
//! TCP (RFC 6298): one word each, and no lock, bucket or clock. Only work that succeeded counts for
//! them. Work that fails often fails fast, and would make a broken resource look quick; it is
//! counted beside them.

use core::time::Duration;

use crate::places::adaptive_limit::LimitSample;
use crate::sync::{AtomicU64, Ordering};

/// A new sample weighs `1 / 2^GAIN_SHIFT`.
const GAIN_SHIFT: u32 = 3;

/// The end of a request's work, as a sample of its resource's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencySample {
    /// The work was done.
    Succeeded {
        /// The time from the admission to the first byte of the answer, if it is known.
        first_byte: Option<Duration>,
        /// The time from the admission to the end of the work.
        end: Duration,
    },
    /// The work was tried and failed for a reason that says nothing about load.
    Failed,
    /// The work timed out: an adaptive limit counts it as a failure.
    TimedOut {
        /// The time from the admission to the timeout.
        after: Duration,
    },
    /// The resource rejected the work as too much, for example with 429 or 503: an adaptive limit
    /// counts it as a failure.
    Rejected,
}

impl LatencySample {
    /// The sample for an adaptive limit.
    pub(crate) const fn limit_sample(self) -> Option<LimitSample> {
        match self {
            Self::Succeeded { first_byte: Some(latency), .. }
            | Self::Succeeded { first_byte: None, end: latency } => Some(LimitSample::Succeeded { latency }),
            Self::TimedOut { after } => Some(LimitSample::TimedOut { latency: after }),
            Self::Rejected => Some(LimitSample::Rejected),
            Self::Failed => None,
        }
    }
}

/// The averages and counts of one resource.
#[derive(Debug, Default)]
pub(crate) struct LatencyAverages {
    // Relaxed, all of them: numbers for people, ordered with nothing.
    first_byte: MovingAverage,
    end: MovingAverage,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl LatencyAverages {
    pub(crate) fn add(&self, sample: LatencySample) {
        match sample {
            LatencySample::Succeeded { first_byte, end } => {
                self.succeeded.fetch_add(1, Ordering::Relaxed);
                self.end.add(end);
                if let Some(first_byte) = first_byte {
                    self.first_byte.add(first_byte);
                }
            }
            LatencySample::Failed | LatencySample::TimedOut { .. } | LatencySample::Rejected => {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn stats(&self) -> LatencyStats {
        LatencyStats {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            first_byte: self.first_byte.get(),
            end: self.end.get(),
        }
    }
}

/// The latency of one resource, from its admission on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatencyStats {
    /// The samples of work that succeeded.
    pub succeeded: u64,
    /// The samples of work that failed, timed out or was rejected; they count for no average.
    pub failed: u64,
    /// The average time to the first byte of an answer, of the samples that know it; `None` without
    /// any.
    pub first_byte: Option<Duration>,
    /// The average time to the end of the work; `None` without a sample. A slow reader of an answer
    /// makes it longer, and not the time to the first byte.
    pub end: Option<Duration>,
}

/// An exponentially weighted moving average of durations, in nanoseconds; 0 before the first.
#[derive(Debug, Default)]
struct MovingAverage(AtomicU64);

impl MovingAverage {
    fn add(&self, sample: Duration) {
        // Zero means that there is no sample yet.
        let sample = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX).max(1);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |average| {
            Some(match average {
                0 => sample,
                // Never 0: an average below 8 loses nothing. The error is below 8 ns.
                _ => (average - (average >> GAIN_SHIFT)).saturating_add(sample >> GAIN_SHIFT),
            })
        });
    }

    fn get(&self) -> Option<Duration> {
        let average = self.0.load(Ordering::Relaxed);
        (average > 0).then(|| Duration::from_nanos(average))
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn succeeded(end: Duration) -> LatencySample {
        LatencySample::Succeeded { first_byte: None, end }
    }

    #[test]
    fn the_average_is_the_first_sample_and_then_moves_an_eighth_of_the_way() {
        let latency = LatencyAverages::default();
        assert_eq!(latency.stats(), LatencyStats::default());
        latency.add(succeeded(8 * MS));
        assert_eq!(latency.stats().end, Some(8 * MS));
        latency.add(succeeded(16 * MS));
        assert_eq!(latency.stats().end, Some(9 * MS));
        for _ in 0..200 {
            latency.add(succeeded(40 * MS));
        }
        let end = latency.stats().end.unwrap();
        assert!(end.abs_diff(40 * MS) < Duration::from_nanos(8), "{end:?}");
        assert_eq!(latency.stats().succeeded, 202);
    }

    #[test]
    fn a_failure_is_counted_and_moves_no_average() {
        let latency = LatencyAverages::default();
        latency.add(LatencySample::Succeeded { first_byte: Some(2 * MS), end: 8 * MS });
        latency.add(LatencySample::Failed);
        latency.add(succeeded(8 * MS));
        let expected = LatencyStats { succeeded: 2, failed: 1, first_byte: Some(2 * MS), end: Some(8 * MS) };
        assert_eq!(latency.stats(), expected, "one sample did not know its first byte");
    }

    #[test]
    fn the_shortest_and_the_longest_sample_are_taken_as_they_are() {
        let latency = LatencyAverages::default();
        latency.add(succeeded(Duration::ZERO));
        assert_eq!(latency.stats().end, Some(Duration::from_nanos(1)), "zero is no sample");
        let latency = LatencyAverages::default();
        latency.add(succeeded(Duration::MAX));
        latency.add(succeeded(Duration::MAX));
        assert!(latency.stats().end.unwrap() > Duration::from_secs(1 << 33));
    }
}
