//! The places in flight of one resource: a bounded count of requests that are being worked on.

#[cfg(test)]
#[cfg(tidegate_loom)]
mod loom;

use crate::sync::{AtomicU64, Ordering};

/// The bounded count. Every request writes it, so it shares no cache line with what others read.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct InFlight {
    /// At least 1.
    max: AtomicU64,
    count: AtomicU64,
    /// The highest count since the last call of [`InFlight::take_pressure`].
    peak: AtomicU64,
    /// The requests that found no place since that call.
    turned_away: AtomicU64,
}

impl InFlight {
    pub(crate) fn new(max: u64) -> Self {
        Self {
            max: AtomicU64::new(max),
            count: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn max(&self) -> u64 {
        // Relaxed: a request that sees the bound before a change comes just before it.
        self.max.load(Ordering::Relaxed)
    }

    /// Sets the bound, at least 1. Requests in flight above it stay; no other gets a place until
    /// enough of them have ended.
    pub(crate) fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        // Relaxed: the count guards no other memory.
        self.count.load(Ordering::Relaxed)
    }

    /// Takes a place; whether one was free.
    #[inline]
    pub(crate) fn acquire(&self) -> bool {
        let max = self.max();
        // Relaxed: the count guards no other memory; only its own value must be right.
        let taken = self
            .count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < max).then_some(count + 1));
        let Ok(before) = taken else {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        // Almost always the peak is higher, and a load takes nothing from other cores.
        if self.peak.load(Ordering::Relaxed) <= before {
            self.peak.fetch_max(before + 1, Ordering::Relaxed);
        }
        true
    }

    /// Returns a place that [`InFlight::acquire`] took.
    #[inline]
    pub(crate) fn give_back(&self) {
        // Relaxed: as in `acquire`. Each permit was counted once, so the count stays at zero or
        // above.
        let before = self.count.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "more places are returned than were taken");
    }

    /// The pressure on the bound since the last call: the peak demand for places, divided by the
    /// bound.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts are far below 2^53, and pressure is a rough number"
    )]
    pub(crate) fn take_pressure(&self) -> f64 {
        let count = self.count.load(Ordering::Relaxed);
        let peak = self.peak.swap(count, Ordering::Relaxed).max(count);
        let wanted = peak + self.turned_away.swap(0, Ordering::Relaxed);
        wanted as f64 / self.max() as f64
    }
}
