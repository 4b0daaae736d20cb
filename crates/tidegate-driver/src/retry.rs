//! When a refused request that waits is tried again.

use core::time::Duration;

use tidegate_core::{Reason, Refusal, Retry, Timestamp};
use tidegate_engine::lacks_in_flight_place;

/// The shortest pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause before a request is tried again that is refused without an instant, or by
/// something lent, which may expire or come back without a word.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// When to try again, as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTry {
    /// At this instant, or earlier if something that was lent comes back.
    At(Timestamp),
    /// Never: the request as it is will never be admitted.
    Never,
}

/// The pauses of one waiting request.
#[derive(Debug, Default)]
pub(crate) struct RetrySchedule {
    /// How often it was refused without an instant that helps.
    attempts: u32,
}

impl RetrySchedule {
    /// When to try again after this refusal.
    pub(crate) fn next(&mut self, refusal: &Refusal, now: Timestamp) -> NextTry {
        let soonest = now.saturating_add(PAUSE_MIN);
        if is_lent(refusal) {
            // The instant of such a refusal is when a permit expires; another may come back before.
            return NextTry::At(now.saturating_add(PAUSE_MAX));
        }
        match refusal.retry() {
            Retry::At(at) => NextTry::At(at.max(soonest)),
            Retry::Backoff => {
                let first = refusal.retry_hint.unwrap_or_default().max(PAUSE_MIN);
                let pause = first.saturating_mul(1 << self.attempts.min(16)).min(PAUSE_MAX.max(first));
                self.attempts += 1;
                NextTry::At(now.saturating_add(pause))
            }
            Retry::Never => NextTry::Never,
        }
    }
}

/// Whether the request was refused for want of something lent: a place of a concurrency limit, or a
/// place in flight.
pub(crate) fn is_lent(refusal: &Refusal) -> bool {
    refusal.reason() == Reason::ConcurrencyExceeded || lacks_in_flight_place(refusal)
}

#[cfg(test)]
mod tests;
