//! One counter as a store keeps it, and what each operation does to it: pure functions without a
//! clock.
//!
//! Limits whose state is one word are decided by [`tidegate_core::algorithm::Counter`] itself, so
//! that every store answers as a gate in memory would. Rolling limits keep the instants of their
//! units, concurrency limits their permits. A record that holds nothing is the same as none.

mod block;
mod lent;
mod permit_set;
mod stored;
mod unit_log;
mod word;

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

use core::mem::discriminant;
use std::sync::Arc;

use tidegate_core::algorithm::{Charged, State, Verdict};
use tidegate_core::lease::Ledger;
use tidegate_core::{Algorithm, Cost, Timestamp};

use self::block::KeyBlock;
pub(crate) use self::lent::DecisionTime;
use self::permit_set::{Acquired, PermitSet};
pub(crate) use self::stored::Numbers;
pub use self::stored::{RECORD_LAYOUTS, Unreadable};
use self::unit_log::UnitLog;
use crate::{CarryOver, HolderId, Kind, Operation, Outcome, RequestId};

/// One counter: what is used, by which numbers it was counted, and until when the key is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The algorithm that `usage` was counted by; shared with the charges made under it.
    algorithm: Arc<Algorithm>,
    usage: Usage,
    block: KeyBlock,
    /// The batch that began it: charges made before a reset belong to another record.
    origin: RequestId,
    /// Of a bucket and of permits, the latest instant at which anything was charged or taken, which
    /// tells debt and longer holds from a clock that was ahead. [`Timestamp::MIN`] where nothing is
    /// known, and of everything else. Taking a charge back leaves it as it is.
    charged_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Usage {
    Word(State),
    Units(UnitLog),
    Permits(PermitSet),
    /// Lent to members. Boxed, since it is as large as the rest of the record and few keys have
    /// one.
    Ledger(Box<Ledger>),
}

impl Usage {
    fn none(algorithm: &Algorithm) -> Self {
        match algorithm {
            Algorithm::Rolling(_) => Self::Units(UnitLog::default()),
            Algorithm::Concurrency(_) => Self::Permits(PermitSet::default()),
            _ => Self::Word(State::EMPTY),
        }
    }
}

/// Whether an operation of `of` can tell how far ahead usage of `counted` lies.
fn is_told_by(counted: &Algorithm, of: &Algorithm) -> bool {
    match (counted, of) {
        (Algorithm::Calendar(counted), Algorithm::Calendar(of)) => {
            (counted.unit(), counted.zone(), counted.week_start()) == (of.unit(), of.zone(), of.week_start())
        }
        (Algorithm::Rolling(_) | Algorithm::Concurrency(_) | Algorithm::Calendar(_), _) => {
            discriminant(counted) == discriminant(of)
        }
        _ => true,
    }
}

/// When a record of one word was charged at the latest, with a charge at `now`.
fn charged_at(algorithm: &Algorithm, before: Timestamp, now: Timestamp) -> Timestamp {
    if matches!(algorithm, Algorithm::Bucket(_)) { before.max(now) } else { Timestamp::MIN }
}

/// A charge that one operation made, as it takes to undo it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UndoEntry {
    by: RequestId,
    origin: RequestId,
    what: UndoneCharge,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum UndoneCharge {
    Word { numbers: Arc<Algorithm>, charged: Charged },
    Units { at: Timestamp, units: u64 },
    Permit(HolderId),
}

/// The effect of an operation on a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Whether it was admitted; if not, the record is unchanged.
    pub(crate) verdict: Verdict,
    /// As [`Outcome::units`].
    pub(crate) units: u64,
    /// The charge to remember, so that it can be undone.
    pub(crate) made: Option<UndoEntry>,
}

impl Applied {
    const NOTHING: Self = Self { verdict: Verdict::Admit, units: 0, made: None };
}

impl Record {
    /// A counter of `algorithm` with nothing used, begun by the batch `origin`.
    pub(crate) fn new(algorithm: Algorithm, origin: RequestId) -> Self {
        let usage = Usage::none(&algorithm);
        Self {
            algorithm: Arc::new(algorithm),
            usage,
            block: KeyBlock::NONE,
            origin,
            charged_at: Timestamp::MIN,
        }
    }

    /// Whether a store can decide `algorithm` with records.
    pub(crate) fn supports(algorithm: &Algorithm) -> bool {
        word::counts(algorithm) || matches!(algorithm, Algorithm::Rolling(_) | Algorithm::Concurrency(_))
    }

