//! Which refunds were already applied, so that repeating one gives nothing back twice.

use core::time::Duration;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Timestamp;
use tidegate_core::shares::{Owner, Shares};
use tidegate_store::{Batch, NoteKind};

use crate::stable_hash::name_of;

/// How many refund keys are remembered, in [shares](Shares) for each namespace. A refund that finds
/// no place is refused rather than applied unremembered.
pub const REFUND_KEYS_MAX: usize = 1 << 18;

/// How long a refund key is remembered. A repetition after that is a new refund.
pub const REFUND_KEY_KEPT: Duration = NoteKind::REFUND_KEPT;

/// The outcome of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refunded {
    /// It was given back.
    Applied,
    /// It had been given back before; nothing was done.
    AlreadyApplied,
}

/// A refund: its name, and the namespace whose share of the places it counts against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefundKey {
    pub(crate) owner: Owner,
    pub(crate) name: RefundName,
}

/// The name of a refund: the same for the same key of a namespace, in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RefundName(pub(crate) u128);

impl RefundName {
    pub(crate) fn new(namespace: &str, key: &str) -> Self {
        Self(name_of([&b"refund"[..], namespace.as_bytes(), key.as_bytes()]))
    }
}

/// The refund keys of the last [`REFUND_KEY_KEPT`].
#[derive(Debug)]
pub(crate) struct RefundKeys {
    shares: Shares,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    keys: HashMap<RefundName, Remembered, ahash::RandomState>,
    /// When each is forgotten, the next one first.
    order: BTreeSet<(Timestamp, RefundName)>,
}

#[derive(Debug)]
struct Remembered {
    until: Timestamp,
    owner: Owner,
    /// The batch sent to the store, until the store has confirmed it.
    asked: Option<Box<Batch>>,
}

/// The state of a refund.
#[derive(Debug)]
pub(crate) enum Known {
    /// It was applied.
    Applied,
    /// It is not known whether the store applied it: ask the store this.
    Ask {
        /// The batch to send: the same whenever the refund is repeated.
        batch: Box<Batch>,
        /// Whether it was asked before, so that a store that has applied it did so for this member.
        again: bool,
    },
}

/// No room for another refund key before this instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefundKeysFull(pub(crate) Timestamp);

impl RefundKeys {
    pub(crate) fn new(max: usize, seed: [u64; 4]) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed[2], seed[3], !seed[0], !seed[1]);
        let known = Seen { keys: HashMap::with_hasher(hasher), order: BTreeSet::new() };
        Self { shares: Shares::new(max as u64), seen: Mutex::new(known) }
    }

    /// Divides the places among so many namespaces.
    pub(crate) fn divide(&self, namespaces: usize) {
        self.shares.divide(namespaces);
    }

    /// Remembers a refund as applied; `Ok(false)` if it was before.
    pub(crate) fn remember(&self, key: RefundKey, now: Timestamp) -> Result<bool, RefundKeysFull> {
        let mut seen = self.seen(now);
        if let Some(known) = seen.keys.get_mut(&key.name) {
            return Ok(known.asked.take().is_some());
        }
        self.take_place(&seen, key.owner, now)?;
        seen.insert(key, now.saturating_add(REFUND_KEY_KEPT), None);
        Ok(true)
    }

    /// The batch to send to the store for a refund. Every repetition of the refund, by any caller,
    /// sends the same batch until the refund is [remembered](RefundKeys::remember) or [given
    /// up](RefundKeys::give_up): so the store sees one batch, and applies it once.
    pub(crate) fn ask(
        &self,
        key: RefundKey,
        now: Timestamp,
        batch: impl FnOnce() -> Batch,
    ) -> Result<Known, RefundKeysFull> {
        let mut seen = self.seen(now);
        if let Some(known) = seen.keys.get(&key.name) {
            let ask = |batch| Known::Ask { batch, again: true };
            return Ok(known.asked.clone().map_or(Known::Applied, ask));
        }
        self.take_place(&seen, key.owner, now)?;
        let batch = Box::new(batch());
        seen.insert(key, now.saturating_add(REFUND_KEY_KEPT), Some(batch.clone()));
        Ok(Known::Ask { batch, again: false })
    }

    /// Forgets a refund that the store certainly did not carry out, unless somebody else had more
    /// luck.
    pub(crate) fn give_up(&self, name: RefundName, now: Timestamp) {
        let mut seen = self.seen(now);
        if let Some(known) = seen.keys.get(&name).filter(|known| known.asked.is_some()) {
            let (until, owner) = (known.until, known.owner);
            seen.order.remove(&(until, name));
            seen.keys.remove(&name);
            self.shares.give_back(owner, 1);
        }
    }

    /// Remembers a refund that was applied before a restart, until `until`, also beyond the share
    /// of its namespace.
    pub(crate) fn restore(
        &self,
        key: RefundKey,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), RefundKeysFull> {
        let mut seen = self.seen(now);
        if until <= now || seen.keys.contains_key(&key.name) {
            return Ok(());
        }
        if seen.keys.len() as u64 >= self.shares.places() {
            return Err(seen.full(now));
        }
        self.shares.take_anyway(key.owner, 1);
        seen.insert(key, until, None);
        Ok(())
    }

    /// Takes a place for another refund of `owner`.
    fn take_place(&self, seen: &Seen, owner: Owner, now: Timestamp) -> Result<(), RefundKeysFull> {
        let is_free = (seen.keys.len() as u64) < self.shares.places() && self.shares.take(owner, 1);
        if is_free { Ok(()) } else { Err(seen.full(now)) }
    }

    /// The refunds that are remembered at `now`.
    fn seen(&self, now: Timestamp) -> MutexGuard<'_, Seen> {
        // A panic elsewhere leaves both parts whole: nothing between two changes can panic.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((until, name)) = seen.order.first().copied() {
            if until > now {
                break;
            }
            seen.order.pop_first();
            if let Some(forgotten) = seen.keys.remove(&name) {
                self.shares.give_back(forgotten.owner, 1);
            }
        }
        seen
    }
}

