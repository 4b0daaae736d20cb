//! Waking work that may have to be cancelled because its feature was switched off.
//!
//! The engine only says when work is to be cancelled. Work that waits for that sleeps until a
//! change of a feature is published, looks, and sleeps until its grace is over.

use std::sync::Arc;

use tokio::sync::watch;

/// The number of changes of features that was published last. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct FeatureCancels(Arc<watch::Sender<u64>>);

impl Default for FeatureCancels {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl FeatureCancels {
    /// Wakes all that wait, if there were changes since the last call.
    pub(crate) fn publish(&self, changes: u64) {
        self.0.send_if_modified(|known| core::mem::replace(known, changes) != changes);
    }

    /// The changes from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
