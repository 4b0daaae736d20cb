//! The numbers by which states are read: every distinct algorithm with its numbers, once.
//!
//! A word of the table carries the number of its spec, so that a word that belongs to another
//! limit, or to a limit whose numbers have changed since, can still be read: to tell whether it has
//! drained, and to carry what was used over to the new numbers.
//!
//! **Reuse.** There are [`Specs::MAX`] numbers, so a number is used again once nothing refers to
//! it. A gate *pins* the specs of its limits and overrides; a spec without a pin is *retired*.
//! Words may still carry the number of a retired spec: [`super::reclamation`] rewrites those words,
//! and only then frees the number. Words are written under pinned specs alone, so no new word with
//! a retired number appears meanwhile; a pin taken during the pass keeps the number.
//!
//! A permit outlives its gate and holds no pin. Its [`SpecId`] has, beside the number, how often
//! that number was reused, so that a permit recognises that its spec is gone.

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};

use crate::algorithm::{Algorithm, BucketClock, Counter, State};
use crate::shares::Owner;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::time::Timestamp;

/// Bits of a word that hold the number of the spec.
pub(super) const SPEC_BITS: u32 = 20;

/// How to read the state of a word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Spec {
    /// By an algorithm.
    Algorithm(Algorithm),
    /// As an instant: the key is blocked until then. The block was set for at most this long.
    BlockedUntil { at_most: Duration },
    /// As that of a bucket on this clock whose rate and burst come with each request.
    Bucket(BucketClock),
}

