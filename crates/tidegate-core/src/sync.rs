//! Atomics and locks: std and portable-atomic, or loom's under `--cfg tidegate_loom`.
//!
//! loom has no 128-bit atomic; there it is a cell behind loom's lock, which explores the same
//! interleavings of whole-word operations.

#[cfg(not(tidegate_loom))]
pub(crate) use portable_atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicU128, AtomicUsize, Ordering, fence,
};
#[cfg(not(tidegate_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(not(tidegate_loom))]
pub(crate) use std::thread::yield_now;

#[cfg(tidegate_loom)]
pub(crate) use self::model::AtomicU128;
#[cfg(tidegate_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(tidegate_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(tidegate_loom)]
pub(crate) use loom::thread::yield_now;

/// Locks `mutex`, going on with the value a panicking thread left: every critical section in this
/// crate leaves its data whole at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

#[cfg(tidegate_loom)]
mod model {
    use super::{Mutex, Ordering, lock};

    /// A 128-bit atomic as loom can explore it: every operation is one step under a lock.
    #[derive(Debug)]
    pub(crate) struct AtomicU128(Mutex<u128>);

    impl AtomicU128 {
        pub(crate) fn new(value: u128) -> Self {
            Self(Mutex::new(value))
        }

        pub(crate) fn load(&self, _order: Ordering) -> u128 {
            *lock(&self.0)
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u128,
            new: u128,
            _success: Ordering,
            _failure: Ordering,
        ) -> Result<u128, u128> {
            let mut value = lock(&self.0);
            let seen = *value;
            if seen == current {
                *value = new;
                Ok(seen)
            } else {
                Err(seen)
            }
        }
    }
}
