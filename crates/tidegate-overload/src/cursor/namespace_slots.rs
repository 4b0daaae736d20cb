//! The namespaces that ask for a resource: the demand of each, its admission cursor and its
//! marginal levels.
//!
//! [`NAMESPACES_MAX`] namespaces have a slot each, from their first request on until they have
//! asked for nothing for a while; all further ones share the last slot. A namespace finds its slot
//! by its number, which is dense, so that the first look almost always finds it.

use core::time::Duration;
use std::sync::OnceLock;

use tidegate_core::{Class, Timestamp};

use crate::activity::time_counts::TimeCounts;
use crate::activity::time_histogram::TimeHistogram;
use crate::cursor::namespace_cursor::{NamespaceCursor, NamespacePosition};
use crate::cursor::{COHORTS, Cursor, LEVELS, RequestLevel};
use crate::namespaces::{NAMESPACES_MAX, NamespaceKey};
use crate::outcome::{ClassStats, OfferCounts, OfferOutcome};
use crate::places::pacer::NamespacePace;
use crate::sync::{AtomicU64, Ordering};

/// A slot that has no namespace, and never had one where a search passes.
const EMPTY: u64 = 0;
/// A slot whose namespace has left.
const LEFT: u64 = 1;
/// The most of one request's time that counts: an hour, so that no sum wraps.
const HELD_MAX_US: u64 = 3_600_000_000;
/// A refusal in [`NamespaceSlot::refused`], so that it can fade in parts.
const REFUSAL: u64 = 256;
/// Each tick forgets this part of the refusals: a single one is forgotten after 8 to 9 seconds.
const REFUSAL_FADE: u64 = 128;
/// Added to the number of a namespace in its slot.
const FIRST: u64 = 2;

/// A number for each class.
type PerClass = [AtomicU64; Class::ALL.len()];

/// The slots of one resource.
#[derive(Debug)]
pub(crate) struct NamespaceSlots {
    /// The namespace of each slot. Relaxed: a request that finds the slot of a namespace that has
    /// just left adds to the demand of the next one there, for one tick.
    names: [AtomicU64; NAMESPACES_MAX],
    slots: Box<[NamespaceSlot]>,
    /// How long requests of each class kept their places, of those that ended since the last tick.
    place_times: [TimeHistogram; Class::ALL.len()],
    /// The cursor of a namespace that has no slot yet: an operator's pin, or open.
    initial: AtomicU64,
}

#[derive(Debug, Default)]
struct NamespaceSlot {
    /// Made when the first request comes.
    counts: OnceLock<Box<SlotCounts>>,
    /// A [`NamespaceCursor`] in one word. Relaxed: one word, ordered with nothing.
    cursor: AtomicU64,
    /// The places in flight that it has in each class, and the most that it may have. Relaxed:
    /// numbers, ordered with nothing.
    places: PerClass,
    places_max: PerClass,
    /// The most places that it may have in all classes.
    all_places_max: AtomicU64,
    /// Until when it is held back to its part, in nanoseconds.
    held_back_until: AtomicU64,
    /// The requests of each class that began to be served since the last tick, and those that were
    /// refused for want of a place and do not wait for one.
    served: PerClass,
    unplaced: PerClass,
    /// The requests of each class whose work has ended since the last tick, and the microseconds
    /// for which they kept their places.
    ended: PerClass,
    held_us: PerClass,
    /// Those of them that succeeded, and the microseconds until their answers.
    answered: AtomicU64,
    answer_us: AtomicU64,
    /// The refusals by load that callers have not repeated yet, in parts of [`REFUSAL`].
    refused: AtomicU64,
    /// The pace of its requests whose end is not reported.
    pace: NamespacePace,
    /// The cohorts of each class below which the requests that the cursor lets in are marginal; 0:
    /// none. Relaxed, like the cursor: between two stores a request is judged by one old and one
    /// new position.
    marginal: AtomicU64,
}

/// The counts of a slot that its first request makes.
#[derive(Debug)]
struct SlotCounts {
    /// The requests offered at each level since the last tick, shed ones included.
    offered: [AtomicU64; LEVELS],
    /// The offered requests and their outcomes since the start, of each namespace that has had the
    /// slot.
    outcomes: OfferCounts,
}

