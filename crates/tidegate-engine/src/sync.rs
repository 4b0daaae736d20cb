//! Atomics and locks: std's, or loom's under `--cfg tidegate_loom`.

#[cfg(not(tidegate_loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(tidegate_loom))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};

#[cfg(tidegate_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(tidegate_loom)]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};

/// Locks `mutex`. After a panic of another thread the data is used as that thread left it: every
/// critical section of the callers leaves its data valid at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// Locks a mutex of std, which loom does not explore; else as [`lock`].
#[inline]
pub(crate) fn lock_plain<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
