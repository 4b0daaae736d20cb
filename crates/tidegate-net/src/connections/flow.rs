//! The progress of answer bodies, by which the sweep ends an answer whose client reads nothing.
//!
//! A body is asked for its next piece only when there is room for it. So the code that makes the
//! answer does not notice a client of HTTP/2 that never opens its window: the body is not polled,
//! and arms no timer. A body notes here whether the client or the server has to act next, as one
//! plain number, and the sweep ends a body whose number has not changed for too long. On HTTP/2 it
//! ends the stream, and the other streams of the connection go on; on HTTP/1.1 it ends the
//! connection.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::time::Instant;

use super::activity::{ConnectionActivity, ConnectionCommand};
use super::open_bodies::{BodyProgress, StreamTask, WatchedBody};
use super::stream_set::{NewStreams, StreamFuture};

tokio::task_local! {
    static STREAM: StreamTask;
}

/// The ways to answer the streams of an HTTP/2 connection. One type for both, so that the protocol
/// is compiled once for each kind of answer.
#[derive(Clone, Debug)]
pub enum StreamExecutor {
    /// Each in a task of its own, by which it can be ended.
    Tasks,
    /// The task of the connection, which lets the streams of a
    /// [`StreamSet`](super::StreamSet) go on in turn.
    InTurn(NewStreams),
}

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        match self {
            Self::Tasks => {
                let task = StreamTask::default();
                let stream: StreamFuture = Box::pin(async move {
                    stream.await;
                });
                let running = tokio::spawn(STREAM.scope(Arc::clone(&task), stream));
                // The cell is set here only.
                let _ = task.set(running.abort_handle());
            }
            Self::InTurn(streams) => streams.execute(stream),
        }
    }
}

/// An answer that is on its way, until this is dropped.
#[derive(Debug)]
pub struct BodyProgressGuard {
    line: Arc<ConnectionActivity>,
    flow: Arc<BodyProgress>,
}

impl BodyProgressGuard {
    /// An answer begins on a connection, of which the client may take nothing for `idle`, and which
    /// must have ended at `until`. Both may be overrun by the time between two sweeps.
    pub fn begin(line: Arc<ConnectionActivity>, idle: Duration, until: Option<Instant>) -> Self {
        let stream = STREAM.try_with(Arc::clone).ok();
        let flow = Arc::new(BodyProgress {
            turn: AtomicU64::new(0),
            idle,
            until,
            stream,
            is_over: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
        });
        line.flows.all().push(WatchedBody { flow: Arc::clone(&flow), since: None });
        Self { line, flow }
    }

    /// Whether it is one of several on its connection, so that its client is known by its pieces
    /// only.
    pub fn is_stream(&self) -> bool {
        self.flow.stream.is_some()
    }

    /// A piece was given to the client.
    #[inline]
    pub fn gave(&self) {
        // Only the body writes it, so that no other change is lost.
        let turn = self.flow.turn.load(Ordering::Relaxed);
        self.flow.turn.store((turn | 1).wrapping_add(1), Ordering::Relaxed);
    }

    /// The client has taken all there was, and waits.
    #[inline]
    pub fn waits(&self) {
        let turn = self.flow.turn.load(Ordering::Relaxed);
        self.flow.turn.store(turn | 1, Ordering::Relaxed);
    }

    /// Ends the answer on demand, whether or not its client reads.
    pub fn canceller(&self) -> BodyCanceller {
        BodyCanceller { line: Arc::clone(&self.line), flow: Arc::clone(&self.flow) }
    }

    /// Whether its canceller has ended it.
    pub fn is_cancelled(&self) -> bool {
        self.flow.is_cancelled.load(Ordering::Relaxed)
    }

    /// Whether the sweep has ended it.
    pub fn is_over(&self) -> bool {
        self.flow.is_over.load(Ordering::Relaxed)
    }
}

impl Drop for BodyProgressGuard {
    fn drop(&mut self) {
        let mut all = self.line.flows.all();
        if let Some(index) = all.iter().position(|one| Arc::ptr_eq(&one.flow, &self.flow)) {
            all.swap_remove(index);
        }
    }
}

/// Ends one answer that is on its way, on HTTP/2 by its stream, else by its connection.
#[derive(Debug)]
pub struct BodyCanceller {
    line: Arc<ConnectionActivity>,
    flow: Arc<BodyProgress>,
}

