//! Reading one command: an array of bulk strings, or a line that somebody typed.

use core::fmt;
use std::borrow::Cow;

use smallvec::SmallVec;

use super::inline;

/// The most bytes of one command, lengths and line ends included. Above it:
/// [`ProtocolError::Command`].
pub const COMMAND_BYTES_MAX: usize = 1 << 20;

/// The most bytes of one argument. Above it: [`ProtocolError::ArgumentLength`].
pub const ARGUMENT_BYTES_MAX: usize = 64 << 10;

/// The most arguments of a command, its name among them. Above it:
/// [`ProtocolError::ArgumentCount`].
pub const ARGUMENTS_MAX: usize = 1024;

/// The most bytes of an inline command, its line end aside. Above it: [`ProtocolError::Inline`].
pub const INLINE_BYTES_MAX: usize = 64 << 10;

/// The most digits of a length: more than any bound has.
const LENGTH_DIGITS_MAX: usize = 10;

/// The fewest bytes of an argument: `$0`, nothing, and two line ends.
const ARGUMENT_FRAME_BYTES_MIN: usize = 6;

/// The arguments of a command, its name first. Only inline arguments that were quoted are owned.
pub type Arguments<'a> = SmallVec<[Cow<'a, [u8]>; 8]>;

/// What the bytes so far hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// A command; without arguments if it was an empty line or an empty array, which is not
    /// answered.
    Command {
        /// How many bytes it took.
        bytes: usize,
    },
    /// The beginning of one.
    Unfinished {
        /// It cannot be whole before so many more have come; at least 1.
        bytes_missing: usize,
    },
}

/// Why bytes are no command. What follows them cannot be told apart, so the connection has to end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The number of arguments is none, or above [`ARGUMENTS_MAX`].
    #[error("invalid multibulk length {0}; a command takes at most {ARGUMENTS_MAX} arguments")]
    ArgumentCount(Length),
    /// The length of an argument is none, or above [`ARGUMENT_BYTES_MAX`].
    #[error("invalid bulk length {0}; an argument takes at most {ARGUMENT_BYTES_MAX} bytes")]
    ArgumentLength(Length),
    /// An argument is something else than a bulk string, for example an array.
    #[error("expected '$', got '{}'; send a command as an array of bulk strings", .0.escape_ascii())]
    NotBulk(u8),
    /// An argument is longer than was said.
    #[error("expected a line end after an argument, got '{}'; a bulk length counts bytes", .0.escape_ascii())]
    NotEnded(u8),
    /// The command is above [`COMMAND_BYTES_MAX`].
    #[error("too big request; a command takes at most {COMMAND_BYTES_MAX} bytes")]
    Command,
    /// The line is above [`INLINE_BYTES_MAX`], or has more than [`ARGUMENTS_MAX`] words.
    #[error(
        "too big inline request; a line takes at most {INLINE_BYTES_MAX} bytes and {ARGUMENTS_MAX} arguments"
    )]
    Inline,
    /// A quote is not closed, or something stands right behind the closing one.
    #[error("unbalanced quotes in request; close each and let a space follow")]
    Quotes,
}

/// A length as it was sent, as far as it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Length(SmallVec<[u8; 16]>);

impl Length {
    fn of(line: &[u8]) -> Self {
        let end = line.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(line.len());
        Self(line[..end.min(16)].into())
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Debug for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads the first command of `buffer` into `arguments`, which are emptied before.
///
/// An array of bulk strings, or else a line: words apart by spaces, in which `"..."` takes `\n`,
/// `\r`, `\t`, `\b`, `\a`, `\xHH`, `\"` and `\\`, and `'...'` takes `\'`. Reading again after
/// [`Read::Unfinished`] starts over; the bytes that are said to be missing keep that from happening
/// for every byte.
#[inline]
pub fn read_command<'a>(buffer: &'a [u8], arguments: &mut Arguments<'a>) -> Result<Read, ProtocolError> {
    arguments.clear();
    match buffer.first() {
        None => Ok(Read::Unfinished { bytes_missing: 1 }),
        Some(b'*') => read_array(buffer, arguments),
        Some(_) => inline::read_line(buffer, arguments),
    }
}

fn read_array<'a>(buffer: &'a [u8], arguments: &mut Arguments<'a>) -> Result<Read, ProtocolError> {
    let invalid_count = |buffer: &[u8]| ProtocolError::ArgumentCount(Length::of(&buffer[1..]));
    let (count, mut at) = match read_length(buffer, 1) {
        Some(Ok((count, _))) if count > ARGUMENTS_MAX => return Err(invalid_count(buffer)),
        Some(Ok(read)) => read,
        Some(Err(())) => return Err(invalid_count(buffer)),
        None => return Ok(Read::Unfinished { bytes_missing: 1 }),
    };
    for left in (0..count).rev() {
        let unfinished = |at: usize| {
            let whole = at + left * ARGUMENT_FRAME_BYTES_MIN;
            Ok(Read::Unfinished { bytes_missing: whole.saturating_sub(buffer.len()).max(1) })
        };
        match buffer.get(at) {
            None => return unfinished(at + ARGUMENT_FRAME_BYTES_MIN),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::NotBulk(*other)),
        }
        let invalid_length = || ProtocolError::ArgumentLength(Length::of(&buffer[at + 1..]));
        let (length, start) = match read_length(buffer, at + 1) {
            Some(Ok((length, _))) if length > ARGUMENT_BYTES_MAX => return Err(invalid_length()),
            Some(Ok(read)) => read,
            Some(Err(())) => return Err(invalid_length()),
            None => return unfinished(at + ARGUMENT_FRAME_BYTES_MIN),
        };
        let end = start + length;
        if end + 2 > COMMAND_BYTES_MAX {
            return Err(ProtocolError::Command);
        }
        let Some(frame) = buffer.get(start..end + 2) else { return unfinished(end + 2) };
        let (argument, line_end) = frame.split_at(length);
        if line_end != b"\r\n" {
            let first = if line_end[0] == b'\r' { line_end[1] } else { line_end[0] };
            return Err(ProtocolError::NotEnded(first));
        }
        arguments.push(Cow::Borrowed(argument));
        at = end + 2;
    }
    Ok(Read::Command { bytes: at })
}

/// A length and its line end, and where what follows begins; `None` if they have not come whole.
#[inline]
fn read_length(buffer: &[u8], start: usize) -> Option<Result<(usize, usize), ()>> {
    let mut value = 0_usize;
    let mut at = start;
    loop {
        match *buffer.get(at)? {
            digit @ b'0'..=b'9' if at - start < LENGTH_DIGITS_MAX => {
                // Ten digits: below 2^34 on 64 bits; where a word is smaller it is above every
                // bound all the same.
                value = value.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
                at += 1;
            }
            b'\r' if at > start => {
                return match *buffer.get(at + 1)? {
                    b'\n' => Some(Ok((value, at + 2))),
                    _ => Some(Err(())),
                };
            }
            _ => return Some(Err(())),
        }
    }
}

#[cfg(test)]
mod tests;
