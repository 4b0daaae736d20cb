//! The batches that were answered lately, so that one sent again is not carried out again, and one
//! can be undone.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_core::lease::Grant;

use crate::record::UndoEntry;
use crate::step::OpVec;
use crate::{Answer, Batch, Key, Outcome, RequestId, StoreError};

/// Answers by the id of their batch, the oldest of which goes first.
#[derive(Debug)]
pub(super) struct Answers {
    /// How many operations are remembered.
    max: usize,
    kept: Duration,
    hasher: ahash::RandomState,
    known: HashMap<RequestId, Remembered, ahash::RandomState>,
    /// In the order they came, with times that never decrease.
    order: VecDeque<(Timestamp, RequestId)>,
    operations: usize,
}

/// One answered batch.
#[derive(Debug)]
pub(super) struct Remembered {
    /// Tells the batch from another one under the same id.
    fingerprint: u64,
    outcomes: Box<[Outcome]>,
    grants: Box<[Option<Grant>]>,
    refused: bool,
    store_now: Timestamp,
    /// The charges that have not been undone, with the bytes of the keys.
    charges: Box<[(Arc<[u8]>, UndoEntry)]>,
}

impl Remembered {
    pub(super) fn new(answer: &Answer, charges: OpVec<(Arc<[u8]>, UndoEntry)>) -> Self {
        Self {
            fingerprint: 0,
            outcomes: answer.outcomes.as_slice().into(),
            grants: answer.grants.as_slice().into(),
            refused: answer.refused,
            store_now: answer.store_now,
            charges: charges.into_boxed_slice(),
        }
    }

    fn answer(&self) -> Answer {
        let answer = Answer::new(self.outcomes.as_ref().into(), self.refused, self.store_now);
        answer.with_grants(self.grants.iter().copied().collect())
    }

    /// The bytes counted against the bound: a batch without operations takes room as well.
    fn size(&self) -> usize {
        self.outcomes.len().max(1)
    }
}

impl Answers {
    pub(super) fn new(max: usize, kept: Duration, seed: [u64; 4]) -> Self {
        let hasher = ahash::RandomState::with_seeds(!seed[1], seed[2], !seed[3], seed[0]);
        let known = HashMap::with_hasher(hasher.clone());
        Self { max, kept, hasher, known, order: VecDeque::new(), operations: 0 }
    }

    /// Operations of all batches that are remembered.
    pub(super) fn len(&self) -> usize {
        self.operations
    }

    /// Forgets what was answered too long ago.
    pub(super) fn forget_old(&mut self, now: Timestamp) {
        while self.order.front().is_some_and(|(at, _)| at.saturating_add(self.kept) <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let forgotten = self.order.pop_front().and_then(|(_, id)| self.known.remove(&id));
        self.operations -= forgotten.map_or(0, |forgotten| forgotten.size());
    }

    /// The answer this batch was given, if it was; an error if another batch had its id.
    pub(super) fn recall(&self, batch: &Batch) -> Result<Option<Answer>, StoreError> {
        match self.known.get(&batch.id) {
            None => Ok(None),
            Some(known) if known.fingerprint == self.fingerprint(batch) => Ok(Some(known.answer())),
            Some(_) => Err(StoreError::IdReused { id: batch.id }),
        }
    }

    fn fingerprint(&self, batch: &Batch) -> u64 {
        self.hasher.hash_one(batch)
    }

    /// Remembers the answer of a batch whose id is not known.
    pub(super) fn remember(&mut self, batch: &Batch, remembered: Remembered, now: Timestamp) {
        let remembered = Remembered { fingerprint: self.fingerprint(batch), ..remembered };
        let size = remembered.size();
        if size > self.max {
            return;
        }
        while self.operations + size > self.max {
            self.forget_first();
        }
        // A clock that has stepped back must not put a batch behind ones that are forgotten later.
        let at = self.order.back().map_or(now, |(latest, _)| now.max(*latest));
        self.order.push_back((at, batch.id));
        self.known.insert(batch.id, remembered);
        self.operations += size;
    }

    /// The charge of a batch to a key, if it has not been undone.
    pub(super) fn charges(&self, batch: RequestId, key: &Key) -> OpVec<UndoEntry> {
        let charges = self.known.get(&batch).map_or(&[][..], |known| &known.charges);
        charges.iter().filter(|(of, _)| **of == *key.as_bytes()).map(|(_, made)| made.clone()).collect()
    }

    /// A batch's charges to a key were undone.
    pub(super) fn forget_charges(&mut self, batch: RequestId, key: &Key) {
        if let Some(known) = self.known.get_mut(&batch) {
            let left = core::mem::take(&mut known.charges).into_vec();
            known.charges = left.into_iter().filter(|(of, _)| **of != *key.as_bytes()).collect();
        }
    }
}
