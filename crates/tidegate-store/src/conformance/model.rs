//! The expected answers of a store, computed in the plainest way.
//!
//! Words are decided by [`Counter`]. A rolling limit keeps one instant for each unit in a list, a
//! concurrency limit a list of permits; both answer by looking at every entry. A batch works on a
//! copy of everything, which replaces the original if nothing refuses.

use std::collections::BTreeMap;

use tidegate_core::algorithm::{Charged, Concurrency, Counter, Rolling, State, Verdict};
use tidegate_core::limit::Mode;
use tidegate_core::ring::RING_DEBT_LIMITS;
use tidegate_core::{Algorithm, Cost, Timestamp};

use crate::{Answer, Batch, BatchMode, CarryOver, HolderId, Key, Kind, Operation, Outcome, RequestId};

/// Every counter of a store, and what each batch charged.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    counters: BTreeMap<Key, Modelled>,
    charges: BTreeMap<RequestId, Vec<(Key, Charge)>>,
}

#[derive(Clone, Debug)]
struct Modelled {
    algorithm: Algorithm,
    usage: ModelUsage,
    blocked_until: Option<Timestamp>,
}

#[derive(Clone, Debug)]
enum ModelUsage {
    Word(State),
    /// The instant of each unit, the oldest first.
    Units(Vec<Timestamp>),
    Permits(Vec<Permit>),
}

#[derive(Clone, Copy, Debug)]
struct Permit {
    holder: HolderId,
    expires: Timestamp,
    by: RequestId,
}

#[derive(Clone, Debug)]
enum Charge {
    Word { algorithm: Algorithm, charged: Charged },
    Units { at: Timestamp, units: u64 },
    Permit(HolderId),
}

/// Evaluates `$body` with `$counter` bound to the word algorithm in `$algorithm`.
macro_rules! counter {
    ($algorithm:expr, $counter:ident => $body:expr) => {
        match $algorithm {
            Algorithm::Bucket($counter) => $body,
            Algorithm::Fixed($counter) => $body,
            Algorithm::Calendar($counter) => $body,
            Algorithm::SlidingCounter($counter) => $body,
            other => unreachable!("{} is no word", other.name()),
        }
    };
}

impl Model {
    /// How many batches can be undone; more than a list ever goes back.
    pub(super) const CHARGES_MAX: usize = 256;

    /// The expected answer to a batch under a new id.
    pub(super) fn run(&mut self, batch: &Batch, now: Timestamp) -> Answer {
        let mut tried = self.clone();
        let mut outcomes: Vec<_> =
            batch.operations.iter().map(|operation| tried.apply(operation, batch.id, now)).collect();
        let refused = batch.mode == BatchMode::AllOrNothing
            && batch.operations.iter().zip(&outcomes).any(|(operation, outcome)| {
                let peeks = matches!(operation.kind, Kind::Peek { .. });
                outcome.verdict != Verdict::Admit && operation.mode == Mode::Enforce && !peeks
            });
        if refused {
            for (operation, outcome) in batch.operations.iter().zip(&mut outcomes) {
                *outcome = Outcome { verdict: outcome.verdict, ..self.status(operation, now) };
            }
        } else {
            *self = tried;
        }
        // Ids increase, so the first is the oldest. Keeping all would make each copy dearer than
        // the last.
        while self.charges.len() > Self::CHARGES_MAX {
            self.charges.pop_first();
        }
        Answer::new(outcomes.into(), refused, now)
    }

    fn status(&self, operation: &Operation, now: Timestamp) -> Outcome {
        let unused = Outcome::unused(operation.algorithm.limit(), now);
        self.counters.get(&operation.key).map_or(unused, |counter| counter.status_for(operation, now))
    }

    fn apply(&mut self, operation: &Operation, by: RequestId, now: Timestamp) -> Outcome {
        let mut counter =
            self.counters.remove(&operation.key).unwrap_or_else(|| Modelled::new(&operation.algorithm));
        let verdict = counter.verdict(operation, now);
        let mut units = 0;
        if verdict == Verdict::Admit && !matches!(operation.kind, Kind::Peek { .. }) {
            if !matches!(operation.kind, Kind::Reset | Kind::Block { .. } | Kind::Undo { .. }) {
                counter.take_numbers(operation, now);
            }
            units = match operation.kind {
                Kind::Undo { batch } => self.undo(&mut counter, operation, batch, now),
                kind => {
                    let (units, charge) = counter.apply(kind, by, now);
                    let charge = charge.map(|charge| (operation.key.clone(), charge));
                    self.charges.entry(by).or_default().extend(charge);
                    units
                }
            };
            if operation.kind == Kind::Reset {
                self.charges
                    .values_mut()
                    .for_each(|charges| charges.retain(|(key, _)| *key != operation.key));
            }
        }
        let outcome = Outcome { verdict, units, ..counter.status_for(operation, now) };
        // A counter begun anew does not know the charges of the one before it.
        if counter.is_empty() {
            self.charges.values_mut().for_each(|charges| charges.retain(|(key, _)| *key != operation.key));
        } else {
            self.counters.insert(operation.key.clone(), counter);
        }
        outcome
    }

