//! The key of a counter as the file has it: a long one is hashed.
//!
//! A caller chooses the values of its attributes, and a key may have 1536 bytes. The file would
//! keep all of them for as long as the counter: with a hash a counter takes at most 164 bytes of
//! key there, whatever its values are.

use std::borrow::Cow;

use ring::digest::{SHA256, digest};
use tidegate_store::Key;

/// The longest key in bytes that the file has as it is.
pub(crate) const PLAIN_BYTES_MAX: usize = 128;

/// Stands between the namespace and the hash. A key never has it there: it is the length 0 written
/// in two bytes, and keys write it in one.
const HASHED: [u8; 2] = [0x80, 0];

/// A key as the file has it: the key itself, or its first part, which is the namespace, and the
/// SHA-256 of the whole.
pub(crate) fn stored(key: &[u8]) -> Cow<'_, [u8]> {
    if key.len() <= PLAIN_BYTES_MAX {
        return Cow::Borrowed(key);
    }
    let (namespace, _) = Key::split_first_part(key);
    let mut stored = namespace.to_vec();
    stored.extend(HASHED);
    stored.extend(digest(&SHA256, key).as_ref());
    Cow::Owned(stored)
}

/// Whether the file has a key of these bytes as it is to be: not a long one from before long keys
/// were hashed.
pub(crate) fn is_stored(bytes: &[u8]) -> bool {
    bytes.len() <= PLAIN_BYTES_MAX || Key::split_first_part(bytes).1.starts_with(&HASHED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, value: usize) -> Key {
        Key::new(namespace, b"per-user", &vec![b'x'; value]).unwrap()
    }

    #[test]
    fn a_short_key_is_stored_as_it_is_and_a_long_one_as_its_namespace_and_a_hash() {
        let short = key("api", 100);
        assert_eq!(stored(short.as_bytes()), short.as_bytes());
        let (long, other) = (key("api", 1000), key("api", 1001));
        let stored_long = stored(long.as_bytes());
        assert_eq!((stored_long.len(), Key::first_part_of(&stored_long)), (1 + 3 + 2 + 32, &b"api"[..]));
        assert_ne!(stored_long, stored(other.as_bytes()));
        assert!(is_stored(&stored_long) && is_stored(short.as_bytes()) && !is_stored(long.as_bytes()));
    }

    #[test]
    fn the_longest_namespace_is_stored_once_and_not_hashed_again() {
        let long = key(&"n".repeat(200), 1000);
        let once = stored(long.as_bytes());
        assert!(once.len() > PLAIN_BYTES_MAX && is_stored(&once), "{}", once.len());
        assert_eq!(Key::first_part_of(&once), "n".repeat(200).as_bytes());
    }
}
