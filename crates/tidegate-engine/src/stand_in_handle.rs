//! The link from an admitted request to its stand-in at a resource in shadow mode.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::Timestamp;
use tidegate_overload::ResourceId;

/// A mutex that a panic elsewhere does not close: the state behind it is valid after each step.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The work of a request as a rehearsal knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RehearsedWork {
    /// The stand-in of the request. It may be gone: refused, or its place returned.
    pub(crate) id: u64,
    pub(crate) resource: ResourceId,
    pub(crate) admitted: Timestamp,
    /// The requests at which the service worked when this one was admitted, this one included.
    pub(crate) at_work: u64,
    /// Whether it may become a stream: see [`Request::is_stream`](crate::Request::is_stream).
    pub(crate) is_stream: bool,
}

/// The stand-in of an admitted request, as its permit holds it. Dropping it ends the work.
#[derive(Debug)]
pub(crate) struct StandInHandle {
    /// `None` once the end of the work is told.
    work: Option<RehearsedWork>,
    /// Whether the work has become a stream, which is not worked at any more.
    is_streaming: bool,
    dropped: Arc<DroppedWork>,
}

/// Work whose permits were dropped without a word about its end.
#[derive(Debug, Default)]
pub(crate) struct DroppedWork(Mutex<Vec<(RehearsedWork, bool)>>);

impl DroppedWork {
    /// All of it so far, each with whether it was a stream.
    pub(crate) fn take(&self) -> Vec<(RehearsedWork, bool)> {
        core::mem::take(&mut *locked(&self.0))
    }
}

impl StandInHandle {
    pub(crate) const fn new(work: RehearsedWork, dropped: Arc<DroppedWork>) -> Self {
        Self { work: Some(work), is_streaming: false, dropped }
    }

    /// The work at its end, and whether it has become a stream before; `None` the second time.
    pub(crate) const fn end(&mut self) -> Option<(RehearsedWork, bool)> {
        match self.work.take() {
            Some(work) => Some((work, self.is_streaming)),
            None => None,
        }
    }

    /// Whether the work becomes a stream when its answer begins.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.work.is_some_and(|work| work.is_stream) && !self.is_streaming
    }

    /// The work as its answer begins, if it becomes a stream by that; `None` the second time.
    pub(crate) fn begin_stream(&mut self) -> Option<RehearsedWork> {
        let work = self.work.filter(|_| self.awaits_answer())?;
        self.is_streaming = true;
        Some(work)
    }
}

impl Drop for StandInHandle {
    fn drop(&mut self) {
        if let Some(work) = self.end() {
            locked(&self.dropped.0).push(work);
        }
    }
}
