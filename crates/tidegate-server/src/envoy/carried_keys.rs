//! Keys of limits that come with requests, shortened to the length that a store accepts.
//!
//! An Envoy lets a request pass, by default, when its rate limit service returns an error. So a key
//! that is too long is no error: it is counted by its hash.

use std::borrow::Cow;

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use tidegate_core::CarriedLimit;

/// The longest key that is counted as it is, in bytes with the lengths of its parts. A store takes
/// half as much again, which leaves room for the domain and the kind of limit.
const KEY_BYTES_MAX: usize = 384;

/// Stands before a hash, so that no key of parts is taken for one.
const HASHED: &[u8] = b"sha256";

/// The hashes of keys that are too long; `None` for the others.
pub(crate) struct Hashes(Vec<Option<[u8; SHA256_OUTPUT_LEN]>>);

impl Hashes {
    /// Of these limits.
    pub(crate) fn from_limits(limits: &[CarriedLimit<'_>]) -> Self {
        Self(limits.iter().map(|limit| hash(&limit.key)).collect())
    }

    /// The limits with hashes for the keys that are too long.
    pub(crate) fn within<'a>(&'a self, limits: Vec<CarriedLimit<'a>>) -> Vec<CarriedLimit<'a>> {
        let within = |(limit, hash): (CarriedLimit<'a>, &'a Option<[u8; SHA256_OUTPUT_LEN]>)| match hash {
            None => limit,
            Some(hash) => CarriedLimit { key: Cow::Owned(vec![HASHED, hash.as_slice()]), ..limit },
        };
        limits.into_iter().zip(&self.0).map(within).collect()
    }
}

fn hash(parts: &[&[u8]]) -> Option<[u8; SHA256_OUTPUT_LEN]> {
    let bytes: usize = parts.iter().map(|part| part.len() + size_of::<u64>()).sum();
    if bytes <= KEY_BYTES_MAX {
        return None;
    }
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(context.finish().as_ref());
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_told_apart_by_every_byte_and_by_where_their_parts_end() {
        let long = vec![b'a'; 1000];
        assert_eq!(hash(&[b"user", b"ada"]), None);
        let hashes = [
            hash(&[&long, b"bc"]),
            hash(&[&long, b"b", b"c"]),
            hash(&[&long, b"bd"]),
            hash(&[&long[1..], b"abc"]),
        ];
        for (at, one) in hashes.iter().enumerate() {
            assert!(one.is_some() && !hashes[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn the_longest_key_is_one_that_a_store_takes() {
        let part = vec![b'a'; KEY_BYTES_MAX - 3 * size_of::<u64>()];
        assert!(hash(&[&part, b"", b""]).is_none() && hash(&[&part, b"", b"x"]).is_some());
        let domain = "d".repeat(tidegate_wire::envoy::request::NAME_BYTES_MAX);
        let scope = vec![0; KEY_BYTES_MAX];
        assert!(tidegate_store::Key::new(&domain, &[0; 40], &scope).is_ok());
    }
}
