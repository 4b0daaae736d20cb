//! The keys of a table, and where each lies in the order of its partitions.

use tidegate_capacity::{Position, key_hash};

/// The bytes of a key.
const KEY_BYTES: usize = 12;

/// Bits of the buckets into which the order of the keys is cut for heat maps.
const BUCKET_BITS: u32 = 6;
/// The number of such buckets.
pub(crate) const BUCKETS: usize = 1 << BUCKET_BITS;

/// The keys of a table; the first is the hottest under Zipf's law.
#[derive(Debug)]
pub(crate) struct KeySet {
    bytes: Vec<[u8; KEY_BYTES]>,
    /// The first word of each key's position.
    words: Vec<u64>,
    /// The keys in the order of their positions.
    sorted: Vec<u32>,
    partitions: u32,
    is_ordered: bool,
}

impl KeySet {
    /// `count` keys with names drawn from `salt`; if `shares_top_keys`, names such that the first
    /// and the third key share one of `partitions` partitions and the second does not.
    pub(crate) fn new(
        count: u32,
        partitions: u32,
        is_ordered: bool,
        shares_top_keys: bool,
        salt: u64,
    ) -> Self {
        let index = |word| partition_of(word, partitions);
        let is_as_wanted = |salt: u64| {
            let [first, second, third] = [0, 1, 2].map(|rank| index(key_hash(&hashed_key(salt, rank))));
            first == third && first != second
        };
        let mut salt = salt;
        // One salt of about `partitions` is as wanted; of one partition none is.
        while shares_top_keys && !is_ordered && partitions > 1 && count > 2 && !is_as_wanted(salt) {
            salt = salt.wrapping_add(1);
        }
        let bytes: Vec<[u8; KEY_BYTES]> = (0..count)
            .map(|rank| if is_ordered { ordered_key(place(rank, count)) } else { hashed_key(salt, rank) })
            .collect();
        let words: Vec<u64> = bytes
            .iter()
            .zip(0..)
            .map(|(key, rank)| if is_ordered { place(rank, count) } else { key_hash(key) })
            .collect();
        let mut sorted: Vec<u32> = (0..count).collect();
        sorted.sort_by_key(|key| words[*key as usize]);
        Self { bytes, words, sorted, partitions, is_ordered }
    }

    pub(crate) fn count(&self) -> u32 {
        self.bytes.len() as u32
    }

    pub(crate) fn key(&self, index: u32) -> &[u8; KEY_BYTES] {
        &self.bytes[index as usize]
    }

    pub(crate) fn word(&self, index: u32) -> u64 {
        self.words[index as usize]
    }

    /// The position of a key with this first word.
    pub(crate) fn position(&self, word: u64) -> Position {
        if self.is_ordered { Position::from_bytes(&word.to_be_bytes()) } else { Position::from_hash(word) }
    }

    /// The keys of a configured partition, in their order.
    pub(crate) fn of_partition(&self, partition: u32) -> &[u32] {
        let from = |index: u32| {
            self.sorted
                .partition_point(|key| partition_of(self.words[*key as usize], self.partitions) < index)
        };
        &self.sorted[from(partition)..from(partition + 1)]
    }
}

/// The index of the range that holds `word`, the first word of a key's position, when the order of
/// keys is cut into `partitions` equal ranges.
pub fn partition_of(word: u64, partitions: u32) -> u32 {
    ((u128::from(word) * u128::from(partitions)) >> 64) as u32
}

/// The bucket of a heat map that holds `word`.
pub(crate) fn bucket_of(word: u64) -> usize {
    (word >> (u64::BITS - BUCKET_BITS)) as usize
}

/// The key at a place in the order of the keys.
pub(crate) fn ordered_key(word: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&word.to_be_bytes());
    key
}

fn hashed_key(salt: u64, rank: u32) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&salt.to_be_bytes());
    key[8..].copy_from_slice(&rank.to_be_bytes());
    key
}

/// The place of a rank among evenly spread keys.
fn place(rank: u32, count: u32) -> u64 {
    // Below 2^64, since the rank is below the count.
    ((u128::from(rank) << 64) / u128::from(count)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_keys_share_a_partition_where_they_must() {
        for salt in 0..20 {
            let keys = KeySet::new(100, 16, false, true, salt);
            let [first, second, third] = [0, 1, 2].map(|rank| partition_of(keys.word(rank), 16));
            assert!(first == third && first != second, "{salt}");
        }
    }

    #[test]
    fn partitions_have_all_keys_once_and_each_its_own() {
        for is_ordered in [false, true] {
            let keys = KeySet::new(1000, 7, is_ordered, false, 3);
            let mut seen = Vec::new();
            for partition in 0..7 {
                for key in keys.of_partition(partition) {
                    assert_eq!(partition_of(keys.word(*key), 7), partition);
                    seen.push(*key);
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        }
    }
}