    /// Whether `operation` would be admitted, changing nothing; kinds that are never refused are.
    pub(crate) fn verdict(&self, operation: &Operation, now: Timestamp) -> Verdict {
        let verdict = match operation.kind {
            Kind::Check { cost } | Kind::Peek { cost } => self.room(operation, cost, now),
            Kind::Acquire { holder } => match self.ask(&operation.algorithm, holder, now) {
                // A permit that was granted stays through a block.
                Acquired::Renewed => return Verdict::Admit,
                Acquired::Taken => Verdict::Admit,
                Acquired::Refused(verdict) => verdict,
            },
            _ => return Verdict::Admit,
        };
        match (verdict, self.block.in_force(now)) {
            (Verdict::Admit, Some(until)) => Verdict::Wait { until },
            (Verdict::Wait { until }, Some(blocked)) => Verdict::Wait { until: until.max(blocked) },
            (verdict, _) => verdict,
        }
    }

    /// Whether there is room for `cost`, block or not.
    fn room(&self, operation: &Operation, cost: Cost, now: Timestamp) -> Verdict {
        let algorithm = &operation.algorithm;
        match (algorithm, &self.usage) {
            (Algorithm::Rolling(rolling), Usage::Units(log)) => log.decide(rolling, cost.units(), now),
            (Algorithm::Concurrency(concurrency), Usage::Permits(permits)) => {
                permits.decide(concurrency, now)
            }
            (Algorithm::Rolling(rolling), _) => UnitLog::default().decide(rolling, cost.units(), now),
            (Algorithm::Concurrency(concurrency), _) => PermitSet::default().decide(concurrency, now),
            _ => {
                let state = self.word_under(algorithm, operation.carry_over, now);
                word::decide(algorithm, state, cost, now).0
            }
        }
    }

    fn ask(&self, algorithm: &Algorithm, holder: HolderId, now: Timestamp) -> Acquired {
        match (algorithm, &self.usage) {
            (Algorithm::Concurrency(concurrency), Usage::Permits(permits)) => {
                permits.ask(concurrency, holder, now)
            }
            (Algorithm::Concurrency(concurrency), _) => PermitSet::default().ask(concurrency, holder, now),
            _ => Acquired::Taken,
        }
    }

    /// The word under the numbers of `algorithm`; empty if it is of another algorithm.
    fn word_under(&self, algorithm: &Algorithm, kept: CarryOver, now: Timestamp) -> State {
        match self.usage {
            Usage::Word(state) if *self.algorithm == *algorithm => state,
            Usage::Word(state) => word::carry_over(algorithm, state, &self.algorithm, kept, now),
            Usage::Units(_) | Usage::Permits(_) | Usage::Ledger(_) => State::EMPTY,
        }
    }

    /// The used and remaining units as an operation counts them, as an outcome that admits.
    pub(crate) fn status_for(&self, operation: &Operation, now: Timestamp) -> Outcome {
        self.status_under(&operation.algorithm, operation.carry_over, now)
    }

    /// The used and remaining units under `algorithm`, as an outcome that admits.
    fn status(&self, algorithm: &Algorithm, now: Timestamp) -> Outcome {
        self.status_under(algorithm, CarryOver::Units, now)
    }

    fn status_under(&self, algorithm: &Algorithm, kept: CarryOver, now: Timestamp) -> Outcome {
        let limit = algorithm.limit();
        let mut outcome = Outcome { blocked_until: self.block.in_force(now), ..Outcome::unused(limit, now) };
        match (algorithm, &self.usage) {
            (Algorithm::Rolling(rolling), Usage::Units(log)) => {
                outcome.used = log.used(rolling.window(), now);
                outcome.reset_at = log.reset_at(rolling.window(), now);
            }
            (Algorithm::Concurrency(_), Usage::Permits(permits)) => {
                outcome.used = permits.held(now);
                outcome.reset_at = permits.reset_at(now);
            }
            _ => {
                let state = self.word_under(algorithm, kept, now);
                outcome.used = word::used(algorithm, state, now);
                outcome.reset_at = word::reset_at(algorithm, state, now);
                outcome.remaining = word::remaining(algorithm, state, now);
                return outcome;
            }
        }
        outcome.remaining = limit.saturating_sub(outcome.used);
        outcome
    }

