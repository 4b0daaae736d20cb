//! Tests that need a disk that can be crashed, filled and inspected.

mod concurrent_reads;
mod crash;
mod disk_failures;
mod formats;
mod simulated;
mod space;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tidegate_core::Timestamp;

use crate::config::RedbConfig;

const START: Timestamp = Timestamp::from_secs(1_800_000_000);

fn config() -> RedbConfig {
    RedbConfig { cache: 1 << 20, ..RedbConfig::new("simulated", [1, 2, 3, 4]) }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
