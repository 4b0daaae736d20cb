//! Where RESP values begin and end in a stream of bytes, and bounds on them.
//!
//! The client library's parser takes whatever a server announces: an array of a billion elements,
//! or a string of gigabytes. A [`FrameScanner`] sees the bytes before that parser does. It keeps
//! counts and no bytes, and reports a value that is no RESP or exceeds a bound as soon as the first
//! byte says so.

/// The longest line: a status, an error, a number, or the length of something.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The most digits of a length, which is more than any bound below needs.
const LENGTH_DIGITS_MAX: u32 = 10;

/// How many bytes of an answer that is no RESP an error quotes.
const QUOTED_BYTES_MAX: usize = 48;

/// Bounds on one reply. A reply beyond any of them ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameBounds {
    /// The bytes of the whole reply.
    pub(crate) bytes: usize,
    /// The values in it at all depths, itself included.
    pub(crate) values: usize,
    /// How deep arrays stand in arrays.
    pub(crate) depth: usize,
}

/// Why a server's bytes are no reply that may be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("expected a RESP reply, got `{quoted}`")]
    NotResp {
        quoted: String,
        /// Whether the bytes are a record of TLS.
        is_tls: bool,
    },
    #[error("the server's reply is longer than {max} bytes")]
    TooLong { max: usize },
    #[error("the server's reply holds more than {max} values")]
    TooManyValues { max: usize },
    #[error("the server's reply nests arrays more than {max} deep")]
    TooDeep { max: usize },
    #[error("the server sent a reply that no command asked for")]
    Unsolicited,
}

/// The finding in a piece of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frames {
    /// Values that ended, pushes not counted.
    pub(crate) replies: u64,
}

/// Follows a stream of RESP values.
#[derive(Debug)]
pub(crate) struct FrameScanner {
    part: FramePart,
    /// How many values are still to come in each array that is open, the innermost last.
    open: Vec<u64>,
    /// Bytes of this reply so far.
    bytes: usize,
    /// Values of this reply, those included that its arrays have announced.
    values: usize,
    is_push: bool,
}

/// The part of a value that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramePart {
    /// The byte that says what kind of value it is.
    Kind,
    /// A line that says nothing about what follows.
    Line { length: usize, ends: bool },
    /// The length of a string or an array.
    Length { kind: u8, digits: u32, value: u64, is_negative: bool, ends: bool },
    /// The bytes of a string, with the end of the line behind them.
    Content { left: u64 },
}

impl FrameScanner {
    pub(crate) fn new() -> Self {
        Self { part: FramePart::Kind, open: Vec::new(), bytes: 0, values: 0, is_push: false }
    }

