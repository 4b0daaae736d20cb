//! The open connections of a listener: their number, the idle ones, and how they are closed.
//!
//! A connection notes when bytes arrive and when requests begin and end, as plain counters. A sweep
//! a few times a second checks all of them and closes those that exceed a bound; so no request pays
//! for a timer of its own.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;

use crate::bounds::Bounds;

mod buffered;
mod flow;
mod linger;
mod peers;
mod slots;
mod stream_set;
mod unfinished_head;

pub(crate) use buffered::{BufferBudget, Buffered, NoRoom, STREAM_BYTES};
pub(crate) use flow::{BodyProgressGuard, Streams};
use linger::Linger;
pub(crate) use peers::PeerKey;
use peers::{IdleConnection, PeerUse, choose};
pub(crate) use slots::{ConnectionSlot, ConnectionSlots};
pub(crate) use stream_set::StreamSet;
use unfinished_head::UnfinishedHead;

/// A full listener closes one in so many of its connections at once to make room, if they are idle.
const EVICTED_PART: usize = 32;

/// The first bytes of every HTTP/2 connection.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// All open connections of a daemon.
#[derive(Debug, Default)]
pub(crate) struct Connections {
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

/// Which listener accepted a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenerId {
    /// Different for each listener of a daemon.
    pub(crate) index: usize,
    /// Its name in the policy: `http`, `admin`, `proxy`, `grpc` or `resp`.
    pub(crate) name: &'static str,
}

/// The connections that were closed to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eviction {
    pub(crate) connections: usize,
    /// The peer with the most connections at that listener, and how many those were.
    pub(crate) largest: Option<(PeerKey, usize)>,
}

/// One connection as the sweep sees it.
#[derive(Debug)]
struct WatchedConnection {
    line: Arc<ConnectionActivity>,
    listener: ListenerId,
    peer: PeerKey,
    /// Whether its place is one that other listeners could have.
    is_shared: bool,
    /// Requests finished when the sweep last looked.
    finished: u64,
    /// Since when no request is under way.
    idle_since: Instant,
    /// Since when bytes have come that are not yet a request.
    head_since: Option<Instant>,
    /// Since when its client has taken none of the bytes to be written, and how often it had gone
    /// on by then.
    stuck_since: Option<(Instant, u64)>,
    /// When it was asked to end.
    asked: Option<Instant>,
}

/// The state that a connection shares with the sweep.
#[derive(Debug, Default)]
pub(crate) struct ConnectionActivity {
    reads: AtomicU64,
    reads_at_finish: AtomicU64,
    started: AtomicU64,
    finished: AtomicU64,
    is_http2: AtomicBool,
    /// Whether something is to be written that the client does not take.
    is_stuck: AtomicBool,
    /// How often it went on after that.
    freed: AtomicU64,
    /// Requests that wait in line, with their bodies unread.
    held: AtomicU64,
    /// Whether it reads no more of a head until there is room for it.
    waits_for_room: AtomicBool,
    /// Answers that are on their way.
    flows: flow::OpenBodies,
    /// The bytes that are held for all connections, for those of this peer, and for this
    /// connection.
    budget: Arc<BufferBudget>,
    peer: Arc<PeerUse>,
    /// Where it comes from; `None` for a Unix socket.
    peer_address: Option<IpAddr>,
    buffered: AtomicUsize,
    order: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

/// The command of the sweep, or of the drain, to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ConnectionCommand {
    /// Go on.
    Serve = 0,
    /// Answer the requests that were read, read no more, close.
    Finish = 1,
    /// Close at once.
    Close = 2,
}

// All counters of a line are relaxed: the sweep reads them to judge seconds, and the order is made
// visible by the mutex of the waker.
impl ConnectionActivity {
    /// Where the connection comes from; `None` for a Unix socket.
    pub(crate) fn peer_address(&self) -> Option<IpAddr> {
        self.peer_address
    }

