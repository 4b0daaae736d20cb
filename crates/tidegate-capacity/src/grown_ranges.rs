//! The ranges that were one partition before they were cut for a load that grew.
//!
//! A load that has gone back to what it was finds the partitions that bore it then: the pieces of
//! such a range are joined as soon as all of them together have stayed below nine tenths of the
//! ceiling of one partition for [`COOL`](crate::merge::COOL). Elsewhere neighbours are joined below
//! four tenths of it, which would leave a range of six tenths in pieces for ever.

use std::collections::BTreeMap;

use crate::key_range::KeyRange;
use crate::load_history::RangeLoad;
use crate::units::Units;

/// The tenths of a ceiling below which the pieces of a range fit one partition.
const FIT_TENTHS: i64 = 9;

/// The ranges of all tables.
#[derive(Debug, Default)]
pub(crate) struct GrownRanges {
    /// By namespace and table. Ranges that no longer begin and end with partitions are forgotten,
    /// so a table has fewer of them than partitions.
    tables: BTreeMap<(String, String), Vec<KeyRange>>,
}

impl GrownRanges {
    /// Notes a range that is cut for growth.
    pub(crate) fn note(&mut self, (namespace, table): (&str, &str), range: KeyRange) {
        let ranges = self.tables.entry((namespace.to_owned(), table.to_owned())).or_default();
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }

    /// Forgets the ranges that are one partition again, or no longer several whole ones.
    pub(crate) fn follow(&mut self, (namespace, table): (&str, &str), partitions: &[RangeLoad]) {
        let key = (namespace.to_owned(), table.to_owned());
        let Some(ranges) = self.tables.get_mut(&key) else { return };
        ranges.retain(|range| pieces(partitions, range).is_some_and(|pieces| pieces.len() > 1));
        if ranges.is_empty() {
            self.tables.remove(&key);
        }
    }

    /// The widest of these ranges that each partition lies in and that fits one partition, by its
    /// ceilings of reads and of writes.
    pub(crate) fn fitting(
        &self,
        (namespace, table): (&str, &str),
        partitions: &[RangeLoad],
        ceilings: [Units; 2],
    ) -> Vec<Option<KeyRange>> {
        let mut fitting = vec![None; partitions.len()];
        let key = (namespace.to_owned(), table.to_owned());
        let mut widest: Vec<&KeyRange> = self.tables.get(&key).into_iter().flatten().collect();
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
    let start = partitions.iter().position(|one| one.range().first == range.first)?;
    let end = start + partitions[start..].iter().position(|one| one.range().end == range.end)?;
    Some(start..end + 1)
}

/// Whether the loads of these partitions together have stayed below [`FIT_TENTHS`] of the ceilings
/// of one, in each window of the time over which the load of neighbours counts.
fn fits(pieces: &[RangeLoad], ceilings: [Units; 2]) -> bool {
    let Some(first) = pieces.first().filter(|first| first.peaks().is_some()) else { return false };
    let windows = first.windows().len();
    pieces.iter().all(|one| one.windows().len() == windows)
        && (0..windows).all(|window| {
            [0, 1].into_iter().all(|direction| {
                let of_each = pieces.iter().map(|one| one.windows()[window][direction]);
                let load = of_each.fold(Units::ZERO, |sum, units| sum + units).as_thousandths();
                load.saturating_mul(10) < ceilings[direction].as_thousandths().saturating_mul(FIT_TENTHS)
            })
        })
}