    /// Follows the next piece of the stream.
    pub(crate) fn scan(&mut self, piece: &[u8], bounds: FrameBounds) -> Result<Frames, FrameError> {
        let mut frames = Frames::default();
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            let mut taken = 1;
            match &mut self.part {
                FramePart::Kind => self.begin(byte, rest)?,
                FramePart::Line { length, ends } => {
                    *length += 1;
                    if *ends && byte == b'\n' {
                        self.end_value(&mut frames);
                    } else if *length > LINE_BYTES_MAX {
                        return Err(FrameError::TooLong { max: LINE_BYTES_MAX });
                    } else {
                        *ends = byte == b'\r';
                    }
                }
                FramePart::Length { kind, digits, value, is_negative, ends } => match byte {
                    b'\n' if *ends => {
                        let (kind, value, is_negative) = (*kind, *value, *is_negative);
                        self.follow(kind, value, is_negative, bounds, &mut frames)?;
                    }
                    b'\r' if *digits > 0 && !*ends => *ends = true,
                    b'-' if *digits == 0 && !*is_negative && !*ends => *is_negative = true,
                    b'0'..=b'9' if *digits < LENGTH_DIGITS_MAX && !*ends => {
                        *digits += 1;
                        *value = *value * 10 + u64::from(byte - b'0');
                    }
                    _ => return Err(not_resp(rest)),
                },
                FramePart::Content { left } => {
                    let available = u64::try_from(rest.len()).unwrap_or(u64::MAX);
                    let step = available.min(*left);
                    *left -= step;
                    taken = usize::try_from(step).unwrap_or(rest.len());
                    if *left == 0 {
                        self.end_value(&mut frames);
                    }
                }
            }
            self.bytes = self.bytes.saturating_add(taken);
            if self.bytes > bounds.bytes && (self.part != FramePart::Kind || !self.open.is_empty()) {
                return Err(FrameError::TooLong { max: bounds.bytes });
            }
            if self.part == FramePart::Kind && self.open.is_empty() {
                self.bytes = 0;
            }
            rest = if taken == 1 { after } else { &rest[taken..] };
        }
        Ok(frames)
    }

    /// The first byte of a value.
    fn begin(&mut self, kind: u8, rest: &[u8]) -> Result<(), FrameError> {
        if self.open.is_empty() {
            self.values = 1;
            self.is_push = kind == b'>';
        }
        self.part = match kind {
            b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => FramePart::Line { length: 0, ends: false },
            b'$' | b'*' | b'%' | b'~' | b'>' | b'|' | b'=' | b'!' => {
                FramePart::Length { kind, digits: 0, value: 0, is_negative: false, ends: false }
            }
            _ => return Err(not_resp(rest)),
        };
        Ok(())
    }

    /// The part that follows a length.
    fn follow(
        &mut self,
        kind: u8,
        value: u64,
        is_negative: bool,
        bounds: FrameBounds,
        frames: &mut Frames,
    ) -> Result<(), FrameError> {
        if is_negative {
            // `$-1` and `*-1` are the absent values of RESP 2.
            if matches!(kind, b'$' | b'*' | b'~') && value == 1 {
                self.end_value(frames);
                return Ok(());
            }
            return Err(FrameError::NotResp {
                quoted: format!("{}-{value}", char::from(kind)),
                is_tls: false,
            });
        }
        if matches!(kind, b'$' | b'=' | b'!') {
            // The byte that ends this line is not counted yet, and a line end follows the content.
            let end = usize::try_from(value).ok().and_then(|value| value.checked_add(self.bytes + 3));
            if end.is_none_or(|bytes| bytes > bounds.bytes) {
                return Err(FrameError::TooLong { max: bounds.bytes });
            }
            self.part = FramePart::Content { left: value + 2 };
            return Ok(());
        }
        let values = match kind {
            b'%' => value * 2,
            b'|' => value * 2 + 1,
            _ => value,
        };
        let all = usize::try_from(values).ok().and_then(|values| values.checked_add(self.values));
        if all.is_none_or(|all| all > bounds.values) {
            return Err(FrameError::TooManyValues { max: bounds.values });
        }
        self.values = all.unwrap_or(usize::MAX);
        if values == 0 {
            self.end_value(frames);
            return Ok(());
        }
        if self.open.len() >= bounds.depth {
            return Err(FrameError::TooDeep { max: bounds.depth });
        }
        self.open.push(values);
        self.part = FramePart::Kind;
        Ok(())
    }

    /// A value has ended, and with it every array of which it was the last.
    fn end_value(&mut self, frames: &mut Frames) {
        self.part = FramePart::Kind;
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.open.pop();
        }
        frames.replies += u64::from(!self.is_push);
    }
}

/// Counts the replies in pieces of one stream, each of at most `bytes` bytes, `values` values and
/// `depth` nested arrays. For the fuzzer.
#[doc(hidden)]
pub fn count_replies<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    [bytes, values, depth]: [usize; 3],
) -> Result<u64, String> {
    let mut scanner = FrameScanner::new();
    let mut replies = 0;
    for piece in pieces {
        let frames = scanner.scan(piece, FrameBounds { bytes, values, depth });
        replies += frames.map_err(|error| error.to_string())?.replies;
        assert!(scanner.open.len() <= depth, "{} arrays are open", scanner.open.len());
    }
    Ok(replies)
}

