//! A connection from its first byte to its last.
//!
//! Reading and writing go on side by side, so that a client which sends a long pipeline before it
//! reads is served as far as it can be. The bytes that wait to be written have a bound, above which
//! nothing is read.

use core::future::poll_fn;
use core::net::IpAddr;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, BytesMut};
use tidegate_net::connections::{
    AnswerDelivery, Buffered, ConnectionActivity, ConnectionCommand, HiddenEndLooks, MonitoredStream,
    OpenConnection, PeerShutdown,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::authorization::LoginState;
use super::server::RespServer;
use super::session::{CloseReason, Session};
use super::unanswered::UnansweredCommands;
use crate::authorization::Credentials;
use crate::panics::caught;

/// The least room in the read buffer before a read.
const READ_BYTES_MIN: usize = 4 << 10;

/// How much is read at once at most.
const READ_BYTES_MAX: usize = 64 << 10;

/// From how many bytes of commands on their replies may take more than a small buffer.
const PIPELINE_BYTES_MIN: usize = 256;

/// How many bytes of commands and replies a connection may hold that are not charged to the budget
/// for slow peers ([`Buffered`]). A connection that is refused more is closed
/// if its client does not read its replies or has sent half a command; otherwise it reads less at
/// once.
const FREE_BYTES: usize = 2 * READ_BYTES_MIN;

/// How many bytes of replies may wait for a client that does not read them. Above it nothing more
/// is read from that client; when it has taken nothing for [`crate::Bounds::idle_timeout`], the
/// connection closes.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// How often a connection that finishes still reads bytes that its client had on the way.
const LAST_READS_MAX: u32 = 16;

/// How many bytes behind a protocol error or the last failed login are read and dropped, so that
/// the client gets to read the error.
const DISCARD_BYTES_MAX: usize = 1 << 20;

/// The error for a client whose unfinished command exceeds the budget.
const STARVED: &[u8] = b"-ERR the server's memory for unfinished commands is full; connect again later\r\n";

#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other, and none is passed anywhere"
)]
struct Connection<S: PeerShutdown> {
    stream: MonitoredStream<S>,
    input: BytesMut,
    /// Fewer bytes than that are no whole command.
    input_needed: usize,
    /// Whether the last turn left whole commands unread.
    has_more: bool,
    output: Vec<u8>,
    /// How much of `output` is written.
    written: usize,
    /// How many bytes of replies are not in `output` any more.
    dropped: u64,
    /// The deliveries of replies that are not written, each with the count of bytes at its end.
    unwritten: VecDeque<(u64, AnswerDelivery)>,
    /// The bytes of commands that wait for `EXEC`.
    queued: usize,
    answering: UnansweredCommands,
    /// The bytes that it holds beyond [`FREE_BYTES`].
    buffered: Buffered,
    /// Whether it ends because it was refused more.
    is_starved: bool,
    /// How much to read next; more after a read that took all there was room for.
    read_bytes: usize,
    /// Whether nothing more is read.
    is_read_closed: bool,
    is_registered: bool,
    /// How often it still reads, once it finishes.
    reads_left: Option<u32>,
}

