//! A client that writes its own frames of HTTP/2, so that it can do what no library does: leave its
//! window shut, read nothing, and reset streams.

use std::net::SocketAddr;

use prost::Message;
use tidegate_wire::envoy::rlqs::{RateLimitQuotaUsageReports, STREAM_RATE_LIMIT_QUOTAS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;

const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// The only stream of the client.
const STREAM: u32 = 1;

pub(super) struct RawClient {
    stream: TcpStream,
    /// The bytes of a frame that is not whole yet.
    unread: Vec<u8>,
}

/// A frame of the daemon.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header field, literally.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    assert!(name.len() < 127 && value.len() < 127, "{name}");
    [vec![0], text(name), text(value)].concat()
}

impl RawClient {
    /// Opens a connection whose streams have this window at first.
    pub(super) async fn connect(address: SocketAddr, window: u32) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let settings = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window.to_be_bytes()].concat();
        let hello = [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &settings)].concat();
        stream.write_all(&hello).await.unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// Begins a stream of the quota service with this report.
    pub(super) async fn begin(&mut self, report: &RateLimitQuotaUsageReports) {
        let headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "t"),
            (":path", STREAM_RATE_LIMIT_QUOTAS),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let block: Vec<u8> = headers.iter().flat_map(|(name, value)| field(name, value)).collect();
        self.stream.write_all(&frame(HEADERS, END_HEADERS, STREAM, &block)).await.unwrap();
        self.report(report).await;
    }

    pub(super) async fn report(&mut self, report: &RateLimitQuotaUsageReports) {
        let message = super::super::hostile::framed(&report.encode_to_vec());
        self.stream.write_all(&frame(DATA, 0, STREAM, &message)).await.unwrap();
    }

    /// Answers a ping.
    pub(super) async fn pong(&mut self, payload: &[u8]) {
        const ACK: u8 = 1;
        // An error: the connection has ended meanwhile.
        let _ = self.stream.write_all(&frame(PING, ACK, 0, payload)).await;
    }

    /// Resets the stream.
    pub(super) async fn reset(&mut self) {
        const CANCEL: u32 = 8;
        self.stream.write_all(&frame(RST_STREAM, 0, STREAM, &CANCEL.to_be_bytes())).await.unwrap();
    }

    /// The next frame; `None` where the connection has ended.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let [a, b, c, kind, flags, _, _, _, _, rest @ ..] = &self.unread[..] {
                let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                if let Some(payload) = rest.get(..length) {
                    let found = Frame { kind: *kind, flags: *flags, payload: payload.to_vec() };
                    self.unread.drain(..9 + length);
                    return Some(found);
                }
            }
            let mut part = [0; 4096];
            match self.stream.read(&mut part).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.unread.extend(&part[..count]),
            }
        }
    }

    /// Goes on as a client should that is told to leave: it answers pings, and closes the
    /// connection after the second farewell. The kinds of all frames.
    pub(super) async fn leave(mut self) -> Vec<u8> {
        let (mut kinds, mut farewells) = (Vec::new(), 0);
        while farewells < 2 {
            let Some(frame) = self.next().await else { break };
            if frame.kind == PING && frame.flags == 0 {
                self.pong(&frame.payload).await;
            }
            farewells += u32::from(frame.kind == GOAWAY);
            kinds.push(frame.kind);
        }
        kinds
    }

    /// The kinds of all frames until the connection ends.
    pub(super) async fn kinds_to_the_end(&mut self) -> Vec<u8> {
        let mut kinds = Vec::new();
        while let Some(frame) = self.next().await {
            kinds.push(frame.kind);
        }
        kinds
    }
}