impl SlotCounts {
    fn new() -> Box<Self> {
        let offered = core::array::from_fn(|_| AtomicU64::new(0));
        Box::new(Self { offered, outcomes: OfferCounts::default() })
    }
}

/// A count for each class.
pub(crate) type CountByClass = [u64; Class::ALL.len()];

/// The requests of one namespace in a tick.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceTick {
    pub(crate) slot: usize,
    pub(crate) namespace: NamespaceKey,
    /// Those that were offered, by level; `None`: no request was.
    pub(crate) offered: Option<Box<[u64; LEVELS]>>,
    /// Those of each class that began to be served, and those that found no place and do not wait.
    pub(crate) served: CountByClass,
    pub(crate) unplaced: CountByClass,
    /// Those of each class whose work has ended, and the microseconds for which they kept their
    /// places.
    pub(crate) ended: CountByClass,
    pub(crate) held_us: CountByClass,
    /// Those that succeeded, and the microseconds until their answers.
    pub(crate) answered: u64,
    pub(crate) answer_us: u64,
}

#[cfg(all(test, not(tidegate_loom)))]
impl NamespaceTick {
    /// A tick without a request.
    pub(crate) const fn idle(slot: usize, namespace: NamespaceKey) -> Self {
        let none = [0; Class::ALL.len()];
        let (served, unplaced, ended, held_us) = (none, none, none, none);
        Self { slot, namespace, offered: None, served, unplaced, ended, held_us, answered: 0, answer_us: 0 }
    }
}

impl NamespaceSlots {
    pub(crate) fn new() -> Self {
        let slot = |_| NamespaceSlot {
            places_max: core::array::from_fn(|_| AtomicU64::new(u64::MAX)),
            all_places_max: AtomicU64::new(u64::MAX),
            ..NamespaceSlot::default()
        };
        Self {
            names: core::array::from_fn(|_| AtomicU64::new(EMPTY)),
            slots: (0..=NAMESPACES_MAX).map(slot).collect(),
            place_times: Default::default(),
            initial: AtomicU64::new(NamespaceCursor::OPEN.to_bits()),
        }
    }

    /// The slot of a namespace; `None` if it has none and is not among those that are too many.
    #[inline]
    fn find(&self, namespace: u32) -> Option<usize> {
        let slot = namespace as usize % NAMESPACES_MAX;
        let is_here = self.names[slot].load(Ordering::Relaxed) == u64::from(namespace) + FIRST;
        if is_here { Some(slot) } else { self.find_further(namespace) }
    }

    /// The same for a namespace that is not at its first place.
    #[cold]
    fn find_further(&self, namespace: u32) -> Option<usize> {
        let name = u64::from(namespace) + FIRST;
        for step in 0..NAMESPACES_MAX {
            let slot = (namespace as usize + step) % NAMESPACES_MAX;
            match self.names[slot].load(Ordering::Relaxed) {
                found if found == name => return Some(slot),
                EMPTY => return None,
                _ => {}
            }
        }
        // A full table, or one of which some namespaces have left.
        let is_full = self.names.iter().all(|name| name.load(Ordering::Relaxed) >= FIRST);
        is_full.then_some(NAMESPACES_MAX)
    }

    /// The slot of a namespace, which takes a free one if it has none.
    #[inline]
    fn claim(&self, namespace: u32) -> usize {
        if let Some(slot) = self.find(namespace) { slot } else { self.claim_free(namespace) }
    }

    #[cold]
    fn claim_free(&self, namespace: u32) -> usize {
        let name = u64::from(namespace) + FIRST;
        for step in 0..NAMESPACES_MAX {
            let slot = (namespace as usize + step) % NAMESPACES_MAX;
            let before = self.names[slot].load(Ordering::Relaxed);
            if before == name {
                return slot;
            }
            if before < FIRST {
                // The first request of a namespace takes the cursor that holds for all.
                let taken =
                    self.names[slot].compare_exchange(before, name, Ordering::Relaxed, Ordering::Relaxed);
                match taken {
                    Ok(_) => {
                        self.slots[slot]
                            .cursor
                            .store(self.initial.load(Ordering::Relaxed), Ordering::Relaxed);
                        return slot;
                    }
                    Err(other) if other == name => return slot,
                    Err(_) => {}
                }
            }
        }
        NAMESPACES_MAX
    }

