//! A client for HTTP/1.1 that sends exactly the bytes it is given.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

/// How long a connection waits for bytes.
pub const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest body of an answer that is read.
const BODY_BYTES_MAX: usize = 64 << 20;

/// How many requests [`flood`] sends before it reads their answers.
const PIPELINE: u64 = 128;

/// A connection over any stream.
#[derive(Debug)]
pub struct Http1Connection<S = TcpStream> {
    stream: BufReader<S>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its status line and header lines, as they came.
    pub head: String,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of that name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header_in(&self.head, name)
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

    /// The text of a member of a JSON body; empty if the member is absent.
    pub fn member(&self, name: &str) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body[name].as_str().unwrap_or_default().to_owned()
    }
}

/// The first header of that name, given in lower case, in a head.
pub fn header_in<'head>(head: &'head str, name: &str) -> Option<&'head str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(found, _)| found.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

impl Http1Connection {
    /// Connects to `address`.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, READ_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(READ_TIMEOUT))?;
        Ok(Self::over(stream))
    }

    /// Waits for bytes for at most `timeout` from now on.
    pub fn set_read_timeout(&self, timeout: Duration) -> Result<()> {
        self.stream.get_ref().set_read_timeout(Some(timeout))
    }

    /// Waits for bytes, and leaves them unread. Returns how many there are of the first; 0 when the
    /// peer has closed.
    pub fn peek(&self) -> Result<usize> {
        self.stream.get_ref().peek(&mut [0])
    }

    /// Ends one direction of the connection, or both.
    pub fn shutdown(&self, how: Shutdown) -> Result<()> {
        self.stream.get_ref().shutdown(how)
    }

    /// Waits for room to write for at most `timeout` from now on.
    pub fn set_write_timeout(&self, timeout: Duration) -> Result<()> {
        self.stream.get_ref().set_write_timeout(Some(timeout))
    }
}

impl<S: Read + Write> Http1Connection<S> {
    /// A connection over `stream`.
    pub fn over(stream: S) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// Sends `bytes`.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)?;
        self.stream.get_mut().flush()
    }

    /// Reads a head: everything to the first empty line.
    pub fn head(&mut self) -> Result<String> {
        let mut head = String::new();
        loop {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(Error::new(ErrorKind::UnexpectedEof, "the connection ended before the head did"));
            }
            if head.ends_with("\r\n\r\n") {
                return Ok(head);
            }
        }
    }

    /// Reads an answer.
    pub fn answer(&mut self) -> Result<Answer> {
        let head = self.head()?;
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| invalid(&format!("no status in {head:?}")))?;
        let body =
            if status < 200 || status == 204 || status == 304 { Vec::new() } else { self.body(&head)? };
        Ok(Answer { status, head, body })
    }

    /// Reads the body that belongs to `head`, which may be a request's too.
    pub fn body(&mut self, head: &str) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        if header_in(head, "transfer-encoding").is_some() {
            loop {
                let length = chunk_length(self.line()?.trim()).ok_or_else(|| invalid("chunk length"))?;
                if length > BODY_BYTES_MAX {
                    return Err(invalid("a chunk is too large"));
                }
                let from = body.len();
                body.resize(from + length, 0);
                self.stream.read_exact(&mut body[from..])?;
                self.line()?;
                if length == 0 {
                    return Ok(body);
                }
            }
        }
        let length = header_in(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if length > BODY_BYTES_MAX {
            return Err(invalid("the body is too large"));
        }
        body.resize(length, 0);
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    /// Reads bytes, at most as many as `into` holds; 0 when the peer has closed.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.stream.read(into)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line)
    }

    /// Sends a request and reads its answer.
    pub fn ask(&mut self, request: &[u8]) -> Result<Answer> {
        self.send(request)?;
        self.answer()
    }
}

fn invalid(text: &str) -> Error {
    Error::new(ErrorKind::InvalidData, text)
}

/// The bytes of a POST with a JSON body.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    with_body("POST", path, "", body)
}

/// The bytes of a request with a JSON body. `headers` are whole lines.
pub fn with_body(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// The bytes of a GET.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// The bytes of a check in `namespace` by `user`.
pub fn check(namespace: &str, user: &str) -> Vec<u8> {
    post("/v1/check", &format!(r#"{{"namespace":"{namespace}","attributes":{{"user":"{user}"}}}}"#))
}

/// Sends one request on a connection of its own.
pub fn ask(address: SocketAddr, request: &[u8]) -> Result<Answer> {
    Http1Connection::open(address)?.ask(request)
}

/// Sends `count` requests, which `request` makes of their number, over `connections` pipelined
/// connections. Returns how many answers had which status. `answered` sees every answer.
pub fn flood(
    address: SocketAddr,
    count: u64,
    connections: u64,
    request: impl Fn(u64) -> Vec<u8> + Sync,
    answered: impl Fn(&Answer) + Sync,
) -> Result<BTreeMap<u16, u64>> {
    let (request, answered) = (&request, &answered);
    let tallies: Vec<Result<BTreeMap<u16, u64>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|number| {
                let (from, to) = (count * number / connections, count * (number + 1) / connections);
                scope.spawn(move || flood_one(address, from..to, request, answered))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a flood does not panic")).collect()
    });
    let mut total = BTreeMap::new();
    for tally in tallies {
        for (status, count) in tally? {
            *total.entry(status).or_insert(0) += count;
        }
    }
    Ok(total)
}

fn flood_one(
    address: SocketAddr,
    numbers: core::ops::Range<u64>,
    request: &(impl Fn(u64) -> Vec<u8> + Sync),
    answered: &(impl Fn(&Answer) + Sync),
) -> Result<BTreeMap<u16, u64>> {
    let mut connection = Http1Connection::open(address)?;
    let mut tally = BTreeMap::new();
    let mut next = numbers.start;
    while next < numbers.end {
        let until = numbers.end.min(next + PIPELINE);
        let batch: Vec<u8> = (next..until).flat_map(request).collect();
        connection.send(&batch)?;
        for _ in next..until {
            let answer = connection.answer()?;
            *tally.entry(answer.status).or_insert(0) += 1;
            answered(&answer);
        }
        next = until;
    }
    Ok(tally)
}

/// The length of a chunk in hexadecimal digits, without a sign, which `from_str_radix` would take.
fn chunk_length(digits: &str) -> Option<usize> {
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| usize::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_length_has_hexadecimal_digits_and_no_sign() {
        assert_eq!(chunk_length("fF"), Some(255));
        for invalid in ["", "+f", "-0", "0x1", "f;name", " f"] {
            assert_eq!(chunk_length(invalid), None, "{invalid:?}");
        }
    }
}
