//! The open connections of a listener: their number, the idle ones, and how they are closed.
//!
//! A connection notes when bytes arrive and when requests begin and end, as plain counters. A sweep
//! a few times a second checks all of them and closes those that exceed a bound; so no request pays
//! for a timer of its own.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Bounds;

mod activity;
mod budget;
mod buffered;
mod delivery;
mod flow;
mod hidden_end;
mod http2_frames;
mod keep_alive;
mod linger;
mod listener_id;
mod monitored_stream;
mod open_bodies;
mod peer_shutdown;
mod peers;
mod slots;
mod stream_set;
mod unfinished_head;
mod watched;

pub use activity::{ConnectionActivity, ConnectionCommand};
pub use budget::{BufferBudget, WATCHED_TOTAL_MAX};
pub use buffered::{
    Buffered, NoRoom, STREAM_BYTES, STREAM_WINDOW_BYTES, SharedConnectionBytes, WaitingBytes,
};
pub use delivery::{
    AnswerBytes, AnswerDelivery, DeliveredBody, DeliveryEnd, MessageSender, NoMessageRoom, RESET_WINDOW,
    WATCHED_MAX,
};
pub use flow::{BodyCanceller, BodyProgressGuard, StreamExecutor};
pub use hidden_end::HiddenEndLooks;
pub use keep_alive::KeepAliveTimer;
pub use listener_id::ListenerId;
pub use monitored_stream::MonitoredStream;
pub use peer_shutdown::{PeerShutdown, PeerState};
pub use peers::PeerKey;
use peers::{IdleConnection, PeerUse, choose};
pub use slots::{ConnectionSlot, ConnectionSlots};
pub use stream_set::StreamSet;
use watched::{Phase, WatchedConnection};

/// A full listener closes one in so many of its connections at once to make room, if they are idle.
const EVICTED_PART: usize = 32;

/// All open connections of a daemon.
#[derive(Debug, Default)]
pub struct Connections {
    next: AtomicU64,
    open: Mutex<ConnectionRegistry>,
    /// Notified when the last one closes.
    empty: Notify,
    buffers: Arc<BufferBudget>,
}

/// The connections that are open, and their peers.
#[derive(Debug, Default)]
struct ConnectionRegistry {
    connections: HashMap<u64, WatchedConnection>,
    /// Peers with a connection, and how many each has.
    peers: HashMap<PeerKey, (Arc<PeerUse>, usize)>,
}

/// The connections that were closed to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// How many they were.
    pub connections: usize,
    /// The peer with the most connections at that listener, and how many those were.
    pub largest: Option<(PeerKey, usize)>,
}

