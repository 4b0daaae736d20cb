//! The signal that a partition of a table needs more partitions before the next tick.
//!
//! A ceiling holds one second, so a load of twenty times the ceiling of a partition empties it in
//! 53 milliseconds. The access that leaves less than half of it says so, and the table is cut at
//! the next look, a few milliseconds later, before anything is refused.

use crate::sync::{AtomicU32, Ordering};

/// Whether a table may have more partitions at once, and whether it needs them.
#[derive(Debug, Default)]
pub(crate) struct GrowthWatch {
    // Relaxed: hints. A cut looks at the levels themselves.
    is_open: AtomicU32,
    is_pressed: AtomicU32,
}

impl GrowthWatch {
    /// Whether the table may have more partitions at once.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed) != 0
    }

    /// Whether a partition has used half of its ceiling since the last look.
    pub(crate) fn is_pressed(&self) -> bool {
        self.is_pressed.load(Ordering::Relaxed) != 0
    }

    /// Notes that a partition has used half of its ceiling.
    pub(crate) fn press(&self) {
        self.is_pressed.store(1, Ordering::Relaxed);
    }

    /// The table is looked at.
    pub(crate) fn look(&self, is_open: bool) {
        self.is_open.store(u32::from(is_open), Ordering::Relaxed);
        self.is_pressed.store(0, Ordering::Relaxed);
    }
}
