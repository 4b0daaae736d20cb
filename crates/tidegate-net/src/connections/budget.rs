//! The bytes that all connections of a daemon hold together.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::delivery::WatchedTotal;

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
