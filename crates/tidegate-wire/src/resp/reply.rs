//! Writing replies, in either version of the protocol.

use core::fmt::{self, Display, Write};

/// A version of the protocol. A connection begins with the second and asks for the third with
/// `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2: a map is an array of its names and values, and nothing is a bulk string of length -1.
    #[default]
    Two,
    /// RESP3: maps are maps, and nothing is nothing.
    Three,
}

impl Protocol {
    /// 2 or 3.
    pub const fn number(self) -> u8 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// The longest text of an error in bytes. A longer text is truncated.
const ERROR_BYTES_MAX: usize = 1024;

/// Writes replies behind what stands in a buffer.
///
/// Of an array or a map only the length is written; its parts must follow, as many as were said.
#[derive(Debug)]
pub struct Replies<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> Replies<'a> {
    /// Replies of one version behind what `out` holds.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// Writes from here on in another version.
    pub fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// How many bytes there are, with what was there before.
    pub fn bytes(&self) -> usize {
        self.out.len()
    }

    /// A word, without line ends: `OK`.
    pub fn simple(&mut self, word: &'static str) {
        debug_assert!(!word.contains(['\r', '\n']), "a line end would begin another reply");
        self.out.push(b'+');
        self.out.extend_from_slice(word.as_bytes());
        self.line_end();
    }

    /// An error: a code in capitals, and what is wrong. Line ends and other control characters
    /// become spaces, and what is longer than a kilobyte is cut, since some of it may be what the
    /// client sent.
    pub fn error(&mut self, code: &'static str, text: impl Display) {
        self.out.push(b'-');
        self.out.extend_from_slice(code.as_bytes());
        self.out.push(b' ');
        let mut line = OneLine { left: ERROR_BYTES_MAX, out: self.out };
        // It ends early when the text is cut.
        let _ = write!(line, "{text}");
        self.line_end();
    }

    /// A whole number.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        match usize::try_from(value) {
            Ok(value) => self.length(b':', value),
            Err(_) => self.number(b':', value),
        }
    }

    /// Any bytes.
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.length(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.line_end();
    }

    /// As [`Replies::bulk`], of the text that `write` writes, which has no copy of its own.
    pub fn bulk_written(&mut self, write: impl FnOnce(&mut BulkText<'_>) -> fmt::Result) {
        let start = self.out.len();
        write(&mut BulkText(self.out)).expect("a text takes all that is written");
        let end = self.out.len();
        // Its length is known only now, and stands before it.
        self.length(b'$', end - start);
        self.out[start..].rotate_left(end - start);
        self.line_end();
    }

    /// Texts that are always the same, as [`Replies::bulk`] would write each: `$2\r\nid\r\n`. The
    /// names of a frequent reply are so one copy.
    #[inline]
    pub fn bulks_as_written(&mut self, bulks: &'static str) {
        debug_assert!(are_bulks(bulks), "{bulks:?}");
        self.out.extend_from_slice(bulks.as_bytes());
    }

    /// Nothing, where something could have been.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Two => b"$-1\r\n",
            Protocol::Three => b"_\r\n",
        });
    }

    /// The beginning of an array of `parts` replies.
    #[inline]
    pub fn array(&mut self, parts: usize) {
        self.length(b'*', parts);
    }

    /// The beginning of a map of `pairs` names and values, each name followed by its value.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Two => self.length(b'*', pairs * 2),
            Protocol::Three => self.length(b'%', pairs),
        }
    }

    #[inline]
    fn length(&mut self, kind: u8, value: usize) {
        // Nearly all are short: one store in place of three copies.
        match value as u8 {
            one if value < 10 => self.out.extend_from_slice(&[kind, b'0' + one, b'\r', b'\n']),
            two if value < 100 => {
                self.out.extend_from_slice(&[kind, b'0' + two / 10, b'0' + two % 10, b'\r', b'\n']);
            }
            _ => self.number(kind, value),
        }
    }

    fn number(&mut self, kind: u8, value: impl itoa::Integer) {
        self.out.push(kind);
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.line_end();
    }

    fn line_end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// The text of a bulk string while it is written.
#[derive(Debug)]
pub struct BulkText<'a>(&'a mut Vec<u8>);

impl Write for BulkText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Whether these are bulk strings, each with the right length.
fn are_bulks(mut bulks: &str) -> bool {
    while !bulks.is_empty() {
        let parts = bulks.strip_prefix('$').and_then(|rest| rest.split_once("\r\n"));
        let text = parts.and_then(|(length, rest)| rest.split_at_checked(length.parse().ok()?));
        let Some(rest) = text.and_then(|(_, rest)| rest.strip_prefix("\r\n")) else { return false };
        bulks = rest;
    }
    true
}

/// Text that stays on its line.
struct OneLine<'a> {
    left: usize,
    out: &'a mut Vec<u8>,
}

impl Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let character = if character.is_control() { ' ' } else { character };
            self.left = self.left.checked_sub(character.len_utf8()).ok_or(fmt::Error)?;
            self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Replies<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Replies::new(&mut out, protocol));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_two_versions_differ_in_maps_and_nothing() {
        let write = |replies: &mut Replies<'_>| {
            replies.map(2);
            replies.bulk("a");
            replies.null();
            replies.bulk("b");
            replies.integer(-1);
        };
        assert_eq!(written(Protocol::Two, write), "*4\r\n$1\r\na\r\n$-1\r\n$1\r\nb\r\n:-1\r\n");
        assert_eq!(written(Protocol::Three, write), "%2\r\n$1\r\na\r\n_\r\n$1\r\nb\r\n:-1\r\n");
    }

    #[test]
    fn bytes_of_any_length_have_it_before_them() {
        for length in [0, 1, 9, 10, 11, 99, 100, 255, 256, 266, 1000] {
            let text = "x".repeat(length);
            let framed = format!("${length}\r\n{text}\r\n");
            assert_eq!(written(Protocol::Two, |replies| replies.bulk(&text)), framed);
            let write = |replies: &mut Replies<'_>| replies.bulk_written(|out| out.write_str(&text));
            assert_eq!(written(Protocol::Two, write), framed);
        }
    }

    #[test]
    fn bulks_that_are_written_have_their_lengths() {
        let written = written(Protocol::Two, |replies| replies.bulks_as_written("$2\r\nid\r\n$0\r\n\r\n"));
        assert_eq!(written, "$2\r\nid\r\n$0\r\n\r\n");
        for wrong in ["$1\r\nid\r\n", "$3\r\nid\r\n", "$2\r\nid", "id", "$2\r\nid\r\n$", "$x\r\nid\r\n"] {
            assert!(!are_bulks(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn an_error_is_one_line_whatever_was_sent() {
        let written = written(Protocol::Two, |replies| replies.error("ERR", "a\r\n+OK\r\nb\u{7f}"));
        assert_eq!(written, "-ERR a  +OK  b \r\n");
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let written = written(Protocol::Two, |replies| replies.error("ERR", "\u{e4}".repeat(4000)));
        assert_eq!(written, format!("-ERR {}\r\n", "\u{e4}".repeat(512)));
    }

    #[test]
    fn words_and_arrays_are_framed() {
        let write = |replies: &mut Replies<'_>| {
            replies.array(2);
            replies.simple("OK");
            replies.bulk(b"\xff\r\n");
        };
        let mut out = Vec::new();
        write(&mut Replies::new(&mut out, Protocol::Three));
        assert_eq!(out, b"*2\r\n+OK\r\n$3\r\n\xff\r\n\r\n");
    }
}