    /// Carries `operation` out for the batch `by`, or refuses it and changes nothing. `charges` are
    /// what an undo takes back, in the order they were made; other kinds do not look at it.
    pub(crate) fn apply(
        &mut self,
        operation: &Operation,
        by: RequestId,
        charges: &[UndoEntry],
        now: Timestamp,
    ) -> Applied {
        let verdict = self.verdict(operation, now);
        if verdict != Verdict::Admit || matches!(operation.kind, Kind::Peek { .. } | Kind::Ledger(_)) {
            return Applied { verdict, ..Applied::NOTHING };
        }
        match operation.kind {
            // An undo may come with the numbers of the charge, which are no longer in force if
            // others came since.
            Kind::Reset | Kind::Block { .. } | Kind::Peek { .. } | Kind::Undo { .. } => {}
            _ if self.counts_as(&operation.algorithm) => {
                self.take_numbers(&operation.algorithm, operation.carry_over, now);
            }
            // Another algorithm, or a counter where there was a ledger, starts anew with its first
            // charge; a block is on the key and stays.
            kind if kind.may_charge() => {
                *self = Self { block: self.block, ..Self::new(operation.algorithm.clone(), by) };
            }
            _ => return Applied::NOTHING,
        }
        match operation.kind {
            Kind::Check { cost } => self.charge(cost, by, now),
            Kind::Report { cost } => self.report(cost, by, now),
            Kind::Refund { cost } => Applied { units: self.refund(cost.units(), now), ..Applied::NOTHING },
            Kind::Undo { .. } => {
                // The last charge first: undoing it exactly leaves what the one before it left.
                let undone = charges.iter().rev().map(|made| self.undo(made, operation.carry_over, now));
                let units = undone.fold(0, u64::saturating_add);
                Applied { units, ..Applied::NOTHING }
            }
            Kind::Acquire { holder } => self.acquire(holder, by, now),
            Kind::Release { holder } => {
                let Usage::Permits(permits) = &mut self.usage else { return Applied::NOTHING };
                Applied { units: u64::from(permits.release(holder, now)), ..Applied::NOTHING }
            }
            Kind::Reset => {
                *self = Self::new(Algorithm::clone(&self.algorithm), by);
                Applied::NOTHING
            }
            Kind::Block { until } => {
                self.block = KeyBlock::between(now, until);
                Applied::NOTHING
            }
            Kind::Peek { .. } | Kind::Ledger(_) => Applied::NOTHING,
        }
    }

    /// Whether it is a counter of the algorithm, by whatever numbers.
    fn counts_as(&self, algorithm: &Algorithm) -> bool {
        discriminant(&*self.algorithm) == discriminant(algorithm) && !matches!(self.usage, Usage::Ledger(_))
    }

    /// Counts by the numbers of `algorithm`, the same one, from now on; what is used stays used.
    fn take_numbers(&mut self, algorithm: &Algorithm, kept: CarryOver, now: Timestamp) {
        if *self.algorithm == *algorithm {
            return;
        }
        if matches!(self.usage, Usage::Word(_)) {
            self.usage = Usage::Word(self.word_under(algorithm, kept, now));
        }
        self.algorithm = Arc::new(algorithm.clone());
        // An instant ahead of a clock that stepped back may lie further ahead than the new window.
        // Permits keep the holds by which they were taken.
        if let (Algorithm::Rolling(rolling), Usage::Units(log)) = (algorithm, &mut self.usage) {
            log.bring_back(rolling.window(), now);
        }
    }

    fn made(&self, by: RequestId, what: UndoneCharge) -> UndoEntry {
        UndoEntry { by, origin: self.origin, what }
    }

    /// Charges what there is room for.
    fn charge(&mut self, cost: Cost, by: RequestId, now: Timestamp) -> Applied {
        let what = match (&*self.algorithm, &mut self.usage) {
            (Algorithm::Rolling(rolling), Usage::Units(log)) => {
                let at = log.charge(rolling.window(), cost.units(), now);
                UndoneCharge::Units { at, units: cost.units() }
            }
            (algorithm, Usage::Word(state)) => {
                let before = *state;
                *state = word::decide(algorithm, before, cost, now).1;
                self.charged_at = charged_at(algorithm, self.charged_at, now);
                let charged = Charged { before, after: *state, cost };
                UndoneCharge::Word { numbers: Arc::clone(&self.algorithm), charged }
            }
            _ => return Applied::NOTHING,
        };
        Applied { verdict: Verdict::Admit, units: cost.units(), made: Some(self.made(by, what)) }
    }

