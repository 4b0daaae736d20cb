//! Asks, refunds and undos on their way to the store, in batches.

use core::fmt::Debug;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::lease::{Ask, Grant, LedgerLevel};
use tidegate_core::{Cost, Timestamp};
use tidegate_store::{Batch, NoteChange, OnLedger, Operation, Outcome, RequestId};

use super::flight::Flight;
use super::leased_key::LeasedKey;

/// Several asks on their way to the store, in one batch. Carry [`LeaseBatch::batch`] there and hand
/// the answer, or the error, to
/// [`crate::Engine::lease_answered`]: one that is dropped instead leaves its keys waiting for it.
#[derive(Debug)]
#[must_use = "keys wait for the answer"]
pub struct LeaseBatch {
    /// Boxed, as it is large and handed on several times.
    batch: Box<Batch>,
    pub(super) asks: DueAsks,
}

impl LeaseBatch {
    /// The batch to send to the store.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Has the store do this, too, in the same step; `false` if it has no room. The outcomes of
    /// these operations are the last of the answer.
    pub fn ride(&mut self, operations: impl ExactSizeIterator<Item = Operation>, note: NoteChange) -> bool {
        let has_room = self.batch.operations.len() + operations.len() <= Batch::OPERATIONS_MAX;
        if has_room {
            self.batch.operations.extend(operations);
            self.batch.notes.push(note);
        }
        has_room
    }

    /// How many keys it asks about.
    pub fn asks(&self) -> usize {
        self.asks.len()
    }
}

/// Batches of asks: mostly one at a time.
pub type LeaseBatches = SmallVec<[LeaseBatch; 1]>;

/// An ask that is to be sent.
#[derive(Debug)]
pub(super) struct DueAsk {
    pub(super) about: Arc<LeasedKey>,
    pub(super) ask: Ask,
    pub(super) flight: Arc<Flight>,
    /// The remote holder that asks, if it is one.
    pub(super) remote: Option<Box<dyn RemoteAsking>>,
}

/// A holder outside of the leases of this member, which asks by their outbox.
pub(crate) trait RemoteAsking: Send + Sync + Debug {
    /// Takes in the answer; `None` if the store has not answered.
    fn land(&self, grant: Option<(Grant, LedgerLevel)>, now: Timestamp);
}

/// Mostly one at a time.
pub(super) type DueAsks = SmallVec<[DueAsk; 1]>;

/// Tokens of a key that are given back without a lease.
pub(super) type Refund = (Arc<LeasedKey>, Cost);

/// The messages that the store is to be sent.
#[derive(Debug, Default)]
pub(super) struct Posted {
    pub(super) asks: DueAsks,
    pub(super) refunds: Vec<Refund>,
    /// Batches that undo what the store may have charged although it did not answer in time.
    pub(super) undos: Vec<Batch>,
}

impl Posted {
    pub(super) fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.refunds.is_empty() && self.undos.is_empty()
    }

    /// As few batches as there may be.
    pub(super) fn into_batches(self, mut id: impl FnMut() -> RequestId) -> LeaseBatches {
        let Self { asks, refunds, undos } = self;
        let count = asks.len().div_ceil(Batch::OPERATIONS_MAX)
            + refunds.len().div_ceil(Batch::OPERATIONS_MAX)
            + undos.len();
        let mut batches = LeaseBatches::with_capacity(count);
        let mut ask = |asks: DueAsks| {
            let operations = asks.iter().map(|due| due.about.operation(OnLedger::Ask(due.ask)));
            batches.push(LeaseBatch { batch: Box::new(Batch::each(id(), operations)), asks });
        };
        if asks.len() <= Batch::OPERATIONS_MAX {
            if !asks.is_empty() {
                ask(asks);
            }
        } else {
            let mut asks = asks.into_iter().peekable();
            while asks.peek().is_some() {
                ask(asks.by_ref().take(Batch::OPERATIONS_MAX).collect());
            }
        }
        for refunds in refunds.chunks(Batch::OPERATIONS_MAX) {
            let operation = |(about, cost): &Refund| about.operation(OnLedger::Refund { cost: *cost });
            let batch = Box::new(Batch::each(id(), refunds.iter().map(operation)));
            batches.push(LeaseBatch { batch, asks: DueAsks::new() });
        }
        let undo = |undo| LeaseBatch { batch: Box::new(undo), asks: DueAsks::new() };
        batches.extend(undos.into_iter().map(undo));
        batches
    }
}

/// The usage that a ledger reports, by an answer of this instant of its clock.
pub(super) fn level_of(outcome: &Outcome, store_now: Timestamp) -> LedgerLevel {
    LedgerLevel { used: outcome.used, reset_in: outcome.reset_at.saturating_since(store_now) }
}
