//! Charging one limit, and taking the charge back.

use core::time::Duration;

use super::Gate;
use super::build::Compiled;
use super::lateness::{LATE_MAX, is_ahead};
use super::permit::Permit;
use super::probe::{Answer, Probe};
use crate::algorithm::{Algorithm, Charged, Concurrency, Counter, Rolling, Room, State, Verdict};
use crate::cost::Cost;
use crate::permits::{PermitSlot, PermitsHandle, PermitsRefusal, retry_hint};
use crate::ring::{RingCharge, RingHandle, RingRefusal};
use crate::shares::Owner;
use crate::table::{Entry, KeyHash, KeyTable, RefundSet, Spec, SpecId, SpecNumber, SpecPin, Unwritten};
use crate::time::Timestamp;

/// The charge of one request to one limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) key: KeyHash,
    /// The word of the key before the charge, where the word is the state.
    pub(super) before: State,
    /// The word after the charge; for a ring or permits, their handle.
    pub(super) after: State,
    pub(crate) spec: SpecId,
    pub(crate) limit: u16,
    pub(crate) kind: ChargeKind,
    /// The endings on which it is given back.
    pub(super) refund_on: RefundSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChargeKind {
    /// A state that is one word went from `before` to `after`.
    Word,
    /// Instants in a ring, or a permit: the rest is in the [`SlotCharge`] of this charge.
    SlotCharge,
    /// Nothing: the table is full, and the policy admits.
    Uncounted,
    /// Nothing: a shadow limit would have refused.
    ShadowRefused,
}

/// The data that is needed to take back a charge to a ring or to permits. It is kept apart from
/// [`Charge`], which is enough for most limits, so that a permit stays small.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SlotCharge {
    Ring { ring: RingHandle, charge: RingCharge, is_new: bool },
    Permit { permits: PermitsHandle, slot: PermitSlot, is_new: bool },
}

/// The ring or permits behind a key, and whether this charge created them.
#[derive(Clone, Copy)]
pub(super) struct Backing<H> {
    pub(super) handle: H,
    pub(super) is_new: bool,
}

impl Charge {
    #[inline]
    pub(super) fn new(probe: &Probe<'_>, before: State, after: State, kind: ChargeKind) -> Self {
        let Probe { key, spec, limit, refund_on, .. } = *probe;
        Self { key, before, after, spec, limit, kind, refund_on }
    }

    /// The charge of a word under a limit at this position, by its own numbers.
    #[inline]
    pub(super) fn of_word(
        (position, limit): (u16, &Compiled),
        key: KeyHash,
        before: State,
        after: State,
    ) -> Self {
        let (spec, refund_on, kind) = (limit.spec, limit.refund_on, ChargeKind::Word);
        Self { key, before, after, spec, limit: position, kind, refund_on }
    }

    fn for_slot(probe: &Probe<'_>, handle: u64) -> Self {
        Self::new(probe, State::EMPTY, State::from_bits(handle), ChargeKind::SlotCharge)
    }

    pub(super) fn none(probe: &Probe<'_>, kind: ChargeKind) -> Self {
        Self::new(probe, State::EMPTY, State::EMPTY, kind)
    }
}

/// Calls `$body` with `$counter` bound to the word algorithm in `$algorithm`, or evaluates
/// `$otherwise`.
macro_rules! with_counter {
    ($algorithm:expr, $counter:ident => $body:expr, $otherwise:expr) => {
        match $algorithm {
            Algorithm::Bucket($counter) => $body,
            Algorithm::Fixed($counter) => $body,
            #[cfg(feature = "calendar")]
            Algorithm::Calendar($counter) => $body,
            Algorithm::SlidingCounter($counter) => $body,
            Algorithm::Rolling(_) | Algorithm::Concurrency(_) => $otherwise,
        }
    };
}
pub(super) use with_counter;

