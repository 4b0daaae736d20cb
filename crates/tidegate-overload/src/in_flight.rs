//! How much work is under way at once, and the bound on it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A place in flight. It is not given back by dropping: whoever holds it hands it to
/// `Overload::give_back`.
#[derive(Debug)]
#[must_use = "a place that is not given back is lost"]
pub struct InFlightPermit(());

/// The bounded count.
#[derive(Debug)]
pub(crate) struct InFlight {
    max: u64,
    count: AtomicU64,
    /// The highest count since it was last asked for.
    peak: AtomicU64,
    /// How many were turned away since that was last asked for.
    turned_away: AtomicU64,
}

impl InFlight {
    pub(crate) fn new(max: u64) -> Self {
        Self { max, count: AtomicU64::new(0), peak: AtomicU64::new(0), turned_away: AtomicU64::new(0) }
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    pub(crate) fn count(&self) -> u64 {
        // Relaxed: a number for people.
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn acquire(&self) -> Option<InFlightPermit> {
        // Relaxed: the count guards no other memory; only its own value must be right.
        let taken = self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (count < self.max).then_some(count + 1)
        });
        let Ok(before) = taken else {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.peak.fetch_max(before + 1, Ordering::Relaxed);
        Some(InFlightPermit(()))
    }

    pub(crate) fn give_back(&self, _permit: InFlightPermit) {
        // Relaxed: as in `acquire`. Every permit was counted once, so it cannot go below zero.
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// How hard pressed the bound was since the last call: the peak of what was wanted, over the
    /// bound.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts are far below 2^53, and pressure is a rough number"
    )]
    pub(crate) fn take_pressure(&self) -> f64 {
        let count = self.count.load(Ordering::Relaxed);
        let peak = self.peak.swap(count, Ordering::Relaxed).max(count);
        let wanted = peak + self.turned_away.swap(0, Ordering::Relaxed);
        wanted as f64 / self.max as f64
    }
}