    /// Marks a request as waiting in the queue until the guard is dropped. Nothing is read from its
    /// connection meanwhile, so the sweep checks whether the client is still there.
    pub(crate) fn hold(&self) -> HeldRequest<'_> {
        self.held.fetch_add(1, Ordering::Relaxed);
        HeldRequest(self)
    }

    /// Has the connection look around.
    fn poke(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }

    /// Something was written, or could not be.
    #[inline]
    fn wrote(&self, is_stuck: bool) {
        // Only a change is stored, so that a client that reads costs one load.
        if self.is_stuck.load(Ordering::Relaxed) != is_stuck {
            self.is_stuck.store(is_stuck, Ordering::Relaxed);
            self.freed.fetch_add(u64::from(!is_stuck), Ordering::Relaxed);
        }
    }

    /// How many times bytes have come.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// A request was read.
    #[inline]
    pub(crate) fn request_started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// Its answer is ready.
    #[inline]
    pub(crate) fn request_finished(&self) {
        self.reads_at_finish.store(self.reads.load(Ordering::Relaxed), Ordering::Relaxed);
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes already buffered after the last request belong to the next one; its read timeout
    /// starts now.
    pub(crate) fn has_begun_another(&self) {
        self.reads_at_finish.store(self.reads.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    fn in_flight(&self) -> u64 {
        self.started.load(Ordering::Relaxed).saturating_sub(self.finished.load(Ordering::Relaxed))
    }

    fn command(&self, order: ConnectionCommand) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        self.order.fetch_max(order as u8, Ordering::Relaxed);
        if let Some(waker) = waker.take() {
            waker.wake();
        }
    }

    /// Returns when the connection has been commanded to end.
    pub(crate) async fn until_commanded(&self) {
        // Registered each time: an order uses the waker up.
        std::future::poll_fn(|cx| match self.order(cx, &mut false) {
            ConnectionCommand::Serve => Poll::Pending,
            ConnectionCommand::Finish | ConnectionCommand::Close => Poll::Ready(()),
        })
        .await;
    }

    /// How long its client may take none of the bytes to be written. On HTTP/2 each answer has a
    /// bound of its own.
    fn patience(&self, bounds: &Bounds) -> Duration {
        let own = if self.is_http2.load(Ordering::Relaxed) { None } else { self.flows.patience() };
        own.unwrap_or(bounds.idle_timeout)
    }

    /// The order in force; the task of `cx` is woken when a stricter one comes.
    ///
    /// The waker is left only when `is_registered` is false or the order has changed since, so that
    /// the usual call is one load.
    #[inline]
    pub(crate) fn order(&self, cx: &Context<'_>, is_registered: &mut bool) -> ConnectionCommand {
        if !*is_registered {
            *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            *is_registered = true;
        }
        match self.order.load(Ordering::Relaxed) {
            0 => ConnectionCommand::Serve,
            1 => ConnectionCommand::Finish,
            _ => ConnectionCommand::Close,
        }
    }
}

/// A request that waits in line.
#[derive(Debug)]
pub(crate) struct HeldRequest<'a>(&'a ConnectionActivity);

impl Drop for HeldRequest<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that detects the end of its input without reading.
pub(crate) trait PeerShutdown {
    /// Whether the other end has ended its output, apart from unread bytes.
    fn has_ended(&self) -> bool;
}

/// Asks for what is known at once. Only the end of the stream is ever ready: urgent data is not
/// looked for.
fn is_read_closed(ready: impl Future<Output = io::Result<Ready>>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(pin!(ready).poll(&mut context), Poll::Ready(Ok(ready)) if ready.is_read_closed())
}

impl PeerShutdown for TcpStream {
    fn has_ended(&self) -> bool {
        is_read_closed(self.ready(Interest::PRIORITY))
    }
}

impl PeerShutdown for UnixStream {
    fn has_ended(&self) -> bool {
        is_read_closed(self.ready(Interest::PRIORITY))
    }
}

impl<S: PeerShutdown> PeerShutdown for TlsStream<S> {
    fn has_ended(&self) -> bool {
        self.get_ref().0.has_ended()
    }
}

/// A side of a tunnel, whose end is read.
impl PeerShutdown for TokioIo<Upgraded> {
    fn has_ended(&self) -> bool {
        false
    }
}

