//! The hash of a key, which decides its partition.

/// The position of a key in the hash space.
///
/// It is the same on every machine and in every release, since it decides the partition. It is not
/// secret: the owner of a table can aim at one partition of it, which affects no other table.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    // Multiply and fold, eight bytes at a time; the constants are digits of pi and of the golden
    // ratio.
    const SEED: u64 = 0x243f_6a88_85a3_08d3;
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    const LAST: u64 = 0x1319_8a2e_0370_7345;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ ((product >> 64) as u64)
    };
    // The length goes in first, so that a key and the same key with zeros behind it differ.
    let mut hash = SEED ^ (key.len() as u64).wrapping_mul(STEP);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        // Added and not only mixed in: a word that cancels the hash would otherwise wipe it out.
        hash = fold(hash ^ u64::from_le_bytes(*word), STEP).wrapping_add(hash.rotate_left(29));
    }
    let mut tail = [0; 8];
    tail[..rest.len()].copy_from_slice(rest);
    let hash = fold(hash ^ u64::from_le_bytes(tail), LAST).wrapping_add(hash.rotate_left(29));
    fold(hash ^ STEP, LAST)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_key_never_changes() {
        assert_eq!([key_hash(b""), key_hash(b"order-7"), key_hash(b"a longer key of 24 bytes")], HASHES);
    }

    const HASHES: [u64; 3] =
        [10_098_387_707_493_291_602, 5_401_794_096_291_649_147, 5_117_642_284_351_160_601];
}