impl Gate {
    /// Takes back every charge of a permit, last one first, as if the request had never come. The
    /// permit may be of another gate over the same table.
    pub fn take_back(&self, permit: Permit, now: Timestamp) {
        permit.take_back(&self.table, now);
    }
}

/// The operations that need no gate: a charge can be settled or taken back after its limit is gone.
impl KeyTable {
    /// Reads the counter of a probe and decides by it.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn read(&self, probe: &mut Probe<'_>, cost: Cost, now: Timestamp) {
        probe.entry = self.look_from(probe.line, probe.key);
        self.answer(probe, cost, now);
        // No limit asks for less, and the length of a full drain is a division.
        if let Answer::Wait { until } = probe.answer
            && until > now.saturating_add(LATE_MAX)
        {
            *probe = self.bring_back_if_longer(*probe, until, cost, now);
        }
    }

    /// Decides a probe by what was last read of its counter.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn answer(&self, probe: &mut Probe<'_>, cost: Cost, now: Timestamp) {
        let is_own = probe.entry.spec_bits() == probe.spec.bits();
        let state = if is_own { probe.entry.state() } else { self.state(probe, now) };
        let (verdict, next) = self.verdict(probe.algorithm, state, cost, now);
        probe.is_exchange = is_own && verdict == Verdict::Admit && probe.algorithm.is_counter();
        probe.next = next;
        probe.answer = verdict.into();
    }

    /// The verdict of an algorithm in this state, and the state after the charge where one word is
    /// the whole state.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn verdict(
        &self,
        algorithm: &Algorithm,
        state: State,
        cost: Cost,
        now: Timestamp,
    ) -> (Verdict, State) {
        match algorithm {
            Algorithm::Bucket(bucket) => bucket.decide(state, cost, now),
            other => self.decide_by(other, state, cost, now),
        }
    }

    /// Whether an algorithm whose whole state is one word has room in this state.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn room(&self, algorithm: &Algorithm, state: State, cost: Cost, now: Timestamp) -> Room {
        match algorithm {
            Algorithm::Bucket(bucket) => bucket.room(state, cost, now),
            other => self.room_by(other, state, cost, now),
        }
    }

    #[inline(never)]
    fn room_by(&self, algorithm: &Algorithm, state: State, cost: Cost, now: Timestamp) -> Room {
        if !algorithm.is_counter() {
            return Room::Unclear;
        }
        let (verdict, next) = self.decide_by(algorithm, state, cost, now);
        match verdict {
            Verdict::Admit => Room::Enough(next),
            Verdict::Wait { until } if until > now.saturating_add(LATE_MAX) => {
                if is_ahead(algorithm, verdict.into(), now) { Room::Unclear } else { Room::Lacking }
            }
            Verdict::Wait { .. } | Verdict::Never { .. } => Room::Lacking,
        }
    }

    /// The verdict of an algorithm that is no bucket. Apart, so that the usual limit is decided in
    /// registers.
    #[inline(never)]
    fn decide_by(&self, algorithm: &Algorithm, state: State, cost: Cost, now: Timestamp) -> (Verdict, State) {
        with_counter!(
            algorithm,
            counter => counter.decide(state, cost, now),
            (self.verdict_beside(algorithm, state, cost, now), state)
        )
    }

    /// The verdict of an algorithm whose state is a ring or permits.
    fn verdict_beside(&self, algorithm: &Algorithm, state: State, cost: Cost, now: Timestamp) -> Verdict {
        match algorithm {
            Algorithm::Rolling(rolling) => RingHandle::from_bits(state.to_bits())
                .and_then(|ring| self.rings.decide(ring, rolling, cost, now))
                .unwrap_or(if cost.units() <= rolling.limit() {
                    Verdict::Admit
                } else {
                    Verdict::Never { largest: rolling.limit() }
                }),
            Algorithm::Concurrency(concurrency) => PermitsHandle::from_bits(state.to_bits())
                .and_then(|permits| self.permits.decide(permits, concurrency, now))
                .unwrap_or(if concurrency.limit() > 0 {
                    Verdict::Admit
                } else {
                    Verdict::Never { largest: 0 }
                }),
            _ => Verdict::Admit,
        }
    }

    /// Units left at `now` of the counter of a probe that was read; 0 while its key is blocked.
    pub(super) fn remaining(&self, probe: &Probe<'_>, now: Timestamp) -> u64 {
        match probe.answer {
            Answer::Blocked { .. } | Answer::Lacks { .. } => 0,
            _ => self.state_remaining(probe.algorithm, self.state(probe, now), now),
        }
    }

    /// When the usage of a probe that was read is zero and no block of its key lasts.
    pub(super) fn reset_at(&self, probe: &Probe<'_>, now: Timestamp) -> Timestamp {
        let reset_at = self.state_resets_at(probe.algorithm, self.state(probe, now), now);
        match probe.answer {
            Answer::Blocked { until } => until.max(reset_at),
            _ => reset_at,
        }
    }

    /// The delay before the first retry of a request that found no free permit.
    pub(super) fn retry_hint(&self, concurrency: &Concurrency, state: State, now: Timestamp) -> Duration {
        let permits = PermitsHandle::from_bits(state.to_bits());
        let interval = permits.and_then(|permits| self.permits.release_interval(permits, concurrency, now));
        retry_hint(interval.unwrap_or_default())
    }

    /// Charges a probe whose answer was to admit; decides anew whenever the counter has changed.
    #[inline]
    pub(super) fn charge_decided(
        &self,
        probe: &mut Probe<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<(Charge, Option<SlotCharge>), Answer> {
        match probe.algorithm {
            Algorithm::Rolling(rolling) => {
                let (backing, charge) = self.charge_ring(probe, rolling, cost, now, Firmness::Check)?;
                let Backing { handle: ring, is_new } = backing;
                let slot_charge = SlotCharge::Ring { ring, charge, is_new };
                Ok((Charge::for_slot(probe, ring.to_bits().get()), Some(slot_charge)))
            }
            Algorithm::Concurrency(concurrency) => {
                let (backing, slot) = self.acquire(probe, concurrency, now)?;
                let Backing { handle: permits, is_new } = backing;
                let slot_charge = SlotCharge::Permit { permits, slot, is_new };
                Ok((Charge::for_slot(probe, permits.to_bits().get()), Some(slot_charge)))
            }
            _ => Ok((self.charge_word(probe, cost, now)?, None)),
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "a charge that is returned through memory waits for its own stores"
    )]
    #[inline(always)]
    pub(super) fn charge_word(
        &self,
        probe: &mut Probe<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Charge, Answer> {
        loop {
            let before = self.state(probe, now);
            match self.write(probe.key, probe.entry, probe.spec.number(), probe.next, now) {
                Ok(_) => return Ok(Charge::new(probe, before, probe.next, ChargeKind::Word)),
                Err(Unwritten::Full { until }) => return Err(Answer::Full { until }),
                Err(Unwritten::Moved) => {
                    *probe = self.answered_again(*probe, cost, now);
                    if probe.answer != Answer::Admit {
                        return Err(probe.answer);
                    }
                }
            }
        }
    }

    /// A probe whose counter has changed, decided by what it is now.
    #[cold]
    fn answered_again<'g>(&self, mut probe: Probe<'g>, cost: Cost, now: Timestamp) -> Probe<'g> {
        probe.entry = self.look(probe.key);
        self.answer(&mut probe, cost, now);
        probe
    }

    /// The state of a probe's key under the probe's own numbers.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(super) fn state(&self, probe: &Probe<'_>, now: Timestamp) -> State {
        if probe.entry.spec_bits() == probe.spec.bits() {
            return probe.entry.state();
        }
        match probe.entry.spec() {
            Some(number) => self.state_under(probe.entry, number, probe.algorithm, now),
            None => State::EMPTY,
        }
    }

    /// The state of an entry that was written under other numbers than those of this algorithm.
    #[cold]
    fn state_under(&self, entry: Entry, number: SpecNumber, algorithm: &Algorithm, now: Timestamp) -> State {
        // The numbers have changed since the state was written: what is used stays used. A number
        // that was freed since the word was read is in no word any more, so whatever is decided
        // here fails when it is written, and is decided anew.
        let found = self.specs.get(number);
        let from = found.as_ref().and_then(|found| found.spec());
        from.map_or(State::EMPTY, |from| from.carry_over(entry.state(), algorithm, now))
    }

    /// Charges the ring of a probe's key, and creates the ring if the key has no ring yet.
    pub(super) fn charge_ring(
        &self,
        probe: &mut Probe<'_>,
        rolling: &Rolling,
        cost: Cost,
        now: Timestamp,
        firmness: Firmness,
    ) -> Result<(Backing<RingHandle>, RingCharge), Answer> {
        loop {
            let backing = self.backing(
                probe,
                now,
                RingHandle::from_bits,
                |owner| self.rings.create_for(owner).map(|ring| (ring, ring.to_bits().get())),
                |ring| self.rings.reclaim(ring),
            )?;
            let charge = || match firmness {
                Firmness::Check => self.rings.admit(backing.handle, rolling, cost, now),
                Firmness::Report => self.rings.charge(backing.handle, rolling, cost, now),
            };
            match self.with_room(now, charge, |error| *error == RingRefusal::Full) {
                Ok(charge) => return Ok((backing, charge)),
                Err(RingRefusal::Verdict(verdict)) => return Err(verdict.into()),
                Err(RingRefusal::Full) => {
                    return Err(Answer::Full { until: Self::room_again(probe.key, now) });
                }
                Err(RingRefusal::Stale) => self.look_past(probe),
            }
        }
    }

    fn acquire(
        &self,
        probe: &mut Probe<'_>,
        concurrency: &Concurrency,
        now: Timestamp,
    ) -> Result<(Backing<PermitsHandle>, PermitSlot), Answer> {
        loop {
            let backing = self.backing(
                probe,
                now,
                PermitsHandle::from_bits,
                |owner| self.permits.create_for(owner).map(|permits| (permits, permits.to_bits().get())),
                |permits| self.permits.reclaim(permits),
            )?;
            let acquire = || self.permits.acquire(backing.handle, concurrency, now);
            match self.with_room(now, acquire, |error| *error == PermitsRefusal::Full) {
                Ok(slot) => return Ok((backing, slot)),
                Err(PermitsRefusal::Verdict(verdict)) => return Err(verdict.into()),
                Err(PermitsRefusal::Full) => {
                    return Err(Answer::Full { until: Self::room_again(probe.key, now) });
                }
                Err(PermitsRefusal::Stale) => self.look_past(probe),
            }
        }
    }

    /// Charges a ring or permits; if there is no room, sweeps drained words and retries.
    fn with_room<T, E>(
        &self,
        now: Timestamp,
        charge: impl Fn() -> Result<T, E>,
        is_full: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        match charge() {
            Err(error) if is_full(&error) => {
                let again = || Some(charge()).filter(|charged| !charged.as_ref().is_err_and(&is_full));
                self.sweep_until(now, again).unwrap_or(Err(error))
            }
            charged => charged,
        }
    }

    /// Looks again after a handle turned out stale. A word that still holds it counts as empty, to
    /// be overwritten.
    fn look_past(&self, probe: &mut Probe<'_>) {
        let seen = probe.entry;
        probe.entry = self.look(probe.key);
        if probe.entry == seen {
            let _ = self.clear(seen);
            probe.entry = self.look(probe.key);
        }
    }

    /// The handle of the ring or permits behind a probe's key, created and entered into the table
    /// if the key has no handle yet.
    fn backing<H: Copy>(
        &self,
        probe: &mut Probe<'_>,
        now: Timestamp,
        from_bits: impl Fn(u64) -> Option<H>,
        create: impl Fn(Owner) -> Option<(H, u64)>,
        reclaim: impl Fn(H),
    ) -> Result<Backing<H>, Answer> {
        loop {
            let handle = from_bits(self.state(probe, now).to_bits());
            if let Some(handle) = handle {
                if probe.entry.spec() == Some(probe.spec.number()) {
                    return Ok(Backing { handle, is_new: false });
                }
                // The numbers have changed: say so in the word, so that it drains by the new ones.
                let state = probe.entry.state();
                if let Ok(entry) = self.write(probe.key, probe.entry, probe.spec.number(), state, now) {
                    probe.entry = entry;
                    return Ok(Backing { handle, is_new: false });
                }
                probe.entry = self.look(probe.key);
                continue;
            }
            let owner = self.specs.namespace(probe.spec.number());
            let created = create(owner).or_else(|| self.sweep_until(now, || create(owner)));
            let (handle, bits) = created.ok_or(Answer::Full { until: Self::room_again(probe.key, now) })?;
            match self.write(probe.key, probe.entry, probe.spec.number(), State::from_bits(bits), now) {
                Ok(entry) => {
                    probe.entry = entry;
                    return Ok(Backing { handle, is_new: true });
                }
                Err(Unwritten::Full { until }) => {
                    reclaim(handle);
                    return Err(Answer::Full { until });
                }
                Err(Unwritten::Moved) => {
                    reclaim(handle);
                    probe.entry = self.look(probe.key);
                }
            }
        }
    }

    /// The retry time of a key that found no free ring or permit set; which one is freed first is
    /// unknown.
    fn room_again(key: KeyHash, now: Timestamp) -> Timestamp {
        Self::retry_when_full(key, now.saturating_add(Duration::from_secs(1)), now)
    }

    /// Charges a probe whether or not there is room, and returns the new state. Work that is
    /// already done holds no permit.
    pub(super) fn charge_firmly(
        &self,
        probe: &mut Probe<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<State, Answer> {
        if let Algorithm::Rolling(rolling) = probe.algorithm {
            probe.entry = self.look(probe.key);
            let (backing, _) = self.charge_ring(probe, rolling, cost, now, Firmness::Report)?;
            return Ok(State::from_bits(backing.handle.to_bits().get()));
        }
        loop {
            probe.entry = self.look(probe.key);
            let state = self.state(probe, now);
            let next =
                with_counter!(probe.algorithm, counter => counter.charge(state, cost, now), return Ok(state));
            match self.write(probe.key, probe.entry, probe.spec.number(), next, now) {
                Ok(_) => return Ok(next),
                Err(Unwritten::Full { until }) => return Err(Answer::Full { until }),
                Err(Unwritten::Moved) => {}
            }
        }
    }

    /// Replaces the state of a key by the result of `earlier`; `None` leaves it. An absent key has
    /// drained, so there is nothing to give back.
    fn restore(
        &self,
        key: KeyHash,
        now: Timestamp,
        mut earlier: impl FnMut(SpecNumber, State) -> Option<State>,
    ) {
        loop {
            let entry = self.look(key);
            let Some(spec) = entry.spec() else { return };
            let Some(restored) = earlier(spec, entry.state()) else { return };
            let done = if restored == State::EMPTY {
                self.clear(entry).is_ok()
            } else {
                self.write(key, entry, spec, restored, now).is_ok()
            };
            if done {
                return;
            }
        }
    }

    /// Takes back what was charged to a probe's word, by the numbers the probe brought.
    pub(super) fn undo_word(&self, probe: &mut Probe<'_>, charged: &Charged, now: Timestamp) {
        let (own, algorithm) = (probe.spec.number(), probe.algorithm);
        let mut is_foreign = false;
        self.restore(probe.key, now, |spec, state| {
            if spec != own {
                is_foreign = true;
                return None;
            }
            with_counter!(algorithm, counter => Some(counter.undo(state, charged, now)), None)
        });
        if is_foreign {
            // Another request brought other numbers meanwhile.
            self.refund_units(probe, charged.cost, now);
        }
    }

    /// Forgets what is used of a key; whether anything was.
    pub(super) fn forget(&self, key: KeyHash, now: Timestamp) -> bool {
        loop {
            let entry = self.look(key);
            if entry.is_absent() {
                return false;
            }
            let used = !self.is_drained_entry(entry, now);
            if self.clear(entry).is_ok() {
                self.reclaim_backing(entry);
                return used;
            }
        }
    }

    /// Units used of the bucket of an entry, rounded up; 0 where it has none.
    pub(super) fn used_in_bucket(&self, entry: Entry, now: Timestamp) -> u64 {
        let found = entry.spec().and_then(|number| self.specs.get(number));
        match found.as_ref().and_then(|found| found.spec()) {
            Some(Spec::Algorithm(Algorithm::Bucket(bucket))) => bucket.used(entry.state(), now),
            _ => 0,
        }
    }

    /// Gives `cost` units back to a probe's counter; never more than are used.
    pub(super) fn refund_units(&self, probe: &mut Probe<'_>, cost: Cost, now: Timestamp) {
        loop {
            probe.entry = self.look(probe.key);
            if probe.entry.is_absent() {
                return;
            }
            let state = self.state(probe, now);
            if let Algorithm::Rolling(rolling) = probe.algorithm {
                if let Some(ring) = RingHandle::from_bits(state.to_bits()) {
                    self.rings.refund(ring, rolling, cost, now);
                }
                return;
            }
            let next = with_counter!(probe.algorithm, counter => counter.refund(state, cost, now), return);
            if self.write(probe.key, probe.entry, probe.spec.number(), next, now).is_ok() {
                return;
            }
        }
    }
}

