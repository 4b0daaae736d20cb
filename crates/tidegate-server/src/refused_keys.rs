//! Which keys are refused most: a sketch of constant size.
//!
//! The space-saving algorithm (Metwally, Agrawal, El Abbadi, 2005) with [`KEYS_MAX`] counters. Of `n` refusals seen, a
//! key that was refused more than `n / KEYS_MAX` times is always listed, and the count shown is too high by at most
//! the `error` beside it, which is itself at most `n / KEYS_MAX`; it is never too low. Nothing is decided by it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use tidegate::Refusal;
use utoipa::ToSchema;

/// How many keys are kept.
pub const KEYS_MAX: usize = 100;

/// The longest text of a key that is kept, in bytes.
const KEY_BYTES_MAX: usize = 256;

/// One key that is refused often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RefusedKey {
    /// The namespace.
    pub namespace: String,
    /// The limit that bound longest (or the table, node or resource).
    pub limit: String,
    /// The attributes and values that name the counter, as `user=ada, app=x`; cut after 256 bytes.
    pub key: String,
    /// How often it was refused; at most `error` too high, never too low.
    pub refusals: u64,
    /// By how much `refusals` may be too high.
    pub error: u64,
}

/// The keys that are refused most since the daemon started.
#[derive(Debug)]
pub(crate) struct RefusedKeys {
    hasher: ahash::RandomState,
    sketch: Mutex<Sketch>,
}

#[derive(Debug)]
struct Sketch {
    total: u64,
    /// The position in `keys` of the key with this hash. Two keys of one hash would count as one: with 64 seeded bits
    /// that does not happen.
    positions: HashMap<u64, usize, ahash::RandomState>,
    keys: Vec<(u64, RefusedKey)>,
}

impl RefusedKeys {
    /// An empty sketch; `seed` keeps strangers from choosing keys that collide.
    pub(crate) fn new(seed: [u64; 4]) -> Self {
        let [a, b, c, d] = seed;
        let hasher = ahash::RandomState::with_seeds(a, b, c, d);
        let positions = HashMap::with_capacity_and_hasher(KEYS_MAX * 2, hasher.clone());
        let sketch = Sketch { total: 0, positions, keys: Vec::with_capacity(KEYS_MAX) };
        Self { hasher, sketch: Mutex::new(sketch) }
    }

    /// Counts one refusal.
    pub(crate) fn count(&self, refusal: &Refusal<'_>) {
        let hash = self.hasher.hash_one((&*refusal.namespace, refusal.name(), &refusal.scope[..]));
        // Every change leaves the sketch whole, so a panic elsewhere does no harm.
        let mut sketch = self.sketch.lock().unwrap_or_else(PoisonError::into_inner);
        sketch.count(hash, || RefusedKey {
            namespace: refusal.namespace.as_ref().to_owned(),
            limit: refusal.name().to_owned(),
            key: key_text(refusal),
            refusals: 0,
            error: 0,
        });
    }

    /// The keys, the most refused first, and how many refusals were seen in all.
    pub(crate) fn top(&self) -> (Vec<RefusedKey>, u64) {
        let (mut keys, total) = {
            let sketch = self.sketch.lock().unwrap_or_else(PoisonError::into_inner);
            (sketch.keys.iter().map(|(_, key)| key.clone()).collect::<Vec<_>>(), sketch.total)
        };
        keys.sort_by(|one, other| other.refusals.cmp(&one.refusals).then_with(|| one.key.cmp(&other.key)));
        (keys, total)
    }
}

impl Sketch {
    fn count(&mut self, hash: u64, name: impl FnOnce() -> RefusedKey) {
        self.total += 1;
        if let Some(&position) = self.positions.get(&hash) {
            self.keys[position].1.refusals += 1;
            return;
        }
        let mut new = name();
        let position = if self.keys.len() < KEYS_MAX {
            self.keys.push((hash, new));
            self.keys.len() - 1
        } else {
            // The least refused key gives its place and its count to the new one.
            let least = (0..self.keys.len()).min_by_key(|&at| self.keys[at].1.refusals);
            let position = least.expect("KEYS_MAX is not zero");
            let (old_hash, old) = &self.keys[position];
            self.positions.remove(old_hash);
            (new.refusals, new.error) = (old.refusals, old.refusals);
            self.keys[position] = (hash, new);
            position
        };
        self.positions.insert(hash, position);
        self.keys[position].1.refusals += 1;
    }
}

/// The scope of a refusal as `user=ada, app=x`, cut after [`KEY_BYTES_MAX`].
pub(crate) fn key_text(refusal: &Refusal<'_>) -> String {
    let mut text = String::new();
    for (name, value) in &refusal.scope {
        if text.len() > KEY_BYTES_MAX {
            break;
        }
        let separator = if text.is_empty() { "" } else { ", " };
        text.extend([separator, name, "=", &tidegate_wire::text::shortened(value, KEY_BYTES_MAX)]);
    }
    tidegate_wire::text::shortened(&text, KEY_BYTES_MAX).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::{Reason, Retry, Violated};

    fn refusal(key: &str) -> Refusal<'static> {
        let violated = Violated {
            name: "per-user".into(),
            reason: Reason::RateExceeded,
            retry: Retry::Backoff,
            limit: 1,
            remaining: 0,
            window: None,
        };
        let scope = std::iter::once(("user".into(), key.to_owned().into())).collect();
        Refusal::new("api", scope, violated)
    }

    #[test]
    fn a_key_refused_often_is_found_among_a_hundred_thousand_others() {
        let keys = RefusedKeys::new([1, 2, 3, 4]);
        for index in 0_u32..100_000 {
            keys.count(&refusal(&format!("stranger-{index}")));
            if index % 20 == 0 {
                keys.count(&refusal("heavy"));
            }
        }
        let (top, total) = keys.top();
        assert_eq!((total, top.len()), (105_000, KEYS_MAX));
        assert_eq!(top[0].key, "user=heavy");
        // The bound the documentation states.
        for key in &top {
            assert!(key.error <= total / KEYS_MAX as u64, "{key:?}");
        }
        let heavy = &top[0];
        assert!(heavy.refusals >= 5000 && heavy.refusals - heavy.error <= 5000, "{heavy:?}");
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let keys = RefusedKeys::new([1, 2, 3, 4]);
        for (key, times) in [("a", 3), ("b", 1), ("c", 2)] {
            for _ in 0..times {
                keys.count(&refusal(key));
            }
        }
        let (top, total) = keys.top();
        let found: Vec<_> = top.iter().map(|one| (one.key.as_str(), one.refusals, one.error)).collect();
        assert_eq!((found, total), (vec![("user=a", 3, 0), ("user=c", 2, 0), ("user=b", 1, 0)], 6));
    }

    #[test]
    fn a_long_key_is_cut() {
        let keys = RefusedKeys::new([1, 2, 3, 4]);
        keys.count(&refusal(&"x".repeat(4096)));
        assert!(keys.top().0[0].key.len() <= KEY_BYTES_MAX + '…'.len_utf8());
    }
}
