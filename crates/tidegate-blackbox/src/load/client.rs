//! One kept-alive connection of the generator.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;

use crate::http1::header_in;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The most bytes of an answer that are read, head and body.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A connection that carries one request at a time.
#[derive(Debug)]
pub struct ClientConnection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Whether the connection carries another request.
    pub keeps_alive: bool,
}

impl ClientConnection {
    /// Connects to `address`.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        // A client whose deadline has passed resets the connection. An orderly end would keep its
        // port for a minute, and at 2 000 requests a second there are not enough ports.
        stream.set_zero_linger()?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends a request and reads the whole answer. After an error, or if this future is dropped,
    /// the connection is of no more use.
    pub async fn ask(&mut self, request: &[u8]) -> Result<Reply> {
        self.stream.write_all(request).await?;
        self.received.clear();
        let mut needed = None;
        loop {
            if let Some((reply, length)) = needed
                && self.received.len() >= length
            {
                return Ok(reply);
            }
            if self.received.len() > ANSWER_BYTES_MAX {
                return Err(invalid("the answer is too large"));
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(Error::new(
                    ErrorKind::UnexpectedEof,
                    "the connection ended before the answer did",
                ));
            }
            if needed.is_none() {
                needed = read_head(&self.received)?;
            }
        }
    }
}

/// The answer whose head is complete, and the length of head and body.
fn read_head(received: &[u8]) -> Result<Option<(Reply, usize)>> {
    let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&received[..end]).map_err(|_| invalid("the head is not UTF-8"))?;
    let status = head.get(9..12).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| invalid("the answer has no status"))?;
    if header_in(head, "transfer-encoding").is_some() {
        return Err(invalid("the answer has no length"));
    }
    let length: usize = match header_in(head, "content-length") {
        Some(length) => length.parse().map_err(|_| invalid("the length of the answer is no number"))?,
        None => 0,
    };
    let keeps_alive = header_in(head, "connection").is_none_or(|value| !value.eq_ignore_ascii_case("close"));
    Ok(Some((Reply { status, keeps_alive }, end + 4 + length)))
}

fn invalid(text: &str) -> Error {
    Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_status_length_and_whether_the_connection_goes_on() {
        let kept = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
        let reply = Reply { status: 200, keeps_alive: true };
        assert_eq!(read_head(kept).unwrap(), Some((reply, kept.len())));
        let closed = b"HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\n";
        let reply = Reply { status: 503, keeps_alive: false };
        assert_eq!(read_head(closed).unwrap(), Some((reply, closed.len())));
        assert_eq!(read_head(b"HTTP/1.1 200 OK\r\n").unwrap(), None);
    }

    #[test]
    fn an_answer_of_unknown_length_is_an_error() {
        assert!(read_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(read_head(b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n").is_err());
    }
}
