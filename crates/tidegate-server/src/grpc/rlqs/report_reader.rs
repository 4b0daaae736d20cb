//! The reports of one stream as they arrive: messages of gRPC, each within bounds.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;
use tidegate_net::connections::{Buffered, ConnectionActivity};
use tidegate_wire::envoy::rlqs::REPORT_BYTES_MAX;
use tokio::time::Instant;

/// The bytes before each message: whether it is compressed, and how long it is.
const PREFIX_BYTES: usize = 5;

/// The longest message that is taken, with the part of it that is passed over. Above it the stream
/// ends.
pub(super) const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Reads the messages of a request's body.
#[derive(Debug)]
pub(super) struct ReportReader {
    incoming: Incoming,
    framing: MessageFraming,
    /// Bytes of the body that are not looked at yet.
    unread: Bytes,
    /// Since when there is a message whose end has not come.
    begun: Option<Instant>,
    /// The memory of that message.
    held: Buffered,
}

/// A message as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawReport {
    /// At most [`REPORT_BYTES_MAX`] from its beginning.
    pub(super) bytes: Bytes,
    /// How long it is in all.
    pub(super) length: usize,
}

impl RawReport {
    /// Whether something is missing at the end of its bytes.
    pub(super) fn is_cut(&self) -> bool {
        self.length > self.bytes.len()
    }
}

/// Why there is no further message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReportsEnd {
    /// The client has ended its side, after a whole message.
    Closed,
    /// The stream or the connection broke off, or ended within a message.
    Broken,
    /// A message is compressed, or says so of itself with another byte than 0.
    Compressed,
    /// A message is longer than [`MESSAGE_BYTES_MAX`].
    TooLong(usize),
    /// There is no memory for a message that comes in parts.
    NoRoom,
}

impl ReportReader {
    /// Reads a body that comes over `line`.
    pub(super) fn new(incoming: Incoming, line: &Arc<ConnectionActivity>) -> Self {
        Self {
            incoming,
            framing: MessageFraming::default(),
            unread: Bytes::new(),
            begun: None,
            held: Buffered::new(Arc::clone(line)),
        }
    }

    /// Since when a message is on its way; `None` between messages.
    pub(super) fn begun(&self) -> Option<Instant> {
        self.begun
    }

    /// The next message. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Result<RawReport, ReportsEnd> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<RawReport, ReportsEnd>> {
        loop {
            let found = self.framing.take(&mut self.unread);
            if self.framing.is_between() {
                self.begun = None;
            } else if self.begun.is_none() {
                self.begun = Some(Instant::now());
            }
            if let Some(found) = found {
                return Poll::Ready(found);
            }
            if self.held.resize(self.framing.kept.len()).is_err() {
                return Poll::Ready(Err(ReportsEnd::NoRoom));
            }
            match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
                // Trailers are no part of a message.
                Some(Ok(frame)) => self.unread = frame.into_data().unwrap_or_default(),
                None if self.framing.is_between() => return Poll::Ready(Err(ReportsEnd::Closed)),
                Some(Err(_)) | None => return Poll::Ready(Err(ReportsEnd::Broken)),
            }
        }
    }
}

/// Finds messages in bytes, however these are cut.
#[derive(Debug, Default)]
struct MessageFraming {
    prefix: [u8; PREFIX_BYTES],
    filled: usize,
    /// The length of the message that has begun, once its prefix is whole.
    length: Option<usize>,
    /// The bytes that have come, up to [`REPORT_BYTES_MAX`].
    kept: BytesMut,
    /// How much of a message that was handed out is still to be passed over.
    passed_over: usize,
}

impl MessageFraming {
    /// Whether nothing of a message has come that is not handed out and passed over.
    fn is_between(&self) -> bool {
        self.filled == 0 && self.passed_over == 0
    }

