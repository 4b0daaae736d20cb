//! HTTP/2 frame by frame, for requests that no proper client would send.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::http1::READ_TIMEOUT;
use crate::raw::connect;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// The error code of a stream that is not needed any more.
const CANCEL: &[u8] = &8_u32.to_be_bytes();
/// The largest window there is.
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// The largest frame that every peer takes.
const FRAME_BYTES_MAX: usize = 16_384;

/// A connection.
#[derive(Debug)]
pub struct Http2Connection {
    stream: TcpStream,
    received: Vec<u8>,
    next_stream: u32,
    /// How many bytes the peer takes on a new stream.
    bytes_taken_by_stream: u64,
    /// How many bytes the peer takes on the connection.
    bytes_taken_together: u64,
    /// Whether the peer said that it goes away.
    is_going_away: bool,
}

impl Http2Connection {
    /// Connects to `address` and waits for the peer's settings.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let mut connection = Self {
            stream: connect(address)?,
            received: Vec::new(),
            next_stream: 1,
            bytes_taken_by_stream: 65_535,
            bytes_taken_together: 65_535,
            is_going_away: false,
        };
        let mut settings = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        settings.extend_from_slice(&WINDOW_MAX.to_be_bytes());
        let mut bytes = PREFACE.to_vec();
        put_frame(&mut bytes, SETTINGS, 0, 0, &settings);
        put_frame(&mut bytes, WINDOW_UPDATE, 0, 0, &(WINDOW_MAX - 65_535).to_be_bytes());
        connection.stream.write_all(&bytes)?;
        connection.read_for(Duration::from_millis(100))?;
        Ok(connection)
    }

    /// Whether the peer said that it goes away.
    pub fn is_going_away(&self) -> bool {
        self.is_going_away
    }

    /// The frames of a request that is reset at once.
    pub fn reset_request(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let (mut bytes, stream) = self.head(fields);
        put_frame(&mut bytes, RST_STREAM, 0, stream, CANCEL);
        bytes
    }

    /// Whether the peer takes a body of `length` bytes on the connection now.
    pub fn has_window(&self, length: usize) -> bool {
        self.bytes_taken_together >= length as u64
    }

    /// Begins a request and sends as much of a body of `length` bytes as the peer takes, without an
    /// end. Returns how much.
    pub fn send_unfinished(&mut self, fields: &[(&str, &str)], start: &[u8], length: usize) -> Result<usize> {
        let (mut bytes, stream) = self.head(fields);
        let window = self.bytes_taken_by_stream.min(self.bytes_taken_together);
        let length = length.min(usize::try_from(window).unwrap_or(0));
        let mut body = start.to_vec();
        body.resize(length, b'a');
        for piece in body.chunks(FRAME_BYTES_MAX) {
            put_frame(&mut bytes, DATA, 0, stream, piece);
        }
        self.bytes_taken_together = self.bytes_taken_together.saturating_sub(length as u64);
        self.send(&bytes)?;
        Ok(length)
    }

    /// Sends a request with a whole body, in as many frames as it takes, and waits for the window
    /// of the connection, for [`READ_TIMEOUT`] at most; its stream. The body must fit the window of
    /// a stream.
    pub fn send_whole(&mut self, fields: &[(&str, &str)], body: &[u8]) -> Result<u32> {
        let (mut bytes, stream) = self.head(fields);
        let last = body.len().div_ceil(FRAME_BYTES_MAX).saturating_sub(1);
        let began = Instant::now();
        for (number, piece) in body.chunks(FRAME_BYTES_MAX).enumerate() {
            while !self.has_window(piece.len()) && began.elapsed() < READ_TIMEOUT {
                self.read_for(Duration::from_millis(10))?;
            }
            let flags = if number == last { END_STREAM } else { 0 };
            put_frame(&mut bytes, DATA, flags, stream, piece);
            self.bytes_taken_together = self.bytes_taken_together.saturating_sub(piece.len() as u64);
            self.send(&core::mem::take(&mut bytes))?;
        }
        Ok(stream)
    }

    /// Resets a stream.
    pub fn send_reset(&mut self, stream: u32) -> Result<()> {
        self.send(&reset_of(stream))
    }

    /// The stream below.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends `bytes`.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads what comes, for at most `duration` without a byte. False when the peer has closed.
    pub fn read_for(&mut self, duration: Duration) -> Result<bool> {
        self.stream.set_read_timeout(Some(duration))?;
        let mut buffer = vec![0; 65_536];
        let read = loop {
            match self.stream.read(&mut buffer) {
                // A process that was stopped and goes on has its reads with a time-out interrupted.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(0) => return Ok(false),
            Ok(count) => self.received.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(true);
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(error) => return Err(error),
        }
        self.take_frames()?;
        Ok(true)
    }

    fn take_frames(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(head) = self.received.get(at..at + 9) {
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let Some(payload) = self.received.get(at + 9..at + 9 + length) else { break };
            match (kind, payload) {
                (SETTINGS, payload) if flags & ACK == 0 => {
                    for setting in payload.chunks_exact(6) {
                        if setting[..2] == INITIAL_WINDOW_SIZE.to_be_bytes() {
                            self.bytes_taken_by_stream = number(&setting[2..]);
                        }
                    }
                    let mut acknowledged = Vec::new();
                    put_frame(&mut acknowledged, SETTINGS, ACK, 0, &[]);
                    self.stream.write_all(&acknowledged)?;
                }
                (WINDOW_UPDATE, payload) if stream == 0 => self.bytes_taken_together += number(payload),
                (GOAWAY, _) => self.is_going_away = true,
                _ => {}
            }
            at += 9 + length;
        }
        self.received.drain(..at);
        Ok(())
    }

    /// The frame of a request's headers, and its stream.
    fn head(&mut self, fields: &[(&str, &str)]) -> (Vec<u8>, u32) {
        let mut block = Vec::new();
        for (name, value) in fields {
            // A literal field without indexing, both texts without Huffman's code.
            block.push(0);
            for text in [name, value] {
                put_length(&mut block, text.len());
                block.extend_from_slice(text.as_bytes());
            }
        }
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut bytes = Vec::new();
        put_frame(&mut bytes, HEADERS, END_HEADERS, stream, &block);
        (bytes, stream)
    }
}

