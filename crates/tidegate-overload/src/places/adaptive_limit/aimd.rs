//! Additive increase, multiplicative decrease, as in Netflix concurrency-limits, for comparison.

use super::window::WindowSummary;

const BACKOFF: f64 = 0.9;

/// The next limit: a tenth less after a failure, or when the median latency is above `timeout` (in
/// seconds); one more when at least half of the limit is used.
pub(super) fn next_limit(limit: f64, window: &WindowSummary, timeout: f64) -> f64 {
    if window.failed_share > 0.0 || window.typical_latency.is_some_and(|latency| latency > timeout) {
        limit * BACKOFF
    } else if window.in_flight_peak * 2.0 >= limit {
        limit + 1.0
    } else {
        limit
    }
}
