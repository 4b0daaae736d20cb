//! The stream of a connection, which the sweep watches.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::ConnectionActivity;
use super::http2_frames::{FrameKind, Http2Frames};
use super::linger::Linger;
use super::peer_shutdown::{PeerShutdown, PeerState, is_reset};
use super::unfinished_head::UnfinishedHead;

/// The first bytes of every HTTP/2 connection.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream that notes on its line when bytes arrive, and when they cannot be sent; also when the
/// kernel has taken an [answer that hands something over](super::AnswerDelivery), and when the
/// client resets the connection or a stream of HTTP/2.
///
/// Its shutdown lingers: when the peer is still sending, what it sends is read and dropped for a
/// while, so that it gets to read the answer. Without that the kernel would reset the connection
/// and take the answer with it.
#[derive(Debug)]
pub struct MonitoredStream<S: PeerShutdown> {
    stream: S,
    line: Arc<ConnectionActivity>,
    /// How many bytes of the preface of HTTP/2 have come; `None` once something else has, or where
    /// it is not spoken.
    preface_read: Option<usize>,
    /// The part of an unfinished HTTP/1 head that has arrived; `None` where heads are not read.
    head: Option<UnfinishedHead>,
    linger: Linger,
    /// The frames of HTTP/2; `None` before the preface, and where they are not looked at.
    frames: Option<Box<Http2Frames>>,
    follows_streams: bool,
}

impl<S: PeerShutdown> MonitoredStream<S> {
    /// A stream of HTTP, of either version.
    pub fn http(stream: S, line: Arc<ConnectionActivity>, linger: Duration) -> Self {
        let head = Some(UnfinishedHead::default());
        Self {
            stream,
            line,
            preface_read: Some(0),
            head,
            linger: Linger::new(linger),
            frames: None,
            follows_streams: false,
        }
    }

    /// Also follows on which stream of HTTP/2 an answer goes out. Every body of the connection must
    /// be one of `AnswerBytes` that are counted.
    #[must_use]
    pub fn following_streams(mut self) -> Self {
        self.follows_streams = true;
        self
    }

    /// A stream of another protocol, which lingers by itself.
    pub fn plain(stream: S, line: Arc<ConnectionActivity>) -> Self {
        Self {
            stream,
            line,
            preface_read: None,
            head: None,
            linger: Linger::new(Duration::ZERO),
            frames: None,
            follows_streams: false,
        }
    }

    /// Notes bytes that were read. Only the whole preface makes a connection one of HTTP/2: its
    /// requests have no time-out for headers, since bytes between them are pings and window
    /// updates.
    #[inline]
    fn note_read(&mut self, read: &[u8]) {
        self.line.reads.fetch_add(1, Ordering::Relaxed);
        self.line.another_request_came();
        let Some(known) = self.preface_read else {
            if self.frames.is_some() {
                self.note_received_frames(read);
            }
            return;
        };
        let expected = &HTTP2_PREFACE[known..];
        let length = expected.len().min(read.len());
        if expected[..length] != read[..length] {
            self.preface_read = None;
        } else if length == expected.len() {
            self.preface_read = None;
            self.head = None;
            self.line.is_http2.store(true, Ordering::Relaxed);
            if self.follows_streams {
                self.frames = Some(Box::default());
                self.note_received_frames(&read[length..]);
            }
        } else {
            self.preface_read = Some(known + length);
        }
    }

    fn note_received_frames(&mut self, read: &[u8]) {
        let Self { frames: Some(frames), line, .. } = self else { return };
        let Http2Frames { received, pings, .. } = &mut **frames;
        received.read(read, |head| match head.kind {
            FrameKind::Reset => line.stream_reset(head.stream),
            FrameKind::Pong => {
                if let Some(data_sent) = pings.pop_front() {
                    line.data_read(data_sent);
                }
            }
            _ => {}
        });
    }

