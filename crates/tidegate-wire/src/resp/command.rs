//! Reading one command: an array of bulk strings, or a typed line.

use std::borrow::Cow;

use super::inline;
use super::outcome::{
    ARGUMENT_BYTES_MAX, ARGUMENTS_MAX, Arguments, COMMAND_BYTES_MAX, Length, ProtocolError, Read,
};

/// The most digits of a length: more than any bound has.
const LENGTH_DIGITS_MAX: usize = 10;

/// The fewest bytes of an argument: `$0`, nothing, and two line ends.
const ARGUMENT_FRAME_BYTES_MIN: usize = 6;

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
    let invalid_count = |buffer: &[u8]| ProtocolError::ArgumentCount(Length::from_line(&buffer[1..]));
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
        let invalid_length = || ProtocolError::ArgumentLength(Length::from_line(&buffer[at + 1..]));
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