/// The frame that resets a stream.
pub fn reset_of(stream: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_frame(&mut bytes, RST_STREAM, 0, stream, CANCEL);
    bytes
}

/// The fields of a request with a body.
pub fn post_fields<'text>(path: &'text str, content_type: &'text str) -> Vec<(&'text str, &'text str)> {
    let pseudo = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost")];
    let mut fields = pseudo.to_vec();
    fields.extend([("content-type", content_type), ("te", "trailers")]);
    fields
}

fn put_frame(into: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a frame is far below 16 MiB");
    into.extend_from_slice(&length.to_be_bytes()[1..]);
    into.extend_from_slice(&[kind, flags]);
    into.extend_from_slice(&stream.to_be_bytes());
    into.extend_from_slice(payload);
}

/// A length with a prefix of seven bits (RFC 7541, section 5.1).
fn put_length(into: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(127) else {
        into.push(length as u8);
        return;
    };
    into.push(127);
    while rest >= 0x80 {
        into.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    into.push(rest as u8);
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_rfc_7541_has_them() {
        let written = |length| {
            let mut bytes = Vec::new();
            put_length(&mut bytes, length);
            bytes
        };
        // 1337 with a prefix of five bits is the example of the RFC; seven bits leave 1210 for the
        // rest.
        assert_eq!(written(10), [10]);
        assert_eq!(written(126), [126]);
        assert_eq!(written(127), [127, 0]);
        assert_eq!(written(1337), [127, 0xba, 9]);
    }
}
