//! One script call: several batches with the keys and numbers they have in common.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use smallvec::SmallVec;
use tidegate_core::limit::Mode;
use tidegate_core::{Algorithm, Timestamp};
use tidegate_store::{
    Batch, BatchMode, CarryOver, Key, Kind, NoteChange, OnLedger, Operation, RequestId, StoreError,
};

use crate::bytes::{Reader, Writer};
use crate::call_format;
use crate::epochs::EpochSetting;
use crate::ledger;
use crate::names::{Names, Place};
use crate::numbers::{Known, Numbers, Shape, count, to_micros};

/// A batch that is to be asked, with the numbers of its operations.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) batch: Batch,
    pub(crate) numbers: SmallVec<[Arc<Numbers>; 4]>,
    mode: ExecutionMode,
    /// Whether its answer is remembered. A batch that only looks need not be, unless it is part of
    /// a batch that does more.
    remembered: bool,
    fingerprint: u64,
}

/// How a batch is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExecutionMode {
    /// As it says.
    Plain,
    /// Nothing is changed: the answer only says what would happen.
    Try,
    /// Its undos are for a batch that is refused in the end, so that nothing of that may be left.
    GiveBack,
    /// Its undos also keep a batch from being carried out that arrives only later.
    Forestall,
}

impl Asked {
    /// `batch`, which was [checked](Batch::check), or [`StoreError::Unsupported`].
    pub(crate) fn new(batch: Batch, known: &Known) -> Result<Self, StoreError> {
        let numbers =
            batch.operations.iter().map(|operation| known.of(operation)).collect::<Result<_, _>>()?;
        let mut hasher = Fnv::default();
        batch.hash(&mut hasher);
        let remembered = !batch.is_forgettable();
        let fingerprint = hasher.finish();
        Ok(Self { batch, numbers, mode: ExecutionMode::Plain, remembered, fingerprint })
    }

    /// The same as a part of `whole`.
    pub(crate) fn part_of(self, whole: &Batch) -> Self {
        Self { remembered: !whole.is_forgettable(), ..self }
    }

    /// The same, taking back for a batch that is refused in the end.
    pub(crate) fn giving_back(self) -> Self {
        Self { mode: ExecutionMode::GiveBack, ..self }
    }

    /// The same, keeping the batches that it undoes from being carried out later.
    pub(crate) fn forestalling(self) -> Self {
        Self { mode: ExecutionMode::Forestall, ..self }
    }

    /// The same, changing nothing.
    pub(crate) fn tried(self) -> Self {
        Self { mode: ExecutionMode::Try, ..self }
    }

    /// Whether nothing is changed.
    pub(crate) fn tries(&self) -> bool {
        self.mode == ExecutionMode::Try
    }

    /// Whether the batches that it undoes are kept from being carried out later.
    pub(crate) fn forestalls(&self) -> bool {
        self.mode == ExecutionMode::Forestall
    }

    /// Its operation, if it is nothing but one check that binds of a limit whose state is a word.
    fn sole_check(&self) -> Option<&Operation> {
        let [operation] = self.batch.operations.as_slice() else { return None };
        let alone =
            self.batch.mode == BatchMode::AllOrNothing && self.batch.notes.is_empty() && !self.tries();
        let checks = matches!(operation.kind, Kind::Check { .. }) && operation.mode == Mode::Enforce;
        (alone && checks && self.numbers[0].shape != Shape::Usage).then_some(operation)
    }

    /// How many of its operations ask a ledger.
    pub(crate) fn asks(&self) -> usize {
        let operations = self.batch.operations.iter();
        operations.filter(|operation| matches!(operation.kind, Kind::Ledger(OnLedger::Ask(_)))).count()
    }

    /// The namespace that its place in the queue counts for: that of its first operation, and none
    /// for a batch of notes alone.
    pub(crate) fn namespace(&self) -> &[u8] {
        let first = self.batch.operations.first();
        first.and_then(|operation| operation.key.parts().next().flatten()).unwrap_or_default()
    }

