//! A log line that strangers can cause, written at most every ten seconds.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// How often at most.
const INTERVAL: Duration = Duration::from_secs(10);

/// When the line was last written, and how many were left out since.
#[derive(Debug, Default)]
pub(crate) struct EveryTenSeconds(Mutex<(Option<Instant>, u64)>);

impl EveryTenSeconds {
    /// Whether to write the line now: then how many were left out since the one before.
    pub(crate) fn take(&self) -> Option<u64> {
        let (written, left_out) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_some_and(|written| written.elapsed() < INTERVAL) {
            *left_out = left_out.saturating_add(1);
            return None;
        }
        *written = Some(Instant::now());
        Some(core::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_is_written_every_ten_seconds_and_says_how_many_were_left_out() {
        let line = EveryTenSeconds::default();
        assert_eq!((line.take(), line.take(), line.take()), (Some(0), None, None));
        tokio::time::advance(INTERVAL).await;
        assert_eq!((line.take(), line.take()), (Some(2), None));
        tokio::time::advance(INTERVAL).await;
        assert_eq!(line.take(), Some(1));
    }
}