impl Spec {
    /// The state under `to` that has the usage of `state`, read by `self`. Usage is kept where both
    /// are one algorithm with other numbers.
    pub(crate) fn carry_over(&self, state: State, to: &Algorithm, now: Timestamp) -> State {
        let from = match (self, to) {
            (Self::Algorithm(from), _) => from,
            (Self::Bucket(clock), Algorithm::Bucket(to)) => return to.keep_instant(state, *clock, now),
            _ => return State::EMPTY,
        };
        match (from, to) {
            (Algorithm::Bucket(from), Algorithm::Bucket(to)) => to.carry_over(state, from, now),
            (Algorithm::Fixed(from), Algorithm::Fixed(to)) => to.carry_over(state, from, now),
            #[cfg(feature = "calendar")]
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

    /// The spec by which a state is kept whose own spec is retired. The usage of a window is the
    /// same under both specs at every instant; the usage of a bucket drains no sooner than under
    /// `self` and at most 1 % later.
    ///
    /// `None` if `self` already is such a spec. All buckets together have at most 7 000 of them;
    /// windows have one for each length, zone and unit.
    pub(crate) fn at_rest(&self) -> Option<Self> {
        let Self::Algorithm(algorithm) = self else { return None };
        let at_rest = algorithm.at_rest();
        (at_rest != *algorithm).then_some(Self::Algorithm(at_rest))
    }
}

/// The number of a spec as a word carries it, 1 to [`Specs::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpecNumber(NonZeroU32);

impl SpecNumber {
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

/// The number of a spec in its low bits, and above them how often the number was reused. After 4096
/// times that count starts again: by then more than 4 * 10^9 specs have come and gone, since the
/// number that was free longest is reused first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpecId(NonZeroU32);

impl SpecId {
    const NUMBER: u32 = (1 << SPEC_BITS) - 1;

    /// The number as a word carries it.
    #[inline]
    pub(crate) const fn number(self) -> SpecNumber {
        match NonZeroU32::new(self.0.get() & Self::NUMBER) {
            Some(number) => SpecNumber(number),
            // No id has the number 0; the compiler cannot know.
            None => SpecNumber(self.0),
        }
    }

    /// The number in the low bits of a word's upper half.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0.get() & Self::NUMBER
    }

    /// The number with its count of reuses, as one value.
    pub(crate) const fn get(self) -> u32 {
        self.0.get()
    }

    /// The id under which the number is used next.
    const fn next(self) -> Self {
        match NonZeroU32::new(self.0.get().wrapping_add(1 << SPEC_BITS)) {
            Some(id) => Self(id),
            None => self,
        }
    }
}

/// A spec that has a number.
#[derive(Debug)]
pub(super) struct RegisteredSpec {
    spec: Spec,
    id: SpecId,
    owner: SpecOwner,
    /// Pins now in the low 32 bits, all pins ever taken above them, [`RegisteredSpec::FREED`] at
    /// the top.
    pins: AtomicU64,
}

impl RegisteredSpec {
    const FREED: u64 = 1 << 63;
    const PINS_NOW: u64 = (1 << 32) - 1;
    const PIN: u64 = (1 << 32) + 1;

    /// Takes a pin; `false` if the number is free already.
    fn pin(&self) -> bool {
        // Acquire on success: orders the writes made under the pin after the pin. A pass that frees
        // the number exchanges the whole value, so it either sees the pin or makes this fail.
        self.pins
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |pins| {
                (pins & Self::FREED == 0).then(|| pins.wrapping_add(Self::PIN) & !Self::FREED)
            })
            .is_ok()
    }

    fn unpin(&self) {
        // Release: the words written under this pin are seen by the pass that reads the count as 0.
        self.pins.fetch_sub(1, Ordering::Release);
    }

    /// A value that stays the same until a pin is taken; `None` while the spec is pinned.
    pub(super) fn unpinned(&self) -> Option<u64> {
        // Acquire: with the release in `unpin`.
        let pins = self.pins.load(Ordering::Acquire);
        (pins & Self::PINS_NOW == 0).then_some(pins)
    }

    /// Whether no pin was taken since [`RegisteredSpec::unpinned`] returned this value.
    pub(super) fn is_unpinned_since(&self, seen: u64) -> bool {
        self.pins.load(Ordering::Acquire) == seen
    }

    pub(super) fn number(&self) -> SpecNumber {
        self.id.number()
    }

    pub(super) fn spec(&self) -> &Spec {
        &self.spec
    }

    pub(super) fn namespace(&self) -> Owner {
        self.owner.namespace
    }
}

/// Keeps a spec and its number in use.
#[derive(Debug)]
pub(crate) struct SpecPin(Arc<RegisteredSpec>);

impl SpecPin {
    #[inline]
    pub(crate) fn id(&self) -> SpecId {
        self.0.id
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.0.spec
    }

    /// The algorithm, if the spec is one.
    pub(crate) fn algorithm(&self) -> Option<&Algorithm> {
        match &self.0.spec {
            Spec::Algorithm(algorithm) => Some(algorithm),
            Spec::BlockedUntil { .. } | Spec::Bucket(_) => None,
        }
    }
}

impl Drop for SpecPin {
    fn drop(&mut self) {
        self.0.unpin();
    }
}

/// A spec that was looked up. It may be retired and its number be freed while this is held; what it
/// says stays the same.
pub(crate) struct SpecGuard(Guard<Option<Arc<RegisteredSpec>>>);

impl SpecGuard {
    pub(crate) fn spec(&self) -> Option<&Spec> {
        self.0.as_ref().map(|registered| &registered.spec)
    }
}

/// The namespace that a spec belongs to, and the use that took a number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpecOwner {
    pub(crate) namespace: Owner,
    /// Whether an override set at run time took the number, rather than the policy or the table
    /// itself.
    pub(crate) is_run_time: bool,
}

impl SpecOwner {
    pub(crate) const fn policy(namespace: Owner) -> Self {
        Self { namespace, is_run_time: false }
    }
}

/// Specs of the first chunk, as a power of two. Each further one has twice as many as the one
/// before: most tables know a handful, some a million.
const FIRST_BITS: u32 = 4;
const CHUNKS: usize = SPEC_BITS as usize + 1 - FIRST_BITS as usize;