    fn note_sent_frames(&mut self, sent: &[u8]) {
        let Self { frames: Some(frames), line, .. } = self else { return };
        let Http2Frames { sent: heads, data_sent, pings, .. } = &mut **frames;
        heads.read(sent, |head| match head.kind {
            FrameKind::Data => {
                *data_sent += u64::from(head.length);
                if head.length > 0 {
                    line.data_frame_written(head.stream, *data_sent);
                }
            }
            FrameKind::Headers => {}
            FrameKind::Ping => {
                pings.push_back(*data_sent);
                line.control_frame_written();
            }
            FrameKind::Reset | FrameKind::Pong | FrameKind::Control => line.control_frame_written(),
        });
    }

    /// Records a reset of the connection by the client, if `error` is one.
    fn note_error(&self, error: &io::Error) {
        if is_reset(error) {
            self.line.connection_reset();
        }
    }

    /// Looks at the client before an answer to a request that has waited is written: an error if
    /// the client has left, and pending if it has sent something on HTTP/2 that the runtime does
    /// not know of yet. That may reset the stream of the answer, and is read first.
    #[inline]
    fn poll_peer(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.line.looks_before_writing() {
            return Poll::Ready(Ok(()));
        }
        if self.stream.has_ended() || self.stream.peer_state() != PeerState::Open {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        // Watched by now, so that the runtime wakes the task when the kernel tells it. Where the
        // runtime knows already, the connection has read, or does not want to.
        if self.frames.is_some() && self.stream.watch_end(cx) && self.stream.has_unread() {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: PeerShutdown> Drop for MonitoredStream<S> {
    fn drop(&mut self) {
        if !self.line.has_deliveries() {
            return;
        }
        if self.stream.peer_state() == PeerState::Reset {
            self.line.connection_reset();
        }
        // An error: the system has no file left for the watch.
        let socket = || self.stream.socket()?.try_clone_to_owned().ok();
        self.line.stream_ended(socket);
    }
}

impl<S: AsyncRead + PeerShutdown + Unpin> AsyncRead for MonitoredStream<S> {
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
        } else if self.line.has_deliveries() {
            match &result {
                Poll::Ready(Err(error)) => self.note_error(error),
                // After the end of the client's output, reading does not report a reset.
                Poll::Ready(Ok(())) if self.stream.peer_state() == PeerState::Reset => {
                    self.line.connection_reset();
                }
                _ => {}
            }
        }
        result
    }
}

impl<S: AsyncRead + AsyncWrite + PeerShutdown + Unpin> AsyncWrite for MonitoredStream<S> {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_peer(cx))?;
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.line.wrote(result.is_pending());
        match &result {
            Poll::Ready(Ok(count)) if self.frames.is_some() => self.note_sent_frames(&bytes[..*count]),
            Poll::Ready(Ok(_)) => self.line.another_answer_sent(),
            Poll::Ready(Err(error)) => self.note_error(error),
            _ => {}
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.line.held.load(Ordering::Relaxed) > 0 {
            // Registered before the look, so that no end falls between the two.
            let is_watched = self.stream.watch_end(cx);
            self.line.is_unwatched.store(!is_watched, Ordering::Relaxed);
            if self.stream.has_ended() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
        }
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        if self.line.has_deliveries() {
            match &result {
                Poll::Ready(Ok(())) => self.line.all_written(),
                Poll::Ready(Err(error)) => self.note_error(error),
                Poll::Pending => {}
            }
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, line, linger, .. } = &mut *self;
        linger.poll_shutdown(stream, line, cx)
    }

    /// Not over HTTP/2: for a stream that says yes, h2 sends each body of 256 bytes or more by a
    /// call of its own, and below 1 KiB for one that says no it copies all that is ready together.
    fn is_write_vectored(&self) -> bool {
        self.frames.is_none() && self.stream.is_write_vectored()
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_peer(cx))?;
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.line.wrote(result.is_pending());
        match &result {
            Poll::Ready(Ok(count)) if self.frames.is_some() => {
                let mut left = *count;
                for slice in slices {
                    let sent = left.min(slice.len());
                    self.note_sent_frames(&slice[..sent]);
                    left -= sent;
                }
            }
            Poll::Ready(Ok(_)) => self.line.another_answer_sent(),
            Poll::Ready(Err(error)) => self.note_error(error),
            _ => {}
        }
        result
    }
}