    fn undo(
        &mut self,
        counter: &mut Modelled,
        operation: &Operation,
        batch: RequestId,
        now: Timestamp,
    ) -> u64 {
        let Some(charges) = self.charges.get_mut(&batch) else { return 0 };
        let (undone, kept) = charges.drain(..).partition(|(of, _)| *of == operation.key);
        *charges = kept;
        let undone: Vec<_> = undone;
        let undone = undone.into_iter().rev();
        undone.map(|(_, charge)| counter.undo(&charge, operation.carry_over, batch, now)).sum()
    }
}

impl Modelled {
    fn new(algorithm: &Algorithm) -> Self {
        let usage = match algorithm {
            Algorithm::Rolling(_) => ModelUsage::Units(Vec::new()),
            Algorithm::Concurrency(_) => ModelUsage::Permits(Vec::new()),
            _ => ModelUsage::Word(State::EMPTY),
        };
        Self { algorithm: algorithm.clone(), usage, blocked_until: None }
    }

    fn is_empty(&self) -> bool {
        self.blocked_until.is_none()
            && match &self.usage {
                ModelUsage::Word(state) => *state == State::EMPTY,
                ModelUsage::Units(units) => units.is_empty(),
                ModelUsage::Permits(permits) => permits.is_empty(),
            }
    }

    fn state(&self, algorithm: &Algorithm, kept: CarryOver, now: Timestamp) -> State {
        let ModelUsage::Word(state) = self.usage else { unreachable!("asked for a word") };
        match (algorithm, &self.algorithm) {
            (to, from) if to == from => state,
            (Algorithm::Bucket(to), Algorithm::Bucket(from)) => match kept {
                CarryOver::Units => to.carry_over(state, from, now),
                CarryOver::Instant => to.carry_instant(state, from, now),
            },
            (Algorithm::Fixed(to), Algorithm::Fixed(from)) => to.carry_over(state, from, now),
            (Algorithm::Calendar(to), Algorithm::Calendar(from)) => to.carry_over(state, from, now),
            (Algorithm::SlidingCounter(to), Algorithm::SlidingCounter(from)) => {
                to.carry_over(state, from, now)
            }
            _ => unreachable!("a key keeps its algorithm in these tests"),
        }
    }

    fn take_numbers(&mut self, operation: &Operation, now: Timestamp) {
        if let ModelUsage::Word(_) = self.usage {
            self.usage = ModelUsage::Word(self.state(&operation.algorithm, operation.carry_over, now));
        }
        self.algorithm = operation.algorithm.clone();
    }

    fn verdict(&self, operation: &Operation, now: Timestamp) -> Verdict {
        let blocked = self.blocked_until.filter(|until| *until > now);
        let room = match operation.kind {
            Kind::Acquire { holder } => {
                let held = live(self.permits(), now).any(|permit| permit.holder == holder);
                if held {
                    return Verdict::Admit;
                }
                self.room(operation, Cost::ONE, now)
            }
            Kind::Check { cost } | Kind::Peek { cost } => self.room(operation, cost, now),
            _ => return Verdict::Admit,
        };
        match (room, blocked) {
            (Verdict::Admit, Some(until)) => Verdict::Wait { until },
            (Verdict::Wait { until }, Some(blocked)) => Verdict::Wait { until: until.max(blocked) },
            _ => room,
        }
    }

    fn room(&self, operation: &Operation, cost: Cost, now: Timestamp) -> Verdict {
        match &operation.algorithm {
            Algorithm::Rolling(rolling) => room_in_window(rolling, self.units(), cost.units(), now),
            Algorithm::Concurrency(concurrency) => room_for_permit(concurrency, self.permits(), now),
            algorithm => {
                let state = self.state(algorithm, operation.carry_over, now);
                counter!(algorithm, counter => counter.decide(state, cost, now).0)
            }
        }
    }

    fn units(&self) -> &[Timestamp] {
        if let ModelUsage::Units(units) = &self.usage { units } else { &[] }
    }

    fn permits(&self) -> &[Permit] {
        if let ModelUsage::Permits(permits) = &self.usage { permits } else { &[] }
    }