/// Specs that come into being together.
type Chunk = Box<[ArcSwapOption<RegisteredSpec>]>;

/// In which chunk a number is, and where in it.
#[inline]
const fn place(index: usize) -> (usize, usize) {
    let shifted = index + (1 << FIRST_BITS);
    let bits = shifted.ilog2();
    ((bits - FIRST_BITS) as usize, shifted - (1 << bits))
}

/// All specs in use with a table, by number. Reading takes no lock.
pub(crate) struct Specs {
    chunks: Box<[OnceLock<Chunk>]>,
    registry: Mutex<Registry>,
}

/// Which numbers are in use.
struct Registry {
    by_spec: HashMap<(Owner, Spec), Arc<RegisteredSpec>, ahash::RandomState>,
    /// Numbers below this have been used at least once.
    fresh: u32,
    /// Numbers that nothing refers to any more, the one that was freed first at the front.
    free: VecDeque<SpecId>,
    /// How many numbers the run-time overrides of each namespace have taken and not given back.
    at_run_time: HashMap<Owner, usize, ahash::RandomState>,
    /// Numbers taken since the last pass began.
    taken: usize,
    is_short: bool,
}

impl Specs {
    /// The most distinct specs: an algorithm with its numbers counts once in a namespace, however
    /// many of its limits and overrides use it.
    pub(crate) const MAX: usize = (1 << SPEC_BITS) - 1;
    /// How many numbers the run-time overrides of one namespace may hold, in force or waiting to be
    /// reclaimed. One more is refused until a pass has freed some, usually within a second, and
    /// leaves the rest to other namespaces.
    pub(crate) const AT_RUN_TIME_MAX: usize = 1 << 16;
    /// After how many numbers taken a pass begins to look for retired ones.
    const PASS_AFTER: usize = Self::AT_RUN_TIME_MAX / 4;

    pub(super) fn new(seed: u64) -> Self {
        let hasher = || ahash::RandomState::with_seeds(seed, 1, 2, 3);
        Self {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            registry: Mutex::new(Registry {
                by_spec: HashMap::with_hasher(hasher()),
                fresh: 1,
                free: VecDeque::new(),
                at_run_time: HashMap::with_hasher(hasher()),
                taken: 0,
                is_short: false,
            }),
        }
    }

    /// A pin of `spec`, which gets a number if it has none. `None` when [`Specs::MAX`] are in use,
    /// or [`Specs::AT_RUN_TIME_MAX`] by this owner.
    pub(crate) fn intern(&self, spec: Spec, owner: SpecOwner) -> Option<SpecPin> {
        let mut registry = lock(&self.registry);
        let name = (owner.namespace, spec);
        if let Some(known) = registry.by_spec.get(&name) {
            // A spec leaves the set under this lock, at the same time as its number is freed.
            let pinned = known.pin();
            debug_assert!(pinned, "a freed spec is not in the set");
            return Some(SpecPin(Arc::clone(known)));
        }
        let id = registry.take(owner)?;
        let spec = name.1.clone();
        let registered =
            Arc::new(RegisteredSpec { spec, id, owner, pins: AtomicU64::new(RegisteredSpec::PIN) });
        let (chunk, at) = place(id.number().get() as usize);
        let length = 1_usize << (FIRST_BITS as usize + chunk);
        let empty = || (0..length).map(|_| ArcSwapOption::empty()).collect();
        // Set before the number is handed out; the lock makes this the only writer.
        self.chunks[chunk].get_or_init(empty)[at].store(Some(Arc::clone(&registered)));
        registry.by_spec.insert(name, Arc::clone(&registered));
        Some(SpecPin(registered))
    }

    fn slot(&self, number: SpecNumber) -> Option<&ArcSwapOption<RegisteredSpec>> {
        let (chunk, at) = place(number.get() as usize);
        self.chunks.get(chunk)?.get()?.get(at)
    }

