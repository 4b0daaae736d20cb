//! Atomics and locks: std's, or loom's under `--cfg tidegate_loom`.

#[cfg(not(tidegate_loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(tidegate_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(tidegate_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(tidegate_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
