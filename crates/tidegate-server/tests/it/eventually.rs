//! Waits for states that announce nothing: a condition is looked at until it holds.

use std::time::{Duration, Instant};

/// After this long without what it waits for a test fails rather than hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The longest pause between two looks. The first one is a millisecond, and each twice as long as
/// the one before.
const PAUSE_MAX: Duration = Duration::from_millis(16);

/// Looks until `holds`; panics with `what` if it never does.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    eventually_some(what, async || holds().await.then_some(())).await;
}

/// Looks until there is a value; panics with `what` if there never is.
pub(crate) async fn eventually_some<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let (since, mut pause) = (Instant::now(), Duration::from_millis(1));
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(since.elapsed() < PATIENCE, "waited in vain: {what}");
        // Sleeps: between two looks at a state that announces nothing.
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}
