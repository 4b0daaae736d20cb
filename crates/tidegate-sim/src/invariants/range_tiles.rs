//! I10: ranges tile the keys of a table, each request is decided by the partition that owns its
//! key, numbers are not used twice, shares add up to the throughput of the table, and cuts and
//! joins conserve rates and levels. I11: the ceiling of a key never decreases because partitions
//! were added.

use tidegate_capacity::view::{DirectionView, PartitionView, TableView};
use tidegate_capacity::{KeyRange, Position, Units};

use super::books::{PartitionBook, TableBook};
use super::level::{FINE, LevelSpan, fine, units};

/// Whether the partition that decided owns the key.
#[inline]
pub(super) fn check_owner(partition: &PartitionBook, position: Position) -> Option<String> {
    (!partition.range.contains(position))
        .then(|| format!("partition {} of {} decided on a key at {position}", partition.id, partition.range))
}

/// Whether ranges tile the keys.
pub(super) fn check_tiles<'a>(ranges: impl IntoIterator<Item = &'a KeyRange>) -> Option<String> {
    let mut expected = Some(Position::FIRST);
    for range in ranges {
        if expected != Some(range.first) {
            return Some(format!("range {range} does not begin where the one before it ends"));
        }
        expected = range.end;
    }
    expected.map(|end| format!("no partition holds the keys from {end} on"))
}

/// Whether the shares of partitions add up to the throughput of the table.
pub(super) fn check_shares(view: &TableView) -> Option<String> {
    (0..2).find_map(|direction| {
        let bases = view.partitions.iter().map(|one| one.directions[direction].base.as_thousandths());
        let sum = Units::from_thousandths(bases.sum());
        let provisioned = view.provisioned[direction];
        (sum != provisioned)
            .then(|| format!("shares of {sum} units a second in a table of {provisioned} a second"))
    })
}

/// Whether partitions were replaced by others with the same rates and levels together. A reload
/// changes rates, and what no longer fits overflows.
pub(super) fn check_replaced(
    before: &[PartitionBook],
    after: &[PartitionView],
    is_reload: bool,
    now: u64,
) -> Option<String> {
    let found = |direction: usize| {
        let views = || after.iter().map(|view| &view.directions[direction]);
        let books = || before.iter().map(|book| &book.directions[direction]);
        if !is_reload {
            let rate: i64 = books().map(|book| book.levels.rate).sum();
            let rate_after: i64 = views().map(|view| view.rate.as_thousandths()).sum();
            if rate != rate_after {
                let (rate, rate_after) = (units(fine(rate)), units(fine(rate_after)));
                return Some(format!("rates of {rate} units a second became {rate_after}"));
            }
        }
        let levels = books().map(|book| book.levels.at(now));
        let sums = levels.fold([LevelSpan::exact(0); 2], |[allocations, bursts], (allocation, burst)| {
            [plus(allocations, allocation), plus(bursts, burst)]
        });
        let sum_of = |of: fn(&DirectionView) -> Units| views().map(|view| of(view).as_thousandths()).sum();
        let shown: [i64; 3] =
            [sum_of(|one| one.allocation), sum_of(|one| one.burst), sum_of(|one| one.overflow)];
        let overflow: i64 = shown[2] - books().map(|book| book.overflow).sum::<i64>();
        // Begun thousandths of each are rounded down.
        let rounding = FINE * (before.len() + after.len()) as i128;
        let differs = |what: &str, by_trace: LevelSpan, shown: i64| {
            (by_trace.distance(fine(shown)) > rounding)
                .then(|| format!("{what} of {by_trace} units became {}", units(fine(shown))))
        };
        if is_reload {
            let all = plus(sums[0], sums[1]);
            return differs("allocations and burst credit", all, shown[0] + shown[1] + overflow);
        }
        differs("allocations", sums[0], shown[0]).or_else(|| differs("burst credit", sums[1], shown[1]))
    };
    (0..2).find_map(found)
}

const fn plus(one: LevelSpan, other: LevelSpan) -> LevelSpan {
    LevelSpan { least: one.least + other.least, most: one.most + other.most }
}

/// I11: whether partitions have at least the ceiling of those that they replace.
pub(super) fn check_ceilings(before: &[PartitionBook], after: &[PartitionView]) -> Option<String> {
    (0..2).find_map(|direction| {
        let ceilings = before.iter().map(|one| one.directions[direction].ceilings[0].rate);
        let before = Units::from_thousandths(ceilings.max()?);
        let lower = after.iter().find(|view| view.directions[direction].ceiling < before)?;
        Some(format!(
            "partition {} has a ceiling of {} units a second where {before} were",
            lower.id, lower.directions[direction].ceiling
        ))
    })
}

/// Whether numbers of new partitions are new, which come after those that were there.
pub(super) fn check_numbers(table: &TableBook, after: &[PartitionView]) -> Option<String> {
    let is_known = |view: &&PartitionView| view.id.0 <= table.highest && table.place_of(view.id).is_none();
    let again = after.iter().find(is_known)?;
    Some(format!("number {} is used for a second partition", again.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_an_overlap_and_a_missing_end_are_found() {
        let range = |index| KeyRange::from_partition(index, 4).unwrap();
        let all = [0, 1, 2, 3].map(range);
        assert_eq!(check_tiles(&all), None);
        assert!(check_tiles([&all[0], &all[2], &all[3]]).unwrap().contains("does not begin where"));
        assert!(check_tiles([&all[0], &all[1], &all[1], &all[2], &all[3]]).is_some());
        assert!(check_tiles(&all[..3]).unwrap().contains("no partition holds"));
        assert!(check_tiles([]).is_some());
    }
}
