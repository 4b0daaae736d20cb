//! The rate at which a queue is served, measured where requests leave it.

use core::time::Duration;

use tidegate_core::Timestamp;

/// The last so many departures count.
const DEPARTURES: f64 = 32.0;

/// The averages of the time between two departures, and of their cost.
///
/// Only departures between which the queue was never empty count: an idle resource would otherwise
/// look like a slow one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServiceRate {
    /// The last departure of the busy period.
    last: Option<Timestamp>,
    gap_ns: f64,
    cost: f64,
    /// The gaps in the averages, at most [`DEPARTURES`].
    samples: f64,
}

impl ServiceRate {
    /// A request of this cost left at `now` to be served.
    #[expect(
        clippy::cast_precision_loss,
        reason = "costs are below 2^32, and an average needs no nanoseconds"
    )]
    pub(super) fn departed(&mut self, cost: u64, now: Timestamp) {
        if let Some(last) = self.last {
            self.samples = (self.samples + 1.0).min(DEPARTURES);
            let gap = now.saturating_since(last).as_nanos() as f64;
            self.gap_ns += (gap - self.gap_ns) / self.samples;
            self.cost += (cost as f64 - self.cost) / self.samples;
        }
        self.last = Some(now);
    }

    /// The queue became empty.
    pub(super) fn emptied(&mut self) {
        self.last = None;
    }

    /// The average time between two departures; `None` before it was measured.
    pub(super) fn interval(&self) -> Option<Duration> {
        (self.samples > 0.0).then(|| nanos(self.gap_ns))
    }

    /// How long it takes to serve so much cost; `None` before the rate was measured.
    pub(super) fn time_for(&self, cost: f64) -> Option<Duration> {
        (self.samples > 0.0).then(|| nanos(cost * self.gap_ns / self.cost.max(1.0)))
    }
}

/// A duration of so many nanoseconds, saturating.
#[expect(clippy::cast_sign_loss, reason = "times and costs are not negative")]
fn nanos(nanos: f64) -> Duration {
    Duration::from_nanos(nanos as u64)
}