/// Whether a charge is refused where there is no room.
#[derive(Clone, Copy)]
pub(super) enum Firmness {
    Check,
    Report,
}

impl SlotCharge {
    /// Takes this charge back, and frees a ring or permits that were created for it alone.
    pub(super) fn take_back(&self, table: &KeyTable, key: KeyHash, now: Timestamp) -> bool {
        let (taken, is_empty_again) = match *self {
            Self::Ring { ring, charge, is_new } => {
                let taken = table.rings.undo(ring, &charge, now);
                (taken, is_new && table.rings.reclaim_if_drained(ring, now))
            }
            Self::Permit { permits, slot, is_new } => {
                let taken = table.permits.release(permits, slot, now);
                (taken, is_new && table.permits.reclaim_if_drained(permits, now))
            }
        };
        if is_empty_again {
            let entry = table.look(key);
            if entry.state() == self.handle() {
                // The handle is replaced by this call or by the next charge to the key, whichever
                // comes first.
                let _ = table.clear(entry);
            }
        }
        taken
    }

    /// Releases a permit; a charge to a ring stays.
    pub(super) fn give_back(&self, table: &KeyTable, now: Timestamp) -> bool {
        match *self {
            Self::Ring { .. } => false,
            Self::Permit { permits, slot, .. } => table.permits.release(permits, slot, now),
        }
    }