    /// How much it counts against the bound of a call.
    pub(crate) fn weight(&self) -> usize {
        let notes = self.batch.notes.iter().map(|change| match change {
            NoteChange::Put(note) | NoteChange::Create(note) => 1 + note.value.len() / 256,
            NoteChange::Remove { .. } => 1,
        });
        1 + self.batch.operations.len() + notes.sum::<usize>()
    }
}

/// FNV-1a: tells a batch from another under the same id, which is a caller's mistake and no attack.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The part of a call that is about time and the epoch.
#[derive(Debug)]
pub(crate) struct Setting<'a> {
    /// The instant it is decided at; `None` is the server's clock.
    pub(crate) given: Option<Timestamp>,
    /// About what the server's clock shows.
    pub(crate) about: Timestamp,
    /// How long answers are remembered.
    pub(crate) kept: Duration,
    /// The lease protocol of this member.
    pub(crate) protocol: u32,
    /// Whether nothing is decided while a loss is not acknowledged.
    pub(crate) refuses_loss: bool,
    /// The part about the epoch.
    pub(crate) epoch: &'a EpochSetting,
}

/// The keys and arguments of a call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
    /// For each part of the reply, which of the batches it answers, and whether they are a run.
    parts: Vec<Run>,
}

/// Batches that go as one argument: one, or those that ask for the same.
#[derive(Debug)]
struct Run {
    same: bool,
    of: Vec<usize>,
}

/// Finds the batches that ask for the same check of one counter. One is put beside an earlier one
/// if nothing between them is about that counter, so that every counter meets its batches in the
/// order they came.
fn runs(asked: &[&Asked]) -> Vec<Run> {
    let mut runs = Vec::<Run>::new();
    let mut open = HashMap::<&Key, usize>::new();
    for (index, next) in asked.iter().enumerate() {
        let Some(check) = next.sole_check() else {
            next.batch.operations.iter().for_each(|operation| {
                open.remove(&operation.key);
            });
            runs.push(Run { same: false, of: vec![index] });
            continue;
        };
        let same = open.get(&check.key).copied().filter(|run| {
            let first = asked[runs[*run].of[0]];
            let numbers = Arc::ptr_eq(&first.numbers[0], &next.numbers[0]);
            let before = &first.batch.operations[0];
            numbers && before.kind == check.kind && before.carry_over == check.carry_over
        });
        if let Some(run) = same {
            runs[run].of.push(index);
        } else {
            open.insert(&check.key, runs.len());
            runs.push(Run { same: true, of: vec![index] });
        }
    }
    runs
}

/// Puts a call together.
#[derive(Debug)]
struct Builder<'a> {
    names: &'a Names,
    place: Place,
    keys: Vec<Vec<u8>>,
    places: HashMap<Vec<u8>, u16>,
    specs: Vec<Arc<Numbers>>,
    spec_places: HashMap<*const Numbers, u16>,
}

impl Call {
    /// The call that asks all of `asked`, whose keys are at `place`.
    pub(crate) fn new(asked: &[&Asked], names: &Names, place: Place, setting: &Setting<'_>) -> Self {
        let mut builder = Builder {
            names,
            place,
            keys: vec![names.marker(place)],
            places: HashMap::new(),
            specs: Vec::new(),
            spec_places: HashMap::new(),
        };
        let parts = runs(asked);
        let batches: Vec<_> = parts
            .iter()
            .map(|run| if run.same { builder.same(asked, run) } else { builder.batch(asked[run.of[0]]) })
            .collect();
        let mut header = Writer::default();
        header.byte(call_format::CALL_FORMAT);
        // An instant that is given is never 0, which stands for the server's clock.
        header.double(setting.given.map_or(0.0, |now| to_micros(now).max(1.0)));
        header.double(count(u64::try_from(setting.kept.as_millis()).unwrap_or(u64::MAX).max(1)));
        // The windows stand in the order of their limits; those of others are left out.
        let windows: Vec<_> = builder
            .specs
            .iter()
            .filter_map(|numbers| numbers.windows.as_ref())
            .map(|w| w.around(setting.about))
            .collect();
        header.short(builder.specs.len() as u16).short(windows.len() as u16);
        let EpochSetting { seen, fresh, acknowledged_us, acknowledges, remembers } = setting.epoch;
        let told = seen.as_ref().map(|seen| (seen.number, seen.began_us, seen.is_after_loss));
        let (number, began_us, is_after_loss) = told.unwrap_or_default();
        header.int(number).double(count(began_us)).byte(u8::from(is_after_loss));
        header.int(setting.protocol).double(count(*acknowledged_us)).byte(u8::from(*acknowledges));
        header.byte(u8::from(*remembers)).byte(u8::from(setting.refuses_loss));
        let seen = seen.as_ref().map(|seen| seen.bytes.clone()).unwrap_or_default();
        let mut args = vec![header.into_bytes(), seen, fresh.clone()];
        args.extend(builder.specs.iter().map(|numbers| numbers.spec.to_vec()));
        args.extend(windows.iter().map(|windows| windows.to_vec()));
        args.extend(batches);
        Self { keys: builder.keys, args, parts }
    }

