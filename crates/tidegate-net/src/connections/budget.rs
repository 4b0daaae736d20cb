//! The bytes that all connections of a daemon hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tidegate_core::shares::{Owner, Shares};

/// The bytes that all connections of a daemon hold.
#[derive(Debug, Default)]
pub struct BufferBudget {
    pub(super) held: AtomicUsize,
    /// How often a connection was refused more.
    pub(super) refused: AtomicU64,
    /// Answers that are watched for a reset.
    pub(super) watched: WatchedTotal,
}

impl BufferBudget {
    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// How often a connection was refused more.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// The most deliveries of all connections that wait for a reset.
pub const WATCHED_TOTAL_MAX: usize = 16_384;

/// The budget of deliveries that wait for a reset, in [`Shares`] for each namespace.
#[derive(Debug)]
pub(super) struct WatchedTotal(pub(super) Shares);

impl Default for WatchedTotal {
    fn default() -> Self {
        Self(Shares::new(WATCHED_TOTAL_MAX as u64))
    }
}

/// One place of a namespace in the budget, given back when this is dropped.
#[derive(Debug)]
pub(super) struct WatchedPlace {
    budget: Arc<BufferBudget>,
    owner: Owner,
}

impl WatchedPlace {
    /// A place; `None` if the namespace may have no more.
    pub(super) fn take(budget: &Arc<BufferBudget>, owner: Owner) -> Option<Self> {
        let has_place = budget.watched.0.take(owner, 1);
        has_place.then(|| Self { budget: Arc::clone(budget), owner })
    }
}

impl Drop for WatchedPlace {
    fn drop(&mut self) {
        self.budget.watched.0.give_back(self.owner, 1);
    }
}
