//! Batches over several slots of a cluster, which no single step can carry out.
//!
//! Slots are charged in order, each in one step. Where one refuses, those before it are given back
//! by undoing, which is exact for what nobody charged on top; a neighbour may for a moment be
//! refused for a charge that is then given back, never the reverse. Operations that cannot be
//! undone (refunds, resets, blocks, releases, ledgers) are only done after all slots have been
//! asked whether they would refuse. A failure in between leaves a charge: its outcome is unknown,
//! as the error says, and the count `undo_failed` grows.
//!
//! Everything a batch asks has an id that follows from its own, so that a batch sent again meets
//! the answers it met.
//!
//! All notes are in one slot. A batch that creates or removes notes changes them first, so that
//! what a note guards is never done twice; one that only writes them does so last, so that no note
//! speaks of a charge that was not made.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::Timestamp;
use tidegate_core::lease::Grant;
use tidegate_core::limit::Mode;
use tidegate_store::{
    Answer, Batch, BatchMode, Kind, NoteChange, OnLedger, Operations, Outcome, Outcomes, RequestId,
    StoreError,
};

use crate::answer::Decided;
use crate::call::{Asked, derived};
use crate::names::{Place, note_slot, slot};
use crate::shared::Shared;
use crate::stats::add;

/// The purpose that the ids of a batch's own questions are derived for.
const TRIED_BEFORE: u128 = 1;
const TRIED_AFTER: u128 = 2;
const NOTES_BACK: u128 = 3;
const UNDONE: u128 = 1 << 16;

/// The place of a batch that one step can carry out; `None` for a batch over several slots.
pub(crate) fn sole_place(batch: &Batch, is_cluster: bool) -> Option<Place> {
    if !is_cluster {
        return Some(Place::Server);
    }
    let notes = (!batch.notes.is_empty()).then(note_slot);
    let mut slots = batch.operations.iter().map(|operation| slot(&operation.key)).chain(notes);
    let first = slots.next().unwrap_or_else(note_slot);
    slots.all(|slot| slot == first).then_some(Place::Slot(first))
}

/// Carries out a batch over several slots that was [checked](Batch::check).
pub(crate) async fn run(shared: &Arc<Shared>, batch: &Batch) -> Result<Answer, StoreError> {
    // Before anything is done: whether all of it can be.
    for operation in &batch.operations {
        shared.known.of(operation)?;
    }
    let after = shared.config.batch_deadline();
    let across = MultiSlotBatch { shared, batch, parts: parts(batch) };
    let ran = tokio::time::timeout(after, across.run()).await;
    ran.unwrap_or(Err(StoreError::Timeout { after }))
}

/// Takes back the charges of batches that were given up, and keeps those batches from charging
/// anything if they arrive later. `batch` was [checked](Batch::check) and has undos only.
pub(crate) async fn undo(shared: &Arc<Shared>, batch: &Batch) -> Result<(), StoreError> {
    let is_undo = |kind: &Kind| matches!(kind, Kind::Undo { .. });
    if !batch.notes.is_empty() || !batch.operations.iter().all(|operation| is_undo(&operation.kind)) {
        return Err(StoreError::Unsupported { what: "an undo of anything but batches".to_owned() });
    }
    for part in parts(batch) {
        let place = if shared.config.cluster { Place::Slot(part.slot) } else { Place::Server };
        let batch = if shared.config.cluster { part.batch } else { batch.clone() };
        shared.ask(place, Asked::new(batch, &shared.known)?.forestalling()).await?;
        if place == Place::Server {
            break;
        }
    }
    Ok(())
}

/// The operations of one slot.
struct Part {
    slot: u16,
    /// Their places in the batch.
    indices: SmallVec<[usize; 4]>,
    batch: Batch,
}

/// A batch by slots, in the order in which they are first named.
fn parts(batch: &Batch) -> Vec<Part> {
    let mut parts = Vec::<Part>::new();
    for (index, operation) in batch.operations.iter().enumerate() {
        let slot = slot(&operation.key);
        let place = parts.iter().position(|part| part.slot == slot).unwrap_or_else(|| {
            let batch =
                Batch { id: batch.id, mode: batch.mode, operations: Operations::new(), notes: Vec::new() };
            parts.push(Part { slot, indices: SmallVec::new(), batch });
            parts.len() - 1
        });
        parts[place].indices.push(index);
        parts[place].batch.operations.push(operation.clone());
    }
    parts
}

struct MultiSlotBatch<'a> {
    shared: &'a Arc<Shared>,
    batch: &'a Batch,
    parts: Vec<Part>,
}

