//! RESP: commands as a connection reads them, in one piece and cut anywhere.

use core::mem::discriminant;
use std::borrow::Cow;

use tidegate_wire::resp::{
    ARGUMENT_BYTES_MAX, ARGUMENTS_MAX, Arguments, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, Protocol,
    ProtocolError, Read, Replies, read_command,
};

use crate::Taken;

/// A command is cut at every byte up to this many of them, and longer ones at as many places.
const CUTS_MAX: usize = 512;

/// The most that a reader may be told to wait for: the longest command, and the fewest bytes of
/// arguments it may announce.
const WAITED_FOR_BYTES_MAX: usize = COMMAND_BYTES_MAX + 8 * ARGUMENTS_MAX;

/// Reads bytes as a connection does, command after command, to their end or to the first error.
///
/// However they are cut, the same commands come out; what is kept of a command is within its own
/// bytes, and written as an array it is read as the same command again.
pub fn resp(bytes: &[u8]) -> Taken {
    let mut rest = bytes;
    loop {
        let mut arguments = Arguments::new();
        let read = read_command(rest, &mut arguments);
        assert_same_in_pieces(rest, &read);
        match read {
            Ok(Read::Command { bytes: taken }) => {
                assert!((1..=rest.len()).contains(&taken), "{taken} bytes of {}", rest.len());
                let (command, behind) = rest.split_at(taken);
                assert_within(command, &arguments);
                assert_read_back(&arguments);
                rest = behind;
            }
            Ok(Read::Unfinished { bytes_missing }) => {
                let most = WAITED_FOR_BYTES_MAX.saturating_sub(rest.len()).max(1);
                assert!((1..=most).contains(&bytes_missing), "{bytes_missing} after {} bytes", rest.len());
                return Taken::Accepted;
            }
            Err(error) => {
                assert_is_a_line(&error);
                return Taken::Refused;
            }
        }
    }
}

/// Whatever has come of a command so far, nothing is made of it that the rest would contradict.
fn assert_same_in_pieces(bytes: &[u8], whole: &Result<Read, ProtocolError>) {
    let end = match whole {
        Ok(Read::Command { bytes: taken }) => *taken,
        _ => bytes.len(),
    };
    for cut in (0..end).step_by((end / CUTS_MAX).max(1)) {
        match (read_command(&bytes[..cut], &mut Arguments::new()), whole) {
            (Ok(Read::Unfinished { bytes_missing }), Ok(Read::Command { bytes: taken })) => {
                assert!(bytes_missing >= 1 && cut + bytes_missing <= *taken, "{bytes_missing} after {cut}");
            }
            (Ok(Read::Unfinished { bytes_missing }), _) => assert!(bytes_missing >= 1, "none after {cut}"),
            // The length as shown may be longer after more bytes.
            (Err(early), Err(late)) => assert_eq!(discriminant(&early), discriminant(late), "after {cut}"),
            (early, late) => panic!("{early:?} after {cut} bytes, {late:?} after all"),
        }
    }
    let mut arguments = Arguments::new();
    if let Ok(Read::Command { bytes: taken }) = whole {
        assert_eq!(
            &read_command(&bytes[..*taken], &mut arguments),
            whole,
            "what follows a command changes it"
        );
    }
}

/// A command is within the bounds, and what is kept of it takes no more memory than it did.
fn assert_within(command: &[u8], arguments: &Arguments<'_>) {
    let most = if command[0] == b'*' { COMMAND_BYTES_MAX } else { INLINE_BYTES_MAX + 2 };
    assert!(command.len() <= most, "a command of {} bytes", command.len());
    let count = arguments.len();
    assert!(count <= ARGUMENTS_MAX && arguments.capacity() <= 2 * count.max(8), "{count} arguments");
    let total: usize = arguments.iter().map(|argument| argument.len()).sum();
    assert!(total <= command.len(), "{total} bytes of arguments in {}", command.len());
    for argument in arguments {
        assert!(argument.len() <= ARGUMENT_BYTES_MAX, "an argument of {} bytes", argument.len());
        if let Cow::Owned(argument) = argument {
            let (length, capacity) = (argument.len(), argument.capacity());
            assert!(capacity <= 2 * length.max(8), "{capacity} bytes for {length}");
        }
    }
}

/// The arguments as an array of bulk strings are the same command.
fn assert_read_back(arguments: &[Cow<'_, [u8]>]) {
    let mut out = Vec::new();
    let mut replies = Replies::new(&mut out, Protocol::Three);
    replies.array(arguments.len());
    for argument in arguments {
        replies.bulk(argument);
    }
    let mut again = Arguments::new();
    assert_eq!(read_command(&out, &mut again), Ok(Read::Command { bytes: out.len() }));
    assert_eq!(again.as_slice(), arguments);
}

/// Whatever of the input an error shows, it stays one short line.
fn assert_is_a_line(error: &ProtocolError) {
    let mut out = Vec::new();
    Replies::new(&mut out, Protocol::Two).error("ERR", error);
    let line = out.strip_suffix(b"\r\n").expect("an error ends its line");
    assert!(line.starts_with(b"-ERR ") && line.len() < 256, "{}", line.escape_ascii());
    assert!(!line.iter().any(u8::is_ascii_control), "{}", line.escape_ascii());
}
