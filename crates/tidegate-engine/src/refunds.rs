//! Which refunds were already applied, so that repeating one gives nothing back twice.

use core::time::Duration;
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use tidegate::Timestamp;

/// How many refund keys are remembered. When all are in use, a refund is refused rather than applied unremembered.
pub const REFUND_KEYS_MAX: usize = 1 << 18;

/// How long a refund key is remembered. A repetition after that is a new refund.
pub const REFUND_KEY_KEPT: Duration = Duration::from_hours(1);

/// What became of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refunded {
    /// It was given back.
    Applied,
    /// It had been given back before; nothing was done.
    AlreadyApplied,
}

/// The refund keys of the last [`REFUND_KEY_KEPT`].
#[derive(Debug)]
pub(crate) struct RefundKeys {
    hasher: ahash::RandomState,
    max: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    keys: HashSet<u128, ahash::RandomState>,
    /// In the order they came, which is the order they are forgotten in.
    order: VecDeque<(Timestamp, u128)>,
}

/// No room for another refund key before this instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefundKeysFull(pub(crate) Timestamp);

impl RefundKeys {
    pub(crate) fn new(max: usize, seed: [u64; 4]) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed[2], seed[3], !seed[0], !seed[1]);
        let keys = HashSet::with_hasher(hasher.clone());
        Self { hasher, max, seen: Mutex::new(Seen { keys, order: VecDeque::new() }) }
    }

    /// Remembers a key; `Ok(false)` if it is already known.
    pub(crate) fn remember(
        &self,
        namespace: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<bool, RefundKeysFull> {
        let name = |salt: u64| u128::from(self.hasher.hash_one((salt, namespace, key)));
        let id = name(1) << 64 | name(2);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((at, old)) = seen.order.front().copied() {
            if at.saturating_add(REFUND_KEY_KEPT) > now {
                break;
            }
            seen.order.pop_front();
            seen.keys.remove(&old);
        }
        if seen.keys.contains(&id) {
            return Ok(false);
        }
        if seen.keys.len() >= self.max {
            let first = seen.order.front().map_or(now, |(at, _)| *at);
            return Err(RefundKeysFull(first.saturating_add(REFUND_KEY_KEPT)));
        }
        // A clock that steps back must not put a key behind ones that are forgotten later.
        let at = seen.order.back().map_or(now, |(last, _)| (*last).max(now));
        seen.order.push_back((at, id));
        seen.keys.insert(id);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_remembered_for_an_hour_and_then_forgotten() {
        let keys = RefundKeys::new(10, [1, 2, 3, 4]);
        let start = Timestamp::from_secs(1000);
        assert_eq!(keys.remember("api", "a", start), Ok(true));
        assert_eq!(keys.remember("api", "a", start), Ok(false));
        assert_eq!(keys.remember("other", "a", start), Ok(true));
        let almost = start.saturating_add(REFUND_KEY_KEPT).saturating_sub(Duration::from_nanos(1));
        assert_eq!(keys.remember("api", "a", almost), Ok(false));
        assert_eq!(keys.remember("api", "a", start.saturating_add(REFUND_KEY_KEPT)), Ok(true));
    }

    #[test]
    fn when_all_keys_are_in_use_a_new_one_is_told_when_to_come_back() {
        let keys = RefundKeys::new(2, [1, 2, 3, 4]);
        let start = Timestamp::from_secs(1000);
        assert_eq!(keys.remember("api", "a", start), Ok(true));
        assert_eq!(keys.remember("api", "b", start), Ok(true));
        let until = start.saturating_add(REFUND_KEY_KEPT);
        assert_eq!(keys.remember("api", "c", start), Err(RefundKeysFull(until)));
        assert_eq!(keys.remember("api", "a", start), Ok(false), "a known key needs no room");
        assert_eq!(keys.remember("api", "c", until), Ok(true));
    }
}
