//! A few words that all threads read without waiting, and any of them replaces.

#[cfg(all(test, tidegate_loom))]
mod loom;

use core::array;

use crate::sync::{AtomicU64, Ordering, fence};

/// The version of a lock that is closed. It is odd, so nothing is read under it, and none follows.
const CLOSED: u64 = u64::MAX;

/// A sequence lock. Its version is odd while a thread replaces the words; nobody waits for that.
///
/// Up to seven words share one cache line with the version.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct SequenceLock<const WORDS: usize> {
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> SequenceLock<WORDS> {
    /// A lock whose words are zero.
    pub(crate) fn new() -> Self {
        Self { version: AtomicU64::new(0), words: array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// The words with their version. `None` while they are replaced, and once the lock is closed.
    #[inline]
    pub(crate) fn read(&self) -> Option<(u64, [u64; WORDS])> {
        // Acquire: with the version come the words that were written before it.
        let version = self.version.load(Ordering::Acquire);
        if version % 2 == 1 {
            return None;
        }
        // Relaxed: a word of a later version brings that version's odd number past the fence.
        let words = array::from_fn(|index| self.words[index].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        // Relaxed: the fence keeps it behind the words.
        (self.version.load(Ordering::Relaxed) == version).then_some((version, words))
    }

    /// Replaces the words of the version that [`SequenceLock::read`] returned. Returns whether it
    /// did: not if another thread was first, or the lock is closed.
    pub(crate) fn replace(&self, version: u64, words: [u64; WORDS]) -> bool {
        // Relaxed: `read`, which the version is from, put its words before those below.
        let taken = self.version.compare_exchange(version, version + 1, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_err() {
            return false;
        }
        // Release: a thread that reads one of the words below finds the odd version or a later one.
        fence(Ordering::Release);
        for (word, value) in self.words.iter().zip(words) {
            // Relaxed: the fence above and the version below order it.
            word.store(value, Ordering::Relaxed);
        }
        // Release: with the version come the words. It fails if the lock was closed meanwhile.
        self.version.compare_exchange(version + 1, version + 2, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Closes the lock for good.
    pub(crate) fn close(&self) {
        // An exchange, as loom does not know the place of a store among those above. Relaxed:
        // nothing is read under this version.
        self.version.swap(CLOSED, Ordering::Relaxed);
    }
}
