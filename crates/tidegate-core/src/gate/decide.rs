//! Decisions: every matching limit is read, then all are charged or none.

use core::hint::black_box;
use core::sync::atomic::Ordering;
use core::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::Gate;
use super::brought_back::LATE_MAX;
use super::build::{Compiled, PlanIndex};
use super::charge::{Charge, ChargeKind};
use super::permit::Permit;
use super::probe::{Answer, LocatedCounter, LocatedKey, Probe, Probes};
use crate::algorithm::{Algorithm, State};
use crate::attributes::Attributes;
use crate::cost::Cost;
use crate::limit::{Missing, Mode};
use crate::refusal::{Reason, Refusal, RefusalFields, Retry, ScopeValues, Violated};
use crate::scope::{Keyed, Part, Values};
use crate::table::{Entry, KeyHash, Spec, Unwritten, WhenFull};
use crate::text::Text;
use crate::time::Timestamp;

/// The answer of a gate.
#[derive(Debug)]
#[must_use = "a permit gives back what it holds when it is dropped"]
pub enum Decision {
    /// The request may go ahead.
    Admit(Permit),
    /// It may not, and this is why.
    Refuse(Refusal),
}

impl Decision {
    /// Whether the request may go ahead.
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
    pub fn into_result(self) -> Result<Permit, Refusal> {
        match self {
            Self::Admit(permit) => Ok(permit),
            Self::Refuse(refusal) => Err(refusal),
        }
    }

    /// The permit of an admitted request.
    pub const fn permit(&self) -> Option<&Permit> {
        match self {
            Self::Admit(permit) => Some(permit),
            Self::Refuse(_) => None,
        }
    }

    /// The refusal of a refused request.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Admit(_) => None,
            Self::Refuse(refusal) => Some(refusal),
        }
    }
}

impl Gate {
    /// Charges `cost` to every limit that matches, or to none.
    ///
    /// The answer is the same for any order of the limits. `now` may step back or ahead; see
    /// [`Algorithm`].
    #[inline]
    pub fn check<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision {
        let mut values = Values::new();
        self.names.read(attributes.into(), &mut values);
        if let [limit] = &*self.limits {
            return self.check_only(limit, &values, cost, now);
        }
        let mut probes = Probes::new();
        self.locate(&values, now, &mut probes);
        if probes.len() > 1 {
            // All counters are located before the first is read, so waiting for memory overlaps.
            self.touch(probes.iter().map(|probe| probe.key));
        }
        self.decide(&mut probes, &values, cost, now)
    }

