//! Servers behind the proxy: each connection is handled by a function that sees and sends bytes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// A server that gets a stream for each connection.
pub(crate) async fn serve<F, R>(handle: F) -> SocketAddr
where
    F: Fn(Connection) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            tokio::spawn(handle(Connection { stream, buffer: Vec::new() }));
        }
    });
    address
}

/// A server with TLS that gets a stream for each connection whose handshake is done. Those that it
/// turns away it reads to their end, so that they get to know why.
pub(super) async fn serve_tls<F, R>(config: Arc<ServerConfig>, handle: F) -> SocketAddr
where
    F: Fn(Connection<TlsStream<TcpStream>>) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let handle = Arc::new(handle);
    serve(move |plain| {
        let (config, handle) = (Arc::clone(&config), Arc::clone(&handle));
        async move {
            let begun = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), plain.stream);
            let Ok(begun) = begun.await else { return };
            match begun.into_stream(config).into_fallible().await {
                Ok(stream) => handle(Connection { stream, buffer: Vec::new() }).await,
                Err((_, mut stream)) => {
                    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                }
            }
        }
    })
    .await
}

/// As [`well`], with TLS.
pub(super) async fn well_tls(config: Arc<ServerConfig>) -> (SocketAddr, Seen) {
    let seen = Seen::default();
    let notes = Arc::clone(&seen);
    let address = serve_tls(config, move |mut connection| {
        let notes = Arc::clone(&notes);
        async move {
            while let Some(request) = connection.request().await {
                notes.lock().unwrap().push(request);
                if !connection.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await {
                    return;
                }
            }
        }
    })
    .await;
    (address, seen)
}

/// An address without a listener.
pub(super) async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// The requests that a server received, as text.
pub(crate) type Seen = Arc<Mutex<Vec<String>>>;

/// A server that answers every request with 200 and `ok`, and remembers what it got.
pub(crate) async fn well() -> (SocketAddr, Seen) {
    answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await
}

/// A server that answers every request with these bytes.
pub(crate) async fn answering(answer: &'static str) -> (SocketAddr, Seen) {
    let seen = Seen::default();
    let notes = Arc::clone(&seen);
    let address = serve(move |mut connection| {
        let notes = Arc::clone(&notes);
        async move {
            while let Some(request) = connection.request().await {
                notes.lock().unwrap().push(request);
                if !connection.send(answer).await {
                    return;
                }
            }
        }
    })
    .await;
    (address, seen)
}

/// One connection to a server.
pub(crate) struct Connection<S = TcpStream> {
    pub(super) stream: S,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Whether the bytes could be sent.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// The next request with its body, as it came; `None` at the end.
    pub(super) async fn request(&mut self) -> Option<String> {
        let head = self.until(b"\r\n\r\n").await?;
        let lower = head.to_ascii_lowercase();
        let body = if lower.contains("transfer-encoding: chunked") {
            self.until(b"0\r\n\r\n").await?
        } else {
            let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            let length = length.map_or(0, |length| length.parse().unwrap());
            while self.buffer.len() < length {
                self.fill().await?;
            }
            String::from_utf8(self.buffer.drain(..length).collect()).unwrap()
        };
        Some(head + &body)
    }

    /// Everything up to and with `end`.
    pub(crate) async fn until(&mut self, end: &[u8]) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|bytes| bytes == end) {
                return Some(String::from_utf8(self.buffer.drain(..at + end.len()).collect()).unwrap());
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Option<()> {
        let count = self.stream.read_buf(&mut self.buffer).await.ok()?;
        (count > 0).then_some(())
    }
}
