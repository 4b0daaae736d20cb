//! Stores with one fault each.

use core::future::poll_fn;
use core::task::Poll;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::algorithm::Verdict;
use tidegate_core::lease::{Grant, HolderName, Ledger};
use tidegate_core::limit::Mode;
use tidegate_core::{Algorithm, Cost, Timestamp};

use super::Clock;
use crate::record::{DecisionTime, Record};
use crate::step::{self, Keyed, OpVec, Slot};
use crate::{
    Answer, Batch, BatchMode, Key, Kind, MemoryStore, Note, NoteKind, OnLedger, Operation, RequestId, Store,
    StoreError,
};

/// Decides each operation by itself and only then says that the batch is refused.
pub(super) struct ChargesOnRefusal(pub(super) MemoryStore);

impl Store for ChargesOnRefusal {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let mut answer = self.0.run_now(&Batch { mode: BatchMode::Each, ..batch.clone() })?;
        let refuses = |(operation, outcome): (&Operation, &crate::Outcome)| {
            let peeks = matches!(operation.kind, Kind::Peek { .. });
            outcome.verdict != Verdict::Admit && operation.mode == Mode::Enforce && !peeks
        };
        answer.refused = batch.mode == BatchMode::AllOrNothing
            && batch.operations.iter().zip(&answer.outcomes).any(refuses);
        Ok(answer)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Carries every batch out as if it were a new one.
pub(super) struct ForgetsIds(MemoryStore, AtomicU64);

impl ForgetsIds {
    pub(super) fn new(store: MemoryStore) -> Self {
        Self(store, AtomicU64::new(1))
    }
}

impl Store for ForgetsIds {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        // Only has to differ each time.
        let id = RequestId(u128::from(self.1.fetch_add(1, Ordering::Relaxed)));
        self.0.run_now(&Batch { id, ..batch.clone() })
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Reads, lets others go, and writes what it made of what it had read.
pub(super) struct LosesUpdates {
    clock: Clock,
    records: Mutex<BTreeMap<Key, Record>>,
}

impl LosesUpdates {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, records: Mutex::default() }
    }
}