    /// Decides where there is only one limit: the probe stays in registers until the limit refuses.
    #[inline]
    fn check_only<'a>(
        &'a self,
        limit: &'a Compiled,
        values: &Values<'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision {
        let Some(found) = self.find(limit, values, self.plan_of(values), now) else {
            return Decision::Admit(Permit::new(cost, now));
        };
        let mut probe = Probe::unread(0, found);
        self.assess(&mut probe, cost, now);
        if let Some(charge) = self.charge_only(&mut probe, cost, now) {
            return Decision::Admit(Permit::from_charge(charge, cost, now));
        }
        self.conclude(&mut smallvec![probe], values, cost, now)
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
    ) -> Option<Refusal> {
        let mut values = Values::new();
        self.names.read(attributes.into(), &mut values);
        if let [limit] = &*self.limits {
            let mut probe = Probe::unread(0, self.find(limit, &values, self.plan_of(&values), now)?);
            self.assess(&mut probe, cost, now);
            return self.refuses(&probe).then(|| self.refuse(&mut smallvec![probe], &values, now));
        }
        let mut probes = Probes::new();
        self.locate(&values, now, &mut probes);
        if probes.len() > 1 {
            self.touch(probes.iter().map(|probe| probe.key));
        }
        let mut refuses = false;
        for probe in &mut probes {
            self.assess(probe, cost, now);
            refuses |= self.refuses(probe);
        }
        refuses.then(|| self.refuse(&mut probes, &values, now))
    }

    /// Whether an assessed limit refuses its request.
    pub(super) fn refuses(&self, probe: &Probe<'_>) -> bool {
        probe.answer != Answer::Admit && self.limit_of(probe).limit.mode == Mode::Enforce
    }

    /// Starts loading the counters of these keys.
    #[inline]
    pub(super) fn touch(&self, keys: impl Iterator<Item = KeyHash>) {
        let near = keys.fold(0, |near, key| near ^ self.table.touch(key));
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
        mut decided: impl FnMut(usize, Decision),
    ) {
        for (chunk, requests) in requests.chunks(Self::BATCH).enumerate() {
            let mut located: [(Values<'a>, Probes<'a>); Self::BATCH] = Default::default();
            // Each step waits for memory at most once, and for all requests together.
            for ((attributes, _), (values, _)) in requests.iter().zip(&mut located) {
                self.names.read(*attributes, values);
            }
            let texts = located.iter().flat_map(|(values, _)| values).flatten();
            black_box(texts.fold(0, |near, text| near ^ text.as_bytes().last().copied().unwrap_or(0)));
            for (values, probes) in located.iter_mut().take(requests.len()) {
                self.locate(values, now, probes);
            }
            self.touch(located.iter().flat_map(|(_, probes)| probes).map(|probe| probe.key));
            for (index, ((_, cost), (values, probes))) in requests.iter().zip(&mut located).enumerate() {
                decided(chunk * Self::BATCH + index, self.decide(probes, values, *cost, now));
            }
        }
    }

    /// How many requests [`Gate::check_batch`] locates at a time.
    pub const BATCH: usize = 16;

    /// The counters of a request with these values, not yet read.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn locate<'g>(&'g self, values: &Values<'_>, now: Timestamp, probes: &mut Probes<'g>) {
        let plan = self.plan_of(values);
        for (index, limit) in self.limits.iter().enumerate() {
            if let Some(found) = self.find(limit, values, plan, now) {
                probes.push(Probe::unread(index as u16, found));
            }
        }
    }

    /// [`Gate::locate`], with the keys of the limits that a store decides or lends.
    pub(super) fn locate_all<'g>(
        &'g self,
        values: &Values<'_>,
        now: Timestamp,
        probes: &mut Probes<'g>,
        in_store: &mut SmallVec<[LocatedKey<'g>; 2]>,
    ) {
        let plan = self.plan_of(values);
        for (index, limit) in self.limits.iter().enumerate() {
            let index = index as u16;
            if !limit.is_in_store {
                let found = self.find(limit, values, plan, now);
                probes.extend(found.map(|found| Probe::unread(index, found)));
            } else if limit.matches(values)
                && let Some((algorithm, spec)) = self.numbers(limit, values, plan, now)
            {
                match limit.key(values) {
                    Keyed::On(key) => in_store.push(LocatedKey { limit: index, key, algorithm, spec }),
                    // No store is asked about an incomplete key, so its request is refused here.
                    keyed @ Keyed::Lacks(_) if limit.limit.missing == Missing::Refuse => {
                        let refund_on = limit.refund_on;
                        let located = LocatedCounter { keyed, algorithm, spec, refund_on };
                        probes.push(Probe::unread(index, located));
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
        limit: &'g Compiled,
        values: &Values<'_>,
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
        Some(LocatedCounter { keyed, algorithm, spec, refund_on: limit.refund_on })
    }

    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn decide<'a>(
        &'a self,
        probes: &mut Probes<'a>,
        values: &Values<'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision {
        for probe in probes.iter_mut() {
            self.assess(probe, cost, now);
        }
        // The usual request meets one limit; its permit is built where it is returned, not moved
        // there.
        if let [probe] = probes.as_mut_slice()
            && let Some(charge) = self.charge_only(probe, cost, now)
        {
            return Decision::Admit(Permit::from_charge(charge, cost, now));
        }
        self.conclude(probes, values, cost, now)
    }

    /// Charges the only limit of a request, if it admits and one word is its whole state.
    #[expect(clippy::inline_always, reason = "as `KeyTable::charge_word`")]
    #[inline(always)]
    fn charge_only(&self, probe: &mut Probe<'_>, cost: Cost, now: Timestamp) -> Option<Charge> {
        let is_word = probe.answer == Answer::Admit && probe.algorithm.is_counter();
        if is_word { self.table.charge_word(probe, cost, now).ok() } else { None }
    }

    /// Assesses the limits and charges all of them, unless one refuses.
    pub(super) fn charge_unless_refused(
        &self,
        probes: &mut Probes<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Permit> {
        for probe in probes.iter_mut() {
            self.assess(probe, cost, now);
        }
        if let [probe] = probes.as_mut_slice()
            && let Some(charge) = self.charge_only(probe, cost, now)
        {
            return Some(Permit::from_charge(charge, cost, now));
        }
        if probes.iter().any(|probe| self.refuses(probe)) {
            return None;
        }
        let mut permit = Permit::new(cost, now);
        self.charge_all(probes, cost, now, &mut permit).then_some(permit)
    }

    /// Charges all of the limits that were assessed, or none.
    fn conclude<'a>(
        &'a self,
        probes: &mut Probes<'a>,
        values: &Values<'a>,
        cost: Cost,
        now: Timestamp,
    ) -> Decision {
        if !probes.iter().any(|probe| self.refuses(probe)) {
            let mut permit = Permit::new(cost, now);
            if self.charge_all(probes, cost, now, &mut permit) {
                return Decision::Admit(permit);
            }
        }
        Decision::Refuse(self.refuse(probes, values, now))
    }

    /// Charges all probes and returns whether it did; otherwise takes back its charges, and the
    /// probes say which limit refused.
    #[inline]
    pub(super) fn charge_all(
        &self,
        probes: &mut Probes<'_>,
        cost: Cost,
        now: Timestamp,
        permit: &mut Permit,
    ) -> bool {
        for probe in probes.iter_mut() {
            // A shadow limit that would refuse takes no charge, as if it had refused.
            if probe.answer == Answer::Admit {
                // Decides again if the counter has changed since it was read.
                match self.table.charge_decided(probe, cost, now, permit) {
                    Ok(()) => continue,
                    Err(Answer::Full { .. }) if self.table.when_full() == WhenFull::Admit => {
                        self.table.count_full();
                        permit.push(Charge::none(probe, ChargeKind::Uncounted));
                        continue;
                    }
                    Err(answer) => probe.answer = answer,
                }
            }
            if self.limit_of(probe).limit.mode == Mode::Enforce {
                permit.take_back_from(&self.table, now);
                return false;
            }
            permit.push(Charge::none(probe, ChargeKind::ShadowRefused));
        }
        permit.hold_permits_of(&self.table);
        true
    }

    pub(super) fn limit_of(&self, probe: &Probe<'_>) -> &Compiled {
        &self.limits[usize::from(probe.limit)]
    }

    /// Reads the counter of a probe and decides, writing nothing.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn assess(&self, probe: &mut Probe<'_>, cost: Cost, now: Timestamp) {
        if matches!(probe.answer, Answer::Lacks { .. }) {
            return;
        }
        // Relaxed: the caller orders a block of this key before the request.
        if self.limit_of(probe).has_blocks.load(Ordering::Relaxed)
            && let Some(until) = self.blocked_until(probe.key, now)
        {
            self.table.read(probe, cost, now);
            probe.answer = Answer::Blocked { until };
            return;
        }
        self.table.read(probe, cost, now);
    }

    /// Refuses, with the consequences that the policy attaches to it.
    #[cold]
    pub(super) fn refuse<'a>(
        &'a self,
        probes: &mut Probes<'a>,
        values: &Values<'a>,
        now: Timestamp,
    ) -> Refusal {
        self.block_exceeded(probes, now);
        self.explain_refusal(probes, values, now)
    }

    /// Blocks the keys that exceeded a limit which blocks for that, and counts requests that met a
    /// full table.
    pub(super) fn block_exceeded(&self, probes: &mut Probes<'_>, now: Timestamp) {
        for probe in probes.iter_mut() {
            let limit = self.limit_of(probe);
            if let (Some(span), Answer::Wait { .. }) = (limit.limit.blocks_for(), probe.answer) {
                let until = now.saturating_add(span);
                // A table too full to remember the block leaves the refusal as it is.
                if self.block_key(limit, probe.key, until, now).is_ok() {
                    probe.answer = Answer::Blocked { until };
                }
            }
            if matches!(probe.answer, Answer::Full { .. }) {
                self.table.count_full();
            }
        }
    }

    /// The refusal by these probes, of which at least one refuses: the longest first.
    #[inline]
    pub(super) fn explain_refusal<'a>(
        &'a self,
        probes: &Probes<'a>,
        values: &Values<'a>,
        now: Timestamp,
    ) -> Refusal {
        let refuses = |probe: &&Probe<'a>| self.refuses(probe);
        let mut found = probes.iter().filter(refuses);
        // Usually one limit refuses; nothing is put in order then.
        if let (Some(probe), None) = (found.next(), found.next()) {
            let mut refusal = self.refusal_of(probe, self.table.retry_hint(probe, now), values);
            refusal.violated.push(self.violated(probe, retry_of(probe, now), now));
            return refusal;
        }
        let mut refusing: SmallVec<[(Retry, Option<Duration>, &Probe<'a>); 3]> = SmallVec::new();
        for probe in probes.iter().filter(refuses) {
            // A permit that is expected back soon binds for less long than a window that ends
            // later.
            let hint = self.table.retry_hint(probe, now);
            let binds = hint.map_or(retry_of(probe, now), |hint| Retry::At(now.saturating_add(hint)));
            refusing.push((binds, hint, probe));
        }
        // Stable: of two that bind equally long the first in the policy is named.
        refusing.sort_by(|(one, ..), (other, ..)| Retry::longest_first(*one, *other));
        let &(_, retry_hint, binding) = refusing.first().expect("only called when some limit refuses");
        let mut refusal = self.refusal_of(binding, retry_hint, values);
        for (.., probe) in &refusing {
            refusal.violated.push(self.violated(probe, retry_of(probe, now), now));
        }
        refusal
    }

    /// The refusal that this probe binds longest in, before the violated limits are listed. The
    /// lists are filled where they stay, since they are large to move.
    #[inline]
    fn refusal_of(&self, binding: &Probe<'_>, retry_hint: Option<Duration>, values: &Values<'_>) -> Refusal {
        let limit = self.limit_of(binding);
        let detail = match binding.answer {
            Answer::Lacks { attribute } => Some(Text::from(format!(
                "the request lacks the attribute \"{}\", which limit \"{}\" requires",
                self.names.get(attribute),
                limit.limit.name
            ))),
            _ => None,
        };
        let mut refusal = Refusal::from(RefusalFields {
            namespace: self.namespace_text.clone(),
            scope: ScopeValues::new(),
            violated: SmallVec::new(),
            detail,
            details: None,
            retry_hint,
            civil_zone: binding.algorithm.civil_zone().map(Text::from),
        });
        self.push_scope(&limit.scope.parts, values, &mut refusal.scope);
        refusal
    }

    #[inline]
    pub(super) fn violated<'a>(&'a self, probe: &Probe<'a>, retry: Retry, now: Timestamp) -> Violated {
        let limit = self.limit_of(probe);
        Violated {
            name: limit.name.clone(),
            reason: reason_for(probe),
            retry,
            limit: match probe.answer {
                Answer::Never { largest } => largest,
                _ => probe.algorithm.limit(),
            },
            remaining: self.table.remaining(probe, now),
            window: probe.algorithm.window(),
        }
    }

    pub(super) fn scope_values<'a>(&'a self, parts: &[Part], values: &Values<'a>) -> ScopeValues {
        let mut present = ScopeValues::new();
        self.push_scope(parts, values, &mut present);
        present
    }

    #[inline]
    fn push_scope(&self, parts: &[Part], values: &Values<'_>, scope: &mut ScopeValues) {
        for part in parts {
            if let Some(value) = values[usize::from(part.attribute)] {
                scope.push((self.names.text(part.attribute), part.shown(value)));
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
                    return Ok(());
                }
                Err(Unwritten::Moved) => {}
                Err(Unwritten::Full { until }) => return Err(until),
            }
        }
    }
}