    /// Charges whether or not there is room.
    fn report(&mut self, cost: Cost, by: RequestId, now: Timestamp) -> Applied {
        let (units, what) = match (&*self.algorithm, &mut self.usage) {
            (Algorithm::Rolling(rolling), Usage::Units(log)) => {
                let Some((at, units)) = log.report(rolling, cost.units(), now) else {
                    return Applied::NOTHING;
                };
                (units, UndoneCharge::Units { at, units })
            }
            (algorithm, Usage::Word(state)) => {
                let before = *state;
                *state = word::charge(algorithm, before, cost, now);
                let booked =
                    word::used(algorithm, *state, now).saturating_sub(word::used(algorithm, before, now));
                self.charged_at = charged_at(algorithm, self.charged_at, now);
                // Only what was booked can be taken back.
                let Some(cost) = Cost::new(booked.min(cost.units())) else { return Applied::NOTHING };
                let charged = Charged { before, after: *state, cost };
                let numbers = Arc::clone(&self.algorithm);
                (cost.units(), UndoneCharge::Word { numbers, charged })
            }
            _ => return Applied::NOTHING,
        };
        Applied { verdict: Verdict::Admit, units, made: Some(self.made(by, what)) }
    }

    fn refund(&mut self, units: u64, now: Timestamp) -> u64 {
        match (&*self.algorithm, &mut self.usage) {
            (Algorithm::Rolling(rolling), Usage::Units(log)) => log.refund(rolling.window(), units, now),
            (algorithm, Usage::Word(state)) => {
                let before = word::used(algorithm, *state, now);
                if let Some(cost) = Cost::new(units) {
                    *state = word::refund(algorithm, *state, cost, now);
                }
                before.saturating_sub(word::used(algorithm, *state, now))
            }
            _ => 0,
        }
    }

    fn acquire(&mut self, holder: HolderId, by: RequestId, now: Timestamp) -> Applied {
        let (Algorithm::Concurrency(concurrency), Usage::Permits(permits)) =
            (&*self.algorithm, &mut self.usage)
        else {
            return Applied::NOTHING;
        };
        let acquired = permits.acquire(concurrency, holder, by, now);
        if let Acquired::Taken | Acquired::Renewed = acquired {
            self.charged_at = self.charged_at.max(now);
        }
        match acquired {
            Acquired::Taken => Applied {
                units: 1,
                made: Some(self.made(by, UndoneCharge::Permit(holder))),
                ..Applied::NOTHING
            },
            Acquired::Renewed => Applied::NOTHING,
            Acquired::Refused(verdict) => Applied { verdict, ..Applied::NOTHING },
        }
    }

    /// Takes a charge back, as far as it is still there. How many units.
    fn undo(&mut self, made: &UndoEntry, kept: CarryOver, now: Timestamp) -> u64 {
        if made.origin != self.origin {
            return 0;
        }
        match (&made.what, &mut self.usage) {
            (UndoneCharge::Word { numbers, charged }, Usage::Word(state)) if *numbers == self.algorithm => {
                let before = word::used(numbers, *state, now);
                *state = word::undo(numbers, *state, charged, now);
                before.saturating_sub(word::used(numbers, *state, now))
            }
            (UndoneCharge::Word { numbers, charged }, Usage::Word(state))
                if kept == CarryOver::Instant && matches!(**numbers, Algorithm::Bucket(_)) =>
            {
                let before = word::used(&self.algorithm, *state, now);
                *state = word::undo_instant(&self.algorithm, *state, charged, numbers, now);
                before.saturating_sub(word::used(&self.algorithm, *state, now))
            }
            (UndoneCharge::Word { numbers, charged }, _) => {
                // Under the numbers in force the states mean something else: what has not yet
                // drained of the charge under its own is given back in units.
                let used = |state| word::used(numbers, state, now);
                let left = used(charged.after).saturating_sub(used(charged.before));
                self.refund(left.min(charged.cost.units()), now)
            }
            (UndoneCharge::Units { at, units }, Usage::Units(log)) => log.take_out(*at, *units),
            (UndoneCharge::Permit(holder), Usage::Permits(permits)) => {
                u64::from(permits.release_taken_by(*holder, made.by, now))
            }
            _ => 0,
        }
    }

    /// The same without the instant of its latest charge: as equal as two records answer.
    #[cfg(any(test, feature = "conformance"))]
    pub(crate) fn without_charged_at(&self) -> Self {
        Self { charged_at: Timestamp::MIN, ..self.clone() }
    }

    /// Whether it holds nothing at all, so that it need not be kept.
    pub(crate) fn is_empty(&self) -> bool {
        let unused = match &self.usage {
            Usage::Word(state) => *state == State::EMPTY,
            Usage::Units(log) => log.is_empty(),
            Usage::Permits(permits) => permits.is_empty(),
            Usage::Ledger(_) => false,
        };
        unused && self.block.is_none()
    }

