//! The answers that are on their way on one connection, as the sweep sees them.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The task that answers one HTTP/2 stream. Ending it resets the stream.
pub(super) type StreamTask = Arc<OnceLock<AbortHandle>>;

/// The state that a body shares with the sweep. All atomics are relaxed, because the sweep judges
/// seconds.
#[derive(Debug)]
pub(super) struct BodyProgress {
    /// Even while the client is to take the piece it was given, odd while the server is to give
    /// one. Every piece changes it.
    pub(super) turn: AtomicU64,
    /// How long the client may take nothing.
    pub(super) idle: Duration,
    /// When all of it must have ended.
    pub(super) until: Option<Instant>,
    /// On HTTP/2, the task of the stream.
    pub(super) stream: Option<StreamTask>,
    pub(super) is_over: AtomicBool,
    /// Whether it was ended on demand.
    pub(super) is_cancelled: AtomicBool,
}

impl BodyProgress {
    /// Ends the stream of the answer; whether the connection must end instead, which has no other.
    pub(super) fn end(&self) -> bool {
        match &self.stream {
            None => true,
            Some(stream) => {
                stream.get().into_iter().for_each(AbortHandle::abort);
                false
            }
        }
    }
}

/// One answer as the sweep sees it.
#[derive(Debug)]
pub(super) struct WatchedBody {
    pub(super) flow: Arc<BodyProgress>,
    /// Since when it has been at this turn of the client.
    pub(super) since: Option<(Instant, u64)>,
}

/// The answers that are on their way on one connection.
#[derive(Debug, Default)]
pub(super) struct OpenBodies(Mutex<Vec<WatchedBody>>);

impl OpenBodies {
    pub(super) fn all(&self) -> MutexGuard<'_, Vec<WatchedBody>> {
        // Every change is one push or removal, so a panic elsewhere leaves the list whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shortest time that the client of an answer may take nothing; `None` while there is no
    /// answer.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.all().iter().map(|one| one.flow.idle).min()
    }

    /// Ends the streams that are over a bound at `now`; whether the connection must end for that.
    pub(super) fn sweep(&self, now: Instant) -> bool {
        let mut must_close = false;
        for one in self.all().iter_mut() {
            let is_late = one.flow.until.is_some_and(|until| until <= now);
            // A connection of HTTP/1.1 knows by itself whether its client reads.
            let is_deaf = one.flow.stream.is_some() && one.is_deaf(now);
            if !(is_late || is_deaf || one.flow.is_cancelled.load(Ordering::Relaxed)) {
                continue;
            }
            must_close |= one.flow.end();
            one.flow.is_over.store(true, Ordering::Relaxed);
        }
        must_close
    }

    /// The connection ends, and everything on it.
    pub(super) fn end(&self) {
        for one in self.all().iter() {
            one.flow.is_over.store(true, Ordering::Relaxed);
        }
    }
}

impl WatchedBody {
    /// Whether the client has taken nothing for as long as it may.
    fn is_deaf(&mut self, now: Instant) -> bool {
        let turn = self.flow.turn.load(Ordering::Relaxed);
        if turn % 2 == 1 {
            self.since = None;
            return false;
        }
        match self.since {
            Some((since, before)) if before == turn => now.duration_since(since) >= self.flow.idle,
            _ => {
                self.since = Some((now, turn));
                false
            }
        }
    }
}