impl MultiSlotBatch<'_> {
    async fn run(&self) -> Result<Answer, StoreError> {
        let all_or_nothing = self.batch.mode == BatchMode::AllOrNothing;
        let kinds = || self.batch.operations.iter().map(|operation| (operation.kind, operation.mode));
        let may_refuse = kinds().any(|(kind, mode)| {
            mode == Mode::Enforce && matches!(kind, Kind::Check { .. } | Kind::Acquire { .. })
        });
        let looks = |kind| matches!(kind, Kind::Peek { .. } | Kind::Ledger(OnLedger::Look));
        let is_final = kinds().any(|(kind, _)| !kind.may_charge() && !looks(kind));
        if all_or_nothing && may_refuse && is_final {
            let tried = self.try_all(TRIED_BEFORE).await?;
            if tried.refused {
                return self.refused().await;
            }
        }

        let guards = |change: &NoteChange| !matches!(change, NoteChange::Put(_));
        let notes_first = self.batch.notes.iter().any(guards);
        let mut notes_before = Vec::new();
        if notes_first {
            let noted = self.note(self.batch.id, &self.batch.notes).await?;
            if noted.answer.refused {
                return self.refused().await;
            }
            notes_before = noted.notes_before;
        }

        let mut answers = Vec::new();
        for (done, part) in self.parts.iter().enumerate() {
            let asked = Asked::new(part.batch.clone(), &self.shared.known)?.part_of(self.batch);
            let answer = match self.shared.ask(Place::Slot(part.slot), asked).await {
                Ok(decided) => decided.answer,
                Err(error) => return Err(self.left(error, done > 0 || notes_first)),
            };
            if answer.refused {
                self.give_back(&self.parts[..done], &notes_before).await;
                return self.refused().await;
            }
            answers.push(answer);
        }
        if !notes_first && !self.batch.notes.is_empty() {
            self.note(self.batch.id, &self.batch.notes).await.map_err(|error| self.left(error, true))?;
        }
        Ok(self.compose(&answers))
    }

    /// The answer of a batch that was refused: what each operation meets, and the counters as they
    /// still are.
    async fn refused(&self) -> Result<Answer, StoreError> {
        let mut answer = self.try_all(TRIED_AFTER).await?;
        answer.refused = true;
        answer.outcomes.iter_mut().for_each(|outcome| outcome.units = 0);
        Ok(answer)
    }

    /// Peeks in every slot and changes nothing.
    async fn try_all(&self, purpose: u128) -> Result<Answer, StoreError> {
        let mut answers = Vec::new();
        for part in &self.parts {
            let batch = Batch { id: derived(self.batch.id, purpose), ..part.batch.clone() };
            let asked = Asked::new(batch, &self.shared.known)?.part_of(self.batch).tried();
            answers.push(self.shared.ask(Place::Slot(part.slot), asked).await?.answer);
        }
        Ok(self.compose(&answers))
    }

    async fn note(&self, id: RequestId, notes: &[NoteChange]) -> Result<Decided, StoreError> {
        let asked = Asked::new(Batch::each(id, []).with_notes(notes.iter().cloned()), &self.shared.known)?;
        self.shared.ask(Place::Slot(note_slot()), asked).await
    }

    /// Gives back what the parts before a refusal charged, the last first, and then the notes.
    async fn give_back(&self, parts: &[Part], notes: &[NoteChange]) {
        let mut failed = 0;
        for part in parts.iter().rev() {
            let id = derived(self.batch.id, UNDONE + u128::from(part.slot));
            let undone = match Asked::new(Batch::undo_of(&part.batch, id), &self.shared.known) {
                Ok(asked) => self.shared.ask(Place::Slot(part.slot), asked.giving_back()).await,
                Err(error) => Err(error),
            };
            failed += u64::from(undone.is_err());
        }
        if !notes.is_empty() {
            failed += u64::from(self.note(derived(self.batch.id, NOTES_BACK), notes).await.is_err());
        }
        add(&self.shared.counts.undo_failed, failed.min(1));
    }

    /// An error after something was done: its outcome is unknown, whatever it was.
    fn left(&self, error: StoreError, done: bool) -> StoreError {
        if !done || error.is_outcome_unknown() {
            return error;
        }
        add(&self.shared.counts.undo_failed, 1);
        StoreError::Unavailable { at: self.shared.at.clone(), sent: true, source: Some(Box::new(error)) }
    }

    fn compose(&self, answers: &[Answer]) -> Answer {
        let now = answers.iter().map(|answer| answer.store_now).max().unwrap_or(Timestamp::MIN);
        let mut outcomes: Outcomes = self
            .batch
            .operations
            .iter()
            .map(|operation| Outcome::unused(operation.algorithm.limit(), now))
            .collect();
        // Those of the operations that asked, with their places.
        let mut granted = Vec::<(usize, Option<Grant>)>::new();
        for (part, answer) in self.parts.iter().zip(answers) {
            let mut grants = answer.grants.iter();
            for (index, outcome) in part.indices.iter().zip(&answer.outcomes) {
                outcomes[*index] = *outcome;
                if let Kind::Ledger(OnLedger::Ask(_)) = self.batch.operations[*index].kind {
                    granted.extend(grants.next().map(|grant| (*index, *grant)));
                }
            }
        }
        granted.sort_by_key(|(index, _)| *index);
        Answer::new(outcomes, answers.iter().any(|answer| answer.refused), now)
            .with_grants(granted.into_iter().map(|(_, grant)| grant).collect())
    }
}
