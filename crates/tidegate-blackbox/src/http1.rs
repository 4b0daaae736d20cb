//! A client for HTTP/1.1 that keeps the rules, and the requests that the daemon's API takes.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a connection waits for bytes.
pub const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that carries one request at a time. It runs on the thread that asks.
#[derive(Debug)]
pub struct Http1Client {
    sender: http1::SendRequest<Full<Bytes>>,
    runtime: Runtime,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// The first header of that name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether the connection ends with it.
    pub fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The reason of a refusal, or the beginning of the body where there is no reason.
    pub fn reason(&self) -> String {
        let reason = self.member("reason");
        if reason.is_empty() { self.text().chars().take(120).collect() } else { reason }
    }

    /// The body as JSON; null if it is other text.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The text of a member of a JSON body; empty if the member is absent.
    pub fn member(&self, name: &str) -> String {
        self.json()[name].as_str().unwrap_or_default().to_owned()
    }
}

impl Http1Client {
    /// Connects to `address`.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let runtime = runtime()?;
        let sender = runtime.block_on(async { begin(connect(address).await?).await })?;
        Ok(Self { sender, runtime })
    }

    /// Connects to the Unix socket at `path`.
    pub fn open_unix(path: &Path) -> Result<Self> {
        let runtime = runtime()?;
        let sender = runtime.block_on(async {
            let stream = timeout(READ_TIMEOUT, UnixStream::connect(path)).await??;
            begin(stream).await
        })?;
        Ok(Self { sender, runtime })
    }

    /// Connects to `address` over TLS.
    pub fn open_tls(address: SocketAddr, config: &Arc<ClientConfig>) -> Result<Self> {
        let runtime = runtime()?;
        let sender = runtime.block_on(async {
            let name = ServerName::try_from("localhost").expect("a host name");
            let handshake = TlsConnector::from(Arc::clone(config)).connect(name, connect(address).await?);
            begin(timeout(READ_TIMEOUT, handshake).await??).await
        })?;
        Ok(Self { sender, runtime })
    }

    /// Sends a request and reads its answer.
    pub fn ask(&mut self, request: Request<Bytes>) -> Result<Answer> {
        let Self { sender, runtime } = self;
        let exchange = async {
            sender.ready().await?;
            let (parts, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
        };
        let answer: hyper::Result<Answer> =
            runtime.block_on(async { timeout(READ_TIMEOUT, exchange).await })?;
        answer.map_err(Error::other)
    }
}

/// A runtime for one connection.
pub(crate) fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Connects to `address`, for [`READ_TIMEOUT`] at most.
pub(crate) async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = timeout(READ_TIMEOUT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn begin<S>(stream: S) -> Result<http1::SendRequest<Full<Bytes>>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    TokioIo<S>: Read + Write,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Error::other)?;
    // Ends with the runtime.
    tokio::spawn(connection);
    Ok(sender)
}

/// A request with a JSON body.
pub fn with_body(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<String>,
) -> Request<Bytes> {
    let body = body.into();
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if method != "GET" {
        request = request.header("content-type", "application/json").header("content-length", body.len());
    }
    request.body(body.into()).expect("the attacks write valid requests")
}

/// A POST with a JSON body.
pub fn post(path: &str, body: impl Into<String>) -> Request<Bytes> {
    with_body("POST", path, &[], body)
}

/// A GET.
pub fn get(path: &str) -> Request<Bytes> {
    get_with(path, &[])
}

/// A GET with more headers.
pub fn get_with(path: &str, headers: &[(&str, &str)]) -> Request<Bytes> {
    with_body("GET", path, headers, "")
}

/// A check in `namespace` by `user`.
pub fn check(namespace: &str, user: &str) -> Request<Bytes> {
    post("/v1/check", format!(r#"{{"namespace":"{namespace}","attributes":{{"user":"{user}"}}}}"#))
}

/// The end of what `permit` allows.
pub fn release(permit: &str) -> Request<Bytes> {
    post("/v1/release", format!(r#"{{"permit":"{permit}"}}"#))
}

/// Sends one request on a connection of its own.
pub fn ask(address: SocketAddr, request: Request<Bytes>) -> Result<Answer> {
    Http1Client::open(address)?.ask(request)
}
