//! When a key that found no room may come back.
//!
//! A word that drains is taken by whichever newcomer comes next, so all callers that are refused in
//! a moment must not come back in the same one. Each waits a little longer than the room needs, by
//! a part that depends on its key.

use core::time::Duration;

use crate::time::Timestamp;

/// The shortest wait. Newcomers take a place that is free sooner before a refused caller is back.
const WAIT_MIN: Duration = Duration::from_millis(500);

/// The longest wait before it is spread. Other keys may be reset or removed, and a namespace may
/// get below its share, long before the first drain of the words that a key may take.
const WAIT_MAX: Duration = Duration::from_secs(40);

/// When the key with this hash may come back, given that there may be room at `earliest`: at least
/// half a second and at most a minute after `now`.
///
/// Up to half of the wait is added, by the hash: the same key is always given the same part.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::{Timestamp, full_retry};
/// let now = Timestamp::from_secs(1_800_000_000);
/// let wait = |hash, seconds| {
///     full_retry(hash, now.saturating_add(Duration::from_secs(seconds)), now).saturating_since(now)
/// };
/// assert_eq!(wait(0, 0), Duration::from_millis(500));
/// assert_eq!(wait(1 << 63, 10), Duration::from_millis(12_500));
/// assert!(wait(u64::MAX, 3600) <= Duration::from_mins(1));
/// ```
pub fn full_retry(hash: u64, earliest: Timestamp, now: Timestamp) -> Timestamp {
    let wait = earliest.saturating_since(now).clamp(WAIT_MIN, WAIT_MAX);
    // The product of two numbers below 2^36 and 2^32: half of the wait times a part of 2^32.
    let part = hash >> 32;
    let more = (wait.as_nanos() / 2 * u128::from(part)) >> 32;
    now.saturating_add(wait).saturating_add(Duration::from_nanos(u64::try_from(more).unwrap_or(u64::MAX)))
}
