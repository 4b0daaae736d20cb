//! A connection's stream on which no reply exceeds its bounds.
//!
//! A server that is hostile, or no Redis at all, can send anything. Its bytes are checked before
//! the client library takes memory for it: the frame of each reply, its size, and that a command
//! asked for it. Beyond that the connection ends with an error that quotes what came.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::resp_frame::{FrameBounds, FrameError, FrameScanner};

/// Bounds on the replies to a greeting: its answers are a few words each.
const GREETING_BOUNDS: FrameBounds = FrameBounds { bytes: 16 << 10, values: 256, depth: 4 };

/// Bounds on every later reply. The longest the script gives is the answer to a call which removes
/// 256 notes of 64 KiB; the most values has the map of a cluster whose 16 384 slots are each a
/// range of its own, with three nodes each.
pub(crate) const REPLY_BOUNDS: FrameBounds = FrameBounds { bytes: 18 << 20, values: 1 << 19, depth: 8 };

/// No bound, for the commands of this member.
const COMMAND_BOUNDS: FrameBounds = FrameBounds { bytes: usize::MAX, values: usize::MAX, depth: 2 };

/// Says that the greeting has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Greeted(Arc<AtomicBool>);

impl Greeted {
    pub(crate) fn set(&self) {
        // The flag is all that is handed over.
        self.0.store(true, Ordering::Relaxed);
    }

    fn bounds(&self) -> FrameBounds {
        // As above.
        if self.0.load(Ordering::Relaxed) { REPLY_BOUNDS } else { GREETING_BOUNDS }
    }
}

/// A stream to a server.
#[derive(Debug)]
pub(crate) struct BoundedStream<S> {
    stream: S,
    greeted: Greeted,
    commands: FrameScanner,
    replies: FrameScanner,
    /// Commands sent that are not answered.
    unanswered: u64,
}

impl<S> BoundedStream<S> {
    pub(crate) fn new(stream: S, greeted: Greeted) -> Self {
        let (commands, replies) = (FrameScanner::new(), FrameScanner::new());
        Self { stream, greeted, commands, replies, unanswered: 0 }
    }

    fn sent(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.unanswered += self.commands.scan(bytes, COMMAND_BOUNDS)?.replies;
        Ok(())
    }

    fn received(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        let found = self.replies.scan(bytes, self.greeted.bounds())?;
        self.unanswered = self.unanswered.checked_sub(found.replies).ok_or(FrameError::Unsolicited)?;
        Ok(())
    }
}

/// The client library replaces a connection that ends with this kind of error.
fn ended(error: FrameError) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, error)
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.received(&buffer.filled()[before..]).map_err(ended))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.sent(&bytes[..written]).map_err(ended)?;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
