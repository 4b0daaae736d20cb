//! The ranges that were one partition before they were cut for a load that grew.
//!
//! A load that has gone back to what it was finds the partitions that bore it then: the pieces of
//! such a range are joined as soon as all of them together have stayed below nine tenths of one
//! partition's ceiling for [`COOL`](crate::control::merge::COOL). Elsewhere neighbours are joined
//! below four tenths of it, which would leave a range of six tenths in pieces for ever.

use std::collections::BTreeMap;

use crate::control::load_history::RangeLoad;
use crate::layout::key_range::KeyRange;
use crate::table::TableId;
use crate::units::Units;

/// The tenths of a ceiling below which the pieces of a range fit one partition.
const FIT_TENTHS: i64 = 9;

/// The ranges of all tables.
#[derive(Debug, Default)]
pub(crate) struct GrownRanges {
    /// Ranges that no longer begin and end with partitions are forgotten, so a table has fewer of
    /// them than partitions.
    tables: BTreeMap<TableId, Vec<KeyRange>>,
}

impl GrownRanges {
    /// Notes a range that is cut for growth.
    pub(crate) fn note(&mut self, table: TableId, range: KeyRange) {
        let ranges = self.tables.entry(table).or_default();
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }

    /// Forgets the ranges that are one partition again, or no longer several whole ones.
    pub(crate) fn follow(&mut self, table: TableId, partitions: &[RangeLoad]) {
        let Some(ranges) = self.tables.get_mut(&table) else { return };
        ranges.retain(|range| pieces(partitions, range).is_some_and(|pieces| pieces.len() > 1));
        if ranges.is_empty() {
            self.tables.remove(&table);
        }
    }

    /// The widest of these ranges that each partition lies in and that fits one partition, by its
    /// ceilings of reads and of writes.
    pub(crate) fn fitting(
        &self,
        table: TableId,
        partitions: &[RangeLoad],
        ceilings: [Units; 2],
    ) -> Vec<Option<KeyRange>> {
        let mut fitting = vec![None; partitions.len()];
        let mut widest: Vec<&KeyRange> = self.tables.get(&table).into_iter().flatten().collect();
        widest.sort_by_key(|range| core::cmp::Reverse(range.width()));
        for range in widest {
            let Some(inside) = pieces(partitions, range) else { continue };
            if fitting[inside.start].is_none() && fits(&partitions[inside.clone()], ceilings) {
                fitting[inside].fill(Some(*range));
            }
        }
        fitting
    }
}

/// The partitions that tile a range.
fn pieces(partitions: &[RangeLoad], range: &KeyRange) -> Option<core::ops::Range<usize>> {
    let begins_at = |first| partitions.binary_search_by_key(&first, |one| one.range().first).ok();
    let end = range.end.map_or(Some(partitions.len()), begins_at)?;
    Some(begins_at(range.first)?..end)
}

