//! The ledger of a leased limit as the record of a key: the decisions are those of [`Ledger`], at
//! the store's time and in its epoch.

use core::mem::discriminant;
use std::sync::Arc;

use tidegate_core::lease::{Epoch, Grant, HolderName, Ledger, Terms};
use tidegate_core::{Algorithm, Timestamp};

use super::{KeyBlock, Record, Usage};
use crate::step::OpVec;
use crate::{OnLedger, Operation, Outcome, RequestId};

/// When a batch is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecisionTime {
    /// The store's time.
    pub(crate) now: Timestamp,
    /// The store's epoch, which only ledgers look at.
    pub(crate) epoch: Epoch,
}

/// The effect of an operation on a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lent {
    /// As [`Outcome::units`]: granted at once, booked, or given back.
    pub(crate) units: u64,
    /// The grant, for an ask.
    pub(crate) grant: Option<Grant>,
}

impl Record {
    /// Carries out an operation on a ledger for the batch `by`. A key that has no ledger gets one,
    /// which replaces a counter of the key.
    pub(crate) fn lend(
        record: &mut Option<Self>,
        operation: &Operation,
        what: OnLedger,
        by: RequestId,
        at: DecisionTime,
    ) -> Lent {
        let DecisionTime { now, epoch } = at;
        if what == OnLedger::Look {
            return Lent::default();
        }
        let (algorithm, terms) = (&operation.algorithm, terms(operation, now));
        let record = match record {
            Some(present) if present.ledger(algorithm).is_some() => present,
            other => other.insert(Self {
                algorithm: Arc::new(algorithm.clone()),
                usage: Usage::Ledger(Box::new(Ledger::begin(&terms, &epoch))),
                block: KeyBlock::NONE,
                origin: by,
                charged_at: Timestamp::MIN,
            }),
        };
        if *record.algorithm != *algorithm {
            record.algorithm = Arc::new(algorithm.clone());
        }
        let Usage::Ledger(ledger) = &mut record.usage else { return Lent::default() };
        let units = match what {
            OnLedger::Ask(ask) => {
                let grant = ledger.ask(now, &terms, &epoch, &ask).grant;
                return Lent { units: grant.map_or(0, |grant| grant.lump.into()), grant };
            }
            OnLedger::Report { cost } => ledger.report(now, &terms, &epoch, cost),
            OnLedger::Refund { cost } => ledger.refund(now, &terms, &epoch, cost),
            OnLedger::Reset => ledger.reset(now, &terms, &epoch),
            OnLedger::Look => 0,
        };
        Lent { units, grant: None }
    }

    /// The used units of a leased limit, as an outcome that admits.
    pub(crate) fn ledger_status(record: Option<&Self>, operation: &Operation, at: DecisionTime) -> Outcome {
        let terms = terms(operation, at.now);
        let kept = record.and_then(|record| record.ledger(&operation.algorithm));
        let kept = kept.filter(|ledger| ledger.epoch() == at.epoch.number);
        let begun = if kept.is_none() { Some(Ledger::begin(&terms, &at.epoch)) } else { None };
        let limit = terms.largest();
        let mut outcome = Outcome::unused(limit, at.now);
        if let Some(ledger) = kept.or(begun.as_ref()) {
            (outcome.used, outcome.reset_at) = ledger.level(at.now, &terms);
            outcome.remaining = limit.saturating_sub(outcome.used);
        }
        outcome
    }

    /// The most heap bytes that operations on a ledger add, of which these holders ask; `None`
    /// stands for no record yet.
    pub(crate) fn ledger_growth(
        record: Option<&Self>,
        algorithm: &Algorithm,
        asking: impl Iterator<Item = HolderName>,
    ) -> usize {
        match record.and_then(|record| record.ledger(algorithm)) {
            Some(ledger) => {
                let asking: OpVec<HolderName> = asking.collect();
                // Usually there is room for all of them, and no need to look who is on record.
                if Ledger::heap_growth(Some(ledger), asking.len()) == 0 {
                    return 0;
                }
                let new = asking.iter().filter(|holder| !ledger.has_holder(**holder)).count();
                Ledger::heap_growth(Some(ledger), new)
            }
            None => size_of::<Ledger>() + Ledger::heap_growth(None, asking.count()),
        }
    }

    /// The ledger, if this is one of the algorithm, by whatever numbers.
    fn ledger(&self, algorithm: &Algorithm) -> Option<&Ledger> {
        match &self.usage {
            Usage::Ledger(ledger) if discriminant(&*self.algorithm) == discriminant(algorithm) => {
                Some(ledger)
            }
            _ => None,
        }
    }
}

/// Whether from `now` on the ledger answers as none would.
pub(super) fn is_forgettable(ledger: &Ledger, algorithm: &Algorithm, now: Timestamp) -> bool {
    // One of an earlier epoch drains like any other.
    let epoch = Epoch { number: ledger.epoch(), began: Timestamp::MIN, is_after_loss: false };
    ledger.is_forgettable(now, &own_terms(ledger, algorithm, now), &epoch)
}

/// An instant before which that is not so, found with less effort.
pub(super) fn lasts_until(ledger: &Ledger, now: Timestamp) -> Timestamp {
    ledger.lasts_until(now)
}

/// When that is so if nothing else happens; `now` if it is.
pub(super) fn forgettable_at(ledger: &Ledger, algorithm: &Algorithm, now: Timestamp) -> Timestamp {
    ledger.forgettable_at(now, &own_terms(ledger, algorithm, now))
}

/// The terms by which a ledger on record goes on draining while nobody asks.
fn own_terms(ledger: &Ledger, algorithm: &Algorithm, now: Timestamp) -> Terms {
    let terms = Terms::for_period(algorithm, ledger.period(), now);
    terms.expect("a ledger that is read is checked, and so is the batch that wrote it")
}

fn terms(operation: &Operation, now: Timestamp) -> Terms {
    operation.terms(now).expect("batches are checked")
}
