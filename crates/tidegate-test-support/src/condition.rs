//! Waiting for conditions that announce nothing: one is looked at until it holds.

use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "tokio")]
use crate::MachineInstant;

/// After this long without what it waits for a test fails rather than hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The first pause between two looks. Each is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(16);

/// The pauses between looks, for so long at most.
struct Looks {
    began: Instant,
    patience: Duration,
    pause: Duration,
}

impl Looks {
    fn for_at_most(patience: Duration) -> Self {
        Self { began: Instant::now(), patience, pause: PAUSE_MIN }
    }

    /// The pause before the next look; nothing if the last one was made.
    fn next_pause(&mut self) -> Option<Duration> {
        let pause = self.pause;
        self.pause = (2 * pause).min(PAUSE_MAX);
        (self.began.elapsed() < self.patience).then_some(pause)
    }
}

/// Looks until there is a value, for so long at most.
fn some_within<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut looks = Looks::for_at_most(patience);
    loop {
        let found = look();
        if found.is_some() {
            return found;
        }
        let pause = looks.next_pause()?;
        // Sleeps: between two looks at a state that announces nothing.
        thread::sleep(pause);
    }
}

/// Looks until it holds, for so long at most; whether it does.
pub fn holds_within(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    some_within(patience, || holds().then_some(())).is_some()
}

/// Looks until it holds.
///
/// # Panics
///
/// With `what` if it does not hold within [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_some(what, || holds().then_some(()));
}

/// Looks until there is a value.
///
/// # Panics
///
/// With `what` if no value comes within [`PATIENCE`].
pub fn until_some<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    some_within(PATIENCE, look).unwrap_or_else(|| panic!("waited in vain: {what}"))
}

/// As [`until`], without blocking the thread.
///
/// # Panics
///
/// With `what` if it does not hold within [`PATIENCE`].
#[cfg(feature = "tokio")]
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    eventually_some(what, async || holds().await.then_some(())).await;
}

/// As [`until_some`], without blocking the thread.
///
/// # Panics
///
/// With `what` if no value comes within [`PATIENCE`].
#[cfg(feature = "tokio")]
pub async fn eventually_some<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let mut looks = Looks::for_at_most(PATIENCE);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        let Some(pause) = looks.next_pause() else { panic!("waited in vain: {what}") };
        between_looks(pause).await;
    }
}

#[cfg(feature = "tokio")]
async fn between_looks(pause: Duration) {
    // Sleeps: between two looks at a state that announces nothing.
    tokio::time::sleep(pause).await;
}

/// Looks until there is a result, for so long at most by the clock of the machine.
///
/// # Panics
///
/// With the last error if no result comes within `time`.
#[cfg(feature = "tokio")]
pub async fn within<T>(time: Duration, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let since = MachineInstant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(since.elapsed() < time, "not within {time:?}: {seen}"),
        }
        between_looks(PAUSE_MAX).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_looked_at_until_it_holds_and_no_longer_than_the_patience() {
        let mut looks = 0;
        let third = || {
            looks += 1;
            looks == 3
        };
        assert!(holds_within(PATIENCE, third));
        assert_eq!(looks, 3);
        assert!(!holds_within(Duration::ZERO, || false));
        assert!(holds_within(Duration::ZERO, || true), "it is looked at once");
    }

    #[test]
    fn pauses_double_up_to_their_bound() {
        let mut looks = Looks::for_at_most(PATIENCE);
        let pauses = [(); 6].map(|()| looks.next_pause().unwrap().as_millis());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
    }
}
