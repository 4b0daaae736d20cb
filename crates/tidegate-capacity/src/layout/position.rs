//! Positions of keys in the order by which a table is partitioned.

use core::cmp::Ordering;
use core::fmt;

use crate::layout::key_hash::key_hash;

/// How the keys of a table are ordered, and so which of them share a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartitionBy {
    /// By a hash of the key: neighbours in the order are unrelated keys. The default.
    #[default]
    Hash,
    /// By the bytes of the key: a partition holds a run of the sorted keys.
    Range,
    /// By the hash slot of a Redis or Valkey Cluster; keys with the same tag in braces share one.
    Slot,
}

impl PartitionBy {
    /// The position right behind `position`; `None` behind the last one.
    pub fn next(self, position: Position) -> Option<Position> {
        let [first, ..] = position.0;
        match self {
            Self::Hash => first.checked_add(1).map(Position::from_hash),
            Self::Slot => (first + 1 < SLOTS.into()).then(|| Position([first + 1, 0, 0, 0])),
            Self::Range => {
                let mut words = position.0;
                for word in words.iter_mut().rev() {
                    *word = word.wrapping_add(1);
                    if *word != 0 {
                        return Some(Position(words));
                    }
                }
                None
            }
        }
    }
}

/// The number of hash slots of a Redis or Valkey Cluster.
pub const SLOTS: u16 = 16_384;

/// The position of a key: the hash, the slot, or the 32 bytes of the key behind the table's prefix.
///
/// Positions compare as the keys of the table are ordered. Keys that are alike in those 32 bytes
/// have the same position, and no split parts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position([u64; 4]);

impl PartialOrd for Position {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Position {
    /// By the words in turn. Almost always the first one decides.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let ([first, rest @ ..], [other_first, other_rest @ ..]) = (self.0, other.0);
        if first == other_first { rest.cmp(&other_rest) } else { first.cmp(&other_first) }
    }
}

impl Position {
    /// The position before all others.
    pub const FIRST: Self = Self([0; 4]);
    /// The bytes of a key that count.
    pub const BYTES: usize = 32;

    /// The position of a hash, see [`key_hash`].
    pub const fn from_hash(hash: u64) -> Self {
        Self([hash, 0, 0, 0])
    }

    /// The position of a hash slot, 0 to 16 383.
    pub const fn from_slot(slot: u16) -> Self {
        Self([slot as u64, 0, 0, 0])
    }

    /// The position of the bytes of a key; only the first 32 count, and zeros at the end do not.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut padded = [0; Self::BYTES];
        let counted = bytes.len().min(Self::BYTES);
        padded[..counted].copy_from_slice(&bytes[..counted]);
        let (words, _) = padded.as_chunks::<8>();
        let mut position = [0; 4];
        for (word, bytes) in position.iter_mut().zip(words) {
            *word = u64::from_be_bytes(*bytes);
        }
        Self(position)
    }

    /// The hash or the slot; of a table by ranges the first eight bytes.
    pub const fn first_word(self) -> u64 {
        self.0[0]
    }

    /// The 32 bytes of a position by ranges.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// The position of a hash, of a slot, or of eight bytes.
    pub(crate) const fn from_first_word(word: u64) -> Self {
        Self([word, 0, 0, 0])
    }

    pub(crate) const fn from_words(words: [u64; 4]) -> Self {
        Self(words)
    }

    pub(crate) const fn words(self) -> [u64; 4] {
        self.0
    }
}

/// The order of the keys of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyspace {
    pub(crate) by: PartitionBy,
    /// The bytes that all keys begin with; for ranges only.
    pub(crate) prefix: Box<[u8]>,
}

impl Keyspace {
    /// The position of a key. A key without the table's prefix lies at the first or the last
    /// position, as it sorts.
    #[inline]
    pub(crate) fn position(&self, key: &[u8]) -> Position {
        match self.by {
            PartitionBy::Hash => Position::from_hash(key_hash(key)),
            PartitionBy::Slot => Position::from_slot(slot_of(key)),
            PartitionBy::Range => match key.strip_prefix(&*self.prefix) {
                Some(rest) => Position::from_bytes(rest),
                None if *key < *self.prefix => Position::FIRST,
                None => Position([u64::MAX; 4]),
            },
        }
    }

