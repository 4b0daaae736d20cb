//! Ranges of the positions of keys, and how equal ones tile the hash space.

use core::fmt;

use crate::layout::position::{Keyspace, PartitionBy, Position, SLOTS};

/// The positions from `first` up to and without `end`; without an end all from `first` on.
///
/// ```
/// # use tidegate_capacity::{KeyRange, Position, key_hash};
/// let second = KeyRange::from_partition(1, 4).expect("there are four");
/// assert_eq!(second.to_string(), "4000000000000000-7fffffffffffffff");
/// // The hash decides which partition holds a key.
/// let position = Position::from_hash(key_hash(b"order-7"));
/// let holds = |index| KeyRange::from_partition(index, 4).unwrap().contains(position);
/// assert_eq!((0..4).filter(|index| holds(*index)).count(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The order of the keys.
    pub by: PartitionBy,
    /// The lowest position.
    pub first: Position,
    /// The position behind the highest; `None` at the end of the table.
    pub end: Option<Position>,
}

impl KeyRange {
    /// The range of partition `index` when `partitions` of them tile the hash space as evenly as
    /// whole numbers allow: sizes differ by at most one hash. `None` if there is no such partition.
    pub fn from_partition(index: u32, partitions: u32) -> Option<Self> {
        if index >= partitions {
            return None;
        }
        let hashes = Keyspace::default();
        let end = (index + 1 < partitions).then(|| hashes.even_first(index + 1, partitions));
        Some(Self { by: PartitionBy::Hash, first: hashes.even_first(index, partitions), end })
    }

    /// Whether `position` is within.
    #[inline]
    pub fn contains(self, position: Position) -> bool {
        self.first <= position && self.end.is_none_or(|end| position < end)
    }

    /// The number of hashes or slots in the range; of a table by ranges that of its first eight
    /// bytes.
    pub(crate) const fn width(self) -> u128 {
        let (first, last) = self.words();
        let distance = (last - first) as u128;
        match self.by {
            PartitionBy::Range => distance,
            PartitionBy::Hash | PartitionBy::Slot => distance + 1,
        }
    }

    /// The first positions of all but the first of so many pieces, as equal as they can be; fewer
    /// where the range is too narrow.
    pub(crate) fn even_cuts(self, pieces: u32) -> Vec<Position> {
        let (first, width) = (self.words().0, self.width());
        let pieces = u128::from(pieces).min(width) as u32;
        let cut = |piece: u32| {
            let offset = (u128::from(piece) * width).div_ceil(u128::from(pieces));
            // Below the width.
            Position::from_first_word(first + offset as u64)
        };
        let mut cuts: Vec<Position> = (1..pieces).map(cut).collect();
        cuts.dedup();
        cuts.retain(|at| self.contains(*at) && *at > self.first);
        cuts
    }

    /// Whether any position is within both.
    pub fn overlaps(self, other: Self) -> bool {
        self.end.is_none_or(|end| other.first < end) && other.end.is_none_or(|end| self.first < end)
    }

    /// The first and the last hash or slot; of a table by ranges their first eight bytes.
    pub const fn words(self) -> (u64, u64) {
        let last = match self.end {
            Some(end) if matches!(self.by, PartitionBy::Range) => end.first_word(),
            // The end of a range is never the first position.
            Some(end) => end.first_word() - 1,
            None if matches!(self.by, PartitionBy::Slot) => SLOTS as u64 - 1,
            None => u64::MAX,
        };
        (self.first.first_word(), last)
    }
}

impl fmt::Display for KeyRange {
    /// By hash `4000000000000000-7fffffffffffffff`, by slot `0-8191`, by range `"a"-"m"` with the
    /// end without quotes where there is no end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.words();
        match (self.by, self.end) {
            (PartitionBy::Hash, _) => write!(f, "{first:016x}-{last:016x}"),
            (PartitionBy::Slot, _) => write!(f, "{first}-{last}"),
            (PartitionBy::Range, Some(end)) => write!(f, "\"{}\"-\"{}\"", shown(self.first), shown(end)),
            (PartitionBy::Range, None) => write!(f, "\"{}\"-", shown(self.first)),
        }
    }
}