    /// Whether from `now` on it answers as one that holds nothing.
    pub(crate) fn is_drained(&self, now: Timestamp) -> bool {
        let unused = match (&*self.algorithm, &self.usage) {
            (Algorithm::Rolling(rolling), Usage::Units(log)) => log.used(rolling.window(), now) == 0,
            (_, Usage::Permits(permits)) => permits.held(now) == 0,
            (algorithm, Usage::Word(state)) => word::is_drained(algorithm, *state, now),
            (algorithm, Usage::Ledger(ledger)) => lent::is_forgettable(ledger, algorithm, now),
            _ => true,
        };
        unused && self.block.in_force(now).is_none()
    }

    /// When it is drained if nothing else happens; `now` if it is.
    pub(crate) fn drained_at(&self, now: Timestamp) -> Timestamp {
        let unused_at = match &self.usage {
            Usage::Ledger(ledger) => lent::forgettable_at(ledger, &self.algorithm, now),
            Usage::Word(state) => word::drained_at(&self.algorithm, *state, now),
            _ => self.status(&self.algorithm, now).reset_at,
        };
        unused_at.max(self.block.until())
    }

    /// An instant before which it is not drained, found with less effort where it is a ledger.
    pub(crate) fn lasts_until(&self, now: Timestamp) -> Timestamp {
        match &self.usage {
            Usage::Ledger(ledger) => lent::lasts_until(ledger, now),
            _ => self.drained_at(now),
        }
    }

    /// Brings back what lies further ahead than its limit could have written by `now`, before
    /// anything is decided on it, so that a clock that was wrong for a while locks nobody for
    /// longer. Whether there was anything. See
    /// [`tidegate_core::algorithm::Counter::brought_back`]. A ledger does so itself.
    ///
    /// `of` is the algorithm of the operation that looks at it. Instants, permits and civil windows
    /// are brought back when one of their own kind does: other stores cannot tell them before.
    pub(crate) fn bring_back(&mut self, of: &Algorithm, now: Timestamp) -> bool {
        let block = self.block.brought_back(now);
        let is_blocked_too_long = block != self.block;
        self.block = block;
        if !is_told_by(&self.algorithm, of) {
            return is_blocked_too_long;
        }
        let lay_ahead = match (&*self.algorithm, &mut self.usage) {
            (Algorithm::Rolling(rolling), Usage::Units(log)) => log.bring_back(rolling.window(), now),
            (Algorithm::Concurrency(concurrency), Usage::Permits(permits)) => {
                let lay_ahead = permits.bring_back(concurrency, self.charged_at, now);
                if lay_ahead {
                    self.charged_at = self.charged_at.min(now);
                }
                lay_ahead
            }
            (algorithm, Usage::Word(state)) => {
                let back = word::brought_back(algorithm, *state, self.charged_at, now);
                let lay_ahead = back != *state;
                if lay_ahead {
                    *state = back;
                    self.charged_at = self.charged_at.min(now);
                }
                lay_ahead
            }
            _ => false,
        };
        is_blocked_too_long || lay_ahead
    }

    /// Whether [`Record::bring_back`] would change it.
    pub(crate) fn lies_ahead(&self, of: &Algorithm, now: Timestamp) -> bool {
        self.block.brought_back(now) != self.block
            || is_told_by(&self.algorithm, of)
                && match (&*self.algorithm, &self.usage) {
                    (Algorithm::Rolling(rolling), Usage::Units(log)) => log.lies_ahead(rolling.window(), now),
                    (Algorithm::Concurrency(concurrency), Usage::Permits(permits)) => {
                        permits.lies_ahead(concurrency, self.charged_at, now)
                    }
                    (algorithm, Usage::Word(state)) => {
                        word::brought_back(algorithm, *state, self.charged_at, now) != *state
                    }
                    _ => false,
                }
    }

    /// Heap bytes beside the record itself.
    pub(crate) fn bytes(&self) -> usize {
        match &self.usage {
            Usage::Word(_) => 0,
            Usage::Units(log) => log.bytes(),
            Usage::Permits(permits) => permits.bytes(),
            Usage::Ledger(ledger) => size_of::<Ledger>() + ledger.heap_bytes(),
        }
    }

    /// The most heap bytes that so many further charges of `algorithm` add; `None` stands for no
    /// record yet.
    pub(crate) fn growth(record: Option<&Self>, algorithm: &Algorithm, charges: usize) -> usize {
        match (algorithm, record.map(|record| &record.usage)) {
            (Algorithm::Rolling(_), Some(Usage::Units(log))) => log.growth(charges),
            (Algorithm::Rolling(_), _) => UnitLog::default().growth(charges),
            (Algorithm::Concurrency(_), _) => PermitSet::growth(charges),
            _ => 0,
        }
    }
}
