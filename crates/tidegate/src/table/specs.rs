//! The numbers by which states are read: every distinct algorithm with its numbers, once.
//!
//! A word of the table carries the number of its spec, so that a word that belongs to another limit, or to a limit
//! whose numbers have changed since, can still be read: to tell whether it has drained, and to carry what was used
//! over to the new numbers.

use core::num::NonZeroU32;
use std::collections::HashMap;
use std::sync::OnceLock;

use super::KeyTable;
use crate::algorithm::{Algorithm, BucketClock, Counter, State};
use crate::permits::PermitsHandle;
use crate::ring::RingHandle;
use crate::shares::Owner;
use crate::sync::{Mutex, lock};
use crate::time::Timestamp;

/// How to read the state of a word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Spec {
    /// By an algorithm.
    Algorithm(Algorithm),
    /// As an instant: the key is blocked until then.
    BlockedUntil,
    /// As that of a bucket on this clock whose rate and burst come with each request.
    Bucket(BucketClock),
}

impl Spec {
    pub(super) fn is_drained(&self, state: State, table: &KeyTable, now: Timestamp) -> bool {
        match self {
            Self::BlockedUntil => state.to_bits() <= now.as_nanos(),
            Self::Bucket(clock) => state.to_bits() <= clock.level(now),
            Self::Algorithm(Algorithm::Rolling(_)) => match RingHandle::from_bits(state.to_bits()) {
                Some(ring) => table.rings.is_drained(ring, now),
                None => true,
            },
            Self::Algorithm(Algorithm::Concurrency(_)) => match PermitsHandle::from_bits(state.to_bits()) {
                Some(permits) => table.permits.is_drained(permits, now),
                None => true,
            },
            Self::Algorithm(Algorithm::Bucket(counter)) => counter.is_drained(state, now),
            Self::Algorithm(Algorithm::Fixed(counter)) => counter.is_drained(state, now),
            Self::Algorithm(Algorithm::Calendar(counter)) => counter.is_drained(state, now),
            Self::Algorithm(Algorithm::SlidingCounter(counter)) => counter.is_drained(state, now),
        }
    }

    pub(super) fn drains_at(&self, state: State, table: &KeyTable, now: Timestamp) -> Timestamp {
        match self {
            Self::BlockedUntil => Timestamp::from_nanos(state.to_bits()).max(now),
            Self::Bucket(clock) => clock.instant(state.to_bits()).max(now),
            Self::Algorithm(Algorithm::Rolling(rolling)) => RingHandle::from_bits(state.to_bits())
                .and_then(|ring| table.rings.reset_at(ring, rolling, now))
                .unwrap_or(now),
            Self::Algorithm(Algorithm::Concurrency(_)) => PermitsHandle::from_bits(state.to_bits())
                .and_then(|permits| table.permits.reset_at(permits, now))
                .unwrap_or(now),
            Self::Algorithm(Algorithm::Bucket(counter)) => counter.reset_at(state, now),
            Self::Algorithm(Algorithm::Fixed(counter)) => counter.reset_at(state, now),
            Self::Algorithm(Algorithm::Calendar(counter)) => counter.reset_at(state, now),
            Self::Algorithm(Algorithm::SlidingCounter(counter)) => counter.reset_at(state, now),
        }
    }

    /// Frees what stands behind a drained handle; `false` if it is in use again.
    pub(super) fn release_backing(&self, state: State, table: &KeyTable, now: Timestamp) -> bool {
        match self {
            Self::Algorithm(Algorithm::Rolling(_)) => RingHandle::from_bits(state.to_bits())
                .is_none_or(|ring| table.rings.reclaim_if_drained(ring, now)),
            Self::Algorithm(Algorithm::Concurrency(_)) => PermitsHandle::from_bits(state.to_bits())
                .is_none_or(|permits| table.permits.reclaim_if_drained(permits, now)),
            _ => true,
        }
    }

    /// Frees what stands behind a handle, in use or not.
    pub(super) fn reclaim_backing(&self, state: State, table: &KeyTable) {
        match self {
            Self::Algorithm(Algorithm::Rolling(_)) => {
                if let Some(ring) = RingHandle::from_bits(state.to_bits()) {
                    table.rings.reclaim(ring);
                }
            }
            Self::Algorithm(Algorithm::Concurrency(_)) => {
                if let Some(permits) = PermitsHandle::from_bits(state.to_bits()) {
                    table.permits.reclaim(permits);
                }
            }
            _ => {}
        }
    }

