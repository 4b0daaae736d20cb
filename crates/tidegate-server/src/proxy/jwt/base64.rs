//! Base64 (RFC 4648), read strictly: one text for one sequence of bytes, so that a token cannot be written in two ways.

/// The bytes of base64url without padding, as in tokens and keys; `None` for anything else.
pub(super) fn decode_url(text: &[u8]) -> Option<Vec<u8>> {
    decode(text.iter().copied(), |byte| match byte {
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    })
}

/// The bytes of base64 with padding and line breaks, as in PEM; `None` for anything else.
pub(super) fn decode_lines(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let padding = digits.iter().rev().take_while(|byte| **byte == b'=').count();
    if !digits.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    decode(digits[..digits.len() - padding].iter().copied(), |byte| match byte {
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    })
}

fn decode(text: impl ExactSizeIterator<Item = u8>, last_two: impl Fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut held, mut bits) = (0_u32, 0);
    for byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            other => last_two(other)?,
        };
        held = held << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    // Six bits left are a digit too many, and bits that are set would be a second spelling.
    (bits < 6 && held == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_4648_are_read() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9v\r\nYmFy\n", "foobar"),
        ] {
            assert_eq!(decode_lines(text).as_deref(), Some(bytes.as_bytes()), "{text}");
            let plain: String = text.chars().filter(|c| !c.is_whitespace() && *c != '=').collect();
            assert_eq!(decode_url(plain.as_bytes()).as_deref(), Some(bytes.as_bytes()), "{plain}");
        }
        assert_eq!(decode_url(b"-_8").unwrap(), [0xfb, 0xff]);
        assert_eq!(decode_lines("+/8=").unwrap(), [0xfb, 0xff]);
    }

    #[test]
    fn a_second_spelling_is_not_read() {
        for text in ["Zg==", "Zh", "Zm9", "Zm9vY", "Zm 9v", "+/8", "Zm9v\n", "\u{e4}"] {
            assert_eq!(decode_url(text.as_bytes()), None, "{text}");
        }
        for text in ["Zg", "Zg=", "Zg===", "====", "Zh==", "-_8=", "Z=g="] {
            assert_eq!(decode_lines(text), None, "{text}");
        }
    }
}