    /// Counts a request as demand. The slot in which it counts.
    #[inline]
    pub(crate) fn offer(&self, level: RequestLevel) -> u8 {
        // Relaxed: sums for the next tick, ordered with nothing.
        let slot = self.claim(level.namespace());
        let counts = self.slots[slot].counts.get_or_init(SlotCounts::new);
        counts.offered[usize::from(level.number())].fetch_add(1, Ordering::Relaxed);
        // The tick reads the number of offered requests before the sums, so a request between the
        // two additions is in this tick's sums or in the next one's.
        counts.outcomes.offer(level.class());
        slot as u8
    }

    /// Counts the outcome of a request that was offered in this slot. Where another namespace has
    /// taken the slot since, it counts there.
    #[expect(clippy::inline_always, reason = "as its only caller, `Overload::end`")]
    #[inline(always)]
    pub(crate) fn record(&self, slot: u8, class: Class, outcome: OfferOutcome) {
        if let Some(counts) = self.slots[usize::from(slot)].counts.get() {
            counts.outcomes.record(class, outcome);
        }
    }

    /// The counts since the start of each slot that has any, with the namespace that has it now.
    pub(crate) fn counts(
        &self,
    ) -> impl Iterator<Item = (usize, NamespaceKey, [ClassStats; Class::ALL.len()])> + '_ {
        let counts = self.slots.iter().enumerate();
        counts.filter_map(|(slot, of)| Some((slot, self.key(slot), of.counts.get()?.outcomes.classes())))
    }

    /// The counts of all namespaces since the start.
    pub(crate) fn classes(&self) -> [ClassStats; Class::ALL.len()] {
        self.counts().fold(Default::default(), |sum: [ClassStats; Class::ALL.len()], (_, _, stats)| {
            core::array::from_fn(|class| sum[class].plus(&stats[class]))
        })
    }

    /// The offered requests of all namespaces and classes since the start.
    pub(crate) fn offered(&self) -> u64 {
        let counts = self.slots.iter().filter_map(|slot| slot.counts.get());
        counts.map(|counts| counts.outcomes.offered()).sum()
    }

    /// Moves the times of a class since the last tick to `counts`.
    pub(crate) fn take_place_times(&self, class: Class, counts: &mut TimeCounts) {
        self.place_times[class as usize].take_into(counts);
    }

    /// Takes the demand of one request back, never below zero.
    pub(crate) fn withdraw(&self, level: RequestLevel) {
        let slot = self.find(level.namespace()).map(|slot| &self.slots[slot]);
        if let Some(counts) = slot.and_then(|slot| slot.counts.get()) {
            let _ = counts.offered[usize::from(level.number())].fetch_update(
                Ordering::Relaxed,
                Ordering::Relaxed,
                |sum| Some(sum.saturating_sub(1)),
            );
        }
    }

    /// Counts a request that was refused because of the load: its next attempt is no new demand.
    pub(crate) fn refuse(&self, namespace: u32) {
        if let Some(slot) = self.find(namespace) {
            self.slots[slot].refused.fetch_add(REFUSAL, Ordering::Relaxed);
        }
    }

    /// Takes a refusal back whose request waits instead; never below zero.
    pub(crate) fn unrefuse(&self, namespace: u32) {
        self.take_refusal(namespace);
    }

    /// Whether a request that its caller calls a repeated attempt is one: there is a refusal that
    /// it can repeat. A caller could otherwise call all of its requests repeated and hide its
    /// demand.
    pub(crate) fn take_refusal(&self, namespace: u32) -> bool {
        // The last refusal counts until half of it has faded.
        let take = |parts: u64| (parts >= REFUSAL / 2).then(|| parts.saturating_sub(REFUSAL));
        self.find(namespace).is_some_and(|slot| {
            let refused = &self.slots[slot].refused;
            refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
        })
    }

    /// The demand since the last tick, of all namespaces and levels.
    pub(crate) fn demand(&self) -> u64 {
        let counts = self.slots.iter().filter_map(|slot| slot.counts.get());
        counts
            .flat_map(|counts| counts.offered.iter())
            .fold(0, |sum, one| sum.saturating_add(one.load(Ordering::Relaxed)))
    }

    /// The requests that began to be served since the last tick, of all namespaces.
    pub(crate) fn served(&self) -> u64 {
        self.slots.iter().fold(0, |sum, slot| sum.saturating_add(sum_of(&slot.served)))
    }

    /// Counts a place that a namespace takes for a request of a class. The slot, which keeps its
    /// namespace until the place is [given back](NamespaceSlots::give_back_place); `None`: it has
    /// as many as it may.
    #[inline]
    pub(crate) fn take_place(&self, namespace: u32, class: Class) -> Option<u8> {
        let slot = self.claim(namespace);
        let of = &self.slots[slot];
        let before = of.places[class as usize].fetch_add(1, Ordering::Relaxed);
        if of.may_have(class, before + 1, || sum_of(&of.places)) {
            return Some(slot as u8);
        }
        of.places[class as usize].fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// [`NamespaceSlots::take_place`] whatever the bounds are.
    pub(crate) fn take_place_anyway(&self, namespace: u32, class: Class) -> u8 {
        let slot = self.claim(namespace);
        self.slots[slot].places[class as usize].fetch_add(1, Ordering::Relaxed);
        slot as u8
    }

    /// Whether a namespace may take one more place for a request of a class.
    #[inline]
    pub(crate) fn may_take_place(&self, namespace: NamespaceKey, class: Class) -> bool {
        let slot = match namespace {
            NamespaceKey::Exact(number) => self.find(number),
            NamespaceKey::Rest => Some(NAMESPACES_MAX),
        };
        slot.is_none_or(|slot| {
            let of = &self.slots[slot];
            let places = of.places[class as usize].load(Ordering::Relaxed);
            of.may_have(class, places + 1, || sum_of(&of.places) + 1)
        })
    }

    /// Holds a namespace back to its part of the places until an instant, or longer.
    pub(crate) fn hold_back(&self, namespace: u32, until: Timestamp) {
        let until = until.as_nanos();
        self.slots[self.claim(namespace)].held_back_until.fetch_max(until, Ordering::Relaxed);
    }

    /// Whether any namespace is held back at `now`, or was when the bounds were set last.
    pub(crate) fn has_bounds(&self, now: Timestamp) -> bool {
        self.slots.iter().any(|slot| {
            slot.held_back_until.load(Ordering::Relaxed) > now.as_nanos()
                || slot.all_places_max.load(Ordering::Relaxed) != u64::MAX
        })
    }

    /// Sets the most places of each namespace in all classes at `now`: its part for those that are
    /// held back, which `part_of` says. Whether any of them may have more than before.
    pub(crate) fn bound_all_places(
        &self,
        now: Timestamp,
        part_of: impl Fn(usize, NamespaceKey) -> u64,
    ) -> bool {
        let mut is_raised = false;
        for (number, slot) in self.slots.iter().enumerate() {
            let is_held_back = slot.held_back_until.load(Ordering::Relaxed) > now.as_nanos();
            let max = if is_held_back { part_of(number, self.key(number)) } else { u64::MAX };
            is_raised |= raise(&slot.all_places_max, max);
        }
        is_raised
    }

    /// Sets the most places of namespaces in each class, by slot; all others are not bounded.
    /// Whether any of them may have more than before.
    pub(crate) fn bound_places(&self, bounds: &[(usize, CountByClass)]) -> bool {
        let mut is_raised = false;
        for (number, slot) in self.slots.iter().enumerate() {
            let bound = bounds.iter().find(|(of, _)| *of == number);
            let bound = bound.map_or([u64::MAX; Class::ALL.len()], |(_, bound)| *bound);
            for (max, bound) in slot.places_max.iter().zip(bound) {
                is_raised |= raise(max, bound);
            }
        }
        is_raised
    }

    /// Counts a place that was given back.
    #[inline]
    pub(crate) fn give_back_place(&self, slot: u8, class: Class) {
        self.slots[usize::from(slot)].places[class as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a request that found no place and does not wait for one.
    pub(crate) fn count_unplaced(&self, level: RequestLevel) {
        let slot = &self.slots[self.claim(level.namespace())];
        slot.unplaced[level.class() as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The slots of namespaces that have places, each with their number.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, NamespaceKey, u64)> + '_ {
        let places = self.slots.iter().map(|slot| sum_of(&slot.places)).enumerate();
        places.filter(|(_, places)| *places > 0).map(|(slot, places)| (slot, self.key(slot), places))
    }

    /// The pace of a namespace.
    #[inline]
    pub(crate) fn pace(&self, namespace: u32) -> &NamespacePace {
        &self.slots[self.claim(namespace)].pace
    }

    /// The pace of a slot.
    pub(crate) fn pace_of(&self, slot: usize) -> &NamespacePace {
        &self.slots[slot].pace
    }

    /// The places of a slot in each class.
    pub(crate) fn places_of(&self, slot: usize) -> CountByClass {
        self.slots[slot].places.each_ref().map(|places| places.load(Ordering::Relaxed))
    }

    /// The key under which a namespace counts.
    pub(crate) fn key_of(&self, namespace: u32) -> NamespaceKey {
        self.find(namespace).map_or(NamespaceKey::Exact(namespace), |slot| self.key(slot))
    }

    /// Counts a request that begins to be served.
    #[inline]
    pub(crate) fn serve(&self, level: RequestLevel) {
        self.serve_in(self.claim(level.namespace()), level.class());
    }

    /// [`NamespaceSlots::serve`] for a request whose slot is known.
    #[inline]
    pub(crate) fn serve_in(&self, slot: usize, class: Class) {
        self.slots[slot].served[class as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a request back that did not begin to be served, never below zero.
    pub(crate) fn unserve(&self, level: RequestLevel) {
        if let Some(slot) = self.find(level.namespace()) {
            lessen(&self.slots[slot].served[level.class() as usize]);
        }
    }

    /// Counts a request that kept its place for so long.
    pub(crate) fn end(&self, namespace: u32, class: Class, held: Duration) {
        let slot = &self.slots[self.claim(namespace)];
        slot.held_us[class as usize].fetch_add(micros(held), Ordering::Relaxed);
        slot.ended[class as usize].fetch_add(1, Ordering::Relaxed);
        self.place_times[class as usize].add(held);
    }

    /// The requests whose work has ended since the last tick, and the microseconds for which they
    /// kept their places; they stay counted.
    pub(crate) fn ended_since_tick(&self) -> (u64, u64) {
        let sum = |sums: &PerClass| sums.iter().map(|sum| sum.load(Ordering::Relaxed)).sum::<u64>();
        let all = self.slots.iter().map(|slot| (sum(&slot.ended), sum(&slot.held_us)));
        all.fold((0, 0), |(ended, held), one| (ended + one.0, u64::saturating_add(held, one.1)))
    }

    /// Counts a request that succeeded, with the time until its answer.
    pub(crate) fn answer(&self, namespace: u32, time: Duration) {
        let slot = &self.slots[self.claim(namespace)];
        slot.answer_us.fetch_add(micros(time), Ordering::Relaxed);
        slot.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the numbers since the last tick out: those of each namespace which has any. Without
    /// `has_offers` no request was offered.
    pub(crate) fn take_tick(&self, has_offers: bool) -> Vec<NamespaceTick> {
        let mut all = Vec::new();
        for (number, slot) in self.slots.iter().enumerate() {
            // A refusal that is not repeated within some ten seconds was for good.
            let fade = |parts: u64| (parts > 0).then(|| parts - parts.div_ceil(REFUSAL_FADE));
            let _ = slot.refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fade);
            let levels = slot.counts.get().map(|counts| &counts.offered).filter(|_| has_offers);
            let is_any =
                levels.is_some_and(|levels| levels.iter().any(|level| level.load(Ordering::Relaxed) > 0));
            let offered = levels.filter(|_| is_any).map(|levels| {
                Box::new(core::array::from_fn(|level| levels[level].swap(0, Ordering::Relaxed)))
            });
            let by_class = [&slot.served, &slot.unplaced, &slot.ended, &slot.held_us];
            let sums = [&slot.answered, &slot.answer_us];
            let is_none = |sum: &AtomicU64| sum.load(Ordering::Relaxed) == 0;
            let has_none = by_class.iter().all(|sums| sums.iter().all(is_none));
            if offered.is_none() && has_none && sums.iter().all(|sum| is_none(sum)) {
                continue;
            }
            let take = |sum: &AtomicU64| sum.swap(0, Ordering::Relaxed);
            let [served, unplaced, ended, held_us] = by_class.map(|sums| sums.each_ref().map(take));
            let [answered, answer_us] = sums.map(take);
            let namespace = self.key(number);
            let slot = number;
            all.push(NamespaceTick {
                slot,
                namespace,
                offered,
                served,
                unplaced,
                ended,
                held_us,
                answered,
                answer_us,
            });
        }
        all
    }

    /// The namespace of a slot.
    fn key(&self, slot: usize) -> NamespaceKey {
        let name = self.names.get(slot).map_or(EMPTY, |name| name.load(Ordering::Relaxed));
        name.checked_sub(FIRST).map_or(NamespaceKey::Rest, |number| NamespaceKey::Exact(number as u32))
    }

    /// The cursor of a namespace.
    #[inline]
    pub(crate) fn cursor(&self, namespace: u32) -> NamespaceCursor {
        let word = self.find(namespace).map_or(&self.initial, |slot| &self.slots[slot].cursor);
        NamespaceCursor::from_bits(word.load(Ordering::Relaxed))
    }

    /// The position in the most important class of which requests of any namespace are shed.
    pub(crate) fn highest(&self) -> Cursor {
        let cursors = self.slots.iter().map(|slot| &slot.cursor).chain([&self.initial]);
        let cursors = cursors.map(|word| NamespaceCursor::from_bits(word.load(Ordering::Relaxed)).highest());
        cursors.max().unwrap_or(Cursor::OPEN)
    }

    /// The cohort of a class below which the requests of a namespace that the cursor lets in are
    /// marginal, and the position of that cursor in the class.
    pub(crate) fn marginal(&self, namespace: u32, class: Class) -> (u16, u16) {
        let Some(slot) = self.find(namespace).map(|slot| &self.slots[slot]) else { return (0, 0) };
        let [end, cursor] = [&slot.marginal, &slot.cursor].map(|word| {
            let positions = NamespaceCursor::from_bits(word.load(Ordering::Relaxed));
            positions.cohort(class)
        });
        (end.min(COHORTS), cursor)
    }

    /// Moves the cursors of the namespaces, each with its marginal cohorts; those of all others are
    /// open.
    pub(crate) fn set_each(&self, positions: &[NamespacePosition]) {
        let open = NamespaceCursor::OPEN;
        self.initial.store(open.to_bits(), Ordering::Relaxed);
        for slot in 0..self.slots.len() {
            let position = positions.iter().find(|one| one.slot == slot);
            let (cursor, marginal) = position.map_or((open, open), |one| (one.cursor, one.marginal));
            self.set(slot, cursor, marginal);
        }
    }

    fn set(&self, slot: usize, cursor: NamespaceCursor, marginal: NamespaceCursor) {
        self.slots[slot].cursor.store(cursor.to_bits(), Ordering::Relaxed);
        self.slots[slot].marginal.store(marginal.to_bits(), Ordering::Relaxed);
    }

    /// Moves the cursors of all namespaces, those that come later included.
    pub(crate) fn set_all(&self, cursor: NamespaceCursor) {
        self.initial.store(cursor.to_bits(), Ordering::Relaxed);
        (0..self.slots.len()).for_each(|slot| self.set(slot, cursor, NamespaceCursor::OPEN));
    }

    /// A namespace has asked for nothing for a while: its slot is free for another one, unless the
    /// namespace still has places. Whether the slot is free.
    pub(crate) fn release(&self, slot: usize) -> bool {
        if sum_of(&self.slots[slot].places) > 0 {
            return false;
        }
        self.set(
            slot,
            NamespaceCursor::from_bits(self.initial.load(Ordering::Relaxed)),
            NamespaceCursor::OPEN,
        );
        self.slots[slot].refused.store(0, Ordering::Relaxed);
        self.slots[slot].held_back_until.store(0, Ordering::Relaxed);
        self.slots[slot].pace.clear();
        let bounds = &self.slots[slot];
        for max in bounds.places_max.iter().chain([&bounds.all_places_max]) {
            max.store(u64::MAX, Ordering::Relaxed);
        }
        if let Some(name) = self.names.get(slot) {
            name.store(LEFT, Ordering::Relaxed);
        }
        // Searches end at an empty slot; where one follows, those before it need not be passed.
        for slot in (0..NAMESPACES_MAX).rev() {
            let next = &self.names[(slot + 1) % NAMESPACES_MAX];
            let is_last = next.load(Ordering::Relaxed) == EMPTY;
            if is_last {
                let _ = self.names[slot].compare_exchange(LEFT, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        true
    }
}

impl NamespaceSlot {
    /// Whether it may have so many places in a class, and `in_all` classes, which is only asked
    /// where that is bounded.
    #[inline]
    fn may_have(&self, class: Class, places: u64, in_all: impl FnOnce() -> u64) -> bool {
        let all_max = self.all_places_max.load(Ordering::Relaxed);
        places <= self.places_max[class as usize].load(Ordering::Relaxed)
            && (all_max == u64::MAX || in_all() <= all_max)
    }
}

fn sum_of(of: &PerClass) -> u64 {
    of.iter().fold(0, |sum, one| sum.saturating_add(one.load(Ordering::Relaxed)))
}

/// Takes one away, never below zero.
fn lessen(count: &AtomicU64) {
    let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
}

/// Sets a bound; whether it is higher than before.
fn raise(bound: &AtomicU64, to: u64) -> bool {
    bound.load(Ordering::Relaxed) != to && bound.swap(to, Ordering::Relaxed) < to
}

/// A time in microseconds, at most an hour.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(HELD_MAX_US)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    fn level(namespace: u32) -> RequestLevel {
        RequestLevel::new(namespace, Class::Critical, Some("t"), 7, Timestamp::from_secs(1_800_000_000))
    }

    #[test]
    fn namespaces_beyond_the_bound_share_the_last_slot_and_a_free_slot_is_taken_again() {
        let slots = NamespaceSlots::new();
        let numbers = |count: u32| (0..count).map(|number| number * 64 + 5);
        for namespace in numbers(70) {
            slots.offer(level(namespace));
        }
        let offers = slots.take_tick(true);
        assert_eq!(offers.len(), 65);
        let sum = |tick: &NamespaceTick| tick.offered.iter().flat_map(|levels| levels.iter()).sum::<u64>();
        assert!(offers[..64].iter().all(|offers| sum(offers) == 1));
        assert_eq!((offers[64].namespace, sum(&offers[64])), (NamespaceKey::Rest, 6));
        let leaves = offers.iter().find(|offers| offers.namespace == NamespaceKey::Exact(5)).unwrap();
        let place = slots.take_place(5, Class::Critical).unwrap();
        assert!(!slots.release(leaves.slot), "its place is in use");
        let held: Vec<_> = slots.places().map(|(_, key, places)| (key, places)).collect();
        assert_eq!(held, [(NamespaceKey::Exact(5), 1)]);
        slots.give_back_place(place, Class::Critical);
        assert!(slots.release(leaves.slot));
        slots.offer(level(1_000_000));
        let offers = slots.take_tick(true);
        assert_eq!((offers.len(), offers[0].namespace), (1, NamespaceKey::Exact(1_000_000)));
        assert_eq!(offers[0].slot, leaves.slot);
    }

    #[test]
    fn a_namespace_that_is_held_back_has_its_part_of_the_places_and_no_more() {
        const CLASS: Class = Class::Critical;
        let slots = NamespaceSlots::new();
        let now = Timestamp::from_secs(1_800_000_000);
        let places: Vec<_> = (0..5).map(|_| slots.take_place(1, CLASS).unwrap()).collect();
        slots.hold_back(1, now.saturating_add(Duration::from_mins(1)));
        let key = NamespaceKey::Exact(1);
        assert!(!slots.bound_all_places(now, |_, namespace| if namespace == key { 4 } else { 0 }));
        assert!(!slots.may_take_place(key, CLASS) && slots.take_place(1, CLASS).is_none());
        assert!(slots.may_take_place(NamespaceKey::Exact(2), CLASS) && slots.take_place(2, CLASS).is_some());
        places.into_iter().take(2).for_each(|place| slots.give_back_place(place, CLASS));
        assert!(slots.take_place(1, CLASS).is_some() && slots.take_place(1, CLASS).is_none());
        assert!(slots.bound_all_places(now.saturating_add(Duration::from_mins(1)), |_, _| 4));
        assert!(slots.take_place(1, CLASS).is_some());
    }

    #[test]
    fn a_bound_of_one_class_of_a_namespace_bounds_no_other() {
        let slots = NamespaceSlots::new();
        assert!(slots.take_place(1, Class::Critical).is_some());
        slots.bound_places(&[(1, [u64::MAX, u64::MAX, 1, u64::MAX])]);
        assert!(slots.take_place(1, Class::Critical).is_none());
        assert!(slots.take_place(1, Class::Sheddable).is_some());
        assert!(slots.take_place(2, Class::Critical).is_some());
        assert!(slots.bound_places(&[]) && !slots.bound_places(&[]), "it may have more, once");
        assert!(slots.take_place(1, Class::Critical).is_some());
    }

    #[test]
    fn a_refusal_is_repeated_once() {
        let slots = NamespaceSlots::new();
        slots.offer(level(1));
        assert!(!slots.take_refusal(1), "nothing was refused");
        slots.refuse(1);
        assert!(!slots.take_refusal(2), "a refusal of another namespace");
        assert!(slots.take_refusal(1) && !slots.take_refusal(1));
    }

    #[test]
    fn a_refusal_can_be_repeated_for_seconds_and_not_by_the_next_namespace_of_its_slot() {
        let slots = NamespaceSlots::new();
        let tick = |ticks: u32| (0..ticks).for_each(|_| _ = slots.take_tick(true));
        slots.offer(level(1));
        slots.refuse(1);
        tick(50);
        assert!(slots.take_refusal(1), "a caller comes back after 5 s");
        slots.refuse(1);
        tick(120);
        assert!(!slots.take_refusal(1), "it comes back after 12 s");
        slots.refuse(1);
        assert!(slots.release(1));
        slots.offer(level(1 + 64));
        assert!(!slots.take_refusal(1 + 64));
    }

    #[test]
    fn a_cursor_moves_the_requests_of_its_namespace_alone_until_one_holds_for_all() {
        let slots = NamespaceSlots::new();
        slots.offer(level(1));
        slots.offer(level(2));
        let offers = slots.take_tick(true);
        slots.set(offers[0].slot, NamespaceCursor::new([0, 0, 128, 0]), NamespaceCursor::OPEN);
        assert!(slots.cursor(1).sheds(level(1)) && !slots.cursor(2).sheds(level(2)));
        assert_eq!(slots.highest(), Cursor::at(3 * COHORTS));
        slots.set_all(NamespaceCursor::from_cursor(Cursor::CLOSED));
        assert!(slots.cursor(2).sheds(level(2)) && slots.cursor(77).sheds(level(77)));
    }

    #[test]
    fn a_withdrawal_takes_back_what_its_own_namespace_offered_and_never_goes_below_zero() {
        let slots = NamespaceSlots::new();
        slots.offer(level(1));
        slots.withdraw(level(2));
        assert_eq!(slots.demand(), 1);
        slots.withdraw(level(1));
        slots.withdraw(level(1));
        assert_eq!(slots.demand(), 0);
        slots.offer(level(1));
        assert_eq!(slots.demand(), 1);
    }
}
