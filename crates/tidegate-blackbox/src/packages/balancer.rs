//! A balancer of connections with a list of endpoints, as kube-proxy balances those of a Service.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use crate::loopback;

/// A balancer on a port of its own, until the process ends.
///
/// A new connection goes to the next endpoint of the list. An open connection stays where it is,
/// also when its endpoint has left the list. A connection to an endpoint that refuses it is closed:
/// nobody tries another one.
#[derive(Clone, Debug)]
pub(super) struct ConnectionBalancer {
    address: SocketAddr,
    endpoints: Arc<Mutex<Vec<SocketAddr>>>,
}

impl ConnectionBalancer {
    /// Starts it without endpoints.
    pub(super) fn start() -> Result<Self> {
        let endpoints = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let (shared, next) = (Arc::clone(&endpoints), AtomicUsize::new(0));
        let address = loopback::start(move |stream, _| {
            let endpoints = shared.lock().unwrap_or_else(PoisonError::into_inner);
            // A counter of its own: nothing else is published through it.
            let place = next.fetch_add(1, Ordering::Relaxed) % endpoints.len().max(1);
            let endpoint = endpoints.get(place).copied();
            async move {
                // The end of a connection is no concern of the others.
                let _ = pass(stream, endpoint).await;
            }
        })?;
        Ok(Self { address, endpoints })
    }

    /// Where callers connect.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds an endpoint.
    pub(super) fn add(&self, endpoint: SocketAddr) {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).push(endpoint);
    }

    /// Takes an endpoint out.
    pub(super) fn remove(&self, endpoint: SocketAddr) {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != endpoint);
    }
}

async fn pass(mut stream: TcpStream, endpoint: Option<SocketAddr>) -> Result<()> {
    let endpoint = endpoint.ok_or_else(|| Error::other("no endpoint"))?;
    let mut server = TcpStream::connect(endpoint).await?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut stream, &mut server).await.map(|_| ())
}
