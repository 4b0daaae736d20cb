//! Reading what the script answers.
//!
//! The script tells states; what a caller wants to know of them (how much is used and left, when to
//! come back) is worked out here, by the same pure code as everywhere. That also checks the script:
//! where it refuses what the pure code would admit on the same state, the answer says so.

use tidegate_core::algorithm::{Counter, State, Verdict};
use tidegate_core::{Algorithm, Cost, Timestamp};
use tidegate_store::{
    Answer, Batch, Grants, Kind, Note, NoteChange, NoteKind, OnLedger, Operation, Outcome, RequestId,
    StoreError,
};

use crate::bytes::Reader;
use crate::call::Asked;
use crate::error::{Fault, KeyFault};
use crate::ledger;
use crate::names::Names;
use crate::numbers::{Known, Numbers, from_micros, whole};

/// The result of one batch.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) answer: Answer,
    /// The changes that take the notes of the batch back, in the order to apply them.
    pub(crate) notes_before: Vec<NoteChange>,
    /// How many operations the script refused that the pure code admits on the same state. Always 0
    /// unless one is wrong.
    pub(crate) disagreed: u64,
}

/// Why a batch was not decided.
#[derive(Debug)]
pub(crate) enum Undecided {
    IdReused(RequestId),
    /// The counter of this operation was written in another layout.
    Layout {
        operation: usize,
        layout: u8,
    },
    /// The script could not read the key of this operation; those after the last operation are the
    /// notes.
    Key {
        operation: usize,
        reason: KeyFault,
    },
    /// The answer cannot be read.
    Unreadable,
}

/// Reads the answer to `asked`.
pub(crate) fn read(bytes: &[u8], asked: &Asked) -> Result<Decided, Undecided> {
    let mut reader = Reader(bytes);
    match reader.byte() {
        Some(0) => decided(reader, asked).ok_or(Undecided::Unreadable),
        Some(1) => Err(Undecided::IdReused(asked.batch.id)),
        Some(2) => match (reader.byte(), reader.byte()) {
            (Some(operation), Some(layout)) => Err(Undecided::Layout { operation: operation.into(), layout }),
            _ => Err(Undecided::Unreadable),
        },
        Some(3) => match (reader.byte(), reader.byte()) {
            (Some(operation), Some(reason)) => {
                let reason = if reason == 1 { KeyFault::WrongType } else { KeyFault::Damaged };
                Err(Undecided::Key { operation: operation.into(), reason })
            }
            _ => Err(Undecided::Unreadable),
        },
        _ => Err(Undecided::Unreadable),
    }
}

/// Reads bytes as the script's answer to `batch`. For the fuzzer.
#[doc(hidden)]
pub fn read_script_answer(bytes: &[u8], batch: Batch) -> Result<Answer, StoreError> {
    let asked = Asked::new(batch, &Known::default())?;
    match read(bytes, &asked) {
        Ok(decided) => Ok(decided.answer),
        Err(undecided) => Err(undecided.into_error(&asked, &Names::new("fuzz"), "fuzz")),
    }
}

