//! The report of a queue to the tick of its resource.

use core::time::Duration;

/// The state of a resource's queue over one tick, as the queue reports it.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_overload::QueueObservation;
/// // The shortest wait of the tick was three times the target: there is a standing queue.
/// let delay = Duration::from_millis(15);
/// let observation = QueueObservation {
///     delay_ratio: 3.0,
///     delay,
///     is_empty: false,
///     shed: 4,
///     departures: 60,
/// };
/// assert!(observation.is_overloaded());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueObservation {
    /// The shortest wait in the tick divided by the target of its class, of the class for which
    /// this is worst. Above 1.0 the queue stands. Counts as 0 if it is negative or not a number.
    pub delay_ratio: f64,
    /// The longest of the shortest waits that the classes had in the tick.
    pub delay: Duration,
    /// Whether the queue was empty at some moment of the tick.
    pub is_empty: bool,
    /// The requests that the queue refused in the tick: by delay, by deadline or because it was
    /// full.
    pub shed: u64,
    /// The requests that left the queue in the tick to be served.
    pub departures: u64,
}

impl QueueObservation {
    /// Whether the queue stood for the whole tick, longer than its target.
    pub fn is_overloaded(&self) -> bool {
        self.delay_ratio > 1.0
    }

    /// Whether nothing waited in the tick.
    pub(crate) const fn is_idle(&self) -> bool {
        self.is_empty && self.shed == 0 && self.departures == 0
    }

    /// Both observations, as one of a longer tick.
    pub(crate) fn merge(self, later: Self) -> Self {
        Self {
            // `max` ignores what is not a number.
            delay_ratio: self.delay_ratio.max(later.delay_ratio).max(0.0),
            delay: self.delay.max(later.delay),
            is_empty: self.is_empty || later.is_empty,
            shed: self.shed.saturating_add(later.shed),
            departures: self.departures.saturating_add(later.departures),
        }
    }

    /// No request, and no queue.
    pub(crate) const NONE: Self =
        Self { delay_ratio: 0.0, delay: Duration::ZERO, is_empty: false, shed: 0, departures: 0 };
}
