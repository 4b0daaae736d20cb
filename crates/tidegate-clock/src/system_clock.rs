//! The time of the machine.

use std::time::{Duration, SystemTime};

use tidegate_core::Timestamp;

use crate::anchored_counter::AnchoredCounter;
use crate::process_time::{MachineReadings, process_time};
use crate::sync::{AtomicU64, Ordering};
use crate::{Clock, Drift};

/// The time of the machine: the wall clock read once at start, and monotonic time since then.
///
/// It never steps while the process lives, whatever is done to the wall clock, and never goes back
/// on any thread. Readings of two threads at the same time may differ by up to 0.1 ms.
///
/// Where the processor has a counter of one speed, and the system uses it, the clock reads this
/// counter and keeps it to `Instant`: at most 0.1 ms away. A counter that is seen to jump, stop or
/// change its speed is not read again. A counter that stands still or is set back can be seen only
/// by comparing: a thread compares at its first, second, fourth, eighth (and so on) reading within
/// 64 us of the counter, and until then its readings are late by what the counter missed.
///
/// ```
/// # use core::task::Waker;
/// # use tidegate_clock::{Clock, ClockWait, SystemClock};
/// let clock = SystemClock::new();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// // An instant that has passed is not waited for.
/// assert_eq!(clock.wake_at(before, Waker::noop()), ClockWait::Reached);
/// ```
#[derive(Debug)]
pub struct SystemClock {
    anchor: Timestamp,
    /// The time of the process at the anchor, in nanoseconds.
    anchored_ns: u64,
    time: &'static AnchoredCounter<MachineReadings>,
    /// The wall clock minus this clock when it was last compared, in nanoseconds above
    /// [`DRIFT_ZERO`].
    drift: AtomicU64,
}

/// No drift: the middle of the range, so that both directions fit one unsigned number.
const DRIFT_ZERO: u64 = 1 << 63;

impl SystemClock {
    /// A clock that starts from the wall clock now.
    pub fn new() -> Self {
        let time = process_time();
        let anchor = Timestamp::from(SystemTime::now());
        Self { anchor, anchored_ns: time.elapsed_ns(), time, drift: AtomicU64::new(DRIFT_ZERO) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let elapsed_ns = self.time.elapsed_ns().saturating_sub(self.anchored_ns);
        Timestamp::from_nanos(self.anchor.as_nanos().saturating_add(elapsed_ns))
    }

    fn drift(&self) -> Drift {
        let wall = Timestamp::from(SystemTime::now());
        let ours = self.now();
        let ahead = nanos(wall.saturating_since(ours));
        let behind = nanos(ours.saturating_since(wall));
        let current = DRIFT_ZERO.saturating_add(ahead).saturating_sub(behind);
        // Relaxed: one task compares the clocks, and nothing else depends on the value.
        let before = self.drift.swap(current, Ordering::Relaxed);
        Drift {
            ahead: Duration::from_nanos(current.saturating_sub(before)),
            behind: Duration::from_nanos(before.saturating_sub(current)),
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_never_goes_back_and_starts_without_drift() {
        let clock = SystemClock::new();
        let first = clock.now();
        assert!(clock.now() >= first);
        let Drift { ahead, behind } = clock.drift();
        assert!(ahead < Duration::from_secs(1) && behind < Duration::from_secs(1));
    }
}
