//! Decisions: every matching limit is read, then all are charged or none.

use core::cell::Cell;
use core::hint::black_box;
use core::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::Gate;
use super::build::{Compiled, PlanIndex};
use super::charge::{Charge, ChargeKind, SlotCharge};
use super::lateness::{LATE_MAX, is_ahead};
use super::permit::{FEW_LIMITS, Permit};
use super::probe::{Answer, LocatedCounter, LocatedKey, Probe, Probes};
use super::unread_refusal::{RefusalNumbers, UnreadRefusal, ViolatedNumbers};
use crate::algorithm::{Algorithm, Room, State, Verdict};
use crate::attributes::{Attributes, PairAttributes};
use crate::cost::Cost;
use crate::limit::{Missing, Mode};
use crate::refusal::Refusal;
use crate::ring::{RingHandle, RingRefusal};
use crate::scope::Keyed;
use crate::table::{Entry, KeyHash, Spec, Unwritten, WhenFull};
use crate::time::Timestamp;

/// The answer of a gate.
///
/// It borrows the gate and values of the request, from which a refusal is put together when it is
/// read.
#[derive(Debug)]
#[must_use = "a permit gives back what it holds when it is dropped"]
pub enum Decision<'a> {
    /// The request may go ahead.
    Admit(Permit),
    /// It may not, and this is why.
    Refuse(UnreadRefusal<'a>),
}

impl<'a> Decision<'a> {
    /// Whether the request may go ahead.
    #[inline]
    pub const fn is_admit(&self) -> bool {
        matches!(self, Self::Admit(_))
    }

    /// The permit of an admitted request, or the refusal as an error.
    ///
    /// ```
    /// # use tidegate_core::{Cost, Gate, Permit, Refusal, Timestamp};
    /// fn admit(gate: &Gate, user: &str, now: Timestamp) -> Result<Permit, Refusal> {
    ///     gate.check(&[("user", user)], Cost::ONE, now).into_result()
    /// }
    /// ```
    #[expect(clippy::missing_errors_doc, reason = "the error is the refusal")]
    #[inline]
    pub fn into_result(self) -> Result<Permit, Refusal> {
        match self {
            Self::Admit(permit) => Ok(permit),
            Self::Refuse(unread) => Err(unread.read()),
        }
    }

    /// The permit of an admitted request.
    pub const fn permit(&self) -> Option<&Permit> {
        match self {
            Self::Admit(permit) => Some(permit),
            Self::Refuse(_) => None,
        }
    }

    /// The refusal of a refused request, put together anew by each call.
    pub fn refusal(&self) -> Option<Refusal> {
        self.unread_refusal().map(UnreadRefusal::read)
    }

    /// The refusal of a refused request, before it is put together.
    pub const fn unread_refusal(&self) -> Option<&UnreadRefusal<'a>> {
        match self {
            Self::Admit(_) => None,
            Self::Refuse(unread) => Some(unread),
        }
    }
}

/// The key of a request under the only limit, with the value of its last part.
type OnlyKey<'v> = (KeyHash, Option<&'v str>);

