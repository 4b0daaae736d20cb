//! Where the time of a layer comes from: the only place that reads a clock.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

use tidegate::Timestamp;
use tokio::sync::watch;

/// A source of `now`.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// Completes when [`Clock::now`] has reached `at`; it may complete earlier.
    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The time of the machine: the wall clock read once at the start, and monotonic time since then.
///
/// It never steps while the process lives, whatever is done to the wall clock.
#[derive(Debug)]
pub struct SystemClock {
    anchor: Timestamp,
    started: Instant,
}

impl SystemClock {
    /// A clock that starts from the wall clock now.
    pub fn new() -> Self {
        Self { anchor: Timestamp::from(SystemTime::now()), started: Instant::now() }
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
}

/// A clock that only moves when told to, for tests.
#[derive(Debug)]
pub struct ManualClock(watch::Sender<Timestamp>);

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(watch::Sender::new(start))
    }

    /// Moves it forward, and wakes who waits for that.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now = now.saturating_add(by));
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
