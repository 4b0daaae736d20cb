//! How late a decision may be, and which waits only a clock explains that went ahead.

use core::time::Duration;

use super::probe::Answer;
use crate::algorithm::Algorithm;
use crate::time::Timestamp;

/// Whether a refusal tells to wait for longer than its limit could ask for by now.
#[inline(never)]
pub(super) fn is_ahead(algorithm: &Algorithm, answer: Answer, now: Timestamp) -> bool {
    let longest = longest_wait(algorithm).saturating_add(LATE_MAX);
    matches!(answer, Answer::Wait { until } if until > now.saturating_add(longest))
}

/// How late a `now` may be when it comes to a decision, since its thread was put aside after it
/// read the clock. Nothing is brought back to such a `now`: what other threads charged since would
/// leave its window too early.
pub(super) const LATE_MAX: Duration = Duration::from_mins(1);

/// A wait that is no longer needs no second look: a window, a full drain, or a hold.
pub(super) fn longest_wait(algorithm: &Algorithm) -> Duration {
    match algorithm {
        Algorithm::Concurrency(concurrency) => concurrency.hold(),
        other => other.window().unwrap_or(Duration::MAX),
    }
}
