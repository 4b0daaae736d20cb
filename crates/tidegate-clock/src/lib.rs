//! Where the time of a daemon or a layer comes from: the only place that reads a clock for
//! decisions.
//!
//! No runtime is needed to read the time. A clock says how to wait for an instant
//! ([`Clock::wake_at`]); `tidegate-driver` waits.

mod anchored_counter;
mod counter;
mod process_time;
mod segment;
mod sequence_lock;
mod sync;
mod system_clock;

use core::fmt;
use core::task::Waker;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::Timestamp;

pub use self::system_clock::SystemClock;

/// A source of `now`.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// How to wait until [`Clock::now`] has reached `at`. A clock that somebody moves keeps `waker`
    /// and wakes it then; it may wake it earlier. By default the clock runs like the machine's.
    fn wake_at(&self, at: Timestamp, _waker: &Waker) -> ClockWait {
        ClockWait::until(at, self.now())
    }

    /// How far the wall clock has moved away from [`Clock::now`] since the last call, as ahead and
    /// behind. Zero for clocks that have no wall clock.
    fn drift(&self) -> Drift {
        Drift::default()
    }
}

/// The way to wait for an instant of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockWait {
    /// The instant has come.
    Reached,
    /// The clock wakes the waker when somebody moves it so far.
    Wakes,
    /// The clock runs by itself, and reaches the instant after this span, which is not zero.
    Runs(Duration),
}

impl ClockWait {
    /// The way to wait for `at` by a clock that runs by itself and is at `now`.
    fn until(at: Timestamp, now: Timestamp) -> Self {
        match at.saturating_since(now) {
            Duration::ZERO => Self::Reached,
            left => Self::Runs(left),
        }
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
pub struct ManualClock(Mutex<ManualTime>);

/// The state of a [`ManualClock`].
#[derive(Debug)]
struct ManualTime {
    now: Timestamp,
    /// Each with the instant that it waits for. A waker that is no longer waited with stays here
    /// until the clock reaches its instant.
    wakers: Vec<(Timestamp, Waker)>,
}

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Mutex::new(ManualTime { now: start, wakers: Vec::new() }))
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        self.move_to(|now| now.saturating_add(by));
    }

    /// Sets it, forward or back.
    pub fn set(&self, now: Timestamp) {
        self.move_to(|_| now);
    }

    fn move_to(&self, instant: impl FnOnce(Timestamp) -> Timestamp) {
        let reached: Vec<(Timestamp, Waker)> = self.with(|time| {
            time.now = instant(time.now);
            let now = time.now;
            time.wakers.extract_if(.., |(at, _)| *at <= now).collect()
        });
        // Without the lock: a waker may look at the clock at once.
        for (_, waker) in reached {
            waker.wake();
        }
    }

    fn with<T>(&self, run: impl FnOnce(&mut ManualTime) -> T) -> T {
        // The time is whole after every change, so a panic elsewhere does not concern it.
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.with(|time| time.now)
    }

    fn wake_at(&self, at: Timestamp, waker: &Waker) -> ClockWait {
        self.with(|time| {
            if time.now >= at {
                return ClockWait::Reached;
            }
            if !time.wakers.iter().any(|(other, kept)| *other == at && kept.will_wake(waker)) {
                time.wakers.push((at, waker.clone()));
            }
            ClockWait::Wakes
        })
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Wakes(AtomicU64);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_manual_clock_wakes_each_waker_once_when_it_reaches_its_instant() {
        let clock = ManualClock::new(Timestamp::from_secs(10));
        let at = Timestamp::from_secs(12);
        let counter = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&counter));
        let woken = || counter.0.load(Ordering::Relaxed);
        for _ in 0..2 {
            assert_eq!(clock.wake_at(at, &waker), ClockWait::Wakes);
        }
        clock.advance(Duration::from_secs(1));
        assert_eq!(woken(), 0);
        clock.advance(Duration::from_secs(1));
        assert_eq!((woken(), clock.now()), (1, at));
        assert_eq!(clock.wake_at(at, &waker), ClockWait::Reached);
        clock.set(Timestamp::from_secs(1));
        assert_eq!((woken(), clock.now()), (1, Timestamp::from_secs(1)));
    }

    #[test]
    fn a_clock_that_runs_says_how_long_it_takes() {
        let now = Timestamp::from_secs(10);
        assert_eq!(ClockWait::until(now, now), ClockWait::Reached);
        assert_eq!(ClockWait::until(Timestamp::from_secs(9), now), ClockWait::Reached);
        let left = Duration::from_secs(3);
        assert_eq!(ClockWait::until(now.saturating_add(left), now), ClockWait::Runs(left));
    }
}
