//! The streams of one HTTP/2 connection, answered in turn by the task that reads them.
//!
//! A question that is answered from memory takes less time than a task of its own would take to
//! start. Above all, the task of a connection that is woken by the first finished stream sends that
//! answer alone, before the next stream has its turn. Here everything that was read is answered
//! first, and the answers go out together.

use core::fmt;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

pub(super) type StreamFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The streams that a connection has read and that are not polled yet.
#[derive(Clone, Default)]
pub struct NewStreams(Arc<Mutex<Vec<StreamFuture>>>);

impl NewStreams {
    fn all(&self) -> MutexGuard<'_, Vec<StreamFuture>> {
        // Every change is one push or a taking of all, so a panic elsewhere leaves the list whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> hyper::rt::Executor<F> for NewStreams
where
    F: Future + Send + 'static,
{
    fn execute(&self, stream: F) {
        // As in a task of its own: a panic ends that stream only, and the others of its connection
        // go on.
        self.all().push(Box::pin(async move {
            let _ = AssertUnwindSafe(stream).catch_unwind().await;
        }));
    }
}

impl fmt::Debug for NewStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NewStreams").field(&self.all().len()).finish()
    }
}

/// The streams of one connection that are being answered.
#[derive(Debug, Default)]
pub struct StreamSet {
    begun: NewStreams,
    running: FuturesUnordered<StreamFuture>,
}

impl StreamSet {
    /// Where the connection puts the streams it reads.
    pub fn begun(&self) -> NewStreams {
        self.begun.clone()
    }

    /// Lets every stream go on as far as it can; whether one has ended, so that the connection has
    /// something to send.
    pub fn go_on(&mut self, cx: &mut Context<'_>) -> bool {
        self.running.extend(self.begun.all().drain(..));
        let mut has_ended = false;
        while let Poll::Ready(Some(())) = self.running.poll_next_unpin(cx) {
            has_ended = true;
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use core::future::{pending, poll_fn};
    use core::task::Waker;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hyper::rt::Executor;
    use tokio::sync::Notify;

    use super::*;

    fn go_on(streams: &mut StreamSet) -> bool {
        streams.go_on(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn everything_that_was_read_is_answered_before_the_connection_has_its_turn() {
        let mut streams = StreamSet::default();
        let answered = Arc::new(AtomicUsize::new(0));
        for _ in 0..16 {
            let answered = Arc::clone(&answered);
            streams.begun().execute(async move {
                answered.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(answered.load(Ordering::Relaxed), 0, "none before its turn");
        assert!(go_on(&mut streams), "there is something to send");
        assert_eq!(answered.load(Ordering::Relaxed), 16);
        assert!(!go_on(&mut streams), "and then nothing more");
    }

    #[tokio::test]
    async fn a_stream_that_waits_keeps_none_of_the_others_and_is_woken_by_what_it_waits_for() {
        let mut streams = StreamSet::default();
        let told = Arc::new(Notify::new());
        streams.begun().execute(pending::<()>());
        streams.begun().execute({
            let told = Arc::clone(&told);
            async move { told.notified().await }
        });
        assert!(!go_on(&mut streams));
        streams.begun().execute(async {});
        assert!(go_on(&mut streams), "the third is not behind the first two");
        told.notify_one();
        // Ends only if the waker given reaches this task.
        poll_fn(|cx| if streams.go_on(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
        assert_eq!(streams.running.len(), 1, "the one that waits for ever");
    }

    #[test]
    fn a_stream_that_panics_takes_none_of_the_others_with_it() {
        let mut streams = StreamSet::default();
        streams.begun().execute(async { panic!("as a test") });
        let answered = Arc::new(AtomicUsize::new(0));
        streams.begun().execute({
            let answered = Arc::clone(&answered);
            async move {
                answered.store(1, Ordering::Relaxed);
            }
        });
        assert!(go_on(&mut streams));
        assert_eq!(answered.load(Ordering::Relaxed), 1);
        assert!(streams.running.is_empty());
    }
}
