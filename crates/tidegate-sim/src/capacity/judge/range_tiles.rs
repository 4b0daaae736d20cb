//! I10: ranges tile the keys of a table, each request is decided by the partition that owns its
//! key, and cuts and joins conserve rates and levels.

use tidegate_capacity::{KeyRange, Position};

use super::books::{PartitionBook, TableBook};
use super::level::{FINE, fine, units};
use crate::capacity::trace::PartitionRecord;

/// Nothing is kept: the books have the ranges.
#[derive(Debug)]
pub(super) struct Tiling;

impl Tiling {
    /// Whether the partition that decided owns the key.
    #[inline]
    pub(super) fn decide(partition: &PartitionBook, position: Position) -> Option<String> {
        (!partition.range.contains(position)).then(|| {
            format!("partition {} of {} decided on a key at {position}", partition.id, partition.range)
        })
    }

    /// Whether ranges tile the keys.
    pub(super) fn tile<'a>(ranges: impl IntoIterator<Item = &'a KeyRange>) -> Option<String> {
        let mut expected = Some(Position::FIRST);
        for range in ranges {
            if expected != Some(range.first) {
                return Some(format!("range {range} does not begin where the one before it ends"));
            }
            expected = range.end;
        }
        expected.map(|end| format!("no partition holds the keys from {end} on"))
    }

    /// Whether the partitions from place `from` to `to` were replaced by others with the same rates
    /// and levels together.
    pub(super) fn replace(
        table: &TableBook,
        from: usize,
        to: usize,
        records: &[PartitionRecord],
        now: u64,
    ) -> Option<String> {
        let before = &table.partitions[from..to];
        let base: i64 = before.iter().map(|one| one.base).sum();
        let base_after: i64 = records.iter().map(|one| one.base).sum();
        if base != base_after {
            let (base, base_after) = (units(fine(base)), units(fine(base_after)));
            return Some(format!("shares of {base} units a second became {base_after}"));
        }
        let rate: i64 = before.iter().map(|one| one.levels.rate).sum();
        let rate_after: i64 = records.iter().map(|one| one.rate).sum();
        if rate != rate_after {
            let (rate, rate_after) = (units(fine(rate)), units(fine(rate_after)));
            return Some(format!("rates of {rate} units a second became {rate_after}"));
        }
        let sum =
            |of: fn((i128, i128)) -> i128| -> i128 { before.iter().map(|one| of(one.levels.at(now))).sum() };
        let levels = [
            ("allocation", sum(|(allocation, _)| allocation), records.iter().map(|one| one.allocation).sum()),
            ("burst credit", sum(|(_, burst)| burst), records.iter().map(|one| one.burst).sum::<i64>()),
        ];
        // Begun thousandths of each are rounded down.
        let doubts: i64 = before.iter().map(|one| one.doubt).sum();
        let rounding = FINE * (before.len() + records.len()) as i128 + fine(doubts);
        levels.into_iter().find(|(_, before, after)| (fine(*after) - before).abs() > rounding).map(
            |(what, before, after)| {
                format!("{what} of {} units became {}", units(before), units(fine(after)))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_an_overlap_and_a_missing_end_are_found() {
        let range = |index| KeyRange::of_partition(index, 4).unwrap();
        let all = [0, 1, 2, 3].map(range);
        assert_eq!(Tiling::tile(&all), None);
        assert!(Tiling::tile([&all[0], &all[2], &all[3]]).unwrap().contains("does not begin where"));
        assert!(Tiling::tile([&all[0], &all[1], &all[1], &all[2], &all[3]]).is_some());
        assert!(Tiling::tile(&all[..3]).unwrap().contains("no partition holds"));
        assert!(Tiling::tile([]).is_some());
    }
}