    /// The spec of that number.
    #[inline]
    pub(crate) fn get(&self, number: SpecNumber) -> Option<SpecGuard> {
        self.slot(number).map(|slot| SpecGuard(slot.load()))
    }

    /// The namespace that the spec of that number belongs to; [`Owner::NONE`] if the number is
    /// free.
    pub(crate) fn namespace(&self, number: SpecNumber) -> Owner {
        let found = self.get(number);
        let registered = found.as_ref().and_then(|found| found.0.as_ref());
        registered.map_or(Owner::NONE, |registered| registered.owner.namespace)
    }

    /// Keeps the spec of that number in use; `None` if the number is free.
    pub(crate) fn pin_number(&self, number: SpecNumber) -> Option<SpecPin> {
        let registered = self.slot(number)?.load_full()?;
        registered.pin().then_some(SpecPin(registered))
    }

    /// Keeps that spec in use; `None` if its number was freed since.
    pub(crate) fn pin(&self, id: SpecId) -> Option<SpecPin> {
        self.pin_number(id.number()).filter(|pin| pin.id() == id)
    }

    /// The retired specs, if it is time for a pass; `None` if it is not.
    pub(super) fn retired(&self) -> Option<Vec<Arc<RegisteredSpec>>> {
        let mut registry = lock(&self.registry);
        if registry.taken < Self::PASS_AFTER && !registry.is_short {
            return None;
        }
        (registry.taken, registry.is_short) = (0, false);
        let retired = registry.by_spec.values().filter(|one| one.unpinned().is_some());
        Some(retired.map(Arc::clone).collect())
    }

    /// Frees the numbers of these specs, except specs that were pinned since the value beside them
    /// was read. No word may carry a number of the others.
    pub(super) fn free<'r>(&self, retired: impl Iterator<Item = (&'r Arc<RegisteredSpec>, u64)>) -> usize {
        let mut registry = lock(&self.registry);
        let mut freed = 0;
        for (one, seen) in retired {
            // AcqRel: after this every attempt to take a pin fails.
            let closed = one.pins.compare_exchange(
                seen,
                seen | RegisteredSpec::FREED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if closed.is_err() {
                continue;
            }
            registry.by_spec.remove(&(one.owner.namespace, one.spec.clone()));
            if let Some(slot) = self.slot(one.number()) {
                slot.store(None);
            }
            registry.give_back(one);
            freed += 1;
        }
        freed
    }

    /// How many specs have a number.
    #[cfg(test)]
    #[cfg(not(tidegate_loom))]
    pub(crate) fn len(&self) -> usize {
        lock(&self.registry).by_spec.len()
    }

    /// Lets the next pass begin at once.
    #[cfg(test)]
    pub(crate) fn make_short(&self) {
        lock(&self.registry).is_short = true;
    }
}

impl Registry {
    /// A number for a new spec: one that was never used, then the one that was freed first.
    fn take(&mut self, owner: SpecOwner) -> Option<SpecId> {
        if owner.is_run_time
            && self.at_run_time.get(&owner.namespace).is_some_and(|taken| *taken >= Specs::AT_RUN_TIME_MAX)
        {
            self.is_short = true;
            return None;
        }
        let id = if (self.fresh as usize) <= Specs::MAX {
            let id = NonZeroU32::new(self.fresh).map(SpecId);
            self.fresh += 1;
            id
        } else {
            self.free.pop_front()
        };
        self.is_short |= id.is_none();
        let id = id?;
        self.taken += 1;
        if owner.is_run_time {
            *self.at_run_time.entry(owner.namespace).or_default() += 1;
        }
        Some(id)
    }

    fn give_back(&mut self, one: &RegisteredSpec) {
        self.free.push_back(one.id.next());
        let SpecOwner { namespace, is_run_time } = one.owner;
        if !is_run_time {
            return;
        }
        if let Some(taken) = self.at_run_time.get_mut(&namespace) {
            *taken -= 1;
            if *taken == 0 {
                self.at_run_time.remove(&namespace);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
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
