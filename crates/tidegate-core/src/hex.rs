//! Hexadecimal digits: the one encoder and the one decoder of the workspace.
//!
//! `from_str_radix` is no decoder of digits, because it accepts a sign: `+f` would be a byte.

use core::fmt::Write;

/// Two lower-case digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of a text of digits in either case. Returns `None` for an odd number of digits and for
/// every other character, signs included.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// The value of one digit in either case: 0 to 15.
pub fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_encoding_and_decoding_in_either_case() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let text = encode(&bytes);
        assert_eq!(&text[..6], "000102");
        assert_eq!(decode(text.as_bytes()).as_deref(), Some(&*bytes));
        assert_eq!(decode(text.to_uppercase().as_bytes()).as_deref(), Some(&*bytes));
    }

    #[test]
    fn a_sign_or_a_space_is_no_digit_and_half_a_byte_is_no_byte() {
        for text in ["+f", "-f", " f", "f ", "0x", "g0", "f", "fff", "\u{661}"] {
            assert_eq!(decode(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(decode(b""), Some(Vec::new()));
    }
}