fn decided(mut reader: Reader<'_>, asked: &Asked) -> Option<Decided> {
    let refused = reader.byte()? == 1;
    let now = from_micros(reader.double()?);
    let operations = &asked.batch.operations;
    if usize::from(reader.byte()?) != operations.len() {
        return None;
    }
    let mut disagreed = 0;
    let mut outcomes = smallvec::SmallVec::new();
    let mut grants = Grants::new();
    for (operation, numbers) in operations.iter().zip(&asked.numbers) {
        if let Kind::Ledger(on) = &operation.kind {
            let [units, used, free_at] = ledger::read(&mut reader)?;
            let mut outcome = Outcome::unused(operation.algorithm.limit(), now);
            (outcome.units, outcome.used, outcome.reset_at) =
                (whole(units), whole(used), from_micros(free_at));
            outcome.remaining = outcome.limit.saturating_sub(outcome.used);
            outcomes.push(outcome);
            if matches!(on, OnLedger::Ask(_)) {
                ledger::read_grant(&mut reader, &mut grants)?;
            }
            continue;
        }
        let told = ScriptOutcome::read(&mut reader)?;
        let outcome = told.outcome(operation, numbers, refused, now);
        disagreed += u64::from(!told.admitted && outcome.verdict == Verdict::Admit);
        outcomes.push(outcome);
    }
    let mut notes_before = Vec::new();
    if !refused && !asked.tries() {
        for change in &asked.batch.notes {
            let (kind, name) = match change {
                NoteChange::Put(note) | NoteChange::Create(note) => (note.kind, &note.name),
                NoteChange::Remove { kind, name } => (*kind, name),
            };
            let before = if reader.byte()? == 1 {
                let length = reader.int()?;
                NoteChange::Put(note(kind, name, reader.bytes(length as usize)?)?.0)
            } else {
                NoteChange::Remove { kind, name: name.clone() }
            };
            notes_before.push(before);
        }
        notes_before.reverse();
    }
    Some(Decided { answer: Answer::new(outcomes, refused, now).with_grants(grants), notes_before, disagreed })
}

/// A note as it is kept, and the microsecond at which it ends.
pub(crate) fn note(kind: NoteKind, name: &[u8], kept: &[u8]) -> Option<(Note, f64)> {
    let mut reader = Reader(kept);
    let micros = reader.double()?;
    let until = Timestamp::from_nanos(reader.long()?);
    Some((Note { kind, name: name.into(), value: reader.0.into(), until }, micros))
}

/// One operation as the script tells it.
struct ScriptOutcome {
    admitted: bool,
    /// The counter as it is now, under the numbers of the operation, and until when it is blocked.
    state: [f64; 3],
    blocked: f64,
    /// The state that the decision was made on, where that matters.
    before: Option<([f64; 3], f64)>,
    units: Option<u64>,
}

impl ScriptOutcome {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let flags = reader.byte()?;
        let state = reader.doubles()?;
        let blocked = reader.double()?;
        let before = if flags & 2 == 0 { None } else { Some((reader.doubles()?, reader.double()?)) };
        let units = if flags & 4 == 0 { None } else { Some(whole(reader.double()?)) };
        Some(Self { admitted: flags & 1 == 1, state, blocked, before, units })
    }

    fn outcome(&self, operation: &Operation, numbers: &Numbers, refused: bool, now: Timestamp) -> Outcome {
        let algorithm = &operation.algorithm;
        let mut outcome = Outcome::unused(algorithm.limit(), now);
        outcome.blocked_until = (self.blocked > 0.0).then(|| from_micros(self.blocked));
        let state = numbers.shape.state(self.state);
        let usage = word(algorithm, |counter| (counter.used(state, now), told(counter.reset_at(state, now))));
        (outcome.used, outcome.reset_at) =
            usage.unwrap_or((whole(self.state[0]), from_micros(self.state[1])));
        outcome.remaining = outcome.limit.saturating_sub(outcome.used);
        if !self.admitted {
            outcome.verdict = self.refusal(operation, numbers, now);
        } else if !refused {
            outcome.units = self.moved(operation, numbers, now);
        }
        outcome
    }

    /// Why an operation was refused: by its limit, by a block, or by both.
    fn refusal(&self, operation: &Operation, numbers: &Numbers, now: Timestamp) -> Verdict {
        let (before, blocked) = self.before.unwrap_or((self.state, self.blocked));
        let algorithm = &operation.algorithm;
        let cost = match operation.kind {
            Kind::Check { cost } | Kind::Peek { cost } => cost,
            _ => Cost::ONE,
        };
        let state = numbers.shape.state(before);
        let verdict = word(algorithm, |counter| counter.decide(state, cost, now).0);
        let verdict = verdict.unwrap_or_else(|| match algorithm {
            Algorithm::Rolling(rolling) if cost.units() > rolling.limit() => {
                Verdict::Never { largest: rolling.limit() }
            }
            Algorithm::Concurrency(concurrency) if concurrency.limit() == 0 => Verdict::Never { largest: 0 },
            _ if before[0] > 0.0 => Verdict::Wait { until: from_micros(before[0]) },
            _ => Verdict::Admit,
        });
        let blocked = (blocked > 0.0).then(|| from_micros(blocked));
        match (verdict, blocked) {
            (Verdict::Admit, Some(until)) => Verdict::Wait { until },
            (Verdict::Wait { until }, Some(blocked)) => Verdict::Wait { until: told(until).max(blocked) },
            (Verdict::Wait { until }, None) => Verdict::Wait { until: told(until) },
            (verdict, _) => verdict,
        }
    }

    /// Units that an operation moved.
    fn moved(&self, operation: &Operation, numbers: &Numbers, now: Timestamp) -> u64 {
        match (operation.kind, self.units, self.before) {
            (Kind::Peek { .. } | Kind::Reset | Kind::Block { .. }, _, _) => 0,
            (Kind::Check { cost }, _, _) => cost.units(),
            (_, Some(units), _) => units,
            (_, None, Some((before, _))) => {
                let (before, after) = (numbers.shape.state(before), numbers.shape.state(self.state));
                let used = |state: State| {
                    word(&operation.algorithm, |counter| counter.used(state, now)).unwrap_or(0)
                };
                used(before).saturating_sub(used(after))
            }
            _ => 0,
        }
    }
}