impl Gate {
    /// Charges `cost` to every limit that matches, or to none.
    ///
    /// The answer is the same for any order of the limits. `now` may step back or ahead; see
    /// [`Algorithm`].
    #[expect(
        clippy::inline_always,
        reason = "a decision is large to move, and is built where it is used only so"
    )]
    #[inline(always)]
    pub fn check<'p, 'a: 'p>(
        &'a self,
        attributes: impl Into<PairAttributes<'p, 'a>>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let attributes = attributes.into();
        // Not by `check_then`, which moves the decision about several limits.
        match self.only_key(attributes) {
            Some((limit, key)) => self.check_only(limit, key, attributes, (cost, now), |decision| decision),
            None => self.check_several(attributes, cost, now),
        }
    }

    /// [`Gate::check`], whose decision goes to `then` where it is made: it is large to move.
    #[expect(clippy::inline_always, reason = "as `Gate::check`")]
    #[inline(always)]
    pub fn check_then<'a, T>(
        &'a self,
        attributes: PairAttributes<'_, 'a>,
        cost: Cost,
        now: Timestamp,
        then: impl FnOnce(Decision<'a>) -> T,
    ) -> T {
        match self.only_key(attributes) {
            Some((limit, key)) => self.check_only(limit, key, attributes, (cost, now), then),
            None => then(self.check_several(attributes, cost, now)),
        }
    }

    /// The only limit, where there is one that applies to every request, with
    /// [the key](Self::key_of_only) of this request.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn only_key<'v>(&self, attributes: PairAttributes<'_, 'v>) -> Option<(&Compiled, OnlyKey<'v>)> {
        match (self.is_plain, &*self.limits, attributes.as_pairs()) {
            (true, [limit], Some(pairs)) => Some((limit, self.key_of_only(limit, pairs)?)),
            _ => None,
        }
    }

    #[inline(never)]
    fn check_several<'a>(
        &'a self,
        attributes: PairAttributes<'_, 'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        match (self.is_plain, &*self.limits, attributes.as_pairs()) {
            (true, [one, two], Some(pairs)) => self.check_few([one, two], pairs, attributes, cost, now),
            (true, [one, two, three], Some(pairs)) => {
                self.check_few([one, two, three], pairs, attributes, cost, now)
            }
            _ => self.check_any(attributes, cost, now),
        }
    }

    #[inline(never)]
    fn check_any<'a>(
        &'a self,
        attributes: PairAttributes<'_, 'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let mut probes = Probes::new();
        self.locate_and_touch(attributes, now, &mut probes);
        self.decide(&mut probes, attributes, cost, now)
    }

    /// Decides where there are few limits, which apply to every request: as [`Gate::check_any`]
    /// would, with less to keep for each limit. That decides where more must be known, as in
    /// [`Gate::check_only`].
    fn check_few<'a, const N: usize>(
        &'a self,
        limits: [&'a Compiled; N],
        pairs: &[(&str, &'a str)],
        attributes: PairAttributes<'_, 'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let in_order = self.names.in_order(pairs);
        let mut keys = [KeyHash(0); N];
        for (key, limit) in keys.iter_mut().zip(limits) {
            let keyed = limit.scope.key(
                #[inline(always)]
                |attribute| self.names.value(pairs, in_order, attribute),
            );
            let Keyed::On(found) = keyed else { return self.check_any(attributes, cost, now) };
            *key = found;
        }
        self.table.touch(keys.iter().map(|key| self.table.first_line(*key)));
        let mut seen = [(Entry::NONE, State::EMPTY); N];
        let mut is_refused = [false; N];
        for (index, limit) in limits.into_iter().enumerate() {
            let entry = self.table.look(keys[index]);
            if !self.is_known(limit, entry) {
                return self.check_any(attributes, cost, now);
            }
            match self.table.room(limit.algorithm(), entry.state(), cost, now) {
                Room::Enough(next) => seen[index] = (entry, next),
                Room::Lacking if limit.refuses_at_once() => {
                    (seen[index], is_refused[index]) = ((entry, State::EMPTY), true);
                }
                Room::Lacking | Room::Unclear => return self.check_any(attributes, cost, now),
            }
        }
        if is_refused != [false; N] {
            let refused = (0..N).filter(|index| is_refused[*index]);
            let mut refused = refused.map(|index| {
                ViolatedNumbers::by_state((index as u16, limits[index].spec), seen[index].0.state())
            });
            let first = refused.next().expect("one of them is");
            let mut unread = self.unread_by_one(((now, cost), first), None);
            refused.for_each(|one| unread.add(one));
            unread.find_scope(attributes);
            return Decision::Refuse(unread);
        }
        self.table.note(now);
        let charge = |index: usize| {
            let (entry, next) = seen[index];
            Charge::of_word((index as u16, limits[index]), keys[index], entry.state(), next)
        };
        let (mut charges, mut count) = ([charge(0); FEW_LIMITS], 0);
        while count < N && !seen[count].0.is_absent() {
            let (entry, next) = seen[count];
            if !self.table.overwrite(entry, next) {
                break;
            }
            charges[count] = charge(count);
            count += 1;
        }
        if count == N {
            return Decision::Admit(Permit::from_charges((charges, count), cost, now));
        }
        let mut permit = Permit::from_charges((charges, count), cost, now);
        for index in count..N {
            let located = limits[index].located(index as u16, Keyed::On(keys[index]));
            let mut probe = Probe::unread(located, &self.table);
            (probe.entry, probe.next) = seen[index];
            if let Err(one) = self.charge_by_itself(&mut probe, &mut permit, now) {
                let mut unread = self.unread_by_one(((now, cost), one), None);
                self.block_exceeded(&[probe], unread.numbers_mut(), now);
                unread.find_scope(attributes);
                return Decision::Refuse(unread);
            }
        }
        Decision::Admit(permit)
    }

    /// The counters of a request with these attributes, on their way from memory.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn locate_and_touch<'g>(
        &'g self,
        attributes: PairAttributes<'_, '_>,
        now: Timestamp,
        probes: &mut Probes<'g>,
    ) {
        match attributes.as_pairs() {
            Some(pairs) if self.is_plain => {
                let in_order = self.names.in_order(pairs);
                for (index, limit) in self.limits.iter().enumerate() {
                    let keyed = limit.scope.key(
                        #[inline(always)]
                        |attribute| self.names.value(pairs, in_order, attribute),
                    );
                    if keyed != Keyed::Skipped {
                        probes.push(Probe::unread(limit.located(index as u16, keyed), &self.table));
                    }
                }
            }
            _ => self.locate(attributes, now, probes),
        }
        self.touch(probes);
    }

    /// Decides where there is only one limit, which applies to every request, for this key: as
    /// [`Gate::check_several`] would, in registers.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn check_only<'a, T>(
        &'a self,
        limit: &'a Compiled,
        (key, value): OnlyKey<'a>,
        attributes: PairAttributes<'_, 'a>,
        (cost, now): (Cost, Timestamp),
        then: impl FnOnce(Decision<'a>) -> T,
    ) -> T {
        let entry = self.table.look(key);
        let otherwise = 'more: {
            if !self.is_known(limit, entry) {
                break 'more None;
            }
            let before = entry.state();
            match self.table.room(limit.algorithm(), before, cost, now) {
                Room::Enough(next) => {
                    self.table.note(now);
                    if entry.is_absent() || !self.table.overwrite(entry, next) {
                        break 'more Some(entry);
                    }
                    let charge = Charge::of_word((0, limit), key, before, next);
                    return then(Decision::Admit(Permit::from_charge(charge, cost, now)));
                }
                Room::Lacking if limit.refuses_at_once() => {
                    let numbers = ViolatedNumbers::by_state((0, limit.spec), before);
                    let asked = (now, cost);
                    if let [_] = &*limit.scope.parts {
                        return then(Decision::Refuse(self.unread_by_one((asked, numbers), value)));
                    }
                    let numbers = RefusalNumbers::new(asked, numbers);
                    return then(Decision::Refuse(self.unread(numbers, attributes)));
                }
                _ if !limit.algorithm().is_counter() => break 'more Some(entry),
                Room::Lacking | Room::Unclear => break 'more None,
            }
        };
        then(match otherwise {
            Some(entry) => self.charge_only_slot((limit, attributes), key, entry, cost, now),
            None => self.check_several(attributes, cost, now),
        })
    }

    /// The key of a request under the only limit; `None` if it has none.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn key_of_only<'v>(&self, limit: &Compiled, pairs: &[(&str, &'v str)]) -> Option<OnlyKey<'v>> {
        let last = Cell::new(None);
        let keyed = limit.scope.key(
            #[inline(always)]
            |attribute| {
                last.set(Attributes::find(pairs, self.names.get(attribute)));
                last.get()
            },
        );
        match keyed {
            Keyed::On(key) => Some((key, last.get())),
            Keyed::Lacks(_) | Keyed::Skipped => None,
        }
    }

    /// Whether the word of a key is all that must be known of it: it has no block, and no state
    /// under other numbers.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn is_known(&self, limit: &Compiled, entry: Entry) -> bool {
        let is_own = entry.spec_bits() == limit.spec.bits() || entry.is_absent();
        is_own && !(self.table.blocks.any() && limit.has_blocks())
    }

    /// Decides by the only limit. A key that has a ring is charged here, without a probe;
    /// [`Gate::charge_only`] does the rest.
    #[inline(never)]
    fn charge_only_slot<'a>(
        &'a self,
        (limit, attributes): (&'a Compiled, PairAttributes<'_, 'a>),
        key: KeyHash,
        entry: Entry,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        // The word was looked up for this limit: it has these numbers, or is absent.
        let after = entry.state();
        if let Algorithm::Rolling(rolling) = limit.algorithm()
            && let Some(ring) = RingHandle::from_bits(after.to_bits())
        {
            match self.table.rings.admit(ring, rolling, cost, now) {
                Ok(charge) => {
                    let (before, kind) = (State::EMPTY, ChargeKind::SlotCharge);
                    let (limit, spec, refund_on) = (0, limit.spec, limit.refund_on);
                    let word = Charge { key, before, after, spec, limit, kind, refund_on };
                    let mut permit = Permit::from_charge(word, cost, now);
                    permit.push_slot_charge(Some(SlotCharge::Ring { ring, charge, is_new: false }));
                    return Decision::Admit(permit);
                }
                Err(RingRefusal::Verdict(verdict)) => {
                    return self.refuse_only((limit, attributes), (verdict.into(), after), cost, now);
                }
                // A stale handle is replaced below, and room is made there.
                Err(RingRefusal::Stale | RingRefusal::Full) => {}
            }
        }
        self.charge_only((limit, attributes), key, entry, cost, now)
    }

    /// Refuses by the only limit, which gave this answer in this state and charged nothing. Where a
    /// refusal has consequences, decides anew with all of them.
    #[inline]
    fn refuse_only<'a>(
        &'a self,
        (limit, attributes): (&'a Compiled, PairAttributes<'_, 'a>),
        (answer, state): (Answer, State),
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let algorithm = limit.algorithm();
        if !limit.refuses_at_once() || is_ahead(algorithm, answer, now) {
            return self.check_several(attributes, cost, now);
        }
        let numbers = self.violated_numbers((0, limit.spec, algorithm), answer, state, now);
        Decision::Refuse(self.unread(RefusalNumbers::new((now, cost), numbers), attributes))
    }

    /// Decides by the only limit, whose counter was read, and is new, has changed meanwhile or has
    /// more state than a word.
    #[inline(never)]
    fn charge_only<'a>(
        &'a self,
        (limit, attributes): (&'a Compiled, PairAttributes<'_, 'a>),
        key: KeyHash,
        entry: Entry,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let mut probe = Probe::unread(limit.located(0, Keyed::On(key)), &self.table);
        probe.entry = entry;
        if limit.algorithm().is_counter() {
            self.table.answer(&mut probe, cost, now);
        }
        match self.table.charge_decided(&mut probe, cost, now) {
            Ok((charge, slot_charge)) => {
                let mut permit = Permit::from_charge(charge, cost, now);
                permit.push_slot_charge(slot_charge);
                permit.hold_permits_of(&self.table);
                Decision::Admit(permit)
            }
            Err(answer @ (Answer::Wait { .. } | Answer::Never { .. })) => {
                let state = self.table.state(&probe, now);
                self.refuse_only((limit, attributes), (answer, state), cost, now)
            }
            // Nothing was charged.
            Err(_) => self.check_several(attributes, cost, now),
        }
    }

    /// The refusal that [`Gate::check`] would give, with all that a refusal brings with it; `None`
    /// if it would admit, and then nothing is charged or changed. For a request that is refused by
    /// another plane unless its limits refuse it.
    ///
    /// Room in the table for a new key is not looked for.
    pub fn find_refusal<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        cost: Cost,
        now: Timestamp,
    ) -> Option<UnreadRefusal<'a>> {
        let attributes = attributes.into();
        if let Some((limit, (key, _))) = self.only_key(attributes) {
            let entry = self.table.look(key);
            let room = || self.table.verdict(limit.algorithm(), entry.state(), cost, now).0;
            if self.is_known(limit, entry) && room() == Verdict::Admit {
                return None;
            }
        }
        let mut probes = Probes::new();
        self.locate_and_touch(attributes, now, &mut probes);
        self.refusal_of(&mut probes, attributes, cost, now)
    }

    /// The refusal of a request with these probes, if one of its limits refuses.
    pub(super) fn refusal_of<'a>(
        &'a self,
        probes: &mut [Probe<'_>],
        attributes: PairAttributes<'_, 'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Option<UnreadRefusal<'a>> {
        let mut refused = None;
        self.assess_all(probes, cost, now, |one| RefusalNumbers::add(&mut refused, one, (now, cost)));
        let mut refused = refused?;
        self.block_exceeded(probes, &mut refused, now);
        Some(self.unread(refused, attributes))
    }

    /// Whether an assessed limit refuses its request.
    pub(super) fn refuses(&self, probe: &Probe<'_>) -> bool {
        probe.answer != Answer::Admit && self.limit_of(probe).limit.mode == Mode::Enforce
    }

    /// Starts loading these counters, before the first is read, so that waiting for them overlaps.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn touch(&self, probes: &[Probe<'_>]) {
        self.table.touch(probes.iter().map(|probe| probe.line));
    }

    /// Decides up to [`Gate::BATCH`] requests at a time, in order, each as [`Gate::check`] would.
    ///
    /// The counters of all of them are located before the first is decided, so that waiting for
    /// memory overlaps: with a million keys a batch of 16 costs half as much for each request.
    /// `decided` gets the position of the request and its decision.
    pub fn check_batch<'a>(
        &'a self,
        requests: &[(Attributes<'a>, Cost)],
        now: Timestamp,
        mut decided: impl FnMut(usize, Decision<'a>),
    ) {
        if let (true, [limit]) = (self.is_plain, &*self.limits) {
            return self.check_batch_only(limit, requests, now, decided);
        }
        for (chunk, requests) in requests.chunks(Self::BATCH).enumerate() {
            let mut located: [Probes<'_>; Self::BATCH] = Default::default();
            // The values are read together first, so that waiting for them overlaps, too.
            let lasts = requests.iter().flat_map(|(attributes, _)| attributes.iter());
            black_box(lasts.fold(0, |near, (_, value)| near ^ value.as_bytes().last().copied().unwrap_or(0)));
            for ((attributes, _), probes) in requests.iter().zip(&mut located) {
                self.locate_and_touch(*attributes, now, probes);
            }
            for (index, ((attributes, cost), probes)) in requests.iter().zip(&mut located).enumerate() {
                decided(chunk * Self::BATCH + index, self.decide(probes, *attributes, *cost, now));
            }
        }
    }

    /// [`Gate::check_batch`] where there is only one limit, which applies to every request.
    fn check_batch_only<'a>(
        &'a self,
        limit: &'a Compiled,
        requests: &[(Attributes<'a>, Cost)],
        now: Timestamp,
        mut decided: impl FnMut(usize, Decision<'a>),
    ) {
        let mut at = 0;
        for requests in requests.chunks(Self::BATCH) {
            // As above.
            let lasts = requests.iter().flat_map(|(attributes, _)| attributes.iter());
            black_box(lasts.fold(0, |near, (_, value)| near ^ value.as_bytes().last().copied().unwrap_or(0)));
            let mut keys = [None; Self::BATCH];
            for (key, (attributes, _)) in keys.iter_mut().zip(requests) {
                *key = attributes.as_pairs().and_then(|pairs| self.key_of_only(limit, pairs));
            }
            self.table.touch(keys.iter().flatten().map(|(key, _)| self.table.first_line(*key)));
            for (key, (attributes, cost)) in keys.iter().zip(requests) {
                match key {
                    Some(key) => self.check_only(
                        limit,
                        *key,
                        *attributes,
                        (*cost, now),
                        #[inline(always)]
                        |decision| decided(at, decision),
                    ),
                    None => decided(at, self.check_several(*attributes, *cost, now)),
                }
                at += 1;
            }
        }
    }

    /// How many requests [`Gate::check_batch`] locates at a time.
    pub const BATCH: usize = 16;

    /// The counters of a request with these attributes.
    #[inline(never)]
    pub(super) fn locate<'g>(
        &'g self,
        attributes: PairAttributes<'_, '_>,
        now: Timestamp,
        probes: &mut Probes<'g>,
    ) {
        let values = self.names.values(attributes);
        let plan = self.plan_of(&values);
        for (index, limit) in self.limits.iter().enumerate() {
            if let Some(found) = self.find(index as u16, limit, &values, plan, now) {
                probes.push(Probe::unread(found, &self.table));
            }
        }
    }

    /// [`Gate::locate`], with the keys of the limits that a store decides or lends.
    pub(super) fn locate_all<'g>(
        &'g self,
        values: &[Option<&str>],
        now: Timestamp,
        probes: &mut Probes<'g>,
        in_store: &mut SmallVec<[LocatedKey<'g>; 2]>,
    ) {
        let plan = self.plan_of(values);
        for (index, limit) in self.limits.iter().enumerate() {
            let index = index as u16;
            if !limit.is_in_store {
                probes.extend(
                    self.find(index, limit, values, plan, now).map(|found| Probe::unread(found, &self.table)),
                );
            } else if limit.matches(values)
                && let Some((algorithm, spec)) = self.numbers(limit, values, plan, now)
            {
                match limit.key(values) {
                    Keyed::On(key) => in_store.push(LocatedKey { limit: index, key, algorithm, spec }),
                    // No store is asked about an incomplete key, so its request is refused here.
                    keyed @ Keyed::Lacks(_) if limit.limit.missing == Missing::Refuse => {
                        let refund_on = limit.refund_on;
                        let located = LocatedCounter { limit: index, keyed, algorithm, spec, refund_on };
                        probes.push(Probe::unread(located, &self.table));
                    }
                    Keyed::Lacks(_) | Keyed::Skipped => {}
                }
            }
        }
    }

    /// The counter of one limit that a request with these values falls on, unless the limit does
    /// not apply to it.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn find<'g>(
        &'g self,
        index: u16,
        limit: &'g Compiled,
        values: &[Option<&str>],
        plan: Option<PlanIndex>,
        now: Timestamp,
    ) -> Option<LocatedCounter<'g>> {
        // No store is asked about an incomplete key, so a request that lacks a part of it is
        // refused here.
        if (limit.is_in_store && limit.limit.missing != Missing::Refuse) || !limit.matches(values) {
            return None;
        }
        let keyed = limit.key(values);
        if keyed == Keyed::Skipped || (limit.is_in_store && matches!(keyed, Keyed::On(_))) {
            return None;
        }
        let (algorithm, spec) = self.numbers(limit, values, plan, now)?;
        Some(LocatedCounter { limit: index, keyed, algorithm, spec, refund_on: limit.refund_on })
    }

    /// Assesses the limits and charges all of them, unless one refuses.
    #[inline]
    pub(super) fn decide<'a>(
        &'a self,
        probes: &mut [Probe<'_>],
        attributes: PairAttributes<'_, 'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let mut decision = Decision::Admit(Permit::new(cost, now));
        self.assess_all(probes, cost, now, |one| self.add_refusal(&mut decision, one, (now, cost)));
        if let Decision::Admit(permit) = &mut decision {
            match self.charge_all(probes, permit, now) {
                Ok(()) => return decision,
                Err(one) => self.add_refusal(&mut decision, one, (now, cost)),
            }
        }
        self.conclude(&mut decision, probes, attributes, now);
        decision
    }

    /// Adds a limit that refused to a decision.
    #[inline]
    fn add_refusal<'a>(
        &'a self,
        decision: &mut Decision<'a>,
        one: ViolatedNumbers,
        asked: (Timestamp, Cost),
    ) {
        match decision {
            Decision::Refuse(unread) => unread.add(one),
            Decision::Admit(_) => *decision = Decision::Refuse(self.unread_by_one((asked, one), None)),
        }
    }

    /// Takes the consequences of a refusal, and keeps the values that name its counter.
    #[inline(never)]
    fn conclude<'a>(
        &'a self,
        decision: &mut Decision<'a>,
        probes: &[Probe<'_>],
        attributes: PairAttributes<'_, 'a>,
        now: Timestamp,
    ) {
        if let Decision::Refuse(unread) = decision {
            self.block_exceeded(probes, unread.numbers_mut(), now);
            unread.find_scope(attributes);
        }
    }

    /// Assesses the limits; `refused` gets the numbers of those that refuse.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn assess_all(
        &self,
        probes: &mut [Probe<'_>],
        cost: Cost,
        now: Timestamp,
        mut refused: impl FnMut(ViolatedNumbers),
    ) {
        let any_blocks = self.table.blocks.any();
        for probe in probes {
            self.assess(probe, any_blocks, cost, now);
            if probe.answer != Answer::Admit && self.refuses(probe) {
                refused(self.violated_probe(probe, now));
            }
        }
    }

    /// Charges the limits, each by one exchange of the word that it was decided on. Where one
    /// refuses after all, takes back what was charged and returns that limit.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn charge_all(
        &self,
        probes: &mut [Probe<'_>],
        permit: &mut Permit,
        now: Timestamp,
    ) -> Result<(), ViolatedNumbers> {
        self.table.note(now);
        for probe in probes {
            if probe.is_exchange && self.table.overwrite(probe.entry, probe.next) {
                permit.push(Charge::new(probe, probe.entry.state(), probe.next, ChargeKind::Word));
            } else {
                self.charge_by_itself(probe, permit, now)?;
            }
        }
        permit.hold_permits_of(&self.table);
        Ok(())
    }

    /// Charges a limit whose counter is new, has changed since it was read, or has more state than
    /// a word. A shadow limit that would refuse takes no charge, as if it had refused.
    #[inline(never)]
    fn charge_by_itself(
        &self,
        probe: &mut Probe<'_>,
        permit: &mut Permit,
        now: Timestamp,
    ) -> Result<(), ViolatedNumbers> {
        let charged = match probe.answer {
            Answer::Admit => self.table.charge_decided(probe, permit.cost(), now),
            answer => Err(answer),
        };
        match charged {
            Ok((charge, slot_charge)) => {
                permit.push(charge);
                permit.push_slot_charge(slot_charge);
            }
            Err(Answer::Full { .. }) if self.table.when_full() == WhenFull::Admit => {
                self.table.count_full();
                permit.push(Charge::none(probe, ChargeKind::Uncounted));
            }
            Err(answer) => {
                probe.answer = answer;
                if self.refuses(probe) {
                    if matches!(answer, Answer::Full { .. }) {
                        self.table.count_full();
                    }
                    permit.take_back_from(&self.table, now);
                    return Err(self.violated_probe(probe, now));
                }
                permit.push(Charge::none(probe, ChargeKind::ShadowRefused));
            }
        }
        Ok(())
    }

    pub(super) fn limit_of(&self, probe: &Probe<'_>) -> &Compiled {
        &self.limits[usize::from(probe.limit)]
    }

    /// Reads the counter of a probe and decides, writing nothing.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn assess(&self, probe: &mut Probe<'_>, any_blocks: bool, cost: Cost, now: Timestamp) {
        if matches!(probe.answer, Answer::Lacks { .. }) {
            return;
        }
        let has_blocks = any_blocks && self.limit_of(probe).has_blocks();
        let blocked = if has_blocks { self.blocked_until(probe.key, now) } else { None };
        self.table.read(probe, cost, now);
        if let Some(until) = blocked {
            (probe.answer, probe.is_exchange) = (Answer::Blocked { until }, false);
        }
    }

    /// Blocks the keys that exceeded a limit which blocks for that.
    #[inline]
    fn block_exceeded(&self, probes: &[Probe<'_>], refused: &mut RefusalNumbers, now: Timestamp) {
        for one in refused.violated_mut() {
            let limit = &self.limits[usize::from(one.limit)];
            if let Some((span, _)) = &limit.block
                && one.is_wait()
                && let Some(probe) = probes.iter().find(|probe| probe.limit == one.limit)
            {
                let until = now.saturating_add(*span);
                // A table too full to remember the block leaves the refusal as it is.
                if self.block_key(limit, probe.key, until, now).is_ok() {
                    one.block(until);
                }
            }
        }
    }

    /// Until when the key is blocked, if it is at `now`.
    pub(super) fn blocked_until(&self, key: KeyHash, now: Timestamp) -> Option<Timestamp> {
        let entry = self.table.look(key.of_block());
        let until = Timestamp::from_nanos(entry.state().to_bits());
        if until <= now {
            return None;
        }
        Some(self.shortened_block(key.of_block(), entry, until, now))
    }

    /// The end of a block. One that lasts longer than it was set for was set under a clock that was
    /// ahead, and is shortened to that.
    fn shortened_block(&self, block: KeyHash, entry: Entry, until: Timestamp, now: Timestamp) -> Timestamp {
        let Some(number) = entry.spec() else { return until };
        let Some(spec) = self.table.specs.get(number) else { return until };
        let Some(Spec::BlockedUntil { at_most }) = spec.spec() else { return until };
        if until <= now.saturating_add(*at_most).saturating_add(LATE_MAX) {
            return until;
        }
        let longest = now.saturating_add(*at_most);
        // Where somebody else writes at once, this is done by the next request.
        let _ = self.table.write(block, entry, number, State::from_bits(longest.as_nanos()), now);
        longest
    }

    /// Blocks a key until an instant, in place of the block that it may have; an instant that has
    /// passed lifts the block.
    pub(super) fn block_key(
        &self,
        limit: &Compiled,
        key: KeyHash,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        let key = key.of_block();
        let length = until.saturating_since(now);
        let pin = match &limit.block {
            Some((span, pin)) if length <= *span => pin,
            _ => &self.block_spec,
        };
        let spec = pin.id().number();
        loop {
            let entry = self.table.look(key);
            if entry.is_absent() && until <= now {
                return Ok(());
            }
            match self.table.write(key, entry, spec, State::from_bits(until.as_nanos()), now) {
                Ok(_) => {
                    // Relaxed: the caller that orders a later request after this answer orders this
                    // write too.
                    limit.has_blocks.store(true, Ordering::Relaxed);
                    self.table.blocks.set_any();
                    return Ok(());
                }
                Err(Unwritten::Moved) => {}
                Err(Unwritten::Full { until }) => return Err(until),
            }
        }
    }
}