/// A connection that is open: taken off the list when dropped.
#[derive(Debug)]
pub struct OpenConnection {
    connections: Arc<Connections>,
    id: u64,
    /// The state that it shares with the sweep.
    pub line: Arc<ConnectionActivity>,
    /// The names in the certificate that its client showed; none without one.
    pub names: Arc<[String]>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        if let Some(watched) = open.connections.remove(&self.id)
            && let Some((_, count)) = open.peers.get_mut(&watched.peer)
        {
            *count -= 1;
            if *count == 0 {
                open.peers.remove(&watched.peer);
            }
        }
        if open.connections.is_empty() {
            self.connections.empty.notify_waiters();
        }
    }
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, ConnectionRegistry> {
        // Nothing that holds the lock panics between two changes that belong together.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection that no listener accepted.
    pub fn add(self: &Arc<Self>) -> OpenConnection {
        self.accept(None, ListenerId::default(), false)
    }

    /// Adds a connection that `listener` accepted from `peer`. `is_shared` is whether it has a
    /// place of the shared pool.
    pub fn accept(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
        listener: ListenerId,
        is_shared: bool,
    ) -> OpenConnection {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (peer_address, peer) = (peer, PeerKey::from_address(peer));
        let mut open = self.open();
        let (shared_use, count) = open.peers.entry(peer).or_default();
        *count += 1;
        let line = Arc::new(ConnectionActivity::new(
            Arc::clone(&self.buffers),
            Arc::clone(shared_use),
            peer_address,
        ));
        let watched = WatchedConnection {
            line: Arc::clone(&line),
            listener,
            peer,
            is_shared,
            finished: 0,
            phase: Phase::Idle { since: Instant::now() },
            stuck_since: None,
        };
        open.connections.insert(id, watched);
        drop(open);
        OpenConnection { connections: Arc::clone(self), id, line, names: Arc::default() }
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.open().connections.len()
    }

    /// Returns when no connection is open.
    pub async fn all_closed(&self) {
        loop {
            let mut empty = pin!(self.empty.notified());
            // Listening before looking: one that closes in between is heard.
            empty.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            empty.await;
        }
    }

    /// How many requests are under way.
    pub fn in_flight(&self) -> u64 {
        self.open().connections.values().map(|watched| watched.line.in_flight()).sum()
    }

    /// Tells all connections.
    pub fn tell_all(&self, order: ConnectionCommand) {
        for watched in self.open().connections.values() {
            watched.line.command(order);
        }
    }

    /// Ends the connections that are over a bound at `now`; how many.
    pub fn sweep(&self, now: Instant, bounds: &Bounds) -> usize {
        let mut open = self.open();
        open.connections.values_mut().map(|watched| usize::from(watched.judge(now, bounds))).sum()
    }

    /// Divides the answers that are watched for a reset among so many namespaces.
    pub fn divide_watched(&self, namespaces: usize) {
        self.buffers.watched.0.divide(namespaces);
    }

    /// The budget for slow peers.
    pub fn buffers(&self) -> &BufferBudget {
        &self.buffers
    }

    /// How many connections each listener has, by its name.
    pub fn by_listener(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for watched in self.open().connections.values().filter(|watched| !watched.listener.name.is_empty()) {
            *counts.entry(watched.listener.name).or_default() += 1;
        }
        counts
    }

    /// Closes idle connections so that the full `listener` can accept others: a part of what it
    /// has, at least one.
    ///
    /// Those of the peer with the most connections go first. A connection with a request is never
    /// closed here. With `are_shared`, connections of other listeners that have a place of the
    /// shared pool are looked at too.
    pub fn evict(&self, listener: ListenerId, are_shared: bool, now: Instant) -> Eviction {
        let mut open = self.open();
        let mut counts: HashMap<PeerKey, usize> = HashMap::new();
        let mut idle = Vec::new();
        let mut held = 0;
        for (id, watched) in &open.connections {
            let is_own = watched.listener == listener;
            if !(is_own || are_shared && watched.is_shared) {
                continue;
            }
            held += usize::from(is_own);
            *counts.entry(watched.peer).or_default() += 1;
            if let Some(idle_since) = watched.idle_since() {
                idle.push(IdleConnection {
                    id: *id,
                    peer: watched.peer,
                    has_served: watched.line.finished.load(Ordering::Relaxed) > 0,
                    idle_since,
                });
            }
        }
        let largest = counts.iter().map(|(peer, count)| (*peer, *count)).max_by_key(|(_, count)| *count);
        let chosen = choose(&counts, idle, (held / EVICTED_PART).max(1));
        for one in &chosen {
            if let Some(watched) = open.connections.get_mut(&one.id) {
                // A peer that has asked something learns it from the protocol; another has nothing
                // to lose.
                watched.line.command(if one.has_served {
                    ConnectionCommand::Finish
                } else {
                    ConnectionCommand::Close
                });
                watched.phase = Phase::Ending { since: now };
            }
        }
        Eviction { connections: chosen.len(), largest }
    }

    /// How often to sweep so that a bound is overrun by a quarter at most.
    pub fn sweep_interval(bounds: &Bounds) -> Duration {
        let shortest = bounds.header_timeout.min(bounds.idle_timeout) / 4;
        shortest.clamp(Duration::from_millis(5), Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            linger: Duration::from_secs(2),
            ..Bounds::default()
        }
    }

    fn order(line: &ConnectionActivity) -> ConnectionCommand {
        line.order(&Context::from_waker(Waker::noop()), &mut false)
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_asked_to_finish_and_then_closed() {
        let connections = Arc::new(Connections::default());
        let open = connections.add();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(connections.sweep(after(74), &bounds()), 0);
        assert_eq!(order(&open.line), ConnectionCommand::Serve);
        assert_eq!(connections.sweep(after(75), &bounds()), 1);
        assert_eq!(order(&open.line), ConnectionCommand::Finish);
        assert_eq!(connections.sweep(after(77), &bounds()), 0);
        assert_eq!(order(&open.line), ConnectionCommand::Close);
        drop(open);
        assert_eq!(connections.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn headers_that_trickle_are_cut_off_while_a_request_under_way_is_not() {
        let connections = Arc::new(Connections::default());
        let (slow, busy) = (connections.add(), connections.add());
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        busy.line.request_started();
        for second in 0..10 {
            slow.line.reads.fetch_add(1, Ordering::Relaxed);
            assert_eq!(connections.sweep(after(second), &bounds()), 0);
        }
        assert_eq!(connections.sweep(after(10), &bounds()), 1);
        assert_eq!(
            (order(&slow.line), order(&busy.line)),
            (ConnectionCommand::Close, ConnectionCommand::Serve)
        );
        assert_eq!(connections.in_flight(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_of_its_answer_is_cut_off_and_a_slow_one_is_not() {
        let connections = Arc::new(Connections::default());
        let (deaf, slow) = (connections.add(), connections.add());
        let start = Instant::now();
        for open in [&deaf, &slow] {
            open.line.request_started();
            open.line.wrote(true);
        }
        for second in (0..75).step_by(5) {
            slow.line.wrote(false);
            slow.line.wrote(true);
            assert_eq!(connections.sweep(start + Duration::from_secs(second), &bounds()), 0);
        }
        assert_eq!(connections.sweep(start + Duration::from_secs(75), &bounds()), 1);
        assert_eq!(
            (order(&deaf.line), order(&slow.line)),
            (ConnectionCommand::Close, ConnectionCommand::Serve)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_of_an_answer_that_is_passed_on_has_as_long_as_its_route_says() {
        let connections = Arc::new(Connections::default());
        let (deaf, many) = (connections.add(), connections.add());
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let begin = |open: &OpenConnection| {
            open.line.request_started();
            open.line.wrote(true);
            BodyProgressGuard::begin(Arc::clone(&open.line), Duration::from_secs(5), None)
        };
        let (guard, _other) = (begin(&deaf), begin(&many));
        // Others may be on their way on the same connection, with longer bounds.
        many.line.is_http2.store(true, Ordering::Relaxed);
        assert_eq!(connections.sweep(start, &bounds()), 0);
        assert_eq!(connections.sweep(after(4), &bounds()), 0);
        assert_eq!(connections.sweep(after(5), &bounds()), 1);
        assert_eq!(
            (order(&deaf.line), order(&many.line)),
            (ConnectionCommand::Close, ConnectionCommand::Serve)
        );
        assert!(guard.is_over());
        assert_eq!(connections.sweep(after(75), &bounds()), 1);
        assert_eq!(order(&many.line), ConnectionCommand::Close);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_sends_requests_is_left_alone() {
        let connections = Arc::new(Connections::default());
        let open = connections.add();
        let start = Instant::now();
        for second in (0..1000).step_by(60) {
            open.line.reads.fetch_add(1, Ordering::Relaxed);
            open.line.request_started();
            open.line.request_finished();
            assert_eq!(connections.sweep(start + Duration::from_secs(second), &bounds()), 0);
        }
        assert_eq!(order(&open.line), ConnectionCommand::Serve);
    }

    #[tokio::test(start_paused = true)]
    async fn a_preface_in_parts_and_bytes_of_the_next_request_are_told_apart() {
        let connections = Arc::new(Connections::default());
        let (http2, next) = (connections.add(), connections.add());
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        for open in [&http2, &next] {
            open.line.reads.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(connections.sweep(after(1), &bounds()), 0);
        // The rest of the preface makes the bytes no head of a request.
        http2.line.is_http2.store(true, Ordering::Relaxed);
        next.line.request_started();
        next.line.request_finished();
        next.line.has_begun_another();
        for second in [9, 11, 18] {
            assert_eq!(connections.sweep(after(second), &bounds()), 0, "after {second} s");
        }
        assert_eq!(connections.sweep(after(21), &bounds()), 1);
        assert_eq!(
            (order(&http2.line), order(&next.line)),
            (ConnectionCommand::Serve, ConnectionCommand::Close)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_told_to_end_with_a_request_under_way_is_closed_when_it_lingers_afterwards() {
        let connections = Arc::new(Connections::default());
        let open = connections.add();
        let listener = ListenerId::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        open.line.request_started();
        open.line.request_finished();
        assert_eq!(connections.evict(listener, false, start).connections, 1);
        assert_eq!(order(&open.line), ConnectionCommand::Finish);
        open.line.request_started();
        assert_eq!(connections.sweep(after(5), &bounds()), 0);
        assert_eq!(connections.evict(listener, false, after(5)).connections, 0, "it has been told");
        assert_eq!(order(&open.line), ConnectionCommand::Finish, "its request is answered first");
        open.line.request_finished();
        assert_eq!(connections.sweep(after(6), &bounds()), 0);
        assert_eq!(connections.sweep(after(7), &bounds()), 0);
        assert_eq!(order(&open.line), ConnectionCommand::Close);
    }
}
