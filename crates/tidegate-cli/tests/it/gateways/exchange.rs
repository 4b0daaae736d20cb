//! One request and its answer, byte for byte.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// After this long without an answer a test fails rather than hangs.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of the header. A duplicate header is a failure, because its value would be
    /// ambiguous.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| &**value);
        let value = values.next();
        assert_eq!(values.next(), None, "duplicate {name}: {self:?}");
        value
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(crate) fn get(address: &str, headers: &[(&str, &[u8])]) -> Answer {
    send(address, "GET", "/orders?page=2", headers, b"")
}

pub(crate) fn post(address: &str, headers: &[(&str, &[u8])], body: &[u8]) -> Answer {
    send(address, "POST", "/orders", headers, body)
}

pub(crate) fn send(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &[u8])],
    body: &[u8],
) -> Answer {
    try_send(address, method, path, headers, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

pub(crate) fn try_send(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &[u8])],
    body: &[u8],
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n").into_bytes();
    for (name, value) in headers {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    if !body.is_empty() {
        head.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(body);
    stream.write_all(&head)?;
    read(BufReader::new(stream))
}

/// The connection stays open until the answer is read: a gateway that closes it sooner takes the
/// answer to a request whose body it did not want with it.
fn read(mut reader: impl BufRead) -> std::io::Result<Answer> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Err(std::io::Error::other(format!("the answer ends after {lines:?}")));
        }
        if line == b"\r\n" {
            break;
        }
        lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
    let status = lines.first().and_then(|line| line.get(9..12)?.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("no status: {lines:?}")))?;
    let headers = lines[1..].iter().filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let mut answer = Answer { status, headers, body: Vec::new() };
    assert_eq!(answer.header("transfer-encoding"), None, "this client reads no chunks: {answer:?}");
    let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
    answer.body = vec![0; length];
    reader.read_exact(&mut answer.body).map_err(|error| {
        std::io::Error::other(format!("the body does not come whole: {error}: {lines:?}"))
    })?;
    Ok(answer)
}
