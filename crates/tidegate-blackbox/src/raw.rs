//! A connection that sends exactly the bytes it is given: requests that break the rules, halves of
//! requests, and pipelined floods.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};

use crate::attack::in_parallel;
use crate::http1::{Answer, READ_TIMEOUT};

/// The largest body of an answer that is read.
const BODY_BYTES_MAX: usize = 64 << 20;

/// How many requests [`flood`] sends before it reads their answers.
const PIPELINE: usize = 128;

/// A connection.
#[derive(Debug)]
pub struct RawConnection(BufReader<TcpStream>);

/// Connects to `address`, with [`READ_TIMEOUT`] for each read and write.
pub(crate) fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, READ_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.set_write_timeout(Some(READ_TIMEOUT))?;
    Ok(stream)
}

impl RawConnection {
    /// Connects to `address`.
    pub fn open(address: SocketAddr) -> Result<Self> {
        Ok(Self(BufReader::new(connect(address)?)))
    }

    /// Waits for bytes for at most `timeout` from now on.
    pub fn set_read_timeout(&self, timeout: Duration) -> Result<()> {
        self.0.get_ref().set_read_timeout(Some(timeout))
    }

    /// Waits for room to write for at most `timeout` from now on.
    pub fn set_write_timeout(&self, timeout: Duration) -> Result<()> {
        self.0.get_ref().set_write_timeout(Some(timeout))
    }

    /// Waits for bytes, and leaves them unread. Returns how many there are of the first; 0 when the
    /// peer has closed.
    pub fn peek(&self) -> Result<usize> {
        self.0.get_ref().peek(&mut [0])
    }

    /// Ends one direction of the connection, or both.
    pub fn shutdown(&self, how: Shutdown) -> Result<()> {
        self.0.get_ref().shutdown(how)
    }

    /// Sends `bytes`.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// Reads bytes, at most as many as `into` holds; 0 when the peer has closed.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.0.read(into)
    }

    /// Reads a reply of RESP. Bytes behind it are lost: a caller that asks for one reply at a time
    /// gets no others.
    pub(crate) fn resp_value(&mut self) -> Result<redis::Value> {
        redis::Parser::new().parse_value(&mut self.0).map_err(Error::other)
    }

    /// The stream below.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.0.into_inner()
    }

    /// Reads a head: everything to the first empty line.
    pub fn head(&mut self) -> Result<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                return Err(Error::new(ErrorKind::UnexpectedEof, "the connection ended before the head did"));
            }
        }
        Ok(head)
    }

    /// Reads an answer of HTTP/1.1 whose body has a length.
    pub fn answer(&mut self) -> Result<Answer> {
        let head = self.head()?;
        let invalid = || Error::new(ErrorKind::InvalidData, format!("no status or length in {head:?}"));
        let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(invalid)?;
        let mut headers = HeaderMap::new();
        for (name, value) in head.lines().filter_map(|line| line.split_once(':')) {
            let name = HeaderName::try_from(name.trim()).map_err(Error::other)?;
            headers.append(name, HeaderValue::try_from(value.trim()).map_err(Error::other)?);
        }
        let length = match headers.get("content-length") {
            Some(length) => length.to_str().ok().and_then(|length| length.parse().ok()),
            None if headers.contains_key("transfer-encoding") => None,
            None => Some(0),
        };
        let length = length.filter(|length| *length <= BODY_BYTES_MAX).ok_or_else(invalid)?;
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Answer { status, headers, body: body.into() })
    }
}

/// Sends bytes on a connection of their own and reads the answer.
pub fn ask(address: SocketAddr, request: &[u8]) -> Result<Answer> {
    let mut connection = RawConnection::open(address)?;
    connection.send(request)?;
    connection.answer()
}

/// The bytes of a request.
pub fn encoded(request: &Request<Bytes>) -> Vec<u8> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut bytes = format!("{} {path} HTTP/1.1\r\n", request.method()).into_bytes();
    for (name, value) in request.headers() {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(request.body());
    bytes
}

/// Sends `count` requests, which `request` makes of their number, over `connections` pipelined
/// connections. Returns how many answers had which status.
pub fn flood(
    address: SocketAddr,
    count: u64,
    connections: u64,
    request: impl Fn(u64) -> Request<Bytes> + Sync,
) -> Result<BTreeMap<u16, u64>> {
    let exchange = |connection: &mut RawConnection, numbers: Range<u64>| {
        let batch: Vec<u8> = numbers.clone().flat_map(|number| encoded(&request(number))).collect();
        connection.send(&batch)?;
        numbers.map(|_| Ok(connection.answer()?.status)).collect()
    };
    let statuses = pipelined(count, connections, || RawConnection::open(address), exchange)?;
    let mut counts = BTreeMap::new();
    for status in statuses {
        *counts.entry(status).or_insert(0) += 1;
    }
    Ok(counts)
}

/// The results of `count` exchanges over `connections` connections that `open` opens, in batches.
pub(crate) fn pipelined<C, T: Send>(
    count: u64,
    connections: u64,
    open: impl Fn() -> Result<C> + Sync,
    exchange: impl Fn(&mut C, Range<u64>) -> Result<Vec<T>> + Sync,
) -> Result<Vec<T>> {
    let on_one = |number: u64| {
        let (from, to) = (count * number / connections, count * (number + 1) / connections);
        let (mut connection, mut results) = (open()?, Vec::new());
        for next in (from..to).step_by(PIPELINE) {
            results.extend(exchange(&mut connection, next..to.min(next + PIPELINE as u64))?);
        }
        Ok(results)
    };
    let each: Result<Vec<Vec<T>>> = in_parallel(0..connections, on_one).into_iter().collect();
    Ok(each?.into_iter().flatten().collect())
}
