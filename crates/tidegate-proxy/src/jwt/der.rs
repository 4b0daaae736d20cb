//! The part of DER (X.690) that encodes public keys.

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;

/// Splits `bytes` into the contents of its first element, which must have `tag`, and the rest.
pub(super) fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [found, length, rest @ ..] = bytes else { return None };
    let (length, rest) = match (length, rest) {
        (0..=0x7f, rest) => (usize::from(*length), rest),
        (0x81, [length @ 0x80..=0xff, rest @ ..]) => (usize::from(*length), rest),
        (0x82, [high @ 1..=0xff, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        _ => return None,
    };
    if *found != tag {
        return None;
    }
    rest.split_at_checked(length)
}

/// An element with `tag` and `contents`, of at most 65 535 bytes.
pub(super) fn written(tag: u8, contents: &[u8]) -> Option<Vec<u8>> {
    let [high, low] = u16::try_from(contents.len()).ok()?.to_be_bytes();
    let mut out = match (high, low) {
        (0, 0..=0x7f) => vec![tag, low],
        (0, _) => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    out.extend_from_slice(contents);
    Some(out)
}

/// A number that is not negative, from its bytes, the highest first.
pub(super) fn unsigned(bytes: &[u8]) -> Option<Vec<u8>> {
    let digits = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let mut contents = Vec::with_capacity(digits.len() + 1);
    if digits.first().is_none_or(|first| *first >= 0x80) {
        contents.push(0);
    }
    contents.extend_from_slice(digits);
    written(INTEGER, &contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_have_one_spelling() {
        for length in [0, 1, 127, 128, 255, 256, 65_535] {
            let whole = written(SEQUENCE, &vec![7; length]).unwrap();
            let (contents, rest) = element(&whole, SEQUENCE).unwrap();
            assert_eq!((contents.len(), rest.len()), (length, 0));
            assert_eq!(element(&whole, INTEGER), None);
            assert_eq!(element(&whole[..whole.len() - 1], SEQUENCE), None);
        }
        assert_eq!(written(SEQUENCE, &vec![7; 65_536]), None);
        for long in
            [&[0x30, 0x80][..], &[0x30, 0x81, 0x01, 0], &[0x30, 0x82, 0, 0x80], &[0x30, 0x83, 0, 0, 0]]
        {
            assert_eq!(element(long, SEQUENCE), None, "{long:?}");
        }
    }

    #[test]
    fn numbers_have_one_spelling() {
        assert_eq!(unsigned(&[]).unwrap(), [2, 1, 0]);
        assert_eq!(unsigned(&[0, 0, 1]).unwrap(), [2, 1, 1]);
        assert_eq!(unsigned(&[0x80]).unwrap(), [2, 2, 0, 0x80]);
    }

    proptest! {
        #[test]
        fn whatever_stands_there_is_read_or_not(bytes in prop::collection::vec(any::<u8>(), 0..16)) {
            let _ = element(&bytes, SEQUENCE);
        }
    }
}
