//! The stream of a connection, which the sweep watches.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::activity::ConnectionActivity;
use super::linger::Linger;
use super::unfinished_head::UnfinishedHead;

/// The first bytes of every HTTP/2 connection.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream that detects the end of its input without reading.
pub trait PeerShutdown {
    /// Whether the other end has ended its output, apart from unread bytes.
    fn has_ended(&self) -> bool;

    /// Has the task of `cx` woken when the other end ends its output; whether that is possible. It
    /// is not while unread bytes lie before the end.
    fn watch_end(&self, cx: &mut Context<'_>) -> bool;
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

    fn watch_end(&self, cx: &mut Context<'_>) -> bool {
        self.poll_read_ready(cx).is_pending()
    }
}

impl PeerShutdown for UnixStream {
    fn has_ended(&self) -> bool {
        is_read_closed(self.ready(Interest::PRIORITY))
    }

    fn watch_end(&self, cx: &mut Context<'_>) -> bool {
        self.poll_read_ready(cx).is_pending()
    }
}

impl<S: PeerShutdown + ?Sized> PeerShutdown for Box<S> {
    fn has_ended(&self) -> bool {
        (**self).has_ended()
    }

    fn watch_end(&self, cx: &mut Context<'_>) -> bool {
        (**self).watch_end(cx)
    }
}

impl<S: PeerShutdown> PeerShutdown for TlsStream<S> {
    fn has_ended(&self) -> bool {
        self.get_ref().0.has_ended()
    }

    fn watch_end(&self, cx: &mut Context<'_>) -> bool {
        self.get_ref().0.watch_end(cx)
    }
}

/// A side of a tunnel, whose end is read.
impl PeerShutdown for TokioIo<Upgraded> {
    fn has_ended(&self) -> bool {
        false
    }

    fn watch_end(&self, _: &mut Context<'_>) -> bool {
        true
    }
}

/// A stream that notes on its line when bytes arrive, and when they cannot be sent.
///
/// Its shutdown lingers: when the peer is still sending, what it sends is read and dropped for a
/// while, so that it gets to read the answer. Without that the kernel would reset the connection
/// and take the answer with it.
#[derive(Debug)]
pub struct MonitoredStream<S> {
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
    pub fn http(stream: S, line: Arc<ConnectionActivity>, linger: Duration) -> Self {
        let head = Some(UnfinishedHead::default());
        Self { stream, line, preface_read: Some(0), head, linger: Linger::new(linger) }
    }

    /// A stream of another protocol, which lingers by itself.
    pub fn plain(stream: S, line: Arc<ConnectionActivity>) -> Self {
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
        if self.line.held.load(Ordering::Relaxed) > 0 {
            // Registered before the look, so that no end falls between the two.
            let is_watched = self.stream.watch_end(cx);
            self.line.is_unwatched.store(!is_watched, Ordering::Relaxed);
            if self.stream.has_ended() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
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
