//! The orderly close of a connection whose peer is still sending, without losing the last answer.
//!
//! A socket that is closed with bytes unread, or that gets bytes afterwards, answers with a reset,
//! and the peer's system then drops what the peer has not read yet. A gateway that writes a large
//! request sees a write error instead of the answer, and a gateway that fails open would let the
//! request pass. So the answer is ended first, and further bytes are read and dropped until the
//! peer closes, for a bounded time.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::activity::ConnectionActivity;
use super::delivery::RESET_WINDOW;
use super::peer_shutdown::{PeerShutdown, PeerState, is_reset};

/// How many bytes are read and dropped at once.
const DROPPED_BYTES: usize = 8 << 10;

/// How many reads a peer that never stops sending has before other connections get their turn.
const READS_MAX: usize = 32;

/// How far the closing of a connection is.
#[derive(Debug)]
pub(super) struct Linger {
    time: Duration,
    is_write_shut: bool,
    until: Option<Pin<Box<Sleep>>>,
    /// Until when the end of the output is held back.
    goodbye_at: Option<Pin<Box<Sleep>>>,
}

impl Linger {
    /// Reads on for at most `time`; not at all for zero.
    pub(super) fn new(time: Duration) -> Self {
        Self { time, is_write_shut: false, until: None, goodbye_at: None }
    }

    /// Ends what is written, then reads on if the peer has sent more than the requests that were
    /// answered. Ends nothing where the peer has ended its output and may still reset the
    /// connection: dropping the stream watches for that.
    pub(super) fn poll_shutdown<S: AsyncRead + AsyncWrite + PeerShutdown + Unpin>(
        &mut self,
        stream: &mut S,
        line: &ConnectionActivity,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_write_shut {
            if line.is_reset_watched() && !line.is_commanded() {
                // Both ends closed, the client's system could not reset the connection any more.
                if stream.peer_state() != PeerState::Open {
                    return Poll::Ready(Ok(()));
                }
                // The last bytes of TLS would be the unread bytes for which the client's
                // system resets a connection whose answer was read. The client may end it first.
                let goodbye_at = || Box::pin(tokio::time::sleep(RESET_WINDOW));
                if stream.says_goodbye()
                    && self.goodbye_at.get_or_insert_with(goodbye_at).as_mut().poll(cx).is_pending()
                {
                    return poll_end(stream, line, cx);
                }
            }
            match Pin::new(&mut *stream).poll_shutdown(cx) {
                Poll::Ready(Ok(())) => self.is_write_shut = true,
                other => return other,
            }
            // Relaxed: both are written by the task that is asking.
            let reads = line.reads.load(Ordering::Relaxed);
            if self.time.is_zero() || reads == line.reads_at_finish.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
            self.until = Some(Box::pin(tokio::time::sleep(self.time)));
        }
        let Some(until) = &mut self.until else { return Poll::Ready(Ok(())) };
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        poll_end(stream, line, cx)
    }
}

/// Reads and drops bytes until the peer has closed, or is gone.
fn poll_end<S: AsyncRead + Unpin>(
    stream: &mut S,
    line: &ConnectionActivity,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let mut dropped = [0; DROPPED_BYTES];
    for _ in 0..READS_MAX {
        let mut buffer = ReadBuf::new(&mut dropped);
        match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
            Poll::Ready(ended) => {
                if ended.is_err_and(|error| is_reset(&error)) {
                    line.connection_reset();
                }
                return Poll::Ready(Ok(()));
            }
            Poll::Pending => return Poll::Pending,
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
