//! One batch over the records of its keys: what it would do, and doing it. Pure; a store makes it
//! atomic.
//!
//! Operations on different keys do not touch each other, so whether a batch is refused is found by
//! looking. Only where a key occurs twice are the operations on it tried on a copy first.

use core::mem;

use smallvec::SmallVec;
use tidegate_core::Timestamp;
use tidegate_core::algorithm::Verdict;
use tidegate_core::limit::Mode;

use crate::record::{Applied, DecisionTime, Record, UndoEntry};
use crate::{Answer, Batch, BatchMode, Grants, Key, Kind, OnLedger, Operation, Outcome, RequestId};

/// As many as the operations of a batch, or its keys.
pub(crate) type OpVec<T> = SmallVec<[T; 1]>;

/// A batch with its different keys, and which one each operation is about.
#[derive(Debug)]
pub(crate) struct Keyed<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) distinct: OpVec<&'a Key>,
    /// For each operation, the index of its key.
    of: OpVec<usize>,
}

impl<'a> Keyed<'a> {
    pub(crate) fn new(batch: &'a Batch) -> Self {
        let mut keys = Self { batch, distinct: OpVec::new(), of: OpVec::new() };
        for operation in &batch.operations {
            // A batch has at most 64 operations, and nearly always fewer than four.
            let known = keys.distinct.iter().position(|known| **known == operation.key);
            keys.of.push(known.unwrap_or_else(|| {
                keys.distinct.push(&operation.key);
                keys.distinct.len() - 1
            }));
        }
        keys
    }

    /// Whether a batch that was answered so may have changed the key of this index.
    pub(crate) fn may_change(&self, key: usize, answer: &Answer) -> bool {
        self.operations(key).any(|(index, operation)| {
            let admitted = answer.outcomes[index].verdict == Verdict::Admit;
            admitted && !matches!(operation.kind, Kind::Peek { .. } | Kind::Ledger(OnLedger::Look))
        })
    }

    /// The operations on the key of this index.
    fn operations(&self, key: usize) -> impl Iterator<Item = (usize, &'a Operation)> {
        let all = self.batch.operations.iter().enumerate().zip(&self.of);
        all.filter(move |(_, of)| **of == key).map(|(operation, _)| operation)
    }
}

/// The planned effect of a batch.
#[derive(Debug)]
pub(crate) struct Plan {
    verdicts: OpVec<Verdict>,
    /// Whether nothing may take effect.
    pub(crate) refused: bool,
}

/// The effect of a batch.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) answer: Answer,
    /// The charges it made, each with the index of its key, in order.
    pub(crate) made: OpVec<(usize, UndoEntry)>,
}

/// The record of one key while a batch is carried out.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) record: Option<Record>,
    /// Whether there is room for what the batch would add to it. If not, what adds something is
    /// admitted uncounted.
    pub(crate) has_room: bool,
}

/// Decides a batch over `records`, one for each of its keys, changing nothing. `charges` are, for
/// each operation, what it would undo.
pub(crate) fn plan(
    keyed: &Keyed<'_>,
    records: &[Option<&Record>],
    charges: &[OpVec<UndoEntry>],
    at: DecisionTime,
) -> Plan {
    let mut verdicts = OpVec::from_elem(Verdict::Admit, keyed.batch.operations.len());
    for (key, record) in records.iter().enumerate() {
        if keyed.operations(key).nth(1).is_none() {
            for (index, operation) in keyed.operations(key) {
                verdicts[index] = verdict(*record, operation, keyed.batch.id, at.now);
            }
            continue;
        }
        let mut tried = record.cloned();
        for (index, operation) in keyed.operations(key) {
            verdicts[index] = match operation.kind {
                Kind::Ledger(what) => {
                    Record::lend(&mut tried, operation, what, keyed.batch.id, at);
                    Verdict::Admit
                }
                _ => apply(&mut tried, operation, keyed.batch.id, &charges[index], at.now).verdict,
            };
        }
    }
    let refused = keyed.batch.mode == BatchMode::AllOrNothing
        && keyed
            .batch
            .operations
            .iter()
            .zip(&verdicts)
            .any(|(operation, verdict)| binds(operation, *verdict));
    Plan { verdicts, refused }
}

/// Whether an operation with this verdict refuses an all-or-nothing keyed.batch.
fn binds(operation: &Operation, verdict: Verdict) -> bool {
    verdict != Verdict::Admit
        && operation.mode == Mode::Enforce
        && !matches!(operation.kind, Kind::Peek { .. })
}

impl Plan {
    /// The answer of a batch that was refused: what each operation met, and the counters as they
    /// still are.
    pub(crate) fn refusal(&self, keyed: &Keyed<'_>, records: &[Option<&Record>], at: DecisionTime) -> Answer {
        let operations = keyed.batch.operations.iter().zip(&keyed.of).zip(&self.verdicts);
        let outcomes = operations.map(|((operation, key), verdict)| Outcome {
            verdict: *verdict,
            ..status(records[*key], operation, at)
        });
        let asked = keyed.batch.operations.iter().filter_map(|operation| operation.kind.ask());
        Answer::new(outcomes.collect(), true, at.now).with_grants(asked.map(|_| None).collect())
    }

