//! The service behind the gateway: it remembers what it saw, and answers in a few bytes.
//!
//! An answer as long as the request would meet a race of gateways in Go: they may give up a request
//! that is answered before they have seen its end, and with it the rest of the answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    /// Every `X-Api-Key` of the request.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Service {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Service {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&seen);
        // It ends with the process: nothing of it is left but a thread that accepts.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&remembered);
                std::thread::spawn(move || while answer(&stream, &seen).is_some() {});
            }
        });
        Self { address, seen }
    }

    /// The requests that arrived since the last call.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

/// Answers one request; nothing when the connection has ended.
fn answer(stream: &TcpStream, seen: &Mutex<Vec<Seen>>) -> Option<()> {
    // Nobody sends a second request before the first is answered, so nothing is lost in this
    // buffer.
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut request = Seen { line: line.trim().to_owned(), keys: Vec::new(), body: Vec::new() };
    let mut length = 0;
    loop {
        let mut header = Vec::new();
        reader.read_until(b'\n', &mut header).ok().filter(|length| *length > 0)?;
        let header = header.trim_ascii();
        if header.is_empty() {
            break;
        }
        let colon = header.iter().position(|byte| *byte == b':')?;
        let (name, value) = (header[..colon].to_ascii_lowercase(), header[colon + 1..].trim_ascii());
        match name.as_slice() {
            b"x-api-key" => request.keys.push(value.to_vec()),
            b"content-length" => length = core::str::from_utf8(value).ok()?.parse().ok()?,
            b"transfer-encoding" => panic!("this service reads no chunks: {request:?}"),
            _ => {}
        }
    }
    request.body = vec![0; length];
    reader.read_exact(&mut request.body).ok()?;
    seen.lock().unwrap().push(request);
    let mut stream = stream;
    stream.write_all(b"HTTP/1.1 200 OK\r\nx-service: yes\r\ncontent-length: 6\r\n\r\nhello\n").ok()
}
