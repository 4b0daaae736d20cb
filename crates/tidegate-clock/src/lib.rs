//! Where the time of a daemon or a layer comes from: the only place that reads a clock for
//! decisions.

#![forbid(unsafe_code)]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tidegate_core::Timestamp;
use tokio::sync::watch;

/// A source of `now`.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// Completes when [`Clock::now`] has reached `at`; it may complete earlier.
    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// How far the wall clock has moved away from [`Clock::now`] since the last call, as ahead and
    /// behind. Zero for clocks that have no wall clock.
    fn drift(&self) -> Drift {
        Drift::default()
    }
}

/// How far the wall clock moved against the time that decisions use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// It stepped forward by this much.
    pub ahead: Duration,
    /// It stepped back by this much.
    pub behind: Duration,
}

/// The time of the machine: the wall clock read once at start, and monotonic time since then.
///
/// It never steps while the process lives, whatever is done to the wall clock.
///
/// ```
/// # use tidegate_clock::{Clock, SystemClock};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let clock = SystemClock::new();
/// let before = clock.now();
/// // An instant that has passed is not waited for.
/// clock.sleep_until(before).await;
/// assert!(clock.now() >= before);
/// # }
/// ```
#[derive(Debug)]
pub struct SystemClock {
    anchor: Timestamp,
    started: Instant,
    /// The wall clock minus this clock when it was last compared, in nanoseconds above
    /// [`DRIFT_ZERO`].
    drift: AtomicU64,
}

/// No drift: the middle of the range, so that both directions fit one unsigned number.
const DRIFT_ZERO: u64 = 1 << 63;

impl SystemClock {
    /// A clock that starts from the wall clock now.
    pub fn new() -> Self {
        let anchor = Timestamp::from(SystemTime::now());
        Self { anchor, started: Instant::now(), drift: AtomicU64::new(DRIFT_ZERO) }
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
        self.anchor.saturating_add(self.started.elapsed())
    }

    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(at.saturating_since(self.now())))
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

/// A clock that only moves when told to, for tests and simulations.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_clock::{Clock, ManualClock};
/// # use tidegate_core::Timestamp;
/// let clock = ManualClock::new(Timestamp::from_secs(1_800_000_000));
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), Timestamp::from_secs(1_800_000_001));
/// ```
#[derive(Debug)]
pub struct ManualClock(watch::Sender<Timestamp>);

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(watch::Sender::new(start))
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now = now.saturating_add(by));
    }

    /// Sets it, forward or back.
    pub fn set(&self, now: Timestamp) {
        self.0.send_replace(now);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut changes = self.0.subscribe();
        Box::pin(async move {
            // The sender lives as long as the clock, which is borrowed here.
            let _ = changes.wait_for(|now| *now >= at).await;
        })
    }
}

#[cfg(test)]
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

    #[tokio::test]
    async fn who_sleeps_on_a_manual_clock_wakes_when_it_is_moved() {
        let clock = ManualClock::new(Timestamp::from_secs(10));
        let at = Timestamp::from_secs(12);
        let mover = async {
            clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
            clock.advance(Duration::from_secs(1));
        };
        // Sleeps: on a manual clock, which the other future moves.
        tokio::join!(clock.sleep_until(at), mover);
        assert_eq!(clock.now(), at);
        clock.set(Timestamp::from_secs(1));
        assert_eq!(clock.now(), Timestamp::from_secs(1));
    }
}