impl Seen {
    fn insert(&mut self, key: RefundKey, until: Timestamp, asked: Option<Box<Batch>>) {
        let RefundKey { owner, name } = key;
        self.order.insert((until, name));
        self.keys.insert(name, Remembered { until, owner, asked });
    }

    /// The error of a refund that finds no place: the first key to be forgotten may make one.
    fn full(&self, now: Timestamp) -> RefundKeysFull {
        RefundKeysFull(self.order.first().map_or(now, |(first, _)| *first))
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use tidegate_core::shares::Namespaces;

    use super::*;

    fn remember(
        keys: &RefundKeys,
        namespace: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<bool, RefundKeysFull> {
        let owner = Namespaces::new(1).owner(namespace);
        keys.remember(RefundKey { owner, name: RefundName::new(namespace, key) }, now)
    }

    #[test]
    fn a_key_is_remembered_for_an_hour_and_then_forgotten() {
        let keys = RefundKeys::new(10, [1, 2, 3, 4]);
        let start = Timestamp::from_secs(1000);
        assert_eq!(remember(&keys, "api", "a", start), Ok(true));
        assert_eq!(remember(&keys, "api", "a", start), Ok(false));
        assert_eq!(remember(&keys, "other", "a", start), Ok(true));
        let almost = start.saturating_add(REFUND_KEY_KEPT).saturating_sub(Duration::from_nanos(1));
        assert_eq!(remember(&keys, "api", "a", almost), Ok(false));
        assert_eq!(remember(&keys, "api", "a", start.saturating_add(REFUND_KEY_KEPT)), Ok(true));
    }

    #[test]
    fn when_all_keys_are_in_use_a_new_one_is_told_when_to_come_back() {
        let keys = RefundKeys::new(2, [1, 2, 3, 4]);
        let start = Timestamp::from_secs(1000);
        assert_eq!(remember(&keys, "api", "a", start), Ok(true));
        assert_eq!(remember(&keys, "api", "b", start), Ok(true));
        let until = start.saturating_add(REFUND_KEY_KEPT);
        assert_eq!(remember(&keys, "api", "c", start), Err(RefundKeysFull(until)));
        assert_eq!(remember(&keys, "api", "a", start), Ok(false), "a known key needs no room");
        assert_eq!(remember(&keys, "api", "c", until), Ok(true));
    }

    #[test]
    fn one_namespace_cannot_take_the_places_of_another() {
        let (keys, namespaces) = (RefundKeys::new(100, [1, 2, 3, 4]), Namespaces::new(1));
        keys.divide(2);
        let start = Timestamp::from_secs(1000);
        let refund = |namespace: &str, key: usize| {
            let name = RefundName::new(namespace, &key.to_string());
            keys.remember(RefundKey { owner: namespaces.owner(namespace), name }, start)
        };
        let remembered = (0..1000).filter(|key| refund("hostile", *key).is_ok()).count();
        assert_eq!(remembered, 75);
        assert!((0..25).all(|key| refund("honest", key) == Ok(true)));
        assert_eq!(refund("honest", 25), Err(RefundKeysFull(start.saturating_add(REFUND_KEY_KEPT))));
    }
}