/// Serves one connection to its end.
///
/// `peer` is the address that it comes from.
pub(crate) async fn serve<S>(server: &RespServer, stream: S, peer: Option<IpAddr>, open: &OpenConnection)
where
    S: AsyncRead + AsyncWrite + PeerShutdown + Send + Unpin + 'static,
{
    let daemon = &*server.daemon;
    let line = Arc::clone(&open.line);
    let mut connection = Connection {
        stream: MonitoredStream::plain(stream, Arc::clone(&line)),
        input: BytesMut::new(),
        input_needed: 1,
        has_more: false,
        output: Vec::new(),
        written: 0,
        dropped: 0,
        unwritten: VecDeque::new(),
        queued: 0,
        buffered: Buffered::new(Arc::clone(&line)),
        is_starved: false,
        answering: UnansweredCommands::new(line),
        read_bytes: READ_BYTES_MIN,
        is_read_closed: false,
        is_registered: false,
        reads_left: None,
    };
    // Relaxed: only that they differ matters.
    let id = server.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let identity = LoginState::new(Credentials::new(&open.names), &daemon.in_force.load().config);
    let mut session = Session::new(id, peer, identity, Arc::clone(&open.line));
    while connection.has_input().await {
        connection.has_more = false;
        let Connection { stream, input, output, answering, is_registered, .. } = &mut connection;
        // Not little by little where several commands came at once, as their replies are written.
        if output.capacity() == 0 && input.len() > PIPELINE_BYTES_MIN {
            output.reserve(READ_BYTES_MIN);
        }
        let turn = caught(&daemon.metrics, session.turn(server, input, output, answering));
        let turn = match while_client_waits(turn, stream, &open.line, is_registered).await {
            Some(Ok(turn)) => turn,
            Some(Err(fault)) => session.give_up(daemon, fault, input, output),
            None => break,
        };
        let dropped = connection.dropped;
        for (end, mut delivery) in session.deliveries.drain(..) {
            open.line.look_for(&mut delivery);
            connection.unwritten.push_back((dropped + end as u64, delivery));
        }
        connection.took(turn);
        connection.queued = session.bytes();
        if session.ending.is_some() {
            connection.is_read_closed = true;
            connection.has_more = false;
        }
    }
    connection.answering.end();
    if connection.is_starved && connection.output.is_empty() {
        connection.output.extend_from_slice(STARVED);
        let _ = connection.poll_write(&mut Context::from_waker(Waker::noop()));
    }
    if matches!(session.ending, Some(CloseReason::Malformed | CloseReason::FailedLogins)) {
        let linger = daemon.config.bounds.linger;
        let _ = tokio::time::timeout(linger, connection.discard()).await;
    }
    // An error means that the client has gone, and then there is nothing to end.
    let _ = tokio::select! {
        biased;
        ended = connection.stream.shutdown() => ended,
        // The end of TLS waits a while for the client to go first, unless the daemon ends.
        () = open.line.until_commanded() => connection.stream.shutdown().await,
    };
}