    fn handle(&self) -> State {
        State::from_bits(match *self {
            Self::Ring { ring, .. } => ring.to_bits().get(),
            Self::Permit { permits, .. } => permits.to_bits().get(),
        })
    }
}

impl Charge {
    /// Takes this charge of `cost` back, unless it is in a ring or permits. A charge whose spec was
    /// freed since is left to drain: the rest of it can no longer be computed.
    pub(super) fn take_back(&self, table: &KeyTable, cost: Cost, now: Timestamp) {
        if self.kind != ChargeKind::Word {
            return;
        }
        let charged = Charged { before: self.before, after: self.after, cost };
        let pin = table.specs.pin(self.spec);
        let Some(algorithm) = pin.as_ref().and_then(SpecPin::algorithm) else { return };
        table.restore(self.key, now, |number, state| {
            if number == self.spec.number() {
                return with_counter!(algorithm, counter => Some(counter.undo(state, &charged, now)), None);
            }
            // Under new numbers the states mean something else: what has not yet drained of the
            // charge under its own is given back in units.
            let found = table.specs.get(number)?;
            let Some(Spec::Algorithm(newer)) = found.spec() else { return None };
            let left = self.left_under(algorithm, newer, cost, now)?;
            with_counter!(newer, counter => Some(counter.refund(state, left, now)), None)
        });
    }

