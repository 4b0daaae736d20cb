//! Adaptive concurrency limits of Netflix's concurrency-limits: AIMD and Gradient2.

use core::fmt::Debug;

/// Both limits begin here and never go below.
const INITIAL: f64 = 20.0;
const MAX: f64 = 200.0;

/// A limit that follows the latencies of answers.
pub(super) trait ConcurrencyLimit: Debug {
    /// The most requests at the service.
    fn limit(&self) -> f64;

    /// An answer came after `took`, with so many requests at the service; `is_dropped`: after the
    /// deadline.
    fn answered(&mut self, took: u64, in_flight: usize, is_dropped: bool);
}

/// `AIMDLimit`: one more, or a tenth less.
#[derive(Debug)]
pub(super) struct AimdLimit {
    limit: f64,
}

impl AimdLimit {
    pub(super) const fn new() -> Self {
        Self { limit: INITIAL }
    }
}

impl ConcurrencyLimit for AimdLimit {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn answered(&mut self, _took: u64, in_flight: usize, is_dropped: bool) {
        if is_dropped {
            self.limit = libm::floor(self.limit * 0.9);
        } else if in_flight as f64 * 2.0 >= self.limit {
            self.limit += 1.0;
        }
        self.limit = self.limit.clamp(INITIAL, MAX);
    }
}

/// `Gradient2Limit`.
#[derive(Debug)]
pub(super) struct GradientLimit {
    limit: f64,
    long_rtt: f64,
    samples: u32,
}

/// The window of the long-term average, and how many samples are averaged plainly at first.
const WINDOW: f64 = 600.0;
const WARM_UP: u32 = 10;

impl GradientLimit {
    pub(super) const fn new() -> Self {
        Self { limit: INITIAL, long_rtt: 0.0, samples: 0 }
    }
}

impl ConcurrencyLimit for GradientLimit {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn answered(&mut self, took: u64, in_flight: usize, _is_dropped: bool) {
        let short = took.max(1) as f64;
        self.samples = self.samples.saturating_add(1);
        let part = if self.samples <= WARM_UP { 1.0 / f64::from(self.samples) } else { 2.0 / (WINDOW + 1.0) };
        self.long_rtt += (short - self.long_rtt) * part;
        if self.long_rtt / short > 2.0 {
            self.long_rtt *= 0.95;
        }
        if (in_flight as f64) < self.limit / 2.0 {
            return;
        }
        let gradient = (1.5 * self.long_rtt / short).clamp(0.5, 1.0);
        let next = self.limit * gradient + 4.0;
        self.limit = (self.limit * 0.8 + next * 0.2).clamp(INITIAL, MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sim::kit::MS;

    #[test]
    fn constant_timeouts_drive_the_gradient_to_its_maximum_and_aimd_to_its_minimum() {
        let (mut gradient, mut aimd) = (GradientLimit::new(), AimdLimit::new());
        for _ in 0..1000 {
            gradient.answered(500 * MS, 200, true);
            aimd.answered(500 * MS, 200, true);
        }
        assert!(gradient.limit() > 199.0 && aimd.limit() < 21.0, "{gradient:?} {aimd:?}");
    }
}
