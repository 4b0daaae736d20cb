//! `Retry-After`: whole seconds, rounded up, so that waiting as told is always enough.

use core::time::Duration;

use tidegate_core::{RefusalView, Retry, Timestamp};

/// The `Retry-After` of a refusal that can only say "later": the shortest wait of a backoff, in
/// seconds.
pub const BACKOFF_SECONDS: u64 = 1;

/// The value of `Retry-After` in seconds for a refusal at `now`; `None` when coming back is of no
/// use.
///
/// One nanosecond left is 1 second. It is at least 1 even when the instant has passed meanwhile: a
/// caller that was refused never comes back at once.
pub fn seconds(retry: Retry, now: Timestamp) -> Option<u64> {
    match retry {
        Retry::At(instant) => Some(seconds_up(instant.saturating_since(now)).max(1)),
        Retry::Backoff => Some(BACKOFF_SECONDS),
        Retry::Never => None,
    }
}

/// The value of `Retry-After` for a refusal at `now`: as [`seconds`], but a refusal that can only
/// say "later" may know how long at least.
pub fn seconds_of(refusal: &RefusalView<'_>, now: Timestamp) -> Option<u64> {
    match (refusal.retry, refusal.retry_hint) {
        (Retry::Backoff, Some(hint)) => Some(seconds_up(hint).max(BACKOFF_SECONDS)),
        (retry, _) => seconds(retry, now),
    }
}

/// Milliseconds until a refused caller may come back, rounded up and at least 1; `None` if the time
/// is unknown or if retrying is of no use.
pub fn millis(retry: Retry, now: Timestamp) -> Option<u64> {
    retry.after(now).map(|wait| millis_up(wait).max(1))
}

/// Milliseconds until a refused caller may come back: as [`millis`], or the wait that a refusal
/// which can only say "later" suggests before the first retry.
pub fn millis_of(refusal: &RefusalView<'_>, now: Timestamp) -> Option<u64> {
    refusal.wait(now).map(|wait| millis_up(wait).max(1))
}

/// Whole seconds, rounded up.
pub fn seconds_up(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

/// Whole milliseconds, rounded up; saturates at `u64::MAX`.
pub fn millis_up(span: Duration) -> u64 {
    let rest = u64::from(span.subsec_nanos().div_ceil(1_000_000));
    span.as_secs().saturating_mul(1000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_nanosecond_left_is_one_second_and_no_refusal_says_zero() {
        let now = Timestamp::from_secs(1000);
        let at = |nanos| Retry::At(now.saturating_add(Duration::from_nanos(nanos)));
        for (nanos, expected_seconds, expected_millis) in [
            (0, 1, 1),
            (1, 1, 1),
            (1_000_000, 1, 1),
            (1_000_001, 1, 2),
            (1_000_000_000, 1, 1000),
            (1_000_000_001, 2, 1001),
        ] {
            assert_eq!(seconds(at(nanos), now), Some(expected_seconds), "{nanos} ns");
            assert_eq!(millis(at(nanos), now), Some(expected_millis), "{nanos} ns");
        }
        assert_eq!(seconds(Retry::At(Timestamp::MIN), now), Some(1));
    }

    #[test]
    fn the_far_future_does_not_overflow() {
        assert_eq!(seconds(Retry::At(Timestamp::MAX), Timestamp::MIN), Some(u64::MAX / 1_000_000_000 + 1));
        assert_eq!(seconds_up(Duration::MAX), u64::MAX);
        assert_eq!(millis_up(Duration::MAX), u64::MAX);
    }

    #[test]
    fn a_refusal_that_only_says_later_names_its_hint() {
        let violated = tidegate_core::Violated {
            name: "in-flight".into(),
            reason: tidegate_core::Reason::OverloadShed,
            retry: Retry::Backoff,
            limit: 10,
            remaining: 0,
            window: None,
        };
        let mut refusal = tidegate_core::Refusal::new("api", smallvec::SmallVec::new(), violated);
        assert_eq!(seconds_of(&refusal.view(), Timestamp::MIN), Some(BACKOFF_SECONDS));
        refusal.retry_hint = Some(Duration::from_millis(2001));
        assert_eq!(seconds_of(&refusal.view(), Timestamp::MIN), Some(3));
        refusal.retry_hint = Some(Duration::ZERO);
        assert_eq!(seconds_of(&refusal.view(), Timestamp::MIN), Some(BACKOFF_SECONDS));
    }

    #[test]
    fn who_shall_not_come_back_is_told_no_time() {
        let now = Timestamp::from_secs(1);
        assert_eq!((seconds(Retry::Never, now), millis(Retry::Never, now)), (None, None));
        assert_eq!(
            (seconds(Retry::Backoff, now), millis(Retry::Backoff, now)),
            (Some(BACKOFF_SECONDS), None)
        );
    }
}
