//! The words that were taken first, so that a table with few keys counts them exactly.
//!
//! A sample of a large table misses a handful of keys. While at most [`FirstSlots::MAX`] unused
//! words have been taken, these are all words that can hold a key, and looking at each of them is
//! exact. Afterwards the table is sampled.

use portable_atomic::{AtomicU32, AtomicUsize, Ordering};

/// A list of slots that only grows, and that is full at some length.
///
/// Its atomics are not `crate::sync`'s: it is a metric, through which nothing is published, and it
/// adds no interleaving that could change an answer.
pub(super) struct FirstSlots {
    taken: AtomicUsize,
    /// Each slot plus 1; 0 where a slot is still being written.
    slots: Box<[AtomicU32]>,
}

impl FirstSlots {
    /// The most slots that are listed: 16 KiB of memory.
    pub(super) const MAX: usize = 4096;

    pub(super) fn new() -> Self {
        Self { taken: AtomicUsize::new(0), slots: (0..Self::MAX).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Lists a word that was zero and is not any more. Once the list is full this only reads.
    pub(super) fn add(&self, slot: u32) {
        // Relaxed, here and below: a metric, ordered with nothing.
        if self.taken.load(Ordering::Relaxed) > Self::MAX {
            return;
        }
        let index = self.taken.fetch_add(1, Ordering::Relaxed);
        if let Some(listed) = self.slots.get(index) {
            listed.store(slot + 1, Ordering::Relaxed);
        }
    }

    /// The listed slots, each once, and whether there are no others.
    pub(super) fn listed(&self) -> (Vec<u32>, bool) {
        let taken = self.taken.load(Ordering::Relaxed);
        let listed = self.slots.iter().take(taken).map(|slot| slot.load(Ordering::Relaxed));
        let mut slots: Vec<u32> = listed.filter_map(|slot| slot.checked_sub(1)).collect();
        slots.sort_unstable();
        slots.dedup();
        (slots, taken <= Self::MAX)
    }
}

crate::debug_fields!(FirstSlots { taken });