    fn status(&self, algorithm: &Algorithm, now: Timestamp) -> Outcome {
        self.status_under(algorithm, CarryOver::Units, now)
    }

    fn status_for(&self, operation: &Operation, now: Timestamp) -> Outcome {
        self.status_under(&operation.algorithm, operation.carry_over, now)
    }

    fn status_under(&self, algorithm: &Algorithm, kept: CarryOver, now: Timestamp) -> Outcome {
        let (used, reset_at, remaining) = match algorithm {
            Algorithm::Rolling(rolling) => {
                let used = in_window(rolling, self.units(), now).count() as u64;
                let newest = in_window(rolling, self.units(), now).max();
                let reset_at = newest.map_or(now, |newest| newest.saturating_add(rolling.window()));
                (used, reset_at, rolling.limit().saturating_sub(used))
            }
            Algorithm::Concurrency(concurrency) => {
                let used = live(self.permits(), now).count() as u64;
                let reset_at = live(self.permits(), now).map(|permit| permit.expires).max().unwrap_or(now);
                (used, reset_at, concurrency.limit().saturating_sub(used))
            }
            _ => {
                let state = self.state(algorithm, kept, now);
                counter!(algorithm, counter => (
                    counter.used(state, now),
                    counter.reset_at(state, now),
                    counter.remaining(state, now),
                ))
            }
        };
        let blocked_until = self.blocked_until.filter(|until| *until > now);
        Outcome { used, remaining, reset_at, blocked_until, ..Outcome::unused(algorithm.limit(), now) }
    }

    /// Does what is never refused, or was admitted. Units moved, and what an undo takes back.
    fn apply(&mut self, kind: Kind, by: RequestId, now: Timestamp) -> (u64, Option<Charge>) {
        match kind {
            Kind::Check { cost } => self.charge(cost.units(), now),
            Kind::Report { cost } => self.report(cost, now),
            Kind::Refund { cost } => (self.refund(cost, now), None),
            Kind::Acquire { holder } => {
                let Algorithm::Concurrency(concurrency) = self.algorithm else { return (0, None) };
                let ModelUsage::Permits(permits) = &mut self.usage else { return (0, None) };
                permits.retain(|permit| permit.expires > now);
                let expires = now.saturating_add(concurrency.hold());
                if let Some(held) = permits.iter_mut().find(|permit| permit.holder == holder) {
                    held.expires = held.expires.max(expires);
                    return (0, None);
                }
                permits.push(Permit { holder, expires, by });
                (1, Some(Charge::Permit(holder)))
            }
            Kind::Release { holder } => {
                let ModelUsage::Permits(permits) = &mut self.usage else { return (0, None) };
                let had = live(permits, now).filter(|permit| permit.holder == holder).count();
                permits.retain(|permit| permit.holder != holder);
                (had as u64, None)
            }
            Kind::Reset => {
                *self = Self::new(&self.algorithm);
                (0, None)
            }
            Kind::Block { until } => {
                self.blocked_until = (until > now).then_some(until);
                (0, None)
            }
            Kind::Peek { .. } | Kind::Undo { .. } | Kind::Ledger(_) => (0, None),
        }
    }

    fn charge(&mut self, units: u64, now: Timestamp) -> (u64, Option<Charge>) {
        match &mut self.usage {
            ModelUsage::Units(instants) => {
                let Algorithm::Rolling(rolling) = self.algorithm else { return (0, None) };
                let at = instants.last().map_or(now, |newest| now.max(*newest));
                // A charge forgets units that have left the window.
                instants.retain(|instant| at.saturating_since(*instant) < rolling.window());
                instants.extend((0..units).map(|_| at));
                (units, Some(Charge::Units { at, units }))
            }
            ModelUsage::Word(state) => {
                let before = *state;
                let cost = Cost::new(units).expect("charges are not zero");
                *state = counter!(&self.algorithm, counter => counter.decide(before, cost, now).1);
                let charged = Charged { before, after: *state, cost };
                (units, Some(Charge::Word { algorithm: self.algorithm.clone(), charged }))
            }
            ModelUsage::Permits(_) => (0, None),
        }
    }

