//! The bytes that all connections of a daemon hold together.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

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

/// The budget of deliveries that wait for a reset.
#[derive(Debug, Default)]
pub(super) struct WatchedTotal(AtomicU32);

impl WatchedTotal {
    pub(super) fn take(&self) -> bool {
        let below = |count: u32| (count < WATCHED_TOTAL_MAX as u32).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).is_ok()
    }

    pub(super) fn give_back(&self, count: usize) {
        self.0.fetch_sub(count as u32, Ordering::Relaxed);
    }
}
