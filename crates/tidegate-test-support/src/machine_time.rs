//! Time as this machine passes it, for bounds on what other threads and processes do.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the thread behind the clock wakes on an idle machine.
const TICK: Duration = Duration::from_millis(2);

/// The ticks so far: a count by itself, which publishes nothing.
static TICKS: AtomicU64 = AtomicU64::new(0);

/// An instant of the clock of this machine, which counts how often a sleeping thread has woken.
///
/// The clock agrees with [`Instant`] on an idle machine. Where other processes take the processor,
/// the thread wakes late, as do the store and the servers of a test. Ticks that it missed are not
/// made up, so a bound on this time holds on an idle machine and on a busy one.
#[derive(Clone, Copy, Debug)]
pub struct MachineInstant(u64);

impl MachineInstant {
    /// This instant. The first call starts the thread that counts.
    #[must_use]
    pub fn now() -> Self {
        static STARTED: Once = Once::new();
        STARTED.call_once(|| drop(std::thread::spawn(tick)));
        Self(TICKS.load(Ordering::Relaxed))
    }

    /// How long this machine has run since then.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        let ticks = TICKS.load(Ordering::Relaxed) - self.0;
        TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
    }
}

/// Counts ticks until the process ends.
fn tick() {
    let start = Instant::now();
    loop {
        let since_tick = start.elapsed().subsec_nanos() % TICK.subsec_nanos();
        // Sleeps: until the next tick; a thread that wakes after several of them counts one.
        std::thread::sleep(TICK.saturating_sub(Duration::from_nanos(since_tick.into())));
        TICKS.fetch_add(1, Ordering::Relaxed);
    }
}