    /// The answers in the reply, one for each batch in their order; empty for a batch without an
    /// answer.
    pub(crate) fn answers<'r>(&self, replies: &'r [Value], batches: usize) -> Vec<&'r [u8]> {
        let mut answers = vec![&[][..]; batches];
        for (run, reply) in self.parts.iter().zip(replies) {
            let Value::BulkString(bytes) = reply else { continue };
            if !run.same {
                answers[run.of[0]] = bytes;
                continue;
            }
            let mut reader = Reader(bytes);
            for batch in &run.of {
                let answer = reader.short().and_then(|length| reader.bytes(length.into()));
                answers[*batch] = answer.unwrap_or_default();
            }
        }
        answers
    }
}

impl Builder<'_> {
    /// The index of a key, from 1.
    fn key(&mut self, name: Vec<u8>) -> u16 {
        if let Some(place) = self.places.get(&name) {
            return *place;
        }
        self.keys.push(name.clone());
        // Bounded by the operations of a call, far below.
        let place = self.keys.len() as u16;
        self.places.insert(name, place);
        place
    }

    /// The index of the numbers of a limit, from 1.
    fn spec(&mut self, numbers: &Arc<Numbers>) -> u16 {
        if let Some(place) = self.spec_places.get(&Arc::as_ptr(numbers)) {
            return *place;
        }
        self.specs.push(Arc::clone(numbers));
        let place = self.specs.len() as u16;
        self.spec_places.insert(Arc::as_ptr(numbers), place);
        place
    }

    /// The index of the windows of a calendar whose numbers were given an index, from 1.
    fn windows(&self, spec: u16) -> u16 {
        let before = &self.specs[..usize::from(spec)];
        before.iter().filter(|numbers| numbers.windows.is_some()).count() as u16
    }

    /// Batches that ask for the same, as one.
    fn same(&mut self, asked: &[&Asked], run: &Run) -> Vec<u8> {
        let first = asked[run.of[0]];
        let mut bytes = Writer::default();
        bytes.byte(call_format::SAME);
        self.operation(first, &first.batch.operations[0], &first.numbers[0], &mut bytes);
        bytes.short(run.of.len() as u16);
        for index in &run.of {
            let asked = asked[*index];
            let answer = self.key(self.names.answer(self.place, asked.batch.id));
            bytes.short(answer).long(asked.fingerprint).bytes(&asked.batch.id.0.to_be_bytes());
        }
        bytes.into_bytes()
    }

    fn operation(
        &mut self,
        asked: &Asked,
        operation: &Operation,
        numbers: &Arc<Numbers>,
        bytes: &mut Writer,
    ) {
        let key = self.key(match operation.kind {
            Kind::Ledger(_) => self.names.ledger(&operation.key),
            _ => self.names.counter(&operation.key),
        });
        let spec = self.spec(numbers);
        let (first, second) = match operation.algorithm {
            Algorithm::Calendar(_) => (self.windows(spec), 0),
            Algorithm::Rolling(_) => (self.key(self.names.instants(&operation.key)), 0),
            Algorithm::Concurrency(_) => {
                (self.key(self.names.expiries(&operation.key)), self.key(self.names.holders(&operation.key)))
            }
            _ => (0, 0),
        };
        let kind = match operation.kind {
            Kind::Check { .. } => call_format::CHECK,
            Kind::Peek { .. } => call_format::PEEK,
            Kind::Report { .. } => call_format::REPORT,
            Kind::Refund { .. } => call_format::REFUND,
            Kind::Undo { .. } if asked.mode == ExecutionMode::GiveBack => call_format::GIVE_BACK,
            Kind::Undo { .. } => call_format::UNDO,
            Kind::Acquire { .. } => call_format::ACQUIRE,
            Kind::Release { .. } => call_format::RELEASE,
            Kind::Reset => call_format::RESET,
            Kind::Block { .. } => call_format::BLOCK,
            Kind::Ledger(ref operation) => ledger::kind(operation),
        };
        let is_shadow = u8::from(operation.mode == Mode::Shadow);
        let keeps_instant = u8::from(operation.carry_over == CarryOver::Instant);
        bytes.byte(kind).byte(is_shadow | keeps_instant << 1);
        bytes.short(key).short(spec).short(first).short(second);
        match operation.kind {
            Kind::Check { cost } | Kind::Peek { cost } | Kind::Report { cost } | Kind::Refund { cost } => {
                bytes.double(count(cost.units())).long(numbers.ticks(cost));
            }
            Kind::Undo { batch } => {
                let answer = self.key(self.names.answer(self.place, batch));
                bytes.short(answer).bytes(&batch.0.to_be_bytes());
            }
            Kind::Acquire { holder } | Kind::Release { holder } => {
                bytes.bytes(&holder.0.to_be_bytes());
            }
            Kind::Block { until } => {
                bytes.double(to_micros(until));
            }
            Kind::Ledger(ref operation) => ledger::write(operation, bytes),
            Kind::Reset => {}
        }
    }

    fn batch(&mut self, asked: &Asked) -> Vec<u8> {
        let batch = &asked.batch;
        let mut bytes = Writer::default();
        bytes.byte(match (asked.mode, batch.mode) {
            (ExecutionMode::Try, _) => call_format::TRY,
            (ExecutionMode::Forestall, _) => call_format::FORESTALL,
            (_, BatchMode::AllOrNothing) => call_format::ALL_OR_NOTHING,
            (_, BatchMode::Each) => call_format::EACH,
        });
        let answer = if asked.remembered { self.key(self.names.answer(self.place, batch.id)) } else { 0 };
        bytes.short(answer).long(asked.fingerprint).bytes(&batch.id.0.to_be_bytes());
        bytes.byte(batch.operations.len() as u8).byte(batch.notes.len() as u8);
        for (operation, numbers) in batch.operations.iter().zip(&asked.numbers) {
            self.operation(asked, operation, numbers, &mut bytes);
        }
        for change in &batch.notes {
            let (what, kind, name) = match change {
                NoteChange::Put(note) => (1, note.kind, &note.name),
                NoteChange::Create(note) => (2, note.kind, &note.name),
                NoteChange::Remove { kind, name } => (3, *kind, name),
            };
            let (hash, ends) = (self.key(self.names.notes(kind)), self.key(self.names.note_ends(kind)));
            bytes.byte(what).short(hash).short(ends).short(name.len() as u16).bytes(name);
            if let NoteChange::Put(note) | NoteChange::Create(note) = change {
                bytes.double(to_micros(note.until)).long(note.until.as_nanos());
                bytes.int(note.value.len() as u32).bytes(&note.value);
            }
        }
        bytes.into_bytes()
    }
}

/// Another id that follows from `id`, for what a batch over several slots asks beside itself.
pub(crate) fn derived(id: RequestId, purpose: u128) -> RequestId {
    RequestId(id.0.wrapping_mul(0x2d99_787a_926d_46a3_2f0b_4453_53c7_2f1f).rotate_left(59) ^ purpose)
}
