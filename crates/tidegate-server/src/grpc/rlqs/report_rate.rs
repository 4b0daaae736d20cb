//! How often a stream may report.
//!
//! Envoy 1.40 reports a new bucket at once, in a message of its own, and every 5 s all buckets in
//! one. So a daemon that came back to an Envoy with many callers gets hundreds of short messages in
//! its first second, and must take them: what costs is the length of messages, not their number.

use core::time::Duration;

use tokio::time::Instant;

/// How many short reports a stream may send at once: as many as it may have buckets, and some.
const BURST: u32 = 1200;

/// How many short reports it may send in a second after that.
const PER_SECOND: u32 = 100;

/// A report counts once more for each of so many bytes.
const LONG_BYTES: usize = 1 << 10;

/// The reports of one stream within their bound.
#[derive(Debug)]
pub(super) struct ReportRate {
    /// When all of the burst is there.
    full_at: Instant,
}

impl ReportRate {
    pub(super) fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Counts a report of so many bytes; whether it is within the bound.
    pub(super) fn take(&mut self, length: usize, now: Instant) -> bool {
        const EACH: Duration = Duration::from_secs(1).checked_div(PER_SECOND).expect("it is not 0");
        let cost = u32::try_from(1 + length / LONG_BYTES).unwrap_or(u32::MAX);
        let full_at = self.full_at.max(now) + EACH.saturating_mul(cost);
        let is_within = full_at.saturating_duration_since(now) <= EACH * BURST;
        if is_within {
            self.full_at = full_at;
        }
        is_within
    }
}

#[cfg(test)]
mod tests {
    use tidegate_wire::envoy::rlqs::REPORT_BYTES_MAX;

    use super::*;

    /// How many reports of this length are taken at `now`.
    fn taken(rate: &mut ReportRate, length: usize, now: Instant) -> u32 {
        let mut count = 0;
        while rate.take(length, now) {
            count += 1;
            assert!(count < 10_000, "no bound");
        }
        count
    }

    #[test]
    fn an_envoy_with_a_thousand_new_buckets_is_taken_and_an_endless_stream_is_not() {
        let begun = Instant::now();
        let mut rate = ReportRate::new(begun);
        assert_eq!(taken(&mut rate, 60, begun), BURST);
        assert_eq!(taken(&mut rate, 60, begun + Duration::from_secs(1)), PER_SECOND);
        assert_eq!(taken(&mut rate, 60, begun + Duration::from_mins(10)), BURST, "and no more is gathered");
        // One each millisecond.
        let mut rate = ReportRate::new(begun);
        let refused = (0..10_000).find(|millis| !rate.take(60, begun + Duration::from_millis(*millis)));
        assert!((1200..1500).contains(&refused.unwrap()), "{refused:?}");
    }

    #[test]
    fn a_long_report_counts_as_many_and_all_buckets_each_five_seconds_are_always_taken() {
        let begun = Instant::now();
        let mut rate = ReportRate::new(begun);
        assert_eq!(taken(&mut rate, REPORT_BYTES_MAX, begun), 18);
        let mut rate = ReportRate::new(begun);
        for report in 0..1000 {
            assert!(rate.take(256 << 10, begun + Duration::from_secs(5 * report)), "{report}");
        }
    }
}
