//! The budget for bytes that the daemon holds on behalf of slow peers: unfinished bodies, half
//! commands, unread replies.
//!
//! There is one budget for all connections, and two shares of it. A connection may hold at most a
//! quarter of what is free, and all connections of one peer together at most half of it. So the
//! shares shrink as the budget fills up, and some of it stays free however many connections ask for
//! as much as they can: a peer that holds little always gets room.

use core::fmt;
use core::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::activity::ConnectionActivity;

/// The most bytes that all connections hold together. Above it, and above a share of it, an
/// unfinished body is answered with 503 (gRPC: `RESOURCE_EXHAUSTED`), and a RESP connection that
/// does not read its replies is closed.
pub(super) const BUFFERED_BYTES_MAX: usize = 64 << 20;

/// The bytes that are charged for a waiting request, or a stream that stays open, beside those it
/// buffers: its future, its entry in the connection and the buffer of its answer. So at most 4096
/// of them wait or stay open at a time.
pub const STREAM_BYTES: usize = 16 << 10;

/// The bytes that are charged for the connection of a waiting request: the buffers for reading (16
/// KiB) and writing (8 KiB), its task with the futures of the request, and what the allocator
/// rounds them up to. Measured: 36 KiB.
const CONNECTION_BYTES: usize = 40 << 10;

/// The buffer for reading that is a part of [`CONNECTION_BYTES`].
const READ_BUFFER_BYTES: usize = 16 << 10;

/// The bytes of a body that come over HTTP/2 before anything reads it: the window of a stream of
/// the proxy.
pub const STREAM_WINDOW_BYTES: u32 = 64 << 10;

/// The bytes that are charged for a waiting request whose body has not ended: its window, and as
/// much again, as its frames lie in buffers that are larger. Measured: 137 KiB.
const STREAM_BODY_BYTES: usize = 2 * STREAM_WINDOW_BYTES as usize;

/// The memory that one more request keeps while it waits in the queue, beside its head and the
/// copies of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingBytes {
    /// For the request itself.
    pub own: usize,
    /// For its connection, if other requests may wait on it: once for all of them.
    pub connection: Option<SharedConnectionBytes>,
}

/// The memory of a connection on which several requests may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedConnectionBytes {
    /// A number that no other connection has at the same time.
    pub id: NonZeroU64,
    /// The bytes.
    pub bytes: u32,
}

impl ConnectionActivity {
    /// The memory that one more request keeps while it waits. `head_bytes_max` is the bound on a
    /// head of HTTP/1, to which its buffer for reading may grow.
    pub fn waiting_bytes(&self, head_bytes_max: usize) -> WaitingBytes {
        if !self.is_http2.load(Ordering::Relaxed) {
            let own = CONNECTION_BYTES + head_bytes_max.saturating_sub(READ_BUFFER_BYTES);
            return WaitingBytes { own, connection: None };
        }
        // Its address: a request that waits keeps the connection in memory.
        let id = NonZeroU64::new(core::ptr::from_ref(self).addr() as u64).unwrap_or(NonZeroU64::MIN);
        let connection = SharedConnectionBytes { id, bytes: CONNECTION_BYTES as u32 };
        WaitingBytes { own: STREAM_BYTES, connection: Some(connection) }
    }

    /// The same for a request whose body has not ended, and is not read while it waits.
    pub fn waiting_bytes_with_body(&self, head_bytes_max: usize) -> WaitingBytes {
        let mut bytes = self.waiting_bytes(head_bytes_max);
        // The body of HTTP/1 is in the buffer for reading.
        if bytes.connection.is_some() {
            bytes.own += STREAM_BODY_BYTES;
        }
        bytes
    }
}

/// There is no room for more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Bytes that one request or connection holds, given back when this is dropped.
pub struct Buffered {
    line: Arc<ConnectionActivity>,
    bytes: usize,
}

impl Buffered {
    /// Nothing yet.
    pub fn new(line: Arc<ConnectionActivity>) -> Self {
        Self { line, bytes: 0 }
    }