/// The retry after this answer. The release of a permit cannot be foreseen, so a caller without a
/// permit backs off.
pub(super) fn retry_of(probe: &Probe<'_>, now: Timestamp) -> Retry {
    match probe.answer {
        Answer::Lacks { .. } | Answer::Never { .. } => Retry::Never,
        Answer::Admit => Retry::At(now),
        Answer::Wait { .. } if matches!(probe.algorithm, Algorithm::Concurrency(_)) => Retry::Backoff,
        Answer::Blocked { until } | Answer::Full { until } | Answer::Wait { until } => Retry::At(until),
    }
}

/// The reason for this answer.
pub(super) fn reason_for(probe: &Probe<'_>) -> Reason {
    match probe.answer {
        Answer::Blocked { .. } => Reason::Blocked,
        Answer::Lacks { .. } => Reason::AttributeMissing,
        Answer::Full { .. } => Reason::TableFull,
        Answer::Never { .. } => Reason::CostExceedsLimit,
        Answer::Admit | Answer::Wait { .. } => reason_of(probe.algorithm),
    }
}

/// The reason for which a limit with this algorithm denies.
pub(super) fn reason_of(algorithm: &Algorithm) -> Reason {
    match algorithm {
        Algorithm::Concurrency(_) => Reason::ConcurrencyExceeded,
        algorithm if algorithm.is_quota() => Reason::QuotaExceeded,
        _ => Reason::RateExceeded,
    }
}