/// Pending once.
async fn let_others_go() {
    let mut went = false;
    poll_fn(|context| {
        if core::mem::replace(&mut went, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Store for LosesUpdates {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        batch.check()?;
        let (keyed, now) = (Keyed::new(batch), self.clock.now());
        let read: OpVec<Option<Record>> = {
            let records = self.records.lock().unwrap();
            keyed.distinct.iter().map(|key| records.get(key).cloned()).collect()
        };
        let_others_go().await;
        let charges = OpVec::from_elem(OpVec::new(), batch.operations.len());
        let refs: OpVec<Option<&Record>> = read.iter().map(Option::as_ref).collect();
        let at = DecisionTime { now, epoch: crate::Keeper::FIRST_EPOCH };
        let plan = step::plan(&keyed, &refs, &charges, at);
        if plan.refused {
            return Ok(plan.refusal(&keyed, &refs, at));
        }
        drop(refs);
        let mut slots: OpVec<Slot> = read.into_iter().map(|record| Slot { record, has_room: true }).collect();
        let done = step::carry_out(&keyed, &mut slots, &charges, at);
        let mut records = self.records.lock().unwrap();
        for (key, slot) in keyed.distinct.iter().zip(slots) {
            match slot.record {
                Some(record) => records.insert((*key).clone(), record),
                None => records.remove(*key),
            };
        }
        Ok(done.answer)
    }

    async fn notes(&self, _kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(Vec::new())
    }
}

/// Runs the first operation as a step of its own.
pub(super) struct HalfAStep(pub(super) MemoryStore);

impl Store for HalfAStep {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let mut rest = batch.clone();
        if rest.operations.len() < 2 {
            return self.0.run_now(batch);
        }
        let first = rest.operations.remove(0);
        let id = RequestId(!batch.id.0);
        let mut first = self.0.run_now(&Batch {
            id,
            mode: batch.mode,
            operations: [first].into_iter().collect(),
            notes: Vec::new(),
        })?;
        if !first.refused {
            let rest = self.0.run_now(&rest)?;
            first.refused = rest.refused;
            first.outcomes.extend(rest.outcomes);
        }
        Ok(first)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Tells keys apart by their parts, joined with an underscore.
pub(super) struct JoinsKeys(pub(super) MemoryStore);

impl Store for JoinsKeys {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let mut batch = batch.clone();
        for operation in &mut batch.operations {
            let parts: Vec<_> = operation.key.parts().map(Option::unwrap_or_default).collect();
            operation.key = Key::from_parts([Some(&parts.join(&b'_')[..])])?;
        }
        self.0.run_now(&batch)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Checks where it should only look.
pub(super) struct CountsPeeks(pub(super) MemoryStore);

impl Store for CountsPeeks {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let mut batch = batch.clone();
        for operation in &mut batch.operations {
            if let (Kind::Peek { cost }, false) =
                (operation.kind, matches!(operation.algorithm, Algorithm::Concurrency(_)))
            {
                *operation = Operation { kind: Kind::Check { cost }, ..operation.clone() }.shadow();
            }
        }
        self.0.run_now(&batch)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Reads a clock that runs at half the speed.
pub(super) struct OwnClock(MemoryStore);

impl OwnClock {
    pub(super) fn new(clock: Clock) -> Self {
        let half = move || Timestamp::from_nanos(clock.now().as_nanos() / 2);
        Self(MemoryStore::new(crate::MemoryConfig::new([1, 1, 1, 1]), half))
    }
}

impl Store for OwnClock {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        self.0.run_now(batch)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Takes charges back by refunding one unit, however often it is asked.
pub(super) struct UndoesTwice(MemoryStore);

impl UndoesTwice {
    pub(super) fn new(store: MemoryStore) -> Self {
        Self(store)
    }
}

impl Store for UndoesTwice {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let mut batch = batch.clone();
        for operation in &mut batch.operations {
            let permits = matches!(operation.algorithm, Algorithm::Concurrency(_));
            if matches!(operation.kind, Kind::Undo { .. }) && !permits {
                operation.kind = Kind::Refund { cost: Cost::ONE };
            }
        }
        self.0.run_now(&batch)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Right, but without calendars.
pub(super) struct NoCalendars(pub(super) MemoryStore);

impl Store for NoCalendars {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        if batch.operations.iter().any(|operation| !self.supports(&operation.algorithm)) {
            return Err(StoreError::Unsupported { what: "calendars".to_owned() });
        }
        self.0.run_now(batch)
    }

    fn supports(&self, algorithm: &Algorithm) -> bool {
        !matches!(algorithm, Algorithm::Calendar(_))
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Writes notes down as a step of its own, before it decides.
pub(super) struct NotesFirst(pub(super) MemoryStore);

impl Store for NotesFirst {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let notes = Batch::each(RequestId(!batch.id.0), []).with_notes(batch.notes.iter().cloned());
        self.0.run_now(&notes)?;
        self.0.run_now(&Batch { notes: Vec::new(), ..batch.clone() })
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Lends to everyone as if nobody else had asked.
pub(super) struct LendsWithoutDebit(MemoryStore, Clock);

impl LendsWithoutDebit {
    pub(super) fn new(clock: Clock) -> Self {
        Self(clock.memory(), clock)
    }
}

impl Store for LendsWithoutDebit {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let mut looking = batch.clone();
        let mut grants = crate::Grants::new();
        for operation in &mut looking.operations {
            if let Some(ask) = operation.kind.ask() {
                let (now, epoch) = (self.1.now(), crate::Keeper::FIRST_EPOCH);
                let terms = operation.terms(now).unwrap();
                grants.push(Ledger::begin(&terms, &epoch).ask(now, &terms, &epoch, &ask).grant);
                operation.kind = Kind::Ledger(OnLedger::Look);
            }
        }
        let answer = self.0.run_now(&looking)?;
        if answer.refused {
            grants.fill(None);
        }
        Ok(answer.with_grants(grants))
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Lends to streams of peers as to ordinary holders.
pub(super) struct IgnoresLifetimes(pub(super) MemoryStore);

impl Store for IgnoresLifetimes {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let mut batch = batch.clone();
        for operation in &mut batch.operations {
            if let Kind::Ledger(OnLedger::Ask(ask)) = &mut operation.kind {
                ask.lifetime = core::time::Duration::ZERO;
            }
        }
        self.0.run_now(&batch)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}

/// Takes an ask that is repeated for another one of the same holder.
pub(super) struct AnswersAsksAnew {
    store: MemoryStore,
    /// The last number of each holder's asks for a key, and how often they were repeated.
    known: Mutex<BTreeMap<(Key, HolderName), (u32, u32)>>,
}

impl AnswersAsksAnew {
    pub(super) fn new(store: MemoryStore) -> Self {
        Self { store, known: Mutex::default() }
    }
}

impl Store for AnswersAsksAnew {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let mut batch = batch.clone();
        let mut seqs = Vec::new();
        let mut known = self.known.lock().unwrap();
        let mut seen = known.clone();
        for operation in &mut batch.operations {
            if let Kind::Ledger(OnLedger::Ask(ask)) = &mut operation.kind {
                let (last, repeated) = seen.entry((operation.key.clone(), ask.holder)).or_default();
                seqs.push(ask.seq);
                *repeated += u32::from(ask.seq <= *last);
                *last = ask.seq.max(*last);
                ask.seq += *repeated;
            }
        }
        let mut answer = self.store.run_now(&batch)?;
        if !answer.refused {
            *known = seen;
        }
        for (grant, seq) in answer.grants.iter_mut().zip(seqs) {
            *grant = grant.map(|grant| Grant { seq, ..grant });
        }
        Ok(answer)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.store.notes_now(kind))
    }
}

/// Answers asks as a step of its own, before it decides.
pub(super) struct LendsFirst(pub(super) MemoryStore);

impl Store for LendsFirst {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let asks = batch.operations.iter().filter(|operation| operation.kind.ask().is_some());
        self.0.run_now(&Batch::each(RequestId(!batch.id.0), asks.cloned()))?;
        self.0.run_now(batch)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.0.notes_now(kind))
    }
}