    /// Holds `bytes` from now on. On an error it holds what it held before. Fewer bytes are never
    /// refused.
    pub fn resize(&mut self, bytes: usize) -> Result<(), NoRoom> {
        // All counters are relaxed: they bound a sum, and order nothing else.
        let ConnectionActivity { budget, peer, buffered, .. } = &*self.line;
        if bytes <= self.bytes {
            let less = self.bytes - bytes;
            for counter in [&budget.held, &peer.held, buffered] {
                counter.fetch_sub(less, Ordering::Relaxed);
            }
            self.bytes = bytes;
            return Ok(());
        }
        let more = bytes - self.bytes;
        let free = BUFFERED_BYTES_MAX.saturating_sub(budget.held.load(Ordering::Relaxed));
        let of_line = buffered.load(Ordering::Relaxed).saturating_add(more);
        let of_peer = peer.held.load(Ordering::Relaxed).saturating_add(more);
        if of_line > free / 4 || of_peer > free / 2 {
            budget.refused.fetch_add(1, Ordering::Relaxed);
            return Err(NoRoom);
        }
        for counter in [&budget.held, &peer.held, buffered] {
            counter.fetch_add(more, Ordering::Relaxed);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        let _ = self.resize(0);
    }
}

impl fmt::Debug for Buffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffered").field(&self.bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Connections, ListenerId, OpenConnection};
    use super::*;

    const HTTP: ListenerId = ListenerId { index: 0, name: "http" };

    fn connection(connections: &Arc<Connections>, peer: u8) -> OpenConnection {
        connections.accept(Some([10, 0, 0, peer].into()), HTTP, false)
    }

    /// As many pieces of 64 KiB as it gets.
    fn greedy(open: &OpenConnection) -> Buffered {
        let mut buffered = Buffered::new(Arc::clone(&open.line));
        while buffered.resize(buffered.bytes + (64 << 10)).is_ok() {}
        buffered
    }

    #[test]
    fn one_peer_with_any_number_of_connections_leaves_room_for_others() {
        let connections = Arc::new(Connections::default());
        let open: Vec<_> = (0..1000).map(|_| connection(&connections, 1)).collect();
        let held: Vec<_> = open.iter().map(greedy).collect();
        assert!(held[0].bytes <= BUFFERED_BYTES_MAX / 5 + (64 << 10), "{} by one connection", held[0].bytes);
        let by_peer: usize = held.iter().map(|one| one.bytes).sum();
        assert!(by_peer <= BUFFERED_BYTES_MAX / 3, "{by_peer} by one peer");
        let other = connection(&connections, 2);
        assert_eq!(Buffered::new(Arc::clone(&other.line)).resize(8 << 20), Ok(()));
    }

    #[test]
    fn however_many_peers_take_what_they_can_one_that_needs_little_gets_it() {
        let connections = Arc::new(Connections::default());
        let open: Vec<_> = (0..200).map(|peer| connection(&connections, peer)).collect();
        let mut held: Vec<_> = open.iter().map(greedy).collect();
        // The first ones took more; a second turn shows that the budget stays within its bound.
        held.extend(open.iter().map(greedy));
        assert!(connections.buffers().held() <= BUFFERED_BYTES_MAX);
        let other = connection(&connections, 250);
        assert_eq!(Buffered::new(Arc::clone(&other.line)).resize(STREAM_BYTES), Ok(()));
    }

    #[test]
    fn what_is_dropped_or_shrunk_is_given_back() {
        let connections = Arc::new(Connections::default());
        let open = connection(&connections, 1);
        let mut one = Buffered::new(Arc::clone(&open.line));
        one.resize(1 << 20).unwrap();
        assert_eq!(one.resize(BUFFERED_BYTES_MAX), Err(NoRoom));
        one.resize(1 << 10).unwrap();
        assert_eq!((connections.buffers().held(), connections.buffers().refused()), (1 << 10, 1));
        drop(one);
        assert_eq!(connections.buffers().held(), 0);
        assert_eq!(open.line.peer.held.load(Ordering::Relaxed), 0);
    }
}