/// The bytes of a position without the zeros at the end, as a person can read them.
fn shown(position: Position) -> String {
    let bytes = position.to_bytes();
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes[..used].escape_ascii().to_string()
}

/// The index of the one of `partitions` equal ranges that holds `hash`; 0 if there are none.
#[inline]
pub(crate) const fn partition_of(hash: u64, partitions: u32) -> u32 {
    ((hash as u128 * partitions as u128) >> 64) as u32
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::key_hash::key_hash;

    #[test]
    fn partitions_tile_the_hash_space_exactly_and_evenly() {
        for partitions in (1..=1000).chain([1_000_003, u32::MAX]) {
            let indexes = if partitions <= 1000 { 0..partitions } else { partitions - 10..partitions };
            let mut expected_first = KeyRange::from_partition(indexes.start, partitions).unwrap().words().0;
            let (mut smallest, mut largest) = (u64::MAX, 0);
            for index in indexes {
                let (first, last) = KeyRange::from_partition(index, partitions).unwrap().words();
                assert_eq!(first, expected_first, "a gap or an overlap before {index} of {partitions}");
                assert!(first <= last);
                smallest = smallest.min(last - first);
                largest = largest.max(last - first);
                expected_first = last.wrapping_add(1);
            }
            assert_eq!(expected_first, 0, "the last range of {partitions} ends the space");
            assert!(largest - smallest <= 1, "{partitions}");
        }
        assert_eq!(KeyRange::from_partition(0, 1).unwrap().words(), (0, u64::MAX));
        assert_eq!(KeyRange::from_partition(4, 4), None);
        assert_eq!(KeyRange::from_partition(0, 0), None);
    }

    #[test]
    fn even_cuts_make_equal_pieces_and_fewer_where_there_is_no_room() {
        let range = |by, first, end| KeyRange { by, first, end };
        let whole = range(PartitionBy::Hash, Position::FIRST, None);
        assert_eq!(
            whole.even_cuts(4),
            (1..4).map(|index| KeyRange::from_partition(index, 4).unwrap().first).collect::<Vec<_>>()
        );
        let slots = range(PartitionBy::Slot, Position::from_slot(16_380), None);
        assert_eq!(slots.even_cuts(2), [Position::from_slot(16_382)]);
        assert_eq!(slots.even_cuts(9), [16_381, 16_382, 16_383].map(Position::from_slot));
        let one = range(PartitionBy::Hash, Position::from_hash(7), Some(Position::from_hash(8)));
        assert_eq!(one.even_cuts(2), []);
        let keys = range(
            PartitionBy::Range,
            Position::from_bytes(b"user#a-and-more"),
            Some(Position::from_bytes(b"user#b")),
        );
        let cuts = keys.even_cuts(3);
        assert_eq!(cuts.len(), 2);
        assert!(cuts.iter().all(|at| keys.contains(*at)) && cuts.is_sorted());
        let alike = range(
            PartitionBy::Range,
            Position::from_bytes(b"12345678a"),
            Some(Position::from_bytes(b"12345678b")),
        );
        assert_eq!(alike.even_cuts(3), []);
    }

    #[test]
    fn the_edges_of_a_range_lie_in_its_partition_and_the_hashes_beside_them_do_not() {
        for partitions in 1..=1000 {
            for index in 0..partitions {
                let (first, last) = KeyRange::from_partition(index, partitions).unwrap().words();
                assert_eq!(partition_of(first, partitions), index);
                assert_eq!(partition_of(last, partitions), index);
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

    proptest! {
        #[test]
        fn every_hash_lies_in_exactly_the_range_of_its_partition(hash: u64, partitions in 1_u32..) {
            let index = partition_of(hash, partitions);
            prop_assert!(KeyRange::from_partition(index, partitions).unwrap().contains(Position::from_hash(hash)));
        }
    }
}
