//! Decisions: every matching limit is read, then all are charged or none.

use core::cell::Cell;
use core::hint::black_box;
use core::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::Gate;
use super::build::{Compiled, PlanIndex};
use super::charge::{Charge, ChargeKind};
use super::lateness::{LATE_MAX, is_ahead};
use super::permit::Permit;
use super::probe::{Answer, LocatedCounter, LocatedKey, Probe, Probes};
use super::unread_refusal::{RefusalNumbers, UnreadRefusal, ViolatedNumbers};
use crate::algorithm::{State, Verdict};
use crate::attributes::{Attributes, PairAttributes};
use crate::cost::Cost;
use crate::limit::{Missing, Mode};
use crate::refusal::Refusal;
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

impl Gate {
    /// Charges `cost` to every limit that matches, or to none.
    ///
    /// The answer is the same for any order of the limits. `now` may step back or ahead; see
    /// [`Algorithm`].
    #[inline]
    pub fn check<'p, 'a: 'p>(
        &'a self,
        attributes: impl Into<PairAttributes<'p, 'a>>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let attributes = attributes.into();
        match (&*self.limits, attributes.as_pairs()) {
            ([limit], Some(pairs)) if self.is_plain => self.check_only(limit, pairs, attributes, cost, now),
            _ => self.check_several(attributes, cost, now),
        }
    }

    #[inline]
    fn check_several<'a>(
        &'a self,
        attributes: PairAttributes<'_, 'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let mut decision = Decision::Admit(Permit::new(cost, now));
        self.check_several_into(&mut decision, attributes, cost, now);
        decision
    }

    #[inline(never)]
    fn check_several_into<'a>(
        &'a self,
        decision: &mut Decision<'a>,
        attributes: PairAttributes<'_, 'a>,
        cost: Cost,
        now: Timestamp,
    ) {
        let mut probes = Probes::new();
        self.locate_and_touch(attributes, now, &mut probes);
        self.decide_into(decision, &mut probes, attributes, cost, now);
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

    /// Decides where there is only one limit, which applies to every request: as
    /// [`Gate::check_several`] would, in registers.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn check_only<'a>(
        &'a self,
        limit: &'a Compiled,
        pairs: &[(&str, &'a str)],
        attributes: PairAttributes<'_, 'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'a> {
        let Some((key, entry, value)) = self.look_only(limit, pairs) else {
            return self.check_several(attributes, cost, now);
        };
        let (algorithm, before) = (limit.algorithm(), entry.state());
        if !algorithm.is_counter() {
            return self.charge_only((limit, attributes), key, entry, cost, now);
        }
        let (verdict, next) = self.table.verdict(algorithm, before, cost, now);
        if verdict == Verdict::Admit {
            self.table.note(now);
            if entry.is_absent() || !self.table.overwrite(entry, next) {
                return self.charge_only((limit, attributes), key, entry, cost, now);
            }
            let (limit, spec, refund_on, kind) = (0, limit.spec, limit.refund_on, ChargeKind::Word);
            let charge = Charge { key, before, after: next, spec, limit, kind, refund_on };
            return Decision::Admit(Permit::from_charge(charge, cost, now));
        }
        // No limit asks for less, and the rest of the question divides.
        let is_long = matches!(verdict, Verdict::Wait { until } if until > now.saturating_add(LATE_MAX));
        if !limit.refuses_at_once() || (is_long && is_ahead(algorithm, verdict.into(), now)) {
            return self.check_several(attributes, cost, now);
        }
        let numbers = ViolatedNumbers::by_state((0, limit.spec), verdict.into(), before);
        if let [_] = &*limit.scope.parts {
            return Decision::Refuse(self.unread_by_one((now, numbers), value));
        }
        Decision::Refuse(self.unread(RefusalNumbers::new(now, numbers), attributes))
    }

    /// Looks up the counter of a request under the only limit, with the value of the last part of
    /// its key; `None` where more must be known: no key, a block, or a state under other numbers.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn look_only<'v>(
        &self,
        limit: &Compiled,
        pairs: &[(&str, &'v str)],
    ) -> Option<(KeyHash, Entry, Option<&'v str>)> {
        let last = Cell::new(None);
        let keyed = limit.scope.key(
            #[inline(always)]
            |attribute| {
                last.set(Attributes::find(pairs, self.names.get(attribute)));
                last.get()
            },
        );
        let Keyed::On(key) = keyed else { return None };
        let entry = self.table.look(key);
        let is_known = entry.spec_bits() == limit.spec.bits() || entry.is_absent();
        let may_be_blocked = self.table.blocks.any() && limit.has_blocks();
        (is_known && !may_be_blocked).then(|| (key, entry, last.get()))
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
            Err(answer @ (Answer::Wait { .. } | Answer::Never { .. }))
                if limit.refuses_at_once() && !is_ahead(limit.algorithm(), answer, now) =>
            {
                probe.answer = answer;
                let numbers = self.violated_probe(&probe, now);
                Decision::Refuse(self.unread(RefusalNumbers::new(now, numbers), attributes))
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
        if let (true, [limit], Some(pairs)) = (self.is_plain, &*self.limits, attributes.as_pairs())
            && let Some((_, entry, _)) = self.look_only(limit, pairs)
            && self.table.verdict(limit.algorithm(), entry.state(), cost, now).0 == Verdict::Admit
        {
            return None;
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
        self.assess_all(probes, cost, now, |one| RefusalNumbers::add(&mut refused, one, now));
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
        let mut near = 0;
        for probe in probes {
            near ^= self.table.touch(probe.line);
        }
        // The loads must not be optimised away: they are the point.
        black_box(near);
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
        self.decide_into(&mut decision, probes, attributes, cost, now);
        decision
    }

    /// [`Gate::decide`] into an admission without charges: a decision is large to move.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn decide_into<'a>(
        &'a self,
        decision: &mut Decision<'a>,
        probes: &mut [Probe<'_>],
        attributes: PairAttributes<'_, 'a>,
        cost: Cost,
        now: Timestamp,
    ) {
        self.assess_all(probes, cost, now, |one| self.add_refusal(decision, one, now));
        if let Decision::Admit(permit) = decision {
            match self.charge_all(probes, permit, now) {
                Ok(()) => return,
                Err(one) => self.add_refusal(decision, one, now),
            }
        }
        self.conclude(decision, probes, attributes, now);
    }

    /// Adds a limit that refused to a decision.
    #[inline]
    fn add_refusal<'a>(&'a self, decision: &mut Decision<'a>, one: ViolatedNumbers, now: Timestamp) {
        match decision {
            Decision::Refuse(unread) => unread.add(one),
            Decision::Admit(_) => *decision = Decision::Refuse(self.unread_by_one((now, one), None)),
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
            if let (Some((span, _)), Answer::Wait { .. }) = (&limit.block, one.answer)
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