/// A connection that is open: taken off the list when dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    connections: Arc<Connections>,
    id: u64,
    pub(crate) line: Arc<ConnectionActivity>,
    /// The names in the certificate that its client showed; none without one.
    pub(crate) names: Arc<[String]>,
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
    pub(crate) fn add(self: &Arc<Self>) -> OpenConnection {
        self.accept(None, ListenerId::default(), false)
    }

    /// Adds a connection that `listener` accepted from `peer`. `is_shared` is whether it has a
    /// place of the shared pool.
    pub(crate) fn accept(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
        listener: ListenerId,
        is_shared: bool,
    ) -> OpenConnection {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (peer_address, peer) = (peer, PeerKey::of(peer));
        let mut open = self.open();
        let (shared_use, count) = open.peers.entry(peer).or_default();
        *count += 1;
        let line = Arc::new(ConnectionActivity {
            budget: Arc::clone(&self.buffers),
            peer: Arc::clone(shared_use),
            peer_address,
            ..ConnectionActivity::default()
        });
        let watched = WatchedConnection {
            line: Arc::clone(&line),
            listener,
            peer,
            is_shared,
            finished: 0,
            idle_since: Instant::now(),
            head_since: None,
            stuck_since: None,
            asked: None,
        };
        open.connections.insert(id, watched);
        drop(open);
        OpenConnection { connections: Arc::clone(self), id, line, names: Arc::default() }
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open().connections.len()
    }

    /// Returns when no connection is open.
    pub(crate) async fn all_closed(&self) {
        loop {
            let mut empty = pin!(self.empty.notified());
            // Listening before looking: one that closes in between is heard.
            empty.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            empty.await;
        }
    }

    /// How many requests are under way.
    pub(crate) fn in_flight(&self) -> u64 {
        self.open().connections.values().map(|watched| watched.line.in_flight()).sum()
    }

    /// Tells all connections.
    pub(crate) fn tell_all(&self, order: ConnectionCommand) {
        for watched in self.open().connections.values() {
            watched.line.command(order);
        }
    }

    /// Ends the connections that are over a bound at `now`; how many.
    pub(crate) fn sweep(&self, now: Instant, bounds: &Bounds) -> usize {
        let mut open = self.open();
        open.connections.values_mut().map(|watched| usize::from(watched.judge(now, bounds))).sum()
    }

    /// The budget for slow peers.
    pub(crate) fn buffers(&self) -> &BufferBudget {
        &self.buffers
    }

    /// How many connections each listener has, by its name.
    pub(crate) fn by_listener(&self) -> BTreeMap<&'static str, u64> {
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
    pub(crate) fn evict(&self, listener: ListenerId, are_shared: bool, now: Instant) -> Eviction {
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
            if watched.asked.is_none() && watched.line.in_flight() == 0 {
                idle.push(IdleConnection {
                    id: *id,
                    peer: watched.peer,
                    has_served: watched.line.finished.load(Ordering::Relaxed) > 0,
                    idle_since: watched.idle_since,
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
                watched.asked = Some(now);
            }
        }
        Eviction { connections: chosen.len(), largest }
    }

    /// How often to sweep so that a bound is overrun by a quarter at most.
    pub(crate) fn sweep_interval(bounds: &Bounds) -> Duration {
        let shortest = bounds.header_timeout.min(bounds.idle_timeout) / 4;
        shortest.clamp(Duration::from_millis(5), Duration::from_secs(1))
    }
}

impl WatchedConnection {
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

