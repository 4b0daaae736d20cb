//! Undoing batches that were given up: the store may have charged a request that was refused
//! because the store was late, or that was cancelled.
//!
//! No caller waits for an undo. A failed one is retried with growing pauses until the store has
//! answered or has forgotten the batch. A charge that cannot be undone stays until it drains: less
//! is admitted than could be, never more.
//!
//! The places of the queue are divided among the namespaces by [`Shares`]: one whose requests all
//! fail leaves the others their part, so that what they give back is retried.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::shares::{Owner, Shares};
use tidegate_engine::Engine;
use tidegate_store::{Batch, Key, Kind, StoreError};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::store_call::StoreLink;

/// How many batches may wait to be undone, half of them divided among the namespaces. One more is
/// not undone, and is reported to [`crate::StoreHooks::undo_failed`].
pub const UNDOS_MAX: usize = 4096;

/// The first pause after a failure, and the longest after doubling.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The batches that are being undone.
#[derive(Clone, Debug)]
pub(crate) struct UndoQueue {
    places: Arc<Shares>,
}

/// One place in the queue, given back when this is dropped.
struct UndoPlace {
    places: Arc<Shares>,
    owner: Owner,
}

impl Drop for UndoPlace {
    fn drop(&mut self) {
        self.places.give_back(self.owner, 1);
    }
}

impl UndoQueue {
    pub(crate) fn new(max: usize) -> Self {
        Self { places: Arc::new(Shares::new(max as u64)) }
    }

    /// A place in the share of the namespace that the first operation of `batch` is of.
    fn place(&self, engine: &Engine, batch: &Batch) -> Option<UndoPlace> {
        self.places.divide(engine.owners());
        let first = batch.operations.first().map(|first| Key::first_part_of(first.key.as_bytes()));
        let namespace = first.and_then(|part| core::str::from_utf8(part).ok());
        let owner = namespace.map_or(Owner::NONE, |namespace| engine.owner(namespace));
        self.places.take(owner, 1).then(|| UndoPlace { places: Arc::clone(&self.places), owner })
    }

    /// Undoes `batch` in the background.
    pub(crate) fn start(&self, link: &StoreLink, engine: &Engine, batch: Batch) {
        let (Some(place), Ok(runtime)) = (self.place(engine, &batch), Handle::try_current()) else {
            return link.hooks.undo_failed();
        };
        let link = link.clone();
        runtime.spawn(async move {
            undo(&link, &batch).await;
            drop(place);
        });
    }
}

/// Whether a batch only undoes others.
fn has_only_undos(batch: &Batch) -> bool {
    let mut operations = batch.operations.iter();
    !batch.operations.is_empty()
        && batch.notes.is_empty()
        && operations.all(|operation| matches!(operation.kind, Kind::Undo { .. }))
}

async fn undo(link: &StoreLink, batch: &Batch) {
    let since = Instant::now();
    let horizon = link.hooks.undo_horizon();
    let mut pause = PAUSE_MIN;
    while let Err(error) = send(link, batch).await {
        if !error.is_transient() || since.elapsed() + pause >= horizon {
            return link.hooks.undo_failed();
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn send(link: &StoreLink, batch: &Batch) -> Result<(), StoreError> {
    if has_only_undos(batch)
        && let Some(undoing) = link.hooks.undo(batch)
    {
        return undoing.await;
    }
    link.call(batch).await.map(drop)
}

#[cfg(test)]
mod tests;
