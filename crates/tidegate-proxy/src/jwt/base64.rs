//! Base64 (RFC 4648), read strictly: one text for one sequence of bytes, so that a token cannot be
//! written in two ways.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

/// The bytes of base64url without padding, as in tokens and keys; `None` for anything else.
pub(super) fn decode_url(text: &[u8]) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

/// The bytes of base64 with padding and line breaks, as in PEM; `None` for anything else.
pub(super) fn decode_lines(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64_STANDARD.decode(digits).ok()
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
