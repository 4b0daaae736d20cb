//! Which counter an operation is about, as bytes that no other counter has.

use core::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::StoreError;

/// The identity of one counter: a list of parts, each written with its length.
///
/// Two different lists of parts never give the same key: `a` + `b_c` and `a_b` + `c` stay apart,
/// and so do a part that is missing and one that is empty. Parts are any bytes. At most
/// [`Key::BYTES_MAX`] bytes in all. Copies share them.
///
/// ```
/// use tidegate_store::Key;
///
/// let first = Key::from_parts([Some(&b"a"[..]), Some(b"b_c")])?;
/// let second = Key::from_parts([Some(&b"a_b"[..]), Some(b"c")])?;
/// assert_ne!(first, second);
/// # Ok::<(), tidegate_store::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

/// A key while it is made: most fit without an allocation.
type Bytes = SmallVec<[u8; 128]>;

/// Stands where a part is missing; the length of a present part is written one higher.
const MISSING: u8 = 0;

impl Key {
    /// The longest key in bytes, with the lengths of its parts. Chosen so that a prefix of half a
    /// kilobyte still fits the 2048 bytes that the strictest engine (`DynamoDB`) has for a key.
    pub const BYTES_MAX: usize = 1536;

    /// The key of one counter of a limit: the namespace, the identity of the limit (its name and
    /// algorithm, not its numbers), and its scope as bytes that no other tuple gives.
    ///
    /// The same as [`Key::from_parts`] of these three. [`StoreError::TooLarge`] if that is too
    /// long.
    pub fn new(namespace: &str, limit: &[u8], scope: &[u8]) -> Result<Self, StoreError> {
        Self::from_parts([Some(namespace.as_bytes()), Some(limit), Some(scope)])
    }

    /// The key with these parts in this order; `None` is a part that is missing.
    ///
    /// [`StoreError::TooLarge`] if they take more than [`Key::BYTES_MAX`] bytes.
    pub fn from_parts<'a>(parts: impl IntoIterator<Item = Option<&'a [u8]>>) -> Result<Self, StoreError> {
        let mut bytes = Bytes::new();
        for part in parts {
            let Some(part) = part else {
                bytes.push(MISSING);
                continue;
            };
            if part.len() <= Self::BYTES_MAX {
                push_length(&mut bytes, part.len() + 1);
                bytes.extend_from_slice(part);
            }
            // Later parts do not matter any more; a part that is too long was not copied.
            let size = bytes.len().max(part.len());
            if size > Self::BYTES_MAX {
                return Err(StoreError::TooLarge { what: "key bytes", size, max: Self::BYTES_MAX });
            }
        }
        if bytes.len() > Self::BYTES_MAX {
            return Err(StoreError::TooLarge { what: "key bytes", size: bytes.len(), max: Self::BYTES_MAX });
        }
        Ok(Self(bytes[..].into()))
    }

    /// The bytes: not text, at most [`Key::BYTES_MAX`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, to be kept.
    pub(crate) fn share(&self) -> Arc<[u8]> {
        Arc::clone(&self.0)
    }

    /// The first part of a key with these bytes, which of a counter's key is the namespace; empty
    /// if there is no such part.
    pub fn first_part_of(bytes: &[u8]) -> &[u8] {
        let mut rest = bytes;
        let length = take_length(&mut rest).and_then(|length| length.checked_sub(1));
        length.and_then(|length| rest.get(..length)).unwrap_or_default()
    }

    /// The first part of a key with these bytes as it is written, with its length, and the bytes
    /// after it.
    pub fn split_first_part(bytes: &[u8]) -> (&[u8], &[u8]) {
        let mut rest = bytes;
        let length = take_length(&mut rest).and_then(|length| length.checked_sub(1)).unwrap_or(0);
        let end = bytes.len() - rest.len() + length;
        bytes.split_at_checked(end).unwrap_or((bytes, &[]))
    }

    /// The parts it was made of.
    pub fn parts(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut rest = self.as_bytes();
        core::iter::from_fn(move || {
            let length = take_length(&mut rest)?;
            let Some(length) = length.checked_sub(1) else { return Some(None) };
            let (part, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(Some(part))
        })
    }
}

/// Writes seven bits a byte, the lowest first; the highest bit says that more follow.
fn push_length(bytes: &mut Bytes, mut length: usize) {
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let mut length = 0;
    for shift in (0..usize::BITS - 7).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        length |= usize::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(length);
        }
    }
    None
}

impl fmt::Debug for Key {
    /// The parts, those that are no text with their bytes escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key[")?;
        for (index, part) in self.parts().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            match part {
                Some(part) => write!(f, "{separator}\"{}\"", part.escape_ascii())?,
                None => write!(f, "{separator}missing")?,
            }
        }
        f.write_str("]")
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    fn key(parts: &[Option<&str>]) -> Key {
        Key::from_parts(parts.iter().map(|part| part.map(str::as_bytes))).unwrap()
    }

    #[test]
    fn lists_that_look_alike_when_joined_give_different_keys() {
        let lists: [&[Option<&str>]; 9] = [
            &[Some("a"), Some("b_c")],
            &[Some("a_b"), Some("c")],
            &[Some("a_b_c")],
            &[Some("a"), Some("b"), Some("c")],
            &[Some("")],
            &[None],
            &[],
            &[Some(""), None],
            &[None, Some("")],
        ];
        for (at, left) in lists.iter().enumerate() {
            for right in &lists[..at] {
                assert_ne!(key(left), key(right), "{left:?} {right:?}");
            }
        }
    }

    #[test]
    fn a_key_can_be_read_back_into_its_parts() {
        let long = "x".repeat(1000);
        for parts in [&[Some("api"), None, Some(""), Some(&long)][..], &[Some("\0\u{1}"), Some("ü𝄞")], &[]]
        {
            let key = key(parts);
            let read: Vec<_> =
                key.parts().map(|part| part.map(|part| str::from_utf8(part).unwrap())).collect();
            assert_eq!(read, parts);
        }
    }

    #[test]
    fn the_longest_key_is_taken_and_one_byte_more_is_an_error() {
        let longest = vec![0xff; Key::BYTES_MAX - 2];
        assert_eq!(Key::from_parts([Some(&longest[..])]).unwrap().as_bytes().len(), Key::BYTES_MAX);
        for size in [Key::BYTES_MAX - 1, Key::BYTES_MAX, Key::BYTES_MAX + 1, 1 << 24] {
            let error = Key::from_parts([Some(&vec![0; size][..])]).unwrap_err();
            assert!(matches!(error, StoreError::TooLarge { max: Key::BYTES_MAX, .. }), "{error}");
        }
        let many = core::iter::repeat_n(None, Key::BYTES_MAX + 1);
        assert!(Key::from_parts(many).is_err());
    }

    #[test]
    fn a_key_shows_its_parts() {
        assert_eq!(
            format!("{:?}", Key::from_parts([Some(&b"api"[..]), None, Some(b"\xff\"")]).unwrap()),
            r#"Key["api", missing, "\xff\""]"#
        );
    }
}