    fn report(&mut self, cost: Cost, now: Timestamp) -> (u64, Option<Charge>) {
        let used = self.status(&self.algorithm, now).used;
        match &mut self.usage {
            ModelUsage::Units(_) => {
                let most = self.algorithm.limit() * (1 + RING_DEBT_LIMITS);
                match cost.units().min(most.saturating_sub(used)) {
                    0 => (0, None),
                    booked => self.charge(booked, now),
                }
            }
            ModelUsage::Word(state) => {
                let before = *state;
                *state = counter!(&self.algorithm, counter => counter.charge(before, cost, now));
                let after = *state;
                let booked = self.status(&self.algorithm, now).used - used;
                let charge = Cost::new(booked).map(|cost| Charge::Word {
                    algorithm: self.algorithm.clone(),
                    charged: Charged { before, after, cost },
                });
                (booked, charge)
            }
            ModelUsage::Permits(_) => (0, None),
        }
    }

    fn refund(&mut self, cost: Cost, now: Timestamp) -> u64 {
        let used = self.status(&self.algorithm, now).used;
        match &mut self.usage {
            ModelUsage::Units(instants) => {
                let count = used.min(cost.units());
                instants.truncate(instants.len() - count as usize);
                count
            }
            ModelUsage::Word(state) => {
                *state = counter!(&self.algorithm, counter => counter.refund(*state, cost, now));
                used - self.status(&self.algorithm, now).used
            }
            ModelUsage::Permits(_) => 0,
        }
    }

    fn undo(&mut self, charge: &Charge, kept: CarryOver, batch: RequestId, now: Timestamp) -> u64 {
        let used = self.status(&self.algorithm, now).used;
        match (charge, &mut self.usage) {
            (Charge::Word { algorithm, charged }, ModelUsage::Word(state)) => {
                if let (true, CarryOver::Instant, Algorithm::Bucket(from), Algorithm::Bucket(to)) =
                    (*algorithm != self.algorithm, kept, algorithm, &self.algorithm)
                {
                    *state = to.undo_instant(*state, charged, from, now);
                    return used.saturating_sub(self.status(&self.algorithm, now).used);
                }
                if *algorithm != self.algorithm {
                    let used = |state| counter!(algorithm, counter => counter.used(state, now));
                    let left =
                        used(charged.after).saturating_sub(used(charged.before)).min(charged.cost.units());
                    return Cost::new(left).map_or(0, |left| self.refund(left, now));
                }
                *state = counter!(&self.algorithm, counter => counter.undo(*state, charged, now));
                used.saturating_sub(self.status(&self.algorithm, now).used)
            }
            (Charge::Units { at, units }, ModelUsage::Units(instants)) => {
                let mut left = *units;
                instants.retain(|instant| {
                    let goes = left > 0 && instant == at;
                    left -= u64::from(goes);
                    !goes
                });
                units - left
            }
            (Charge::Permit(holder), ModelUsage::Permits(permits)) => {
                let had = permits.len();
                permits
                    .retain(|permit| permit.holder != *holder || permit.by != batch || permit.expires <= now);
                (had - permits.len()) as u64
            }
            _ => 0,
        }
    }
}

fn live(permits: &[Permit], now: Timestamp) -> impl Iterator<Item = &Permit> {
    permits.iter().filter(move |permit| permit.expires > now)
}

fn room_for_permit(concurrency: &Concurrency, permits: &[Permit], now: Timestamp) -> Verdict {
    if concurrency.limit() == 0 {
        return Verdict::Never { largest: 0 };
    }
    // The first expiry after which fewer than the limit are held.
    let held_at = |instant| live(permits, instant).count() as u64;
    let mut instants: Vec<_> = live(permits, now).map(|permit| permit.expires).chain([now]).collect();
    instants.sort_unstable();
    let first = instants.into_iter().find(|instant| held_at(*instant) < concurrency.limit());
    match first.expect("nothing is held after the last expiry") {
        first if first == now => Verdict::Admit,
        until => Verdict::Wait { until },
    }
}

/// The instants of units that count at `now`: those less than a window before it, or before the
/// newest of them if that lies ahead.
fn in_window(rolling: &Rolling, units: &[Timestamp], now: Timestamp) -> impl Iterator<Item = Timestamp> {
    let now = units.last().map_or(now, |newest| now.max(*newest));
    units.iter().copied().filter(move |instant| now.saturating_since(*instant) < rolling.window())
}

fn room_in_window(rolling: &Rolling, units: &[Timestamp], cost: u64, now: Timestamp) -> Verdict {
    if cost > rolling.limit() {
        return Verdict::Never { largest: rolling.limit() };
    }
    let fits = |instant| in_window(rolling, units, instant).count() as u64 + cost <= rolling.limit();
    if fits(now) {
        return Verdict::Admit;
    }
    // The first instant at which a unit leaves and there is room.
    let mut leaving = in_window(rolling, units, now).map(|instant| instant.saturating_add(rolling.window()));
    Verdict::Wait { until: leaving.find(|instant| fits(*instant)).expect("in the end all have left") }
}
