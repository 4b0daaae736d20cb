//! The conformance suite on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Timestamp;

use crate::conformance::ConformanceStore;
use crate::{MemoryConfig, MemoryStore};

/// Opens memory stores that share a clock.
#[derive(Default)]
struct Memory(Arc<AtomicU64>);

impl ConformanceStore for Memory {
    type Store = MemoryStore;

    fn open(&self) -> MemoryStore {
        let clock = Arc::clone(&self.0);
        // The suite sets the clock and asks from one thread, or does not move it while others ask.
        MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), move || {
            Timestamp::from_nanos(clock.load(Ordering::Relaxed))
        })
    }

    fn set_now(&self, now: Timestamp) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn dump(&self, store: &MemoryStore) -> Option<String> {
        Some(store.dump())
    }
}

crate::conformance_tests!(Memory::default());