fn not_resp(bytes: &[u8]) -> FrameError {
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    let quoted = &bytes[..end.min(QUOTED_BYTES_MAX)];
    // A record of TLS begins with its type (20 to 23) and the major version.
    let is_tls = matches!(bytes, [0x14..=0x17, 3, ..]);
    FrameError::NotResp { quoted: quoted.escape_ascii().to_string(), is_tls }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: FrameBounds = FrameBounds { bytes: 1000, values: 20, depth: 3 };

    /// The finding of the scanner in `bytes`, given whole and byte by byte.
    fn scan(bytes: &[u8]) -> Result<u64, FrameError> {
        let whole = FrameScanner::new().scan(bytes, BOUNDS).map(|frames| frames.replies);
        let mut scanner = FrameScanner::new();
        let pieces = bytes.iter().try_fold(0, |replies, byte| {
            scanner.scan(&[*byte], BOUNDS).map(|frames| replies + frames.replies)
        });
        // The quoted text depends on the piece.
        assert_eq!(whole.is_ok(), pieces.is_ok(), "{whole:?} {pieces:?}");
        if whole.is_ok() {
            assert_eq!(whole, pieces);
        }
        whole
    }

    #[test]
    fn replies_of_every_kind_are_counted_and_pushes_are_not() {
        assert_eq!(scan(b"+OK\r\n-ERR no\r\n:12\r\n$-1\r\n*-1\r\n$0\r\n\r\n*0\r\n_\r\n"), Ok(8));
        assert_eq!(scan(b"*3\r\n:0\r\n$3\r\na\r\n\r\n*2\r\n+\r\n$-1\r\n+OK\r\n"), Ok(2));
        assert_eq!(scan(b"%1\r\n+a\r\n:1\r\n|1\r\n+a\r\n:1\r\n+data\r\n=5\r\ntxt:a\r\n"), Ok(3));
        assert_eq!(scan(b">2\r\n+invalidate\r\n*0\r\n+OK\r\n"), Ok(1));
        assert_eq!(scan(b"*2\r\n:1\r\n"), Ok(0));
    }

    #[test]
    fn bytes_of_another_protocol_are_quoted() {
        let quoted = |bytes: &[u8]| scan(bytes).unwrap_err().to_string();
        assert_eq!(
            quoted(b"HTTP/1.1 503 Service Unavailable\r\nServer: x\r\n"),
            "expected a RESP reply, got `HTTP/1.1 503 Service Unavailable`"
        );
        assert_eq!(quoted(b"SSH-2.0-OpenSSH\r\n"), "expected a RESP reply, got `SSH-2.0-OpenSSH`");
        assert!(matches!(
            scan(b"\x15\x03\x01\x00\x02\x02\x46"),
            Err(FrameError::NotResp { is_tls: true, .. })
        ));
        for bytes in
            [&b"$abc\r\n"[..], b"*\r\n", b"$--1\r\n", b"$-2\r\n", b"%-1\r\n", b"$12345678901\r\n", b"$1\n"]
        {
            assert!(matches!(scan(bytes), Err(FrameError::NotResp { .. })), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_reply_beyond_a_bound_is_an_error_before_its_content_comes() {
        assert_eq!(scan(b"$1000\r\n"), Err(FrameError::TooLong { max: 1000 }));
        // The line before the content has 6 bytes, the line end behind it 2.
        let exact = |length: usize| scan(format!("${length}\r\n{}\r\n", "x".repeat(length)).as_bytes());
        assert_eq!(exact(992), Ok(1));
        for length in 993..=995 {
            assert_eq!(exact(length), Err(FrameError::TooLong { max: 1000 }), "{length}");
        }
        assert_eq!(scan(b"*999999999\r\n"), Err(FrameError::TooManyValues { max: 20 }));
        assert_eq!(scan(b"%11\r\n"), Err(FrameError::TooManyValues { max: 20 }));
        assert_eq!(scan(b"*2\r\n*9\r\n:1\r\n*10\r\n"), Err(FrameError::TooManyValues { max: 20 }));
        assert_eq!(scan(b"*1\r\n*1\r\n*1\r\n*1\r\n"), Err(FrameError::TooDeep { max: 3 }));
        let many =
            [&b"*3\r\n"[..], &b"$400\r\n"[..], &[b'x'; 400], b"\r\n$400\r\n", &[b'x'; 400], b"\r\n$400\r\n"];
        assert_eq!(scan(&many.concat()), Err(FrameError::TooLong { max: 1000 }));
        assert_eq!(scan(&[&b"+"[..], &[b'x'; 2000]].concat()), Err(FrameError::TooLong { max: 1000 }));
        // Each reply is bounded by itself.
        assert_eq!(scan(&b"*1\r\n:1\r\n".repeat(500)), Ok(500));
    }
}
