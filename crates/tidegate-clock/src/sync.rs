//! Atomics: std's, or loom's under `--cfg tidegate_loom`.

#[cfg(not(tidegate_loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(tidegate_loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