impl BodyCanceller {
    /// Ends the answer, unless its guard is dropped.
    pub fn cancel(self) {
        // The lock is kept to the end: once the guard is dropped, the connection may carry another
        // answer.
        let all = self.line.flows.all();
        if !all.iter().any(|one| Arc::ptr_eq(&one.flow, &self.flow)) {
            return;
        }
        self.flow.is_cancelled.store(true, Ordering::Relaxed);
        // If the handle of a stream that has just begun is not known yet, the sweep ends it.
        if self.flow.end() {
            self.line.command(ConnectionCommand::Close);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::AbortHandle;

    use super::*;

    const IDLE: Duration = Duration::from_mins(1);

    /// An answer on a stream whose task never ends by itself.
    async fn stream(
        line: &Arc<ConnectionActivity>,
        until: Option<Instant>,
    ) -> (BodyProgressGuard, AbortHandle) {
        let task = StreamTask::default();
        let running = tokio::spawn(core::future::pending::<()>()).abort_handle();
        task.set(running.clone()).unwrap();
        let line = Arc::clone(line);
        let guard = STREAM.scope(task, async { BodyProgressGuard::begin(line, IDLE, until) }).await;
        (guard, running)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_client_takes_nothing_is_ended_and_the_others_go_on() {
        let line = Arc::new(ConnectionActivity::default());
        let (deaf, deaf_task) = stream(&line, None).await;
        let (slow, slow_task) = stream(&line, None).await;
        let (waiting, waiting_task) = stream(&line, None).await;
        let start = Instant::now();
        deaf.gave();
        waiting.waits();
        for second in (0..60).step_by(10) {
            slow.waits();
            slow.gave();
            assert!(!line.flows.sweep(start + Duration::from_secs(second)), "no connection ends for it");
        }
        assert_eq!([&deaf, &slow, &waiting].map(BodyProgressGuard::is_over), [false; 3]);
        line.flows.sweep(start + IDLE);
        assert_eq!([&deaf, &slow, &waiting].map(BodyProgressGuard::is_over), [true, false, false]);
        tokio::task::yield_now().await;
        assert_eq!([deaf_task, slow_task, waiting_task].map(|task| task.is_finished()), [true, false, false]);
        drop((deaf, slow, waiting));
        assert_eq!(line.flows.patience(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_asks_for_more_of_ends_when_all_its_time_is_over() {
        let line = Arc::new(ConnectionActivity::default());
        let until = Instant::now() + Duration::from_secs(5);
        let (on_stream, task) = stream(&line, Some(until)).await;
        on_stream.waits();
        assert!(!line.flows.sweep(until - Duration::from_millis(1)) && !on_stream.is_over());
        assert!(!line.flows.sweep(until) && on_stream.is_over());
        tokio::task::yield_now().await;
        assert!(task.is_finished());
        drop(on_stream);
        let alone = BodyProgressGuard::begin(Arc::clone(&line), IDLE, Some(until));
        assert!(line.flows.sweep(until) && alone.is_over(), "its connection is the only way to end it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_stream_ends_alone_and_an_answer_of_http_1_with_its_connection() {
        let line = Arc::new(ConnectionActivity::default());
        let (ended, ended_task) = stream(&line, None).await;
        let (other, other_task) = stream(&line, None).await;
        ended.canceller().cancel();
        tokio::task::yield_now().await;
        assert_eq!([ended_task, other_task].map(|task| task.is_finished()), [true, false]);
        assert_eq!([&ended, &other].map(BodyProgressGuard::is_cancelled), [true, false]);
        assert!(!line.is_commanded());
        let alone = BodyProgressGuard::begin(Arc::clone(&line), IDLE, None);
        alone.canceller().cancel();
        assert!(alone.is_cancelled() && line.is_commanded());
        let line = Arc::new(ConnectionActivity::default());
        let answered = BodyProgressGuard::begin(Arc::clone(&line), IDLE, None);
        let canceller = answered.canceller();
        drop(answered);
        let _next = BodyProgressGuard::begin(Arc::clone(&line), IDLE, None);
        canceller.cancel();
        assert!(!line.is_commanded(), "the connection carries another answer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_task_is_not_known_when_it_is_cancelled_is_ended_by_the_sweep() {
        let line = Arc::new(ConnectionActivity::default());
        let task = StreamTask::default();
        let of_line = Arc::clone(&line);
        let begin = async { BodyProgressGuard::begin(of_line, IDLE, None) };
        let guard = STREAM.scope(Arc::clone(&task), begin).await;
        guard.canceller().cancel();
        let running = tokio::spawn(core::future::pending::<()>()).abort_handle();
        task.set(running.clone()).unwrap();
        assert!(!line.flows.sweep(Instant::now()));
        tokio::task::yield_now().await;
        assert!(running.is_finished() && guard.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_client_of_http_1_takes_is_not_judged_by_its_pieces() {
        let line = Arc::new(ConnectionActivity::default());
        let alone = BodyProgressGuard::begin(Arc::clone(&line), IDLE, None);
        let start = Instant::now();
        alone.gave();
        assert!(!line.flows.sweep(start) && !line.flows.sweep(start + 2 * IDLE));
        assert!(!alone.is_stream() && !alone.is_over());
        assert_eq!(line.flows.patience(), Some(IDLE));
    }
}
