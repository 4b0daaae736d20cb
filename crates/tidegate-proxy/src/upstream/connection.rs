//! One connection to a server, which remembers whether it has answered a request.
//!
//! A server may close a kept connection in the instant in which a request is written to it. From
//! the outside that looks like a server that fails; only on a connection that has answered before
//! is it an ordinary end, and the request may go to the same server once more.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;

use http::{Extensions, Response};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

type ServerStream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct ServerConnection {
    stream: ServerStream,
    has_answered: HasAnswered,
}

/// Whether a connection has answered a request, known to its answers and errors. Relaxed: an answer
/// that is noted late only means that a request is not sent again.
#[derive(Clone, Debug, Default)]
struct HasAnswered(Arc<AtomicBool>);

impl ServerConnection {
    pub(super) fn new(stream: ServerStream) -> Self {
        Self { stream, has_answered: HasAnswered::default() }
    }

    pub(super) fn alpn_protocol(&self) -> Option<&[u8]> {
        match &self.stream {
            MaybeHttpsStream::Https(stream) => stream.inner().get_ref().1.alpn_protocol(),
            MaybeHttpsStream::Http(_) => None,
        }
    }
}

/// Notes that the connection of this answer has answered.
pub(crate) fn note_answer<B>(response: &Response<B>) {
    if let Some(HasAnswered(has_answered)) = response.extensions().get() {
        has_answered.store(true, Ordering::Relaxed);
    }
}

/// Whether a request failed because its connection, which had answered before, was closed.
pub(crate) fn was_kept_and_closed(error: &legacy::Error) -> bool {
    let mut extras = Extensions::new();
    if let Some(connected) = error.connect_info() {
        connected.get_extras(&mut extras);
    }
    let has_answered = extras.get().is_some_and(|HasAnswered(has)| has.load(Ordering::Relaxed));
    has_answered && is_closed(error)
}

fn is_closed(error: &(dyn core::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_closed() || error.is_canceled())
        {
            return true;
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::UnexpectedEof
            );
        }
        next = error.source();
    }
    false
}

impl Connection for ServerConnection {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.has_answered.clone())
    }
}

impl Read for ServerConnection {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for ServerConnection {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }
}
