//! A connection as the sweep sees it, and when the sweep ends it.
//!
//! ```text
//!            bytes                    a whole request
//!   Idle ------------> ReadingHead ------------------> Busy
//!    ^                      |                           |
//!    |   the last answer    |                           |
//!    +----------------------|---------------------------+
//!                           |
//!   from each phase, at a bound: Ending, which is for good
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::activity::{ConnectionActivity, ConnectionCommand};
use super::listener_id::ListenerId;
use super::peers::PeerKey;
use crate::Bounds;

/// One connection as the sweep sees it.
#[derive(Debug)]
pub(super) struct WatchedConnection {
    pub(super) line: Arc<ConnectionActivity>,
    pub(super) listener: ListenerId,
    pub(super) peer: PeerKey,
    /// Whether its place is one that other listeners could have.
    pub(super) is_shared: bool,
    /// Requests finished when the sweep last looked.
    pub(super) finished: u64,
    pub(super) phase: Phase,
    /// Since when its client has taken none of the bytes to be written, and how often it had gone
    /// on by then.
    pub(super) stuck_since: Option<(Instant, u64)>,
}

/// The phase of a connection when the sweep last looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request is under way.
    Idle { since: Instant },
    /// Bytes have come that are not yet a request.
    ReadingHead { since: Instant, idle_since: Instant },
    /// A request was under way, or one has been answered since the look before.
    Busy { seen_at: Instant },
    /// It was told to end.
    Ending { since: Instant },
}

impl Phase {
    /// Since when no request was under way, if none is now; `None` once it was told to end.
    fn idle_since(self) -> Option<Instant> {
        match self {
            Self::Idle { since }
            | Self::ReadingHead { idle_since: since, .. }
            | Self::Busy { seen_at: since } => Some(since),
            Self::Ending { .. } => None,
        }
    }
}

impl WatchedConnection {
    /// Since when no request is under way; `None` while one is, and after the connection was told
    /// to end.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        if self.line.in_flight() > 0 { None } else { self.phase.idle_since() }
    }

    /// Checks one connection. Returns whether it was commanded to end.
    pub(super) fn judge(&mut self, now: Instant, bounds: &Bounds) -> bool {
        if self.line.held.load(Ordering::Relaxed) > 0 || self.line.waits_for_room.load(Ordering::Relaxed) {
            self.line.poke();
        }
        self.line.expire_deliveries(now);
        if self.line.flows.sweep(now) || self.is_stuck(now, bounds) {
            self.line.flows.end();
            let was_ending = matches!(self.phase, Phase::Ending { .. });
            self.end(ConnectionCommand::Close, now);
            return !was_ending;
        }
        let finished = self.line.finished.load(Ordering::Relaxed);
        if self.line.in_flight() > 0 || core::mem::replace(&mut self.finished, finished) != finished {
            // Bodies have a bound of their own.
            if !matches!(self.phase, Phase::Ending { .. }) {
                self.phase = Phase::Busy { seen_at: now };
            }
            return false;
        }
        if let Phase::Ending { since } = self.phase {
            // It is still there: its client does not read, or never ends its headers.
            if now.duration_since(since) >= bounds.linger {
                self.line.command(ConnectionCommand::Close);
            }
            return false;
        }
        let Some(idle_since) = self.phase.idle_since() else { return false };
        self.phase = match (self.phase, self.line.has_begun_a_head()) {
            (reading @ Phase::ReadingHead { .. }, true) => reading,
            (_, true) => Phase::ReadingHead { since: now, idle_since },
            (_, false) => Phase::Idle { since: idle_since },
        };
        if let Phase::ReadingHead { since, .. } = self.phase
            && now.duration_since(since) >= bounds.header_timeout
        {
            self.end(ConnectionCommand::Close, now);
            return true;
        }
        if now.duration_since(idle_since) >= bounds.idle_timeout {
            self.end(ConnectionCommand::Finish, now);
            return true;
        }
        false
    }

    fn end(&mut self, command: ConnectionCommand, now: Instant) {
        self.line.command(command);
        self.phase = Phase::Ending { since: now };
    }

    /// Whether the client has taken nothing for as long as the answer or, without one, a connection
    /// may be idle.
    fn is_stuck(&mut self, now: Instant, bounds: &Bounds) -> bool {
        if !self.line.is_stuck.load(Ordering::Relaxed) {
            self.stuck_since = None;
            return false;
        }
        let freed = self.line.freed.load(Ordering::Relaxed);
        let (since, before) = *self.stuck_since.get_or_insert((now, freed));
        if before != freed {
            self.stuck_since = Some((now, freed));
            return false;
        }
        now.duration_since(since) >= self.line.patience(bounds)
    }
}
