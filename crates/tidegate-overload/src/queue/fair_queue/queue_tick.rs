//! The report of a queue at each tick, and its counters.

use core::time::Duration;

use tidegate_core::Class;

use crate::queue::queue_observation::QueueObservation;

/// The delay, the service and the refusals of a queue since the tick before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct QueueTick {
    /// The shortest queue delay of the tick divided by the target, of the class for which this is
    /// the highest. 0 where each class was empty at some instant; above 1 the queue stands.
    pub delay_ratio: f64,
    /// The longest of the shortest delays that the classes had in the tick.
    pub delay: Duration,
    /// The class with that ratio; `None` if it is 0.
    pub slowest: Option<Class>,
    /// Whether nothing waited at some instant of the tick.
    pub was_empty: bool,
    /// The cost that left the queue to be served.
    pub cost_served: u64,
    /// The requests that left the queue to be served.
    pub departures: u64,
    /// The requests of each class that were shed when their turn came, in the order of
    /// [`Class::ALL`].
    pub shed: [u64; 4],
}

impl QueueTick {
    /// The part that the admission cursor needs to know.
    pub fn observation(&self) -> QueueObservation {
        let shed = self.shed.iter().fold(0, |sum: u64, shed| sum.saturating_add(*shed));
        QueueObservation {
            delay_ratio: self.delay_ratio,
            delay: self.delay,
            is_empty: self.was_empty,
            shed,
            departures: self.departures,
        }
    }
}

/// The counters of one class of a queue, since the queue exists.
///
/// Each request that entered leaves in one way:
///
/// ```text
/// entered == served + shed_by_delay + expired + too_late + cancelled + refused + displaced + moved
///          + waiting
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounts {
    /// The requests that entered.
    pub entered: u64,
    /// Left to be served.
    pub served: u64,
    /// Shed because the queue stands and they waited for more than twice the target.
    pub shed_by_delay: u64,
    /// Refused because the time for which they may wait was over.
    pub expired: u64,
    /// Refused because less than a typical service time was left until their deadline.
    pub too_late: u64,
    /// Left by themselves: the caller has gone.
    pub cancelled: u64,
    /// Refused for another reason than their wait: by a limit or another plane, since the room
    /// drains, or without a place when the time for which their caller waits was over.
    pub refused: u64,
    /// Gave their place in a full room to a more important request.
    pub displaced: u64,
    /// Went on to wait for something else.
    pub moved: u64,
    /// Wait now.
    pub waiting: u64,
    /// The sum of the waits of the served requests.
    pub wait_sum: Duration,
    /// The shortest delay of the last tick: of the requests that had their turn in it, or else the
    /// wait so far of the oldest. 0 where the class was empty at some instant of the tick, or has
    /// no target of its delay.
    pub delay: Duration,
}
