//! Sockets to accept from: TCP and Unix.

pub(crate) mod acceptor;
pub(crate) mod connection_service;
pub(crate) mod http_protocol;
pub(crate) mod listener_service;
pub(crate) mod request_connection;

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tidegate_net::tls::TlsError;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use tidegate_policy::policy::Address;

mod preamble;

pub(crate) use preamble::Preambles;

/// Why a listener could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The system refused.
    #[error("cannot listen on {address}; is it in use, or not an address of this machine?")]
    Bind {
        /// The address that was asked for.
        address: Address,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The path of a Unix socket is taken by something else.
    #[error(
        "cannot listen on unix:{path}: there is a file that is not a socket; remove it, or choose another path"
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Its certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Another process listens on the Unix socket.
    #[error("cannot listen on unix:{path}: another process listens there; stop it, or choose another path")]
    InUse {
        /// The path.
        path: PathBuf,
    },
}

/// A socket to accept from.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// With its file, which lasts as long as the listener.
    Unix(UnixListener, #[expect(dead_code, reason = "held to be dropped")] SocketFile),
}

/// The file of a Unix socket, removed when the listener goes.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may have been removed already, so an error is ignored.
        let _ = fs::remove_file(&self.0);
    }
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) enum AcceptedStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AcceptedStream {
    /// The address at the other end; none of a Unix socket.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        match self {
            // A connection that is gone already has none either, and is noticed when it is read.
            Self::Tcp(stream) => stream.peer_addr().ok().map(|peer| peer.ip()),
            Self::Unix(_) => None,
        }
    }

    /// Reads at most `most` bytes more; how many, 0 at the end.
    async fn read_some(&mut self, bytes: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        let from = bytes.len();
        bytes.resize(from + most, 0);
        let read = match self {
            Self::Tcp(stream) => stream.read(&mut bytes[from..]).await,
            Self::Unix(stream) => stream.read(&mut bytes[from..]).await,
        };
        bytes.truncate(from + *read.as_ref().unwrap_or(&0));
        read
    }
}

impl Listener {
    /// Opens a listener; also where it listens, with the port that was found for port 0.
    pub(crate) async fn open(address: &Address, backlog: u32) -> Result<(Self, Address), ListenError> {
        match address {
            Address::Tcp(socket) => {
                let failed = |source| ListenError::Bind { address: address.clone(), source };
                let listener = open_tcp(*socket, backlog).map_err(failed)?;
                let bound = listener.local_addr().map_err(failed)?;
                Ok((Self::Tcp(listener), Address::Tcp(bound)))
            }
            Address::Unix(path) => {
                remove_stale(path).await?;
                let listener = UnixListener::bind(path)
                    .map_err(|source| ListenError::Bind { address: address.clone(), source })?;
                Ok((Self::Unix(listener, SocketFile(path.clone())), address.clone()))
            }
        }
    }

    /// The next connection. An error concerns that connection or is a shortage that passes.
    pub(crate) async fn accept(&self) -> io::Result<AcceptedStream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without it a client that pipelines and waits gets one answer every 40 ms.
                stream.set_nodelay(true)?;
                Ok(AcceptedStream::Tcp(stream))
            }
            Self::Unix(listener, _) => Ok(AcceptedStream::Unix(listener.accept().await?.0)),
        }
    }
}

fn open_tcp(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

/// Removes the socket of a process that is gone, and nothing else.
async fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::NotASocket { path: path.to_owned() });
    }
    if UnixStream::connect(path).await.is_ok() {
        return Err(ListenError::InUse { path: path.to_owned() });
    }
    fs::remove_file(path)
        .map_err(|source| ListenError::Bind { address: Address::Unix(path.to_owned()), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With Nagle's algorithm a client that pipelines and waits gets one answer every 40 ms.
    #[tokio::test]
    async fn accepted_connections_send_what_they_have_at_once() {
        let (listener, address) = Listener::open(&"127.0.0.1:0".parse().unwrap(), 16).await.unwrap();
        let _client = TcpStream::connect(address.tcp().unwrap()).await.unwrap();
        let AcceptedStream::Tcp(stream) = listener.accept().await.unwrap() else { panic!("a TCP stream") };
        assert!(stream.nodelay().unwrap());
    }
}
