//! The outcome of reading a command, and the bounds of a command.

use core::fmt;
use std::borrow::Cow;

use smallvec::SmallVec;

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

/// The arguments of a command, its name first. Only inline arguments that were quoted are owned.
pub type Arguments<'a> = SmallVec<[Cow<'a, [u8]>; 8]>;

/// The state of the bytes received so far.
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

/// Why the bytes are not a command. The next command cannot be found, so the connection has to end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The number of arguments is not a number, or above [`ARGUMENTS_MAX`].
    #[error("invalid multibulk length {0}; a command takes at most {ARGUMENTS_MAX} arguments")]
    ArgumentCount(Length),
    /// The length of an argument is not a number, or above [`ARGUMENT_BYTES_MAX`].
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
    pub(super) fn from_line(line: &[u8]) -> Self {
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
