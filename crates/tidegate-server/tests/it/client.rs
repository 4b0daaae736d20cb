//! A client that speaks HTTP/1.1 byte by byte, so that tests can also speak it badly.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status, headers without the date, and the body, for literal comparison.
    pub(crate) fn shown(&self) -> String {
        let mut shown = format!("{}\n", self.status);
        for (name, value) in self.headers.iter().filter(|(name, _)| name != "date") {
            shown.extend([name, ": ", value, "\n"]);
        }
        shown.push('\n');
        shown.push_str(&self.body);
        shown
    }
}

/// One connection.
pub(crate) struct Client<S = TcpStream> {
    stream: S,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends what the server may not want to read to the end.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// The next answer; `None` if the connection ended before it.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        self.answer_to(true).await
    }

    async fn answer_to(&mut self, has_body: bool) -> Option<Answer> {
        let head_end = loop {
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            if !self.fill().await {
                return None;
            }
        };
        let head = String::from_utf8(self.buffer.drain(..head_end).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let is_chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        if is_chunked && has_body {
            let body = String::from_utf8(self.chunks().await?).unwrap();
            return Some(Answer { status, headers, body });
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, length)| length.parse().unwrap());
        let length = if has_body { length } else { 0 };
        while self.buffer.len() < length {
            if !self.fill().await {
                return None;
            }
        }
        let body = String::from_utf8(self.buffer.drain(..length).collect()).unwrap();
        Some(Answer { status, headers, body })
    }

    /// A chunked body; `None` if the connection ended in it.
    async fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = self.buffer.windows(2).position(|bytes| bytes == b"\r\n") {
                    break end;
                }
                if !self.fill().await {
                    return None;
                }
            };
            let size: Vec<u8> = self.buffer.drain(..end + 2).take(end).collect();
            let size = usize::from_str_radix(core::str::from_utf8(&size).unwrap(), 16).unwrap();
            while self.buffer.len() < size + 2 {
                if !self.fill().await {
                    return None;
                }
            }
            body.extend(self.buffer.drain(..size + 2).take(size));
            if size == 0 {
                return Some(body);
            }
        }
    }

    /// Reads something; `false` at the end.
    async fn fill(&mut self) -> bool {
        self.buffer.reserve(16 << 10);
        self.stream.read_buf(&mut self.buffer).await.is_ok_and(|count| count > 0)
    }

    /// Waits until these bytes have come, in an answer that may still go on.
    pub(crate) async fn has_received(&mut self, bytes: &str) {
        while !self.buffer.windows(bytes.len()).any(|window| window == bytes.as_bytes()) {
            assert!(self.fill().await, "the connection ended before {bytes:?}");
        }
    }

    /// Waits until the server ends the connection, and sees that it says nothing more.
    pub(crate) async fn is_ended(&mut self) -> bool {
        while self.fill().await {}
        self.buffer.is_empty()
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send(post(path, body)).await;
        self.answer().await.expect("an answer")
    }

    /// A request of any method with a body.
    pub(crate) async fn request(&mut self, method: &str, target: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(format!("{method} {target} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}"))
            .await;
        self.answer().await.unwrap()
    }

    pub(crate) async fn get(&mut self, target: &str) -> Answer {
        self.send(format!("GET {target} HTTP/1.1\r\nhost: t\r\n\r\n")).await;
        self.answer().await.expect("an answer")
    }

    pub(crate) async fn head(&mut self, target: &str) -> Answer {
        self.send(format!("HEAD {target} HTTP/1.1\r\nhost: t\r\n\r\n")).await;
        self.answer_to(false).await.expect("an answer")
    }
}

/// A request with a body, as bytes.
pub(crate) fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
