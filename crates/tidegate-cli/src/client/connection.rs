//! A connection to a daemon, over TCP, TLS or a Unix socket, and the deadline of a request.

use core::time::Duration;
use std::io;

use tidegate_wire::display::HumanDuration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::error::ClientError;
use super::tls;
use crate::address::{DaemonAddress, Endpoint, Protocol};
use crate::arguments::request::Daemon;

/// The time for a request and its answer, beside that which the daemon is asked to wait.
const DEADLINE: Duration = Duration::from_secs(5);

/// The longest answer in bytes; a daemon never sends a longer one.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The protocols, and how an address of each begins.
const PROTOCOLS: [(Protocol, &str); 3] = [
    (Protocol::Http, "http:// for the HTTP API"),
    (Protocol::Grpc, "grpc:// for Envoy's rate limit service"),
    (Protocol::Resp, "redis:// for TG.CHECK"),
];

/// A connection to a daemon.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// Connects to a daemon.
pub(super) async fn connect(daemon: &Daemon) -> Result<Box<dyn ByteStream>, ClientError> {
    let address = &daemon.at;
    let silent = |error: io::Error| ClientError::silent(&error);
    let (host, port) = match &address.endpoint {
        Endpoint::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await.map_err(silent)?)),
        Endpoint::Tcp { host, port } => (host.as_str(), *port),
    };
    let connector = address.is_tls.then(|| tls::connector(daemon)).transpose()?;
    let stream = TcpStream::connect((host, port)).await.map_err(silent)?;
    stream.set_nodelay(true).map_err(silent)?;
    match connector {
        None => Ok(Box::new(stream)),
        Some(connector) => {
            let connected = connector.connect(tls::name(host)?, stream).await;
            Ok(Box::new(connected.map_err(|error| tls::failure(address.protocol, &error))?))
        }
    }
}

/// Fails a request that takes longer than [`DEADLINE`], and names the daemon in its error.
pub(super) async fn within_deadline<T>(
    address: &DaemonAddress,
    asking: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    within_deadline_after(Duration::ZERO, address, asking).await
}

/// The same, of a request that may wait for so long at the daemon.
pub(super) async fn within_deadline_after<T>(
    wait: Duration,
    address: &DaemonAddress,
    asking: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let deadline = wait.saturating_add(DEADLINE);
    let answer = tokio::time::timeout(deadline, asking).await;
    let late = || ClientError::Silent(format!("there was no answer within {}", HumanDuration(deadline)));
    answer.unwrap_or_else(|_| Err(late())).map_err(|error| naming(address, error))
}

/// An error that says which daemon could not be asked.
pub(super) fn naming(address: &DaemonAddress, error: ClientError) -> ClientError {
    match error {
        ClientError::Silent(why) => ClientError::Silent(format!("{address} cannot be asked: {why}")),
        ClientError::OtherProtocol(why) => {
            let others = PROTOCOLS.iter().filter(|(protocol, _)| *protocol != address.protocol);
            let others: Vec<&str> = others.map(|(_, words)| *words).collect();
            ClientError::OtherProtocol(format!(
                "{address} cannot be asked: {why}; if the port is one of another protocol, write {}",
                others.join(" or ")
            ))
        }
        error => error,
    }
}