    /// The part of this charge of `cost`, made under `algorithm`, that has not drained at `now`
    /// after the numbers have changed to those of `newer`.
    fn left_under(
        &self,
        algorithm: &Algorithm,
        newer: &Algorithm,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Cost> {
        let used = |state| with_counter!(algorithm, counter => counter.used(state, now), 0);
        let left = used(self.after).saturating_sub(used(self.before));
        // A change that starts fresh, as one of the window does, has left nothing of it.
        let carried = Spec::Algorithm(algorithm.clone()).carry_over(self.after, newer, now);
        let carried = with_counter!(newer, counter => counter.used(carried, now), 0);
        Cost::new(left.min(cost.units()).min(carried))
    }

    /// Brings this charge of `charged` units to what the request truly cost, by the numbers its key
    /// has now.
    pub(super) fn settle(&self, table: &KeyTable, charged: Cost, true_units: u64, now: Timestamp) {
        if matches!(self.kind, ChargeKind::ShadowRefused | ChargeKind::Uncounted) {
            return;
        }
        let pin = self.pin_now(table);
        let Some(pin) = pin.as_ref() else { return };
        let Some(algorithm) = pin.algorithm() else { return };
        if matches!(algorithm, Algorithm::Concurrency(_)) {
            return;
        }
        let mut probe = Probe::new((self.limit, self.key), algorithm, pin.id(), table);
        if let Some(surplus) = Cost::new(charged.units().saturating_sub(true_units)) {
            table.refund_units(&mut probe, surplus, now);
        } else if let Some(rest) = Cost::new(true_units.saturating_sub(charged.units())) {
            // A table too full to book the rest loses it; that is counted.
            if table.charge_firmly(&mut probe, rest, now).is_err() {
                table.count_full();
            }
        }
    }

    /// The spec by which the key counts now: the numbers may have changed since the charge, and
    /// booking under the old ones would bring those back. `None` if the key has drained and the
    /// spec of the charge was freed.
    fn pin_now(&self, table: &KeyTable) -> Option<SpecPin> {
        loop {
            match table.look(self.key).spec() {
                None => return table.specs.pin(self.spec),
                Some(number) if number == self.spec.number() => {
                    if let Some(own) = table.specs.pin_number(number) {
                        return Some(own);
                    }
                }
                Some(number) => {
                    if let Some(newer) = table.specs.pin_number(number) {
                        // A spec at rest only keeps states; it does not have the numbers that the
                        // key counts by.
                        let is_at_rest = newer.spec().at_rest().is_none();
                        let own = if is_at_rest { table.specs.pin(self.spec) } else { None };
                        return own.or(Some(newer));
                    }
                }
            }
            // The number was freed, so the word was rewritten since it was read.
        }
    }

    /// The state this charge left, as far as one word says it.
    pub(super) fn state_after(&self, table: &KeyTable) -> State {
        match self.kind {
            ChargeKind::Word | ChargeKind::SlotCharge => self.after,
            ChargeKind::Uncounted => State::EMPTY,
            ChargeKind::ShadowRefused => {
                let entry: Entry = table.look(self.key);
                if entry.spec() == Some(self.spec.number()) { entry.state() } else { State::EMPTY }
            }
        }
    }
}