/// Whether the loads of these partitions together have stayed below [`FIT_TENTHS`] of one
/// partition's ceiling, in each window over which the load of neighbours counts.
fn fits(pieces: &[RangeLoad], ceilings: [Units; 2]) -> bool {
    let Some(first) = pieces.first().filter(|first| first.peaks().is_some()) else { return false };
    let windows = first.loads().len();
    pieces.iter().all(|one| one.loads().len() == windows)
        && (0..windows).all(|window| {
            [0, 1].into_iter().all(|direction| {
                let load: i64 = pieces.iter().map(|one| one.loads().thousandths(window, direction)).sum();
                load.saturating_mul(10) < ceilings[direction].as_thousandths().saturating_mul(FIT_TENTHS)
            })
        })
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use core::time::Duration;

    use tidegate_core::Timestamp;

    use super::*;
    use crate::access::Access;
    use crate::capacity::Capacity;
    use crate::control::load_history::{LoadHistory, PartitionTotals};
    use crate::control::merge::COOL;
    use crate::table_config::{TableConfig, TableMode};

    const TABLE: (&str, &str) = ("shop", "orders");

    /// A table of eight partitions whose keys are asked for so many writes a second, and its loads
    /// over so many seconds.
    fn loads(writes: u64, seconds: u64) -> (TableId, LoadHistory) {
        let table = TableConfig::new(TABLE.0, TABLE.1, 8, 8000).mode(TableMode::Global).partitions(8);
        let begin = Timestamp::from_secs(1_795_210_800);
        let builder = Capacity::builder().node("a", 20_000).table(table.nodes(["a"]));
        let capacity = builder.build_at(begin).unwrap();
        let mut loads = LoadHistory::default();
        for second in 0..=seconds {
            let now = begin.saturating_add(Duration::from_secs(second));
            if second % 10 == 0 {
                observe(&mut loads, &capacity, now);
            }
            for write in 0..writes {
                let key = (second * writes + write).to_be_bytes();
                let _ = capacity.admit(TABLE.0, &Access::write(TABLE.1, &key, 1), now).unwrap();
            }
        }
        (capacity.table(TABLE.0, TABLE.1).unwrap().id, loads)
    }

    /// Shows the history the partitions of the table as they are.
    fn observe(loads: &mut LoadHistory, capacity: &Capacity, now: Timestamp) {
        let table = capacity.table(TABLE.0, TABLE.1).unwrap();
        let partitions: Vec<_> = capacity.partitions(TABLE.0, TABLE.1, now).unwrap().collect();
        let totals = partitions
            .iter()
            .map(|one| PartitionTotals { id: one.id, offered: [one.read.offered, one.write.offered] });
        let layout = &table.layout;
        loads.look(now).table(table.id, layout.keyspace.by, &layout.plan(), totals);
    }

    fn range(part: u32, of: u32) -> KeyRange {
        KeyRange::from_partition(part, of).unwrap()
    }

    #[test]
    fn the_widest_range_whose_pieces_together_fit_one_partition_is_the_one_that_they_become() {
        let loads_known = loads(80, COOL.as_secs());
        let mut grown = GrownRanges::default();
        for range in [range(0, 1), range(0, 2), range(0, 4), range(2, 4), range(0, 4)] {
            grown.note(loads_known.0, range);
        }
        let of = |(table, loads): &(TableId, LoadHistory), ceiling| {
            grown.fitting(*table, loads.of_table(*table), [Units::whole(1), Units::whole(ceiling)])
        };
        let quarter = [Some(range(2, 4)); 2].into_iter().chain([None; 2]);
        // 80 in all of the keys, with 16 more or fewer by chance.
        assert_eq!(of(&loads_known, 95), [Some(range(0, 1)); 8]);
        let halves: Vec<_> = [Some(range(0, 2)); 4].into_iter().chain(quarter.clone()).collect();
        assert_eq!(of(&loads_known, 60), halves);
        let quarters: Vec<_> =
            [Some(range(0, 4)), Some(range(0, 4)), None, None].into_iter().chain(quarter).collect();
        assert_eq!(of(&loads_known, 35), quarters);
        assert_eq!(of(&loads_known, 10), [None; 8]);
        assert_eq!(of(&loads(80, COOL.as_secs() - 10), 95), [None; 8], "not observed for as long");
    }

    #[test]
    fn a_range_that_is_one_partition_or_no_longer_whole_ones_is_forgotten() {
        let (table, loads) = loads(1, 20);
        let partitions = loads.of_table(table);
        let mut grown = GrownRanges::default();
        for range in [range(0, 8), range(1, 3), range(1, 4)] {
            grown.note(table, range);
        }
        grown.follow(table, partitions);
        assert_eq!(grown.tables.values().flatten().collect::<Vec<_>>(), [&range(1, 4)]);
        grown.follow(table, &partitions[..2]);
        assert!(grown.tables.is_empty());
    }
}
