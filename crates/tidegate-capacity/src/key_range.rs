//! Ranges of the hash space of keys, and how equal ones tile it.

use core::fmt;

/// The hashes from `first` to `last`, both within.
///
/// ```
/// # use tidegate_capacity::{KeyRange, key_hash};
/// let second = KeyRange::of_partition(1, 4).expect("there are four");
/// assert_eq!(second.to_string(), "4000000000000000-7fffffffffffffff");
/// // The hash decides which partition holds a key.
/// let hash = key_hash(b"order-7");
/// let holding = (0..4).filter(|index| KeyRange::of_partition(*index, 4).unwrap().contains(hash));
/// assert_eq!(holding.count(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The lowest hash.
    pub first: u64,
    /// The highest hash, not below `first`.
    pub last: u64,
}

impl KeyRange {
    /// The range of partition `index` when `partitions` of them tile the whole space as evenly as
    /// whole numbers allow: sizes differ by at most one hash. `None` if there is no such partition.
    pub fn of_partition(index: u32, partitions: u32) -> Option<Self> {
        if index >= partitions {
            return None;
        }
        // The first hash of a partition is the smallest that `partition_of` puts there.
        let first_of = |index: u32| (u128::from(index) << 64).div_ceil(u128::from(partitions));
        // At most 2^64 - 1 once one is taken off, since `index + 1 <= partitions`.
        Some(Self { first: first_of(index) as u64, last: (first_of(index + 1) - 1) as u64 })
    }

    /// Whether `hash` is within.
    pub const fn contains(self, hash: u64) -> bool {
        self.first <= hash && hash <= self.last
    }
}

impl fmt::Display for KeyRange {
    /// `4000000000000000-7fffffffffffffff`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}", self.first, self.last)
    }
}

/// The index of the one of `partitions` equal ranges that holds `hash`; 0 if there are none.
#[inline]
pub(crate) const fn partition_of(hash: u64, partitions: u32) -> u32 {
    ((hash as u128 * partitions as u128) >> 64) as u32
}

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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn partitions_tile_the_hash_space_exactly_and_evenly() {
        for partitions in (1..=1000).chain([1_000_003, u32::MAX]) {
            let indexes = if partitions <= 1000 { 0..partitions } else { partitions - 10..partitions };
            let mut expected_first = KeyRange::of_partition(indexes.start, partitions).unwrap().first;
            let (mut smallest, mut largest) = (u64::MAX, 0);
            for index in indexes {
                let range = KeyRange::of_partition(index, partitions).unwrap();
                assert_eq!(range.first, expected_first, "a gap or an overlap before {index} of {partitions}");
                assert!(range.first <= range.last);
                smallest = smallest.min(range.last - range.first);
                largest = largest.max(range.last - range.first);
                expected_first = range.last.wrapping_add(1);
            }
            assert_eq!(expected_first, 0, "the last range of {partitions} ends the space");
            assert!(largest - smallest <= 1, "{partitions}");
        }
        assert_eq!(KeyRange::of_partition(0, 1), Some(KeyRange { first: 0, last: u64::MAX }));
        assert_eq!(KeyRange::of_partition(4, 4), None);
        assert_eq!(KeyRange::of_partition(0, 0), None);
    }

    #[test]
    fn the_edges_of_a_range_lie_in_its_partition_and_the_hashes_beside_them_do_not() {
        for partitions in 1..=1000 {
            for index in 0..partitions {
                let range = KeyRange::of_partition(index, partitions).unwrap();
                assert_eq!(partition_of(range.first, partitions), index);
                assert_eq!(partition_of(range.last, partitions), index);
            }
        }
    }

    #[test]
    fn keys_that_look_alike_spread_over_the_partitions() {
        const PARTITIONS: u32 = 64;
        const KEYS: u32 = 64_000;
        let forms: [fn(u32) -> Vec<u8>; 4] = [
            |i| format!("user-{i}").into_bytes(),
            |i| format!("{i:020}").into_bytes(),
            |i| i.to_le_bytes().to_vec(),
            |i| (u64::from(i) << 40).to_be_bytes().to_vec(),
        ];
        for (form, make) in forms.into_iter().enumerate() {
            let mut counts = [0_u32; PARTITIONS as usize];
            for i in 0..KEYS {
                counts[partition_of(key_hash(&make(i)), PARTITIONS) as usize] += 1;
            }
            // 1000 expected; seven standard deviations either side.
            assert!(counts.iter().all(|count| (780..1220).contains(count)), "{form}: {counts:?}");
        }
    }

    #[test]
    fn the_hash_of_a_key_never_changes() {
        assert_eq!([key_hash(b""), key_hash(b"order-7"), key_hash(b"a longer key of 24 bytes")], HASHES);
    }

    const HASHES: [u64; 3] =
        [10_098_387_707_493_291_602, 5_401_794_096_291_649_147, 5_117_642_284_351_160_601];

    proptest! {
        #[test]
        fn every_hash_lies_in_exactly_the_range_of_its_partition(hash: u64, partitions in 1_u32..) {
            let index = partition_of(hash, partitions);
            prop_assert!(KeyRange::of_partition(index, partitions).unwrap().contains(hash));
        }
    }
}
