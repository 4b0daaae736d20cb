//! A keyed hash that is the same on every machine and in every release.
//!
//! Members of a fleet with one seed must shed the same tenants, also while two versions of the
//! daemon run side by side, and a simulation must repeat anywhere. The standard library promises
//! neither for its hashers.

const SEED: u64 = 0x243f_6a88_85a3_08d3;
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const LAST: u64 = 0x1319_8a2e_0370_7345;

/// The hash of `text` under `keys`. An absent text and an empty one differ.
#[inline]
pub(crate) fn keyed_hash(keys: [u64; 2], text: Option<&str>) -> u64 {
    let mut hash = absorb(absorb(SEED, keys[0], STEP), keys[1], STEP);
    // The length goes in first, so that a text and the same text followed by zeros differ.
    let length = text.map_or(0, |text| text.len() as u64 + 1);
    hash = absorb(hash, length, STEP);
    if let Some(text) = text {
        let (words, rest) = text.as_bytes().as_chunks::<8>();
        for word in words {
            hash = absorb(hash, u64::from_le_bytes(*word), STEP);
        }
        let mut tail = [0; 8];
        tail[..rest.len()].copy_from_slice(rest);
        hash = absorb(hash, u64::from_le_bytes(tail), LAST);
    }
    fold(hash ^ STEP, LAST)
}

/// Mixes one word in. The old hash is also added, so that a word that cancels it does not erase it.
#[inline]
fn absorb(hash: u64, word: u64, factor: u64) -> u64 {
    fold(hash ^ word, factor).wrapping_add(hash.rotate_left(29))
}

/// The product of 128 bits, its halves folded together.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Finds the entry with this hash for which `is_match` holds, in pairs that are sorted by hash.
#[inline]
pub(crate) fn find_hashed<Id: Copy>(
    sorted: &[(u64, Id)],
    hash: u64,
    is_match: impl Fn(Id) -> bool,
) -> Option<Id> {
    let first = sorted.partition_point(|(known, _)| *known < hash);
    let same_hash = sorted[first..].iter().take_while(|(known, _)| *known == hash);
    same_hash.map(|(_, id)| *id).find(|id| is_match(*id))
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_same_in_every_release() {
        let hashes = [None, Some(""), Some("tenant"), Some("a tenant of more than eight bytes")]
            .map(|text| keyed_hash([7, 500_000], text));
        let expected = [
            5_800_538_127_187_734_908,
            4_808_731_088_440_970_792,
            10_827_615_996_599_400_721,
            11_926_216_031_291_084_123,
        ];
        assert_eq!(hashes, expected);
    }
}
