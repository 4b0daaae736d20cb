//! The bookkeeping of offered requests: each one ends in exactly one outcome.

use crate::sync::{AtomicU64, Ordering};

/// The final decision on a request whose first attempt was offered to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OfferOutcome {
    /// The request was admitted.
    Admitted,
    /// The admission cursor shed it.
    Shed,
    /// All places in flight were taken, and it did not wait.
    NoPlace,
    /// A limit denied it.
    Denied,
    /// The capacity plane throttled it.
    Throttled,
    /// It would have waited, but the waiting room was full, or a request of a higher class took its
    /// position there.
    QueueFull,
    /// It waited until its time was up, its caller went away or the process drained.
    GaveUp,
    /// It could not be decided because of an error.
    Failed,
}

impl OfferOutcome {
    /// All outcomes.
    pub const ALL: [Self; 8] = [
        Self::Admitted,
        Self::Shed,
        Self::NoPlace,
        Self::Denied,
        Self::Throttled,
        Self::QueueFull,
        Self::GaveUp,
        Self::Failed,
    ];

    /// The name in metrics: `admitted`, `shed`, `no_place`, `denied`, `throttled`, `queue_full`,
    /// `gave_up` or `failed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Shed => "shed",
            Self::NoPlace => "no_place",
            Self::Denied => "denied",
            Self::Throttled => "throttled",
            Self::QueueFull => "queue_full",
            Self::GaveUp => "gave_up",
            Self::Failed => "failed",
        }
    }
}

/// The counters of one resource. Every request writes them, so they share no cache line with what
/// others read.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct OfferCounts {
    // Relaxed, as the counters below: numbers for people and for the tick; they guard no other
    // data.
    offered: AtomicU64,
    decided: [AtomicU64; OfferOutcome::ALL.len()],
}

impl OfferCounts {
    pub(crate) fn new() -> Self {
        Self { offered: AtomicU64::new(0), decided: core::array::from_fn(|_| AtomicU64::new(0)) }
    }

    #[inline]
    pub(crate) fn offer(&self) {
        self.offered.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn record(&self, outcome: OfferOutcome) {
        self.decided[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn offered(&self) -> u64 {
        self.offered.load(Ordering::Relaxed)
    }

    /// The requests with this outcome.
    pub(crate) fn decided(&self, outcome: OfferOutcome) -> u64 {
        self.decided[outcome as usize].load(Ordering::Relaxed)
    }
}