    /// Checks one connection. Returns whether it was commanded to end.
    fn judge(&mut self, now: Instant, bounds: &Bounds) -> bool {
        if self.line.held.load(Ordering::Relaxed) > 0 || self.line.waits_for_room.load(Ordering::Relaxed) {
            self.line.poke();
        }
        if self.line.flows.sweep(now) || self.is_stuck(now, bounds) {
            self.line.flows.end();
            self.line.command(ConnectionCommand::Close);
            return self.asked.replace(now).is_none();
        }
        let line = &self.line;
        let finished = line.finished.load(Ordering::Relaxed);
        if line.in_flight() > 0 || finished != self.finished {
            // Bodies have a bound of their own.
            (self.finished, self.idle_since, self.head_since) = (finished, now, None);
            return false;
        }
        if let Some(asked) = self.asked {
            // It was asked and is still there: its client does not read, or never ends its headers.
            if now.duration_since(asked) >= bounds.linger {
                line.command(ConnectionCommand::Close);
            }
            return false;
        }
        let has_new_bytes =
            line.reads.load(Ordering::Relaxed) != line.reads_at_finish.load(Ordering::Relaxed);
        // On HTTP/2 bytes between requests are pings and window updates.
        if has_new_bytes && !line.is_http2.load(Ordering::Relaxed) {
            let since = *self.head_since.get_or_insert(now);
            if now.duration_since(since) >= bounds.header_timeout {
                line.command(ConnectionCommand::Close);
                self.asked = Some(now);
                return true;
            }
        }
        if now.duration_since(self.idle_since) >= bounds.idle_timeout {
            line.command(ConnectionCommand::Finish);
            self.asked = Some(now);
            return true;
        }
        false
    }
}

/// A stream that notes on its line when bytes arrive, and when they cannot be sent.
///
/// Its shutdown lingers: when the peer is still sending, what it sends is read and dropped for a
/// while, so that it gets to read the answer. Without that the kernel would reset the connection
/// and take the answer with it.
#[derive(Debug)]
pub(crate) struct MonitoredStream<S> {
    stream: S,
    line: Arc<ConnectionActivity>,
    /// How many bytes of the preface of HTTP/2 have come; `None` once something else has, or where
    /// it is not spoken.
    preface_read: Option<usize>,
    /// The part of an unfinished HTTP/1 head that has arrived; `None` where heads are not read.
    head: Option<UnfinishedHead>,
    linger: Linger,
}

impl<S> MonitoredStream<S> {
    /// A stream of HTTP, of either version.
    pub(crate) fn http(stream: S, line: Arc<ConnectionActivity>, linger: Duration) -> Self {
        let head = Some(UnfinishedHead::default());
        Self { stream, line, preface_read: Some(0), head, linger: Linger::new(linger) }
    }

    /// A stream of another protocol, which lingers by itself.
    pub(crate) fn plain(stream: S, line: Arc<ConnectionActivity>) -> Self {
        Self { stream, line, preface_read: None, head: None, linger: Linger::new(Duration::ZERO) }
    }

    /// Notes bytes that were read. Only the whole preface makes a connection one of HTTP/2: its
    /// requests have no time-out for headers, since bytes between them are pings and window
    /// updates.
    #[inline]
    fn note_read(&mut self, read: &[u8]) {
        self.line.reads.fetch_add(1, Ordering::Relaxed);
        let Some(known) = self.preface_read else { return };
        let expected = &HTTP2_PREFACE[known..];
        let length = expected.len().min(read.len());
        if expected[..length] != read[..length] {
            self.preface_read = None;
        } else if length == expected.len() {
            self.preface_read = None;
            self.head = None;
            self.line.is_http2.store(true, Ordering::Relaxed);
        } else {
            self.preface_read = Some(known + length);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredStream<S> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, line, head, .. } = &mut *self;
        if let Some(head) = head
            && !head.has_room(line)
        {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let result = Pin::new(stream).poll_read(cx, buffer);
        let read = &buffer.filled()[before..];
        if !read.is_empty() {
            if let Some(head) = head {
                head.bytes += read.len();
            }
            self.note_read(read);
        }
        result
    }
}

impl<S: AsyncRead + AsyncWrite + PeerShutdown + Unpin> AsyncWrite for MonitoredStream<S> {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.line.wrote(result.is_pending());
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.line.held.load(Ordering::Relaxed) > 0 && self.stream.has_ended() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, line, linger, .. } = &mut *self;
        linger.poll_shutdown(stream, line, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.line.wrote(result.is_pending());
        result
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(connections.len(), 0);
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
}
