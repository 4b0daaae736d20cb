//! Atomics and locks: std's, or loom's under `--cfg tidegate_loom`.

#[cfg(not(tidegate_loom))]
pub(crate) use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
#[cfg(not(tidegate_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(tidegate_loom)]
pub(crate) use loom::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
#[cfg(tidegate_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Locks `mutex`. After a panic of another thread the data is used as that thread left it: every
/// critical section in this crate leaves its data valid at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
