//! The PROXY protocol on a listener: a balancer names its client before the first byte.
//!
//! A connection that should begin with a preamble and does not, or whose peer is not trusted, is
//! closed without an answer: it does not come from the balancer that the listener was opened for.

use core::error::Error;
use core::time::Duration;
use std::io;
use std::sync::{Mutex, PoisonError};

use tidegate_core::error_chain;
use tidegate_net::Peer;
use tidegate_net::connections::ConnectionActivity;
use tidegate_proxy::proxy_protocol::{NoPreamble, Preamble};
use tokio::time::Instant;

use super::AcceptedStream;
use crate::context::DaemonContext;

/// How often at most a listener says that connections were closed for it.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Reads the preambles of the connections of one listener.
#[derive(Debug, Default)]
pub(crate) struct Preambles {
    logged: Mutex<Option<Instant>>,
}

/// The reason why a connection has no usable preamble.
#[derive(Debug, thiserror::Error)]
enum PreambleError {
    #[error("its peer is not in proxy.trusted")]
    Untrusted,
    #[error(transparent)]
    Malformed(#[from] NoPreamble),
    #[error("the preamble of the PROXY protocol did not arrive in time")]
    Late,
    #[error("the connection broke off")]
    Broken(#[from] io::Error),
    /// The connection was opened and closed, or the daemon ends; this is no error.
    #[error("nothing was sent")]
    Nothing,
}

impl Preambles {
    /// Reads the client of `stream`, which `peer` opened and may only open if it `is_trusted`;
    /// `None` closes the connection.
    ///
    /// It takes at most as long as a request's headers may, and nothing that comes behind the
    /// preamble is read.
    pub(crate) async fn read(
        &self,
        daemon: &DaemonContext,
        stream: &mut AcceptedStream,
        peer: Peer,
        is_trusted: bool,
        line: &ConnectionActivity,
    ) -> Option<Peer> {
        let read = async {
            if !is_trusted {
                return Err(PreambleError::Untrusted);
            }
            tokio::select! {
                () = line.until_commanded() => Err(PreambleError::Nothing),
                read = tokio::time::timeout(daemon.config.bounds.header_timeout, preamble(stream)) => {
                    read.map_err(|_| PreambleError::Late)?
                }
            }
        };
        let error = match read.await {
            Ok(Some(preamble)) => {
                return Some(match preamble.addresses {
                    Some(addresses) => Peer { address: Some(addresses.source.ip()), ..peer },
                    None => Peer { is_named: false, ..peer },
                });
            }
            Ok(None) | Err(PreambleError::Nothing) => return None,
            Err(error) => error,
        };
        match error {
            PreambleError::Untrusted => daemon.metrics.fault_of_protocol("untrusted_peer"),
            _ => daemon.metrics.fault_of_protocol("proxy_protocol"),
        }
        self.log(peer, &error);
        None
    }

    fn log(&self, peer: Peer, error: &dyn Error) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_some_and(|logged| logged.elapsed() < LINE_EVERY) {
            return;
        }
        *logged = Some(Instant::now());
        let peer = peer.address.map(tracing::field::display);
        tracing::warn!(
            peer,
            error = error_chain(error),
            "a connection to the proxy was closed before it began"
        );
    }
}

/// Reads a preamble to its last byte and not further; `None` where nothing was sent at all.
async fn preamble(stream: &mut AcceptedStream) -> Result<Option<Preamble>, PreambleError> {
    let mut bytes = Vec::with_capacity(64);
    loop {
        let needed = match Preamble::parse(&bytes) {
            Ok(preamble) => return Ok(Some(preamble)),
            Err(NoPreamble::Incomplete(needed)) => needed,
            Err(error) => return Err(error.into()),
        };
        let missing = needed - bytes.len();
        match stream.read_some(&mut bytes, missing).await {
            // A health check of the port closes the connection or resets it.
            Ok(0) | Err(_) if bytes.is_empty() => return Ok(None),
            Ok(0) => return Err(NoPreamble::Incomplete(needed).into()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
