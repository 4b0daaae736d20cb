//! Numbers about a store: its calls, its failures, its losses.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Timestamp;

use crate::breaker::Circuit;

/// The counts of a [`RedisStore`](crate::RedisStore) since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStats {
    /// Script calls sent, those included that were not answered.
    pub calls: u64,
    /// Batches sent in them.
    pub batches: u64,
    /// Asks of ledgers among them.
    pub asks: u64,
    /// Operations waiting to be sent now, at most
    /// [`RedisConfig::queue`](crate::RedisConfig::queue).
    pub waiting: usize,
    /// Calls that were not answered in time or at all.
    pub failed: u64,
    /// Batches that were not sent, by cause.
    pub rejected: Rejected,
    /// The state of the circuit breaker.
    pub circuit: Circuit,
    /// How often it opened.
    pub opened: u64,
    /// Batches that were [undone](crate::RedisStore::undo) after they had been given up, or had
    /// turned out not to have charged anything.
    pub undone: u64,
    /// Batches of which a charge could not be undone: less is admitted than could be, until that
    /// charge drains.
    pub undo_failed: u64,
    /// How often this member found that the store had lost what it held.
    pub lost: u64,
    /// The loss that began first and is not [acknowledged](crate::RedisStore::acknowledge_loss),
    /// whichever member noticed it.
    pub loss: Option<Loss>,
    /// The lease protocol of the store, if that is higher than this member's, which then decides
    /// nothing there.
    pub newer_protocol: Option<u32>,
    /// Operations that the script decided differently from the pure code. Always 0; anything else
    /// is a defect to report.
    pub disagreed: u64,
}

/// Batches that were not sent, so that they changed nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejected {
    /// The circuit breaker is open.
    pub circuit_open: u64,
    /// [`RedisConfig::queue`](crate::RedisConfig::queue) operations waited already.
    pub queue_full: u64,
    /// The deadline passed while they waited for the calls before them.
    pub not_sent: u64,
}

/// The store was found to have lost what it held: the marker of its epoch is gone or another one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The slot it was found in, for a cluster.
    pub slot: Option<u16>,
    /// The id of the epoch it should have; "an earlier one" if another member noticed the loss.
    pub expected: String,
    /// The id of the epoch it has; empty if it had none.
    pub found: String,
    /// When the loss was noticed, on the store's clock.
    pub began: Timestamp,
}

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