    /// The first position of range `index` when `partitions` of them are as equal as they can be.
    /// The ranges of a table by ranges are equal in the first eight bytes.
    pub(crate) fn even_first(&self, index: u32, partitions: u32) -> Position {
        let space = match self.by {
            PartitionBy::Slot => u128::from(SLOTS),
            PartitionBy::Hash | PartitionBy::Range => 1 << 64,
        };
        // Below the size of the space, since `index` is below `partitions`.
        let first = (u128::from(index) * space).div_ceil(u128::from(partitions)) as u64;
        Position([first, 0, 0, 0])
    }

    /// Whether `position` is one that the table has.
    pub(crate) const fn has(&self, position: Position) -> bool {
        let [first, rest @ ..] = position.0;
        match self.by {
            PartitionBy::Range => true,
            PartitionBy::Hash => matches!(rest, [0, 0, 0]),
            PartitionBy::Slot => matches!(rest, [0, 0, 0]) && first < SLOTS as u64,
        }
    }

    /// The distance of two positions in the first word, at least one; as a weight.
    pub(crate) fn width(&self, first: Position, end: Option<Position>) -> u64 {
        let end = match (end, self.by) {
            (Some(end), _) => end.first_word(),
            (None, PartitionBy::Slot) => SLOTS.into(),
            (None, _) => u64::MAX,
        };
        end.saturating_sub(first.first_word()).max(1)
    }
}

/// The hash slot of a key in a Redis or Valkey Cluster: CRC-16 of the tag between the first `{` and
/// the next `}` if there is one that is not empty, otherwise of the whole key.
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let length = rest.iter().position(|byte| *byte == b'}').filter(|length| *length > 0)?;
        Some(&rest[..length])
    });
    let crc = tag
        .unwrap_or(key)
        .iter()
        .fold(0_u16, |crc, byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) ^ u16::from(*byte))]);
    crc % SLOTS
}

/// CRC-16/XMODEM, by the byte.
const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

impl fmt::Display for Position {
    /// The first word in hexadecimal digits, and the others if they are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = self.0;
        write!(f, "{first:016x}")?;
        if rest == [0; 3] {
            return Ok(());
        }
        rest.iter().try_for_each(|word| write!(f, "{word:016x}"))
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keyspace(by: PartitionBy, prefix: &[u8]) -> Keyspace {
        Keyspace { by, prefix: prefix.into() }
    }

    #[test]
    fn slots_are_those_of_a_redis_cluster() {
        // From `CLUSTER KEYSLOT` of Redis 7.0.
        assert_eq!(slot_of(b"123456789"), 12_739);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"{foo}.bar"), slot_of(b"foo"));
        assert_eq!(slot_of(b"a{foo}{bar}"), slot_of(b"foo"));
        assert_eq!(slot_of(b""), 0);
        // An empty tag, or one that does not end, does not count.
        assert_ne!(slot_of(b"{}foo"), slot_of(b""));
        assert_ne!(slot_of(b"{foo"), slot_of(b"foo"));
    }

    #[test]
    fn the_position_behind_the_last_one_does_not_exist() {
        for (by, last) in [
            (PartitionBy::Hash, Position::from_hash(u64::MAX)),
            (PartitionBy::Slot, Position::from_slot(SLOTS - 1)),
            (PartitionBy::Range, Position::from_bytes(&[0xff; 40])),
        ] {
            assert_eq!(by.next(last), None, "{by:?}");
        }
        let next = PartitionBy::Range.next(Position::from_bytes(b"key")).unwrap();
        assert!(next > Position::from_bytes(b"key") && next < Position::from_bytes(b"key!"));
    }

    #[test]
    fn keys_without_the_prefix_lie_at_the_ends() {
        let range = keyspace(PartitionBy::Range, b"user#");
        assert_eq!(range.position(b"user"), Position::FIRST);
        assert_eq!(range.position(b"order#1"), Position::FIRST);
        assert_eq!(range.position(b"user#"), Position::FIRST);
        assert_eq!(range.position(b"zebra").to_bytes(), [0xff; 32]);
        assert!(range.position(b"user#a") < range.position(b"user#b"));
    }

    proptest! {
        #[test]
        fn positions_by_range_are_ordered_as_their_keys_and_the_next_one_is_right_behind(
            a in prop::collection::vec(any::<u8>(), 0..40),
            b in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let range = keyspace(PartitionBy::Range, b"");
            let (pa, pb) = (range.position(&a), range.position(&b));
            if a <= b { prop_assert!(pa <= pb) } else { prop_assert!(pa >= pb) }
            if let Some(next) = PartitionBy::Range.next(pa) {
                prop_assert!(next > pa && (pb <= pa || pb >= next));
            }
        }
    }
}