    /// What `state`, read by `self`, is under `to`: usage is kept where both are one algorithm with other numbers.
    pub(crate) fn carry_over(&self, state: State, to: &Algorithm, now: Timestamp) -> State {
        let from = match (self, to) {
            (Self::Algorithm(from), _) => from,
            (Self::Bucket(clock), Algorithm::Bucket(to)) => return to.keep_instant(state, *clock, now),
            _ => return State::EMPTY,
        };
        match (from, to) {
            (Algorithm::Bucket(from), Algorithm::Bucket(to)) => to.carry_over(state, from, now),
            (Algorithm::Fixed(from), Algorithm::Fixed(to)) => to.carry_over(state, from, now),
            (Algorithm::Calendar(from), Algorithm::Calendar(to)) => to.carry_over(state, from, now),
            (Algorithm::SlidingCounter(from), Algorithm::SlidingCounter(to)) => {
                to.carry_over(state, from, now)
            }
            // Rings and permits take their numbers with each call; the handle stays.
            (Algorithm::Rolling(_), Algorithm::Rolling(_))
            | (Algorithm::Concurrency(_), Algorithm::Concurrency(_)) => state,
            _ => State::EMPTY,
        }
    }
}

/// The number of a spec, 1 to [`Specs::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpecId(NonZeroU32);

impl SpecId {
    pub(crate) const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    pub(crate) const fn get(self) -> u32 {
        self.0.get()
    }
}

/// Specs of the first chunk, as a power of two. Each further one has twice as many as the one before: most tables know a
/// handful, some a million.
const FIRST_BITS: u32 = 4;
const CHUNKS: usize = super::SPEC_BITS as usize + 1 - FIRST_BITS as usize;

/// Specs that come into being together, each with the namespace that it belongs to.
type Chunk = Box<[OnceLock<(Owner, Spec)>]>;

/// In which chunk a number is, and where in it.
#[inline]
const fn place(index: usize) -> (usize, usize) {
    let shifted = index + (1 << FIRST_BITS);
    let bits = shifted.ilog2();
    ((bits - FIRST_BITS) as usize, shifted - (1 << bits))
}

/// All specs ever used with a table, by number. Reading takes no lock; numbers are never reused.
pub(crate) struct Specs {
    chunks: Box<[OnceLock<Chunk>]>,
    numbers: Mutex<HashMap<(Owner, Spec), SpecId, ahash::RandomState>>,
}

impl Specs {
    /// The most distinct specs: an algorithm with its numbers counts once in a namespace, however many of its limits and
    /// overrides use it.
    pub(crate) const MAX: usize = (1 << super::SPEC_BITS) - 1;

    pub(super) fn new(seed: u64) -> Self {
        Self {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            numbers: Mutex::new(HashMap::with_hasher(ahash::RandomState::with_seeds(seed, 1, 2, 3))),
        }
    }

    /// The number of `spec` in a namespace, a new one if it has none; `None` when [`Specs::MAX`] are in use.
    pub(crate) fn intern(&self, owner: Owner, spec: Spec) -> Option<SpecId> {
        let mut numbers = lock(&self.numbers);
        let spec = (owner, spec);
        if let Some(id) = numbers.get(&spec) {
            return Some(*id);
        }
        let id = SpecId::new(u32::try_from(numbers.len() + 1).ok()?)?;
        if id.get() as usize > Self::MAX {
            return None;
        }
        let (chunk, at) = place(id.get() as usize);
        let length = 1_usize << (FIRST_BITS as usize + chunk);
        let chunk = self.chunks[chunk].get_or_init(|| (0..length).map(|_| OnceLock::new()).collect());
        // Set before the number is handed out; the lock makes this the only writer.
        let _ = chunk[at].set(spec.clone());
        numbers.insert(spec, id);
        Some(id)
    }

    /// The spec of that number.
    #[inline]
    pub(crate) fn get(&self, id: SpecId) -> Option<&Spec> {
        self.owned(id).map(|(_, spec)| spec)
    }

    /// The namespace that the spec of that number belongs to.
    pub(crate) fn owner(&self, id: SpecId) -> Option<Owner> {
        self.owned(id).map(|(owner, _)| *owner)
    }

    #[inline]
    fn owned(&self, id: SpecId) -> Option<&(Owner, Spec)> {
        let (chunk, at) = place(id.get() as usize);
        self.chunks.get(chunk)?.get()?.get(at)?.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own_in_a_chunk_that_is_there() {
        let mut places: Vec<_> = (0..=Specs::MAX).map(place).collect();
        let fits = |(chunk, at): &(usize, usize)| *chunk < CHUNKS && *at < 1 << (FIRST_BITS as usize + chunk);
        assert!(places.iter().all(fits));
        assert!(places.is_sorted());
        places.dedup();
        assert_eq!(places.len(), Specs::MAX + 1);
    }
}
