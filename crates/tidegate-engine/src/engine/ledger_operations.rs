//! Operations on ledgers that this process has itself: they are done at once, and the store is
//! asked about the rest of their batch.

use tidegate_core::Timestamp;
use tidegate_store::{Answer, Batch, Kind, Operation, StoreError};

use crate::engine::Engine;
use crate::error::RequestError;
use crate::leases::{LeaseBatch, OwnLedgers};
use crate::progress::{Progress, StoreStep};

impl Engine {
    /// Asks for the batch of an operation, and goes on with the answer.
    ///
    /// Where the ledgers are in this process, the store is asked about everything else first, so
    /// that an error of the store leaves nothing half done. Without anything else the operation is
    /// done at once.
    pub(crate) fn ask<T>(
        &self,
        batch: Batch,
        now: Timestamp,
        then: impl FnOnce(StoreStep<'_>, Batch) -> Result<Progress<T>, RequestError> + Send + 'static,
    ) -> Result<Progress<T>, RequestError> {
        let is_for_ledger = |one: &Operation| matches!(one.kind, Kind::Ledger(_));
        let Some(ledgers) = self.own_ledgers().filter(|_| batch.operations.iter().any(is_for_ledger)) else {
            return Ok(Progress::ask(batch, then));
        };
        let here = Batch::each(batch.id, batch.operations.iter().filter(|one| is_for_ledger(one)).cloned());
        if here.operations.len() == batch.operations.len() && batch.notes.is_empty() {
            let answer = ledgers.run_batch(&here, now);
            return then(StoreStep { engine: self, answer, now }, batch);
        }
        let mut rest = batch.clone();
        rest.operations.retain(|one| !is_for_ledger(one));
        Ok(Progress::ask(rest, move |step, _| {
            let StoreStep { engine, answer, now } = step;
            let answer = match (answer, engine.own_ledgers()) {
                // A refused batch has no effect, so neither have its operations on ledgers.
                (Ok(answer), Some(ledgers)) if !answer.refused => {
                    merged(&batch, answer, ledgers.run_batch(&here, now))
                }
                (answer, _) => answer,
            };
            then(StoreStep { engine, answer, now }, batch)
        }))
    }

    /// Has a batch of lease asks answered by the ledgers of this process; returns a batch that is
    /// for the store. For programs that carry what [`Engine::take_lease_asks`] returns.
    pub fn answer_here(&self, asked: LeaseBatch, now: Timestamp) -> Option<LeaseBatch> {
        let answer = self.shared.leases().and_then(|leases| leases.answer_here(&asked, now));
        let Some(answer) = answer else { return Some(asked) };
        self.lease_answered(asked, Ok(answer), now);
        None
    }

    /// The ledgers of this process; `None` where a store has them, or nothing is leased.
    pub(crate) fn own_ledgers(&self) -> Option<&OwnLedgers> {
        self.shared.leases()?.own_ledgers()
    }
}

/// The answer to a batch, of the store and of the ledgers of this process.
fn merged(
    batch: &Batch,
    of_store: Answer,
    of_ledgers: Result<Answer, StoreError>,
) -> Result<Answer, StoreError> {
    let (mut there, mut here) = (of_store.outcomes.into_iter(), of_ledgers?.outcomes.into_iter());
    let outcomes = batch.operations.iter().filter_map(|one| match one.kind {
        Kind::Ledger(_) => here.next(),
        _ => there.next(),
    });
    Ok(Answer::new(outcomes.collect(), false, of_store.store_now))
}
