//! Directories that are gone when a test is done, a clock that it sets, and words for what it does.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tidegate_core::Timestamp;
use tidegate_store_redb::{OpenError, RedbConfig, RedbStore};
use tidegate_test_support::TemporaryFolder;

pub(crate) const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// A directory for one test.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TemporaryFolder,
    now: Arc<AtomicU64>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: TemporaryFolder::new(), now: Arc::new(AtomicU64::new(START.as_nanos())) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn set_now(&self, now: Timestamp) {
        self.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn config(&self) -> RedbConfig {
        RedbConfig::new(self.folder.join("store"), [1, 2, 3, 4])
    }

    pub(crate) fn open(&self) -> RedbStore {
        self.open_with(&self.config()).unwrap()
    }

    pub(crate) fn open_with(&self, config: &RedbConfig) -> Result<RedbStore, OpenError> {
        let now = Arc::clone(&self.now);
        RedbStore::open(config, move || Timestamp::from_nanos(now.load(Ordering::Relaxed)))
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