/// The result of `turn`; `None` if the client left, or the connection had to close, while a command
/// of it waited in line. Its place there is free again then.
async fn while_client_waits<T, S: AsyncRead + AsyncWrite + PeerShutdown + Unpin>(
    turn: impl Future<Output = T>,
    stream: &mut MonitoredStream<S>,
    line: &ConnectionActivity,
    is_registered: &mut bool,
) -> Option<T> {
    let mut turn = pin!(turn);
    let mut looks = HiddenEndLooks::default();
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(done) = turn.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            if line.held() == 0 {
                return Poll::Pending;
            }
            // While a command waits, the flush looks for the end of the client's output.
            if line.order(cx, is_registered) == ConnectionCommand::Close
                || matches!(Pin::new(&mut *stream).poll_flush(cx), Poll::Ready(Err(_)))
            {
                return Poll::Ready(None);
            }
            if looks.poll_next(line, cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await
}

impl<S: AsyncRead + AsyncWrite + PeerShutdown + Unpin> Connection<S> {
    /// Waits until there may be a whole command, while replies are written; `false` when the
    /// connection is at its end.
    async fn has_input(&mut self) -> bool {
        poll_fn(|cx| self.poll_input(cx)).await
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            if self.poll_write(cx).is_err() {
                return Poll::Ready(false);
            }
            let waiting = self.output.len() - self.written;
            if !self.has_budget(0) && (waiting > 0 || self.input.len() + self.queued > FREE_BYTES) {
                self.is_starved = true;
                return Poll::Ready(false);
            }
            let has_room = waiting < REPLY_BYTES_MAX;
            if self.has_more && has_room {
                return Poll::Ready(true);
            }
            let order = self.answering.connection().order(cx, &mut self.is_registered);
            if order == ConnectionCommand::Close {
                return Poll::Ready(false);
            }
            if order == ConnectionCommand::Finish && self.reads_left.is_none() {
                self.reads_left = Some(LAST_READS_MAX);
                // The waker was used up by the order; the next one needs it again.
                self.is_registered = false;
                continue;
            }
            if self.is_read_closed {
                return if waiting == 0 { Poll::Ready(false) } else { Poll::Pending };
            }
            if !has_room {
                return Poll::Pending;
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(1..)) if self.input.len() >= self.input_needed => return Poll::Ready(true),
                Poll::Ready(Ok(1..)) => {}
                // Commands before the end of input are answered.
                Poll::Ready(Ok(0)) => self.is_read_closed = true,
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending if self.reads_left.is_some() => self.is_read_closed = true,
                Poll::Pending => {
                    self.shrink();
                    return Poll::Pending;
                }
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match &mut self.reads_left {
            Some(0) => return Poll::Ready(Ok(0)),
            Some(left) => *left -= 1,
            None => {}
        }
        let missing = self.input_needed.saturating_sub(self.input.len());
        let wanted = missing.clamp(self.read_bytes, READ_BYTES_MAX);
        if self.has_budget(wanted) {
            self.input.reserve(wanted);
        } else if self.input.len() <= READ_BYTES_MIN {
            self.input.reserve(READ_BYTES_MIN);
        } else {
            self.is_starved = true;
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        let room = self.input.capacity() - self.input.len();
        let read = pin!(self.stream.read_buf(&mut self.input)).poll(cx);
        if let Poll::Ready(Ok(count)) = read {
            self.read_bytes = if count == room { READ_BYTES_MAX } else { READ_BYTES_MIN };
        }
        read
    }

    /// Charges the bytes that the connection holds, and `more` to be read; returns whether there
    /// was room for it.
    fn has_budget(&mut self, more: usize) -> bool {
        let input = self.input.capacity().max(self.input.len() + more);
        let held = input + self.output.capacity() + self.queued;
        self.buffered.resize(held.saturating_sub(FREE_BYTES)).is_ok()
    }

    /// Lets go of buffers that are empty, while nothing comes.
    fn shrink(&mut self) {
        if self.input.is_empty() && self.input.capacity() > READ_BYTES_MIN {
            self.input = BytesMut::new();
        }
        if self.output.is_empty() && self.output.capacity() > READ_BYTES_MIN {
            self.output = Vec::new();
        }
        self.has_budget(0);
    }

    /// Writes as much as the client takes.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.written < self.output.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.output[self.written..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        // TLS keeps bytes back that the socket did not take.
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Ok(())) if !self.unwritten.is_empty() => self.deliver_written(),
            Poll::Ready(Err(error)) => return Err(error),
            _ => {}
        }
        if self.written == self.output.len() {
            self.dropped += self.written as u64;
            if !self.has_more && self.answering.end() && !self.input.is_empty() {
                self.answering.connection().has_begun_another();
            }
            self.output.clear();
            self.written = 0;
            if self.output.capacity() > READ_BYTES_MAX {
                self.output = Vec::new();
            }
        } else if self.written >= REPLY_BYTES_MAX {
            self.dropped += self.written as u64;
            self.output.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// The kernel has taken every byte that was written.
    fn deliver_written(&mut self) {
        let written = self.dropped + self.written as u64;
        while self.unwritten.front().is_some_and(|(end, _)| *end <= written)
            && let Some((_, delivery)) = self.unwritten.pop_front()
        {
            self.answering.connection().delivery_written(delivery);
        }
    }

    /// Drops the bytes that a turn has read.
    fn took(&mut self, turn: super::session::TurnProgress) {
        self.input.advance(turn.taken);
        self.has_more = turn.is_cut_short;
        self.input_needed = self.input.len() + turn.bytes_missing;
        if self.input.is_empty() {
            self.input_needed = 1;
            if self.input.capacity() > READ_BYTES_MAX {
                self.input = BytesMut::new();
            }
        }
    }

    /// Reads and drops bytes until the client ends its output.
    async fn discard(&mut self) {
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let mut discarded = 0;
        while discarded < DISCARD_BYTES_MAX {
            self.input.clear();
            self.input.reserve(READ_BYTES_MIN);
            match self.stream.read_buf(&mut self.input).await {
                Ok(count @ 1..) => discarded += count,
                _ => return,
            }
        }
    }
}