    /// The most heap bytes the batch adds to the key of this index, beyond `entry` for a record
    /// that does not exist yet.
    pub(crate) fn growth(
        &self,
        keyed: &Keyed<'_>,
        key: usize,
        record: Option<&Record>,
        entry: usize,
    ) -> usize {
        let admitted = keyed.operations(key).filter(|(index, _)| self.verdicts[*index] == Verdict::Admit);
        let growing: OpVec<&Operation> =
            admitted.map(|(_, operation)| operation).filter(|operation| may_grow(operation)).collect();
        if growing.is_empty() {
            return 0;
        }
        let is_lent = |operation: &&&Operation| matches!(operation.kind, Kind::Ledger(_));
        let counted = growing.iter().filter(|operation| !is_lent(operation)).count();
        let counters = growing.iter().find(|operation| !is_lent(operation));
        let ledgers = growing.iter().find(is_lent);
        let asking = growing.iter().filter_map(|operation| operation.kind.ask()).map(|ask| ask.holder);
        (if record.is_none() { entry } else { 0 })
            + counters.map_or(0, |first| Record::growth(record, &first.algorithm, counted))
            + ledgers.map_or(0, |first| Record::ledger_growth(record, &first.algorithm, asking))
    }
}

/// Carries a batch out on the records it was planned on. Call it only if the plan does not refuse
/// it.
pub(crate) fn carry_out(
    keyed: &Keyed<'_>,
    slots: &mut [Slot],
    charges: &[OpVec<UndoEntry>],
    at: DecisionTime,
) -> Done {
    let mut outcomes = OpVec::new();
    let mut grants = Grants::new();
    let mut made = OpVec::<(usize, UndoEntry)>::new();
    for ((operation, key), charges) in keyed.batch.operations.iter().zip(&keyed.of).zip(charges) {
        let slot = &mut slots[*key];
        let counted = slot.has_room || !may_grow(operation);
        if let Kind::Ledger(what) = operation.kind {
            // Where nothing more is remembered everyone is lent what the first one would be.
            let mut nobodys = None;
            let record = if counted { &mut slot.record } else { &mut nobodys };
            let lent = Record::lend(record, operation, what, keyed.batch.id, at);
            if operation.kind.ask().is_some() {
                grants.push(lent.grant);
            }
            let status = status(slot.record.as_ref(), operation, at);
            outcomes.push(Outcome { counted, units: lent.units, ..status });
            continue;
        }
        if !counted {
            outcomes.push(Outcome { counted, ..status(slot.record.as_ref(), operation, at) });
            continue;
        }
        let applied = apply(&mut slot.record, operation, keyed.batch.id, charges, at.now);
        made.extend(applied.made.map(|charge| (*key, charge)));
        // Charges to a counter that has been emptied are gone; a next operation begins another one.
        if slot.record.is_none() {
            made.retain(|(of, _)| of != key);
        }
        let status = status(slot.record.as_ref(), operation, at);
        outcomes.push(Outcome { verdict: applied.verdict, units: applied.units, ..status });
    }
    Done { answer: Answer::new(outcomes, false, at.now).with_grants(grants), made }
}

/// Whether an operation may add to what is kept.
fn may_grow(operation: &Operation) -> bool {
    let lends = matches!(operation.kind, Kind::Ledger(what) if what != OnLedger::Look);
    operation.kind.may_charge() || lends || matches!(operation.kind, Kind::Block { .. })
}

fn verdict(record: Option<&Record>, operation: &Operation, by: RequestId, now: Timestamp) -> Verdict {
    match record {
        _ if matches!(operation.kind, Kind::Ledger(_)) => Verdict::Admit,
        Some(record) => record.verdict(operation, now),
        None if may_grow(operation) || matches!(operation.kind, Kind::Peek { .. }) => {
            Record::new(operation.algorithm.clone(), by).verdict(operation, now)
        }
        None => Verdict::Admit,
    }
}

fn status(record: Option<&Record>, operation: &Operation, at: DecisionTime) -> Outcome {
    match record {
        _ if matches!(operation.kind, Kind::Ledger(_)) => Record::ledger_status(record, operation, at),
        Some(record) => record.status_for(operation, at.now),
        None => Outcome::unused(operation.algorithm.limit(), at.now),
    }
}

/// [`Record::apply`] where there may be no record before or after.
fn apply(
    record: &mut Option<Record>,
    operation: &Operation,
    by: RequestId,
    charges: &[UndoEntry],
    now: Timestamp,
) -> Applied {
    let mut present = mem::take(record).unwrap_or_else(|| Record::new(operation.algorithm.clone(), by));
    let applied = present.apply(operation, by, charges, now);
    if !present.is_empty() {
        *record = Some(present);
    }
    applied
}
