//! The counts of a store: its calls, its failures, its losses.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts that only add up; nobody orders anything by them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) calls: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) asks: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) circuit_open: AtomicU64,
    pub(crate) queue_full: AtomicU64,
    pub(crate) not_sent: AtomicU64,
    pub(crate) undone: AtomicU64,
    pub(crate) undo_failed: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) disagreed: AtomicU64,
}

pub(crate) fn add(count: &AtomicU64, more: u64) {
    // A count by itself, which publishes nothing.
    count.fetch_add(more, Ordering::Relaxed);
}

pub(crate) fn read(count: &AtomicU64) -> u64 {
    // As above: a figure to look at.
    count.load(Ordering::Relaxed)
}