    /// Takes from `bytes` until a message is whole; `None` if more are needed.
    fn take(&mut self, bytes: &mut Bytes) -> Option<Result<RawReport, ReportsEnd>> {
        let over = self.passed_over.min(bytes.len());
        bytes.advance(over);
        self.passed_over -= over;
        if self.passed_over > 0 {
            return None;
        }
        let length = if let Some(length) = self.length {
            length
        } else {
            let taken = (PREFIX_BYTES - self.filled).min(bytes.len());
            bytes.split_to(taken).copy_to_slice(&mut self.prefix[self.filled..self.filled + taken]);
            self.filled += taken;
            if self.filled < PREFIX_BYTES {
                return None;
            }
            let [flag, length @ ..] = self.prefix;
            let length = u32::from_be_bytes(length) as usize;
            if flag != 0 {
                return Some(Err(ReportsEnd::Compressed));
            }
            if length > MESSAGE_BYTES_MAX {
                return Some(Err(ReportsEnd::TooLong(length)));
            }
            *self.length.insert(length)
        };
        let wanted = length.min(REPORT_BYTES_MAX);
        let message = if self.kept.is_empty() && bytes.len() >= wanted {
            // Usually a message is one piece, which is not copied.
            bytes.split_to(wanted)
        } else {
            let taken = (wanted - self.kept.len()).min(bytes.len());
            self.kept.extend_from_slice(&bytes.split_to(taken));
            if self.kept.len() < wanted {
                return None;
            }
            self.kept.split().freeze()
        };
        (self.filled, self.length) = (0, None);
        self.passed_over = length - wanted;
        // A long message is not followed by the next one before all of it has come.
        self.kept = BytesMut::new();
        Some(Ok(RawReport { bytes: message, length }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0][..], &length, message].concat()
    }

    /// The messages in `bytes`, which come in pieces of this length.
    fn read(bytes: &[u8], piece: usize) -> Vec<Result<RawReport, ReportsEnd>> {
        let (mut framing, mut found) = (MessageFraming::default(), Vec::new());
        for part in bytes.chunks(piece) {
            let mut part = Bytes::copy_from_slice(part);
            while let Some(message) = framing.take(&mut part) {
                let is_end = message.is_err();
                found.push(message);
                if is_end {
                    return found;
                }
            }
            assert!(part.is_empty() && framing.kept.len() < REPORT_BYTES_MAX);
        }
        assert!(framing.is_between(), "{framing:?}");
        found
    }

    #[test]
    fn messages_are_found_however_their_bytes_are_cut() {
        let long = vec![7; REPORT_BYTES_MAX + 1000];
        let messages = [b"".to_vec(), b"one".to_vec(), long.clone(), vec![9; REPORT_BYTES_MAX], b"".to_vec()];
        let bytes: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
        let expected: Vec<_> = messages
            .iter()
            .map(|message| {
                let kept = message[..message.len().min(REPORT_BYTES_MAX)].to_vec();
                Ok(RawReport { bytes: kept.into(), length: message.len() })
            })
            .collect();
        for piece in [1, 2, 3, 4, 5, 6, 7, 1000, REPORT_BYTES_MAX, REPORT_BYTES_MAX + 5, bytes.len()] {
            assert_eq!(read(&bytes, piece), expected, "pieces of {piece}");
        }
        let is_cut: Vec<bool> = expected.iter().flatten().map(RawReport::is_cut).collect();
        assert_eq!(is_cut, [false, false, true, false, false]);
    }

    #[test]
    fn a_compressed_message_and_one_beyond_the_bound_end_the_reading() {
        for piece in [1, 5, 100] {
            let compressed = [framed(b"one"), vec![1, 0, 0, 0, 1, 0]].concat();
            let found = read(&compressed, piece);
            assert_eq!(found.len(), 2, "{found:?}");
            assert_eq!(found[1], Err(ReportsEnd::Compressed));
            let most = u32::try_from(MESSAGE_BYTES_MAX + 1).unwrap().to_be_bytes();
            let found = read(&[&[0][..], &most].concat(), piece);
            assert_eq!(found, [Err(ReportsEnd::TooLong(MESSAGE_BYTES_MAX + 1))]);
        }
    }

    #[test]
    fn a_message_is_under_way_until_its_last_byte_has_come() {
        let mut framing = MessageFraming::default();
        let mut take = |bytes: &[u8]| {
            let found = framing.take(&mut Bytes::copy_from_slice(bytes)).is_some();
            (found, framing.is_between())
        };
        assert_eq!(take(b""), (false, true));
        assert_eq!(take(&[0]), (false, false));
        assert_eq!(take(&[0, 0, 0, 2, 7]), (false, false));
        assert_eq!(take(&[7]), (true, true));
        let length = u32::try_from(REPORT_BYTES_MAX + 2).unwrap().to_be_bytes();
        assert_eq!(take(&[&[0][..], &length].concat()), (false, false));
        assert_eq!(take(&vec![7; REPORT_BYTES_MAX]), (true, false));
        assert_eq!(take(&[7]), (false, false));
        assert_eq!(take(&[7]), (false, true));
    }
}