/// The result of `ask` for a limit whose state is one word.
fn word<T>(algorithm: &Algorithm, ask: impl FnOnce(&dyn Counter) -> T) -> Option<T> {
    match algorithm {
        Algorithm::Bucket(counter) => Some(ask(counter)),
        Algorithm::Fixed(counter) => Some(ask(counter)),
        Algorithm::Calendar(counter) => Some(ask(counter)),
        Algorithm::SlidingCounter(counter) => Some(ask(counter)),
        _ => None,
    }
}

/// An instant as this store tells it: on a step of the server's clock, rounded up, so that waiting
/// as told is enough.
fn told(instant: Timestamp) -> Timestamp {
    Timestamp::from_nanos(instant.as_nanos().checked_next_multiple_of(1000).unwrap_or(u64::MAX))
}

impl Undecided {
    /// `at` is where the store is.
    pub(crate) fn into_error(self, asked: &Asked, names: &Names, at: &str) -> StoreError {
        match self {
            Self::IdReused(id) => StoreError::IdReused { id },
            Self::Layout { operation, layout } => {
                let key = key_of(asked, operation, names);
                StoreError::Unsupported {
                    what: format!(
                        "layout {layout} of the key \"{key}\", which another version wrote; run that version, or type `DEL \"{key}\"` in redis-cli, which forgets what it counts"
                    ),
                }
            }
            Self::Key { operation, reason } => {
                let source = Fault::Key { key: key_of(asked, operation, names), reason };
                StoreError::Unavailable { at: at.to_owned(), sent: false, source: Some(Box::new(source)) }
            }
            Self::Unreadable => StoreError::Unsupported {
                what: "an answer that its own script did not write; see what changes replies between here and the server"
                    .to_owned(),
            },
        }
    }
}

/// The key of an operation, or of a note behind them, as redis-cli takes it between double quotes.
fn key_of(asked: &Asked, operation: usize, names: &Names) -> String {
    let operations = &asked.batch.operations;
    let key = match operations.get(operation) {
        Some(Operation { kind: Kind::Ledger(_), key, .. }) => names.ledger(key),
        Some(operation) => names.counter(&operation.key),
        None => match asked.batch.notes.get(operation - operations.len()) {
            Some(NoteChange::Put(note) | NoteChange::Create(note)) => names.notes(note.kind),
            Some(NoteChange::Remove { kind, .. }) => names.notes(*kind),
            None => Vec::new(),
        },
    };
    key.escape_ascii().to_string()
}
