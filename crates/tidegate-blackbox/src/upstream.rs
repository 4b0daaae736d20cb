//! The service behind the reverse proxy: it records what reaches it, and may misbehave.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::loopback::{ok, serve_http, start};

/// The most requests that are recorded. Later ones are only answered.
const RECORDED_MAX: usize = 1024;

/// How long a service that is [`Manner::Slow`] takes for an answer.
pub const SLOW_ANSWER: Duration = Duration::from_secs(5);

/// How the service behaves.
#[derive(Clone, Debug)]
pub enum Manner {
    /// It answers every request with 200.
    Plain,
    /// It agrees to every `Upgrade`, as a stock server that speaks HTTP/2 without TLS does.
    Upgrades,
    /// It closes the connection after about one answer in eight, without saying so before.
    ClosesAtTimes,
    /// It answers every request with 200 after [`SLOW_ANSWER`].
    Slow,
    /// It answers every request with 200 once a worker of this service has done its work.
    Works(Arc<Service>),
}

/// Workers that take a time for each request; what they cannot do yet waits.
#[derive(Debug)]
pub struct Service {
    free: Mutex<u32>,
    is_free: Condvar,
    work: Duration,
}

impl Service {
    /// So many workers, each of which takes `work` for a request.
    pub fn new(workers: u32, work: Duration) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(workers), is_free: Condvar::new(), work })
    }

    /// Waits for a worker, and for its work.
    pub fn work(&self) {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.is_free.wait_while(free, |free| *free == 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        thread::sleep(self.work);
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.is_free.notify_one();
    }
}

/// The head and the body of each request that has reached a service.
type Received = Vec<(Parts, Bytes)>;

/// A service. Its thread ends with the process.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
}

impl Upstream {
    /// Starts a service on a free port of loopback.
    pub fn start(manner: Manner) -> Result<Self> {
        let received = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&received);
        let answered = Arc::new(AtomicU64::new(0));
        let address = start(move |stream, _| {
            let (manner, recorded, answered) = (manner.clone(), Arc::clone(&recorded), Arc::clone(&answered));
            async move {
                if matches!(manner, Manner::ClosesAtTimes) {
                    // The end of a connection is no concern of the others.
                    let _ = close_at_times(stream, &answered).await;
                    return;
                }
                serve_http(stream, |request| respond(request, &manner, &recorded)).await;
            }
        })?;
        Ok(Self { address, received })
    }

    /// Its address as `http://HOST:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Forgets what has reached it, and returns that.
    pub fn take_received(&self) -> Received {
        core::mem::take(&mut self.received.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn respond(
    request: Request<Incoming>,
    manner: &Manner,
    received: &Mutex<Received>,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let upgrade = parts.headers.get("upgrade").cloned();
    {
        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
        if received.len() < RECORDED_MAX {
            received.push((parts, body));
        }
    }
    match (manner, upgrade) {
        (Manner::Upgrades, Some(protocol)) => {
            let mut agreed = Response::default();
            *agreed.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            agreed.headers_mut().insert("connection", http::HeaderValue::from_static("upgrade"));
            agreed.headers_mut().insert("upgrade", protocol);
            return agreed;
        }
        (Manner::Slow, _) => sleep(SLOW_ANSWER).await,
        (Manner::Works(service), _) => {
            let service = Arc::clone(service);
            // Work without an answer is of no use to anybody.
            let _ = spawn_blocking(move || service.work()).await;
        }
        _ => {}
    }
    ok("ok\n")
}

/// Answers requests without bodies, and closes the connection after about one answer in eight.
async fn close_at_times(stream: TcpStream, answered: &AtomicU64) -> Result<()> {
    let (mut stream, mut line) = (BufReader::new(stream), String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        if line != "\r\n" {
            continue;
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n").await?;
        // A counter that chooses connections; nothing is ordered by it.
        if answered.fetch_add(1, Ordering::Relaxed) % 8 == 7 {
            return Ok(());
        }
    }
}
