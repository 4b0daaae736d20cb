//! The outbox of an engine whose store lends no leases: only batches that give something back.

use core::task::{Context, Poll};

use tidegate_store::{Batch, RequestId};

use super::lease_batch::LeaseBatches;
use super::outbox::Outbox;

/// Batches that undo, or give back, until a task takes them to the store.
#[derive(Debug, Default)]
pub(crate) struct UndoOutbox(Outbox);

impl UndoOutbox {
    pub(crate) fn post(&self, undo: Batch) {
        self.0.post_undo(undo);
    }

    /// All of them; usually none, which costs one relaxed load.
    pub(crate) fn take(&self, id: impl FnMut() -> RequestId) -> LeaseBatches {
        self.0.take().map_or_else(LeaseBatches::new, |posted| posted.into_batches(id))
    }

    /// All of them, once there are some.
    pub(crate) fn poll(&self, context: &Context<'_>, id: impl FnMut() -> RequestId) -> Poll<LeaseBatches> {
        self.0.poll(context).map(|posted| posted.into_batches(id))
    }
}
