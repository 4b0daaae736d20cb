//! The harness of a store: how the suite opens it, drives its clock, and learns its abilities.

use core::future::Future;
use core::time::Duration;

use tidegate_core::Timestamp;

use super::executor;
use crate::Store;

/// How the suite opens a store and drives its clock.
pub trait ConformanceStore: Sync {
    /// The store.
    type Store: Store;

    /// An empty store that shares nothing with those opened before, except the clock.
    fn open(&self) -> Self::Store;

    /// Sets the clock of all stores of this harness. Until then it may show any time. The suite
    /// sets whole multiples of [`Capabilities::resolution`], mostly forward, sometimes back.
    fn set_now(&self, now: Timestamp);

    /// Closes a store and opens it again with what it holds, as after a restart; `None` if it
    /// forgets, as a store in memory does. Default: `None`.
    fn reopen(&self, store: Self::Store) -> Option<Self::Store> {
        drop(store);
        None
    }

    /// All counters of a store as text that changes if and only if one of them does, for stores
    /// that can tell. Default: `None`; then the suite only sees what answers say.
    fn dump(&self, store: &Self::Store) -> Option<String> {
        let _ = store;
        None
    }

    /// The abilities of the store beyond those that [`Store::supports`] reports.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Waits for a future. Default: on the calling thread, for stores that need no runtime of their
    /// own.
    fn block_on<T>(&self, future: impl Future<Output = T> + Send) -> T {
        executor::block_on(future)
    }
}

/// The abilities of a store, and the time that its tests may take.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// The smallest step of its clock; instants it answers are rounded up to it. Default 1 ns; at
    /// most 1 ms.
    pub resolution: Duration,
    /// How many operations each random list has. Default 20 000.
    pub operations: usize,
    /// How many batches it remembers at least, of one operation each. Default 1000. With 0 the
    /// cases that send a batch again or undo one are skipped.
    pub answers: usize,
    /// How long it remembers them at least. Default 1 minute.
    pub answers_kept: Duration,
    /// Whether answers are remembered when the store is closed and opened again. Default true.
    pub answers_survive: bool,
    /// The seed of the random lists. Default fixed.
    pub seed: u64,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            resolution: Duration::from_nanos(1),
            operations: 20_000,
            answers: 1000,
            answers_kept: Duration::from_mins(1),
            answers_survive: true,
            seed: 0x7469_6465,
        }
    }
}
