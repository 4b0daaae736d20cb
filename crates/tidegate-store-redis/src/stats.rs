//! What a store did and found.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::breaker::Circuit;

/// What a [`RedisStore`](crate::RedisStore) did since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStats {
    /// Script calls sent, those included that were not answered.
    pub calls: u64,
    /// Batches sent in them.
    pub batches: u64,
    /// Asks of ledgers among them.
    pub asks: u64,
    /// Operations waiting to be sent now, at most [`RedisConfig::queue`](crate::RedisConfig::queue).
    pub waiting: usize,
    /// Calls that were not answered in time or at all.
    pub failed: u64,
    /// Batches that were not sent because the store had not answered those before.
    pub left_alone: u64,
    /// What the circuit breaker does now.
    pub circuit: Circuit,
    /// How often it opened.
    pub opened: u64,
    /// Batches over several slots of which a charge could not be given back: less is admitted than could be, until it drains.
    pub stranded: u64,
    /// How often the store was found to have lost what it held.
    pub lost: u64,
    /// What was found lost first and is not [acknowledged](crate::RedisStore::acknowledge_loss).
    pub loss: Option<Loss>,
    /// Operations that the script decided differently from the pure code. Always 0; anything else is a defect to report.
    pub disagreed: u64,
}

/// The store was found to have lost what it held: the marker of its epoch is gone or another one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The slot it was found in, for a cluster.
    pub slot: Option<u16>,
    /// The id of the epoch it should have.
    pub expected: String,
    /// The id of the epoch it has; empty if it had none.
    pub found: String,
}

/// Counts that only add up; nobody orders anything by them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) calls: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) asks: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) left_alone: AtomicU64,
    pub(crate) stranded: AtomicU64,
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
