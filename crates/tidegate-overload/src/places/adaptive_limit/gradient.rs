//! Gradient2 of Netflix concurrency-limits, for comparison.
//!
//! The ratio of a long average of latency to the present one moves the limit. Failures count like
//! successes, so a constant timeout looks like a constant latency and the limit grows to the
//! maximum (concurrency-limits #137). Use it to compare, not in production.

use super::window::WindowSummary;

const TOLERANCE: f64 = 1.5;
const SMOOTHING: f64 = 0.2;
const QUEUE: f64 = 4.0;
/// The samples of the long average.
const LONG_WINDOW: f64 = 600.0;
/// The first samples of the long average are averaged plainly.
const WARM_UP: f64 = 10.0;

/// The long average of latency.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gradient {
    long: f64,
    count: f64,
}

impl Gradient {
    pub(super) fn next_limit(&mut self, limit: f64, window: &WindowSummary) -> f64 {
        let Some(short) = window.latency_with_failures else { return limit };
        if self.count < WARM_UP {
            self.count += 1.0;
            self.long += (short - self.long) / self.count;
        } else {
            self.long += (short - self.long) * 2.0 / (LONG_WINDOW + 1.0);
        }
        if self.long / short > 2.0 {
            self.long *= 0.95;
        }
        if window.in_flight_peak < limit / 2.0 {
            return limit;
        }
        let gradient = (TOLERANCE * self.long / short).clamp(0.5, 1.0);
        let next = limit * gradient + QUEUE;
        limit * (1.0 - SMOOTHING) + next * SMOOTHING
    }
}
