//! Commands as a line, the way people type them into a connection.

use std::borrow::Cow;

use tidegate_core::hex;

use super::outcome::{ARGUMENTS_MAX, Arguments, INLINE_BYTES_MAX, ProtocolError, Read};

pub(super) fn read_line<'a>(buffer: &'a [u8], arguments: &mut Arguments<'a>) -> Result<Read, ProtocolError> {
    // A line end further out than any line may be is not looked for.
    let looked_at = &buffer[..buffer.len().min(INLINE_BYTES_MAX + 2)];
    let Some(end) = looked_at.iter().position(|byte| *byte == b'\n') else {
        return if looked_at.len() > INLINE_BYTES_MAX + 1 {
            Err(ProtocolError::Inline)
        } else {
            Ok(Read::Unfinished { bytes_missing: 1 })
        };
    };
    let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
    if line.len() > INLINE_BYTES_MAX {
        return Err(ProtocolError::Inline);
    }
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        if arguments.len() == ARGUMENTS_MAX {
            return Err(ProtocolError::Inline);
        }
        let (word, behind) = read_word(rest)?;
        arguments.push(word);
        rest = behind.trim_ascii_start();
    }
    Ok(Read::Command { bytes: end + 1 })
}

/// The first word of `text`, which begins with it, and what follows.
fn read_word(text: &[u8]) -> Result<(Cow<'_, [u8]>, &[u8]), ProtocolError> {
    let plain = text.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\''));
    let plain = plain.unwrap_or(text.len());
    let (word, rest) = text.split_at(plain);
    match rest.first() {
        Some(b'"' | b'\'') => {}
        _ => return Ok((Cow::Borrowed(word), rest)),
    }
    // A quote may also begin inside of a word, and ends it.
    let quote = rest[0];
    let mut word = word.to_vec();
    let mut rest = &rest[1..];
    loop {
        let (byte, behind) = rest.split_first().ok_or(ProtocolError::Quotes)?;
        rest = behind;
        match *byte {
            b'\\' if quote == b'"' => {
                let (byte, behind) = read_escape(rest).ok_or(ProtocolError::Quotes)?;
                word.push(byte);
                rest = behind;
            }
            b'\\' if rest.first() == Some(&b'\'') => {
                word.push(b'\'');
                rest = &rest[1..];
            }
            byte if byte == quote => break,
            byte => word.push(byte),
        }
    }
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(ProtocolError::Quotes),
        _ => Ok((Cow::Owned(word), rest)),
    }
}

/// The byte of the escape at the beginning of `text`, and the rest of the text.
fn read_escape(text: &[u8]) -> Option<(u8, &[u8])> {
    if let [b'x', high, low, rest @ ..] = text
        && let (Some(high), Some(low)) = (hex::digit(*high), hex::digit(*low))
    {
        return Some((high << 4 | low, rest));
    }
    let (byte, rest) = text.split_first()?;
    let byte = match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => *other,
    };
    Some((byte, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let line = format!("{line}\r\n");
        let mut arguments = Arguments::new();
        let read = read_line(line.as_bytes(), &mut arguments)?;
        assert_eq!(read, Read::Command { bytes: line.len() });
        Ok(arguments.iter().map(|word| word.to_vec()).collect())
    }

    #[test]
    fn a_line_is_words_apart_by_spaces() {
        assert_eq!(words("PING").unwrap(), [b"PING"]);
        assert_eq!(words("  SET\tk  v ").unwrap(), [&b"SET"[..], b"k", b"v"]);
        assert_eq!(words("").unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn double_quotes_take_escapes_and_single_quotes_take_themselves() {
        for (line, word) in [
            (r#""a b""#, &b"a b"[..]),
            (r#""\x00\xfF""#, b"\x00\xff"),
            (r#""\n\r\t\b\a\\\"\q""#, b"\n\r\t\x08\x07\\\"q"),
            (r#""\xg""#, b"xg"),
            (r"'a \n \' b'", br"a \n ' b"),
            (r#"k"a b""#, b"ka b"),
            (r#""""#, b""),
        ] {
            assert_eq!(words(line).unwrap(), [word], "{line}");
        }
    }

    #[test]
    fn quotes_that_do_not_end_a_word_are_an_error() {
        for line in [r#""abc"#, r#""abc\"#, "'abc", r#""abc"d"#, "'a'b"] {
            assert_eq!(words(line), Err(ProtocolError::Quotes), "{line}");
        }
    }

    #[test]
    fn a_line_is_bounded_whether_or_not_its_end_has_come() {
        let longest = "a".repeat(INLINE_BYTES_MAX);
        assert_eq!(words(&longest).unwrap(), [longest.as_bytes()]);
        assert_eq!(words(&format!("{longest}a")), Err(ProtocolError::Inline));
        let endless = "a".repeat(INLINE_BYTES_MAX * 2);
        assert_eq!(read_line(endless.as_bytes(), &mut Arguments::new()), Err(ProtocolError::Inline));
        let unfinished = read_line(longest.as_bytes(), &mut Arguments::new());
        assert_eq!(unfinished, Ok(Read::Unfinished { bytes_missing: 1 }));
        assert_eq!(words(&"a ".repeat(ARGUMENTS_MAX)).unwrap().len(), ARGUMENTS_MAX);
        assert_eq!(words(&"a ".repeat(ARGUMENTS_MAX + 1)), Err(ProtocolError::Inline));
    }
}
