//! The frames of an HTTP/2 connection as they pass below the protocol library, which does not say
//! on which stream an answer went out, that a stream was reset after its end, nor that a ping was
//! answered.

use std::collections::VecDeque;

/// The bytes of a frame's head: length, type, flags and stream.
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;

/// The flag of a ping that answers another.
const ACK: u8 = 1;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// The bytes of its payload.
    pub(super) length: u32,
    pub(super) kind: FrameKind,
    /// Zero for the connection.
    pub(super) stream: u32,
}

/// The kinds of frames that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Data,
    /// Headers, trailers, and their continuation.
    Headers,
    Reset,
    Ping,
    /// The answer to a ping.
    Pong,
    /// Every other, which belongs to the protocol.
    Control,
}

impl FrameHead {
    fn from_bytes(head: [u8; HEAD_BYTES]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = head;
        Self {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind: match kind {
                DATA => FrameKind::Data,
                HEADERS | CONTINUATION => FrameKind::Headers,
                RST_STREAM => FrameKind::Reset,
                PING if flags & ACK == 0 => FrameKind::Ping,
                PING => FrameKind::Pong,
                _ => FrameKind::Control,
            },
            // The highest bit is reserved.
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        }
    }
}

/// Finds the heads of frames in one direction of a connection, however its bytes are cut.
#[derive(Debug, Default)]
pub(super) struct FrameHeads {
    head: [u8; HEAD_BYTES],
    /// How much of `head` has come.
    filled: usize,
    /// How much of the last frame's payload is still to come.
    payload_left: usize,
}

impl FrameHeads {
    /// Calls `found` with each head that `bytes` complete.
    pub(super) fn read(&mut self, mut bytes: &[u8], mut found: impl FnMut(FrameHead)) {
        loop {
            let skipped = self.payload_left.min(bytes.len());
            self.payload_left -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            let taken = (HEAD_BYTES - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled < HEAD_BYTES {
                return;
            }
            self.filled = 0;
            let head = FrameHead::from_bytes(self.head);
            self.payload_left = head.length as usize;
            found(head);
        }
    }
}

/// Both directions of a connection.
#[derive(Debug, Default)]
pub(super) struct Http2Frames {
    pub(super) received: FrameHeads,
    pub(super) sent: FrameHeads,
    /// The bytes of all `DATA` frames that were sent, up to the end of the last whose head was.
    pub(super) data_sent: u64,
    /// The value of `data_sent` at each ping that is not answered yet. The library sends one at a
    /// time, and one more when it says farewell.
    pub(super) pings: VecDeque<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        flagged(kind, 0xff, stream, payload)
    }

    fn flagged(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend((stream | 1 << 31).to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn heads_are_found_however_their_bytes_are_cut() {
        let frames = [
            (HEADERS, 1, vec![RST_STREAM; 40]),
            (DATA, 1, vec![0; 9]),
            (RST_STREAM, 0x7fff_ffff, vec![0; 4]),
            (4, 0, Vec::new()),
            (CONTINUATION, 3, vec![DATA]),
            (0x20, 7, vec![1; 300]),
            (PING, 0, vec![3; 8]),
            (DATA, 5, vec![2; 70_000]),
        ];
        let frames = frames.iter().map(|(kind, stream, payload)| frame(*kind, *stream, payload));
        let bytes: Vec<u8> = frames.chain([flagged(PING, 0, 0, &[3; 8])]).flatten().collect();
        let expected: Vec<(u32, FrameKind, u32)> = vec![
            (40, FrameKind::Headers, 1),
            (9, FrameKind::Data, 1),
            (4, FrameKind::Reset, 0x7fff_ffff),
            (0, FrameKind::Control, 0),
            (1, FrameKind::Headers, 3),
            (300, FrameKind::Control, 7),
            (8, FrameKind::Pong, 0),
            (70_000, FrameKind::Data, 5),
            (8, FrameKind::Ping, 0),
        ];
        for cut in [1, 2, 3, 8, 9, 10, 11, 64, 1000, bytes.len()] {
            let (mut heads, mut found) = (FrameHeads::default(), Vec::new());
            for piece in bytes.chunks(cut) {
                heads.read(piece, |head| found.push((head.length, head.kind, head.stream)));
            }
            assert_eq!(found, expected, "pieces of {cut}");
        }
    }
}
