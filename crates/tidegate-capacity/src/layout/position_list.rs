//! A list of positions of one table, as small as their kind allows.

use crate::layout::position::{PartitionBy, Position};

/// Positions of keys of one table: 8 bytes each for hashes and slots, 32 by ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionList(List);

#[derive(Clone, Debug, PartialEq, Eq)]
enum List {
    /// Hashes or slots, whose other words are zero.
    Words(Vec<u64>),
    /// Bytes of keys.
    Ranges(Vec<Position>),
}

impl PositionList {
    /// An empty list of positions of a table that is partitioned like this, with room for so many.
    pub fn with_capacity(by: PartitionBy, positions: usize) -> Self {
        Self(match by {
            PartitionBy::Hash | PartitionBy::Slot => List::Words(Vec::with_capacity(positions)),
            PartitionBy::Range => List::Ranges(Vec::with_capacity(positions)),
        })
    }

    /// The number of positions.
    #[inline]
    pub const fn len(&self) -> usize {
        match &self.0 {
            List::Words(words) => words.len(),
            List::Ranges(positions) => positions.len(),
        }
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position at this place of the list; `None` behind the last one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Position> {
        match &self.0 {
            List::Words(words) => words.get(index).copied().map(Position::from_first_word),
            List::Ranges(positions) => positions.get(index).copied(),
        }
    }

    /// All positions in their order in the list.
    pub fn iter(&self) -> impl Iterator<Item = Position> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The number of positions before `at`, if they are sorted.
    pub fn count_before(&self, at: Position) -> usize {
        self.count_while(|position| position < at)
    }

    /// The number of positions before `at` and at it, if they are sorted.
    pub fn count_up_to(&self, at: Position) -> usize {
        self.count_while(|position| position <= at)
    }

    fn count_while(&self, is_before: impl Fn(Position) -> bool) -> usize {
        match &self.0 {
            List::Words(words) => words.partition_point(|word| is_before(Position::from_first_word(*word))),
            List::Ranges(positions) => positions.partition_point(|position| is_before(*position)),
        }
    }

    /// The first place with this position.
    #[inline]
    pub(crate) fn find(&self, position: Position) -> Option<usize> {
        match &self.0 {
            List::Words(words) => words.iter().position(|word| *word == position.first_word()),
            List::Ranges(positions) => positions.iter().position(|known| *known == position),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, position: Position) {
        match &mut self.0 {
            List::Words(words) => words.push(position.first_word()),
            List::Ranges(positions) => positions.push(position),
        }
    }

    /// Replaces the position at a place that the list has.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, position: Position) {
        match &mut self.0 {
            List::Words(words) => words[index] = position.first_word(),
            List::Ranges(positions) => positions[index] = position,
        }
    }

    pub(crate) fn sort(&mut self) {
        match &mut self.0 {
            List::Words(words) => words.sort_unstable(),
            List::Ranges(positions) => positions.sort_unstable(),
        }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn lists_of_words_and_of_ranges_answer_alike() {
        for by in [PartitionBy::Hash, PartitionBy::Slot, PartitionBy::Range] {
            let mut list = PositionList::with_capacity(by, 4);
            assert!(list.is_empty() && list.get(0).is_none());
            for word in [9, 3, 7, 3] {
                list.push(Position::from_hash(word));
            }
            assert_eq!(
                (list.find(Position::from_hash(3)), list.find(Position::from_hash(4))),
                (Some(1), None)
            );
            list.set(0, Position::from_hash(5));
            list.sort();
            assert_eq!(list.iter().map(Position::first_word).collect::<Vec<_>>(), [3, 3, 5, 7]);
            assert_eq!(list.get(4), None);
            let counts = |word| {
                let at = Position::from_hash(word);
                [list.count_before(at), list.count_up_to(at)]
            };
            assert_eq!([counts(3), counts(4), counts(7), counts(8)], [[0, 2], [2, 2], [3, 4], [4, 4]]);
        }
    }

    #[test]
    fn positions_by_ranges_are_kept_whole() {
        let mut list = PositionList::with_capacity(PartitionBy::Range, 1);
        let position = Position::from_bytes(b"eight by and more");
        list.push(position);
        assert_eq!(list.get(0), Some(position));
        assert_eq!(list.find(Position::from_bytes(b"eight by")), None);
    }
}
