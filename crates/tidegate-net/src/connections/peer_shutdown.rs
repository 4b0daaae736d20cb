//! The end of a peer: whether it has closed or reset its connection, found without reading.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// A stream that detects the end of its input without reading.
pub trait PeerShutdown {
    /// Whether the other end has ended its output, apart from unread bytes.
    fn has_ended(&self) -> bool;

    /// Has the task of `cx` woken when the other end ends its output; whether that is possible. It
    /// is not while unread bytes lie before the end.
    fn watch_end(&self, cx: &mut Context<'_>) -> bool;

    /// The socket below; `None` for what is no socket.
    fn socket(&self) -> Option<BorrowedFd<'_>>;

    /// Whether ending the output sends bytes, as TLS does. Sent to a client that has closed its
    /// socket, they are answered by a reset.
    fn says_goodbye(&self) -> bool {
        false
    }

    /// The state of the other end as the kernel knows it now.
    fn peer_state(&self) -> PeerState {
        let seen = self.poll_now(PollFlags::RDHUP);
        if seen.contains(PollFlags::ERR) {
            PeerState::Reset
        } else if seen.intersects(PollFlags::RDHUP | PollFlags::HUP) {
            PeerState::Ended
        } else {
            PeerState::Open
        }
    }

    /// Whether bytes have come that were not read.
    fn has_unread(&self) -> bool {
        self.poll_now(PollFlags::IN).contains(PollFlags::IN)
    }

    /// The state of the socket as the kernel knows it now.
    fn poll_now(&self, flags: PollFlags) -> PollFlags {
        let Some(socket) = self.socket() else { return PollFlags::empty() };
        let mut asked = [PollFd::new(&socket, flags)];
        // An error says nothing about the other end; reading and writing will.
        let _ = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        asked[0].revents()
    }
}

/// The state of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It may send more.
    Open,
    /// It has ended its output: closed, or half-closed.
    Ended,
    /// It has reset the connection, which was not noticed by reading or writing yet.
    Reset,
}

/// Whether an error of reading or writing says that the other end has reset the connection.
pub(super) fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe
    )
}

/// Asks for what is known at once. Only the end of the stream is ever ready: urgent data is not
/// looked for.
fn is_read_closed(ready: impl Future<Output = io::Result<Ready>>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(pin!(ready).poll(&mut context), Poll::Ready(Ok(ready)) if ready.is_read_closed())
}

macro_rules! watched_sockets {
    ($($stream:ty),*) => {$(
        impl PeerShutdown for $stream {
            fn has_ended(&self) -> bool {
                is_read_closed(self.ready(Interest::PRIORITY))
            }

            fn watch_end(&self, cx: &mut Context<'_>) -> bool {
                self.poll_read_ready(cx).is_pending()
            }

            fn socket(&self) -> Option<BorrowedFd<'_>> {
                Some(self.as_fd())
            }
        }
    )*};
}

watched_sockets!(TcpStream, UnixStream);

impl<S: PeerShutdown + ?Sized> PeerShutdown for Box<S> {
    fn has_ended(&self) -> bool {
        (**self).has_ended()
    }

    fn watch_end(&self, cx: &mut Context<'_>) -> bool {
        (**self).watch_end(cx)
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        (**self).socket()
    }

    fn says_goodbye(&self) -> bool {
        (**self).says_goodbye()
    }
}

impl<S: PeerShutdown> PeerShutdown for TlsStream<S> {
    fn has_ended(&self) -> bool {
        self.get_ref().0.has_ended()
    }

    fn watch_end(&self, cx: &mut Context<'_>) -> bool {
        self.get_ref().0.watch_end(cx)
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.get_ref().0.socket()
    }

    fn says_goodbye(&self) -> bool {
        true
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

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
