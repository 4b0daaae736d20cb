//! The loads of ranges of keys over the last ten minutes, for merges.
//!
//! A range keeps its history when its partitions are joined: the loads of the parts add up. A part
//! of a partition that was cut begins without a history, so nothing is joined within ten minutes of
//! its cut.
//!
//! A range that was joined and cut again remembers when it was joined, so that it is not joined
//! again within [`CYCLE`](crate::control::merge::CYCLE).

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::Timestamp;

use crate::control::merge::{MINUTE, merges_a_minute};
use crate::control::recent_loads::RecentLoads;
use crate::layout::LayoutPlan;
use crate::layout::key_range::KeyRange;
use crate::layout::partition_id::PartitionId;
use crate::layout::position::PartitionBy;
use crate::table::TableId;
use crate::units::Units;

/// The loads of all tables.
#[derive(Debug, Default)]
pub(crate) struct LoadHistory {
    tables: BTreeMap<TableId, TableLoads>,
    observed_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct TableLoads {
    /// In the order of the ranges.
    ranges: Vec<RangeLoad>,
    /// The version of the layout that has these ranges; `None` after a merge.
    version: Option<u32>,
    pace: MergePace,
}

/// The loads of a partition and of those of which it was made.
#[derive(Clone, Debug)]
pub(crate) struct RangeLoad {
    id: PartitionId,
    range: KeyRange,
    /// Units of reads and of writes that first attempts asked for since the partition was made;
    /// `None` where it has to be observed anew.
    offered: Option<[Units; 2]>,
    /// Units a second of the last windows.
    loads: RecentLoads,
    /// The last merge that made it.
    merged_at: Option<Timestamp>,
    /// The last merge of a range that was cut afterwards.
    rejoined_at: Option<Timestamp>,
}

/// The totals of a partition: units of reads and of writes that first attempts asked for since it
/// was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionTotals {
    pub(crate) id: PartitionId,
    pub(crate) offered: [Units; 2],
}

/// A look at the history at the end of a window: each table is followed in turn.
#[derive(Debug)]
pub(crate) struct HistoryLook<'a> {
    before: BTreeMap<TableId, TableLoads>,
    history: &'a mut LoadHistory,
    elapsed: Option<Duration>,
    now: Timestamp,
}

/// The merges of a table. There is a minute between a batch and the next one, so no minute has
/// merges of two of them.
#[derive(Clone, Copy, Debug, Default)]
struct MergePace {
    /// The last merge.
    merged_at: Option<Timestamp>,
    /// The merges that its batch has left.
    left: usize,
    /// The part of a merge that the batches before left, in hundredths.
    carried: usize,
}

impl LoadHistory {
    /// Forgets the loads, after a step back of the clock or a long pause. The times of merges are
    /// kept.
    pub(crate) fn forget_loads(mut self) -> Self {
        for range in self.tables.values_mut().flat_map(|table| &mut table.ranges) {
            (range.offered, range.loads) = (None, RecentLoads::default());
        }
        Self { observed_at: None, ..self }
    }

    /// Begins the look at the end of a window. Tables that are not followed are forgotten.
    pub(crate) fn look(&mut self, now: Timestamp) -> HistoryLook<'_> {
        let elapsed = self.observed_at.map(|before| now.saturating_since(before));
        self.observed_at = Some(now);
        HistoryLook { before: core::mem::take(&mut self.tables), history: self, elapsed, now }
    }

    /// The ranges of a table in their order.
    pub(crate) fn of_table(&self, table: TableId) -> &[RangeLoad] {
        self.tables.get(&table).map_or(&[], |table| &table.ranges)
    }

    /// The merges that a table of so many partitions may have at `now`.
    pub(crate) fn merges_left(&self, table: TableId, partitions: usize, now: Timestamp) -> usize {
        self.tables.get(&table).map_or(0, |table| table.pace.left_at(partitions, now).0)
    }

    /// Counts a merge of a table that had so many partitions before: `left` and the one behind it
    /// have become `joined`, which may be cut again before the next window ends.
    pub(crate) fn note_merge(
        &mut self,
        table: TableId,
        partitions: usize,
        [left, joined]: [PartitionId; 2],
        now: Timestamp,
    ) {
        let table = self.tables.entry(table).or_default();
        table.version = None;
        let (merges_left, carried) = table.pace.left_at(partitions, now);
        table.pace = MergePace { merged_at: Some(now), left: merges_left.saturating_sub(1), carried };
        let Some(index) = table.ranges.iter().position(|range| range.id == left) else { return };
        if index + 1 < table.ranges.len() {
            let right = table.ranges.remove(index + 1);
            let both = table.ranges[index].clone().joined(&right, now);
            table.ranges[index] = RangeLoad { id: joined, ..both };
        }
    }
}

impl HistoryLook<'_> {
    /// Keeps the history of a table whose totals are not known now. Its next window is left out.
    pub(crate) fn keep(&mut self, id: TableId) {
        let Some(mut table) = self.before.remove(&id) else { return };
        for range in &mut table.ranges {
            range.offered = None;
        }
        self.history.tables.insert(id, table);
    }

    /// Takes the totals of the partitions of a table, which are those of `plan` in its order.
    pub(crate) fn table(
        &mut self,
        id: TableId,
        by: PartitionBy,
        plan: &LayoutPlan,
        totals: impl ExactSizeIterator<Item = PartitionTotals>,
    ) {
        let (elapsed, now) = (self.elapsed, self.now);
        let mut table = self.before.remove(&id).unwrap_or_default();
        if table.version == Some(plan.version()) && table.ranges.len() == totals.len() {
            for (range, totals) in table.ranges.iter_mut().zip(totals) {
                range.count(totals.offered, elapsed);
            }
        } else {
            let mut before = table.ranges.into_iter().peekable();
            let follow = |(index, totals)| {
                let range: KeyRange = plan.range(by, index);
                followed(totals, range, &mut before, elapsed, now)
            };
            table.ranges = totals.enumerate().map(follow).collect();
            table.version = Some(plan.version());
        }
        self.history.tables.insert(id, table);
    }
}

impl MergePace {
    /// The merges left at `now`, and the hundredths that are carried on.
    fn left_at(self, partitions: usize, now: Timestamp) -> (usize, usize) {
        match self.merged_at {
            Some(merged_at) if now >= merged_at && now.saturating_since(merged_at) < MINUTE => {
                (self.left, self.carried)
            }
            _ => {
                let hundredths = merges_a_minute(partitions) + self.carried;
                (hundredths / 100, hundredths % 100)
            }
        }
    }
}

impl RangeLoad {
    pub(crate) const fn id(&self) -> PartitionId {
        self.id
    }

    pub(crate) const fn range(&self) -> KeyRange {
        self.range
    }

    /// The reads and writes a second of the last windows.
    pub(crate) const fn loads(&self) -> &RecentLoads {
        &self.loads
    }

    /// The highest reads and writes a second of the last ten minutes; `None` while it has not been
    /// observed for as long.
    pub(crate) fn peaks(&self) -> Option<[Units; 2]> {
        self.loads.peaks()
    }

    /// The last merge of keys that were cut apart again since.
    pub(crate) const fn rejoined_at(&self) -> Option<Timestamp> {
        self.rejoined_at
    }
}

/// The loads of a partition as it is now. `before` are those of the ranges before, from the first
/// on that reaches into this one.
fn followed(
    PartitionTotals { id, offered }: PartitionTotals,
    range: KeyRange,
    before: &mut core::iter::Peekable<impl Iterator<Item = RangeLoad>>,
    elapsed: Option<Duration>,
    now: Timestamp,
) -> RangeLoad {
    let fresh = RangeLoad {
        id,
        range,
        offered: Some(offered),
        loads: RecentLoads::default(),
        merged_at: None,
        rejoined_at: None,
    };
    let ends_within = |one: &RangeLoad| match (one.range.end, range.end) {
        (Some(of_one), Some(of_this)) => of_one <= of_this,
        (None, Some(_)) => false,
        (_, None) => true,
    };
    let mut parts = Vec::new();
    while let Some(one) = before.next_if(ends_within) {
        parts.push(one);
    }
    // The range before that goes on behind this one.
    let reaching = before.peek().filter(|one| one.range.first < range.end.unwrap_or(one.range.first));
    let last_merge =
        parts.iter().chain(reaching).map(|one| one.rejoined_at.max(one.merged_at)).max().flatten();
    match &mut parts[..] {
        [one] if one.id == id => {
            let mut one = parts.remove(0);
            one.count(offered, elapsed);
            one
        }
        [first, .., last] if first.range.first == range.first && last.range.end == range.end => {
            let joined = parts.into_iter().reduce(|left, right| left.joined(&right, now));
            let mut joined = RangeLoad { id, range, ..joined.expect("at least two") };
            joined.count(offered, elapsed);
            joined
        }
        // Cut, or changed more than once.
        _ => RangeLoad { rejoined_at: last_merge, ..fresh },
    }
}

impl RangeLoad {
    /// Adds the load of a window, which ends with these totals.
    fn count(&mut self, offered: [Units; 2], elapsed: Option<Duration>) {
        let before = self.offered.replace(offered);
        let (Some(before), Some(elapsed)) = (before, elapsed) else { return };
        // Totals that fell are those of units given back.
        self.loads.push([0, 1].map(|index| (offered[index] - before[index]).per_second(elapsed)));
    }

    /// Two neighbours as one range from `now` on. Their loads add up as far as both are known.
    fn joined(self, right: &Self, now: Timestamp) -> Self {
        let add = |left: [Units; 2], right: [Units; 2]| [left[0] + right[0], left[1] + right[1]];
        Self {
            offered: self.offered.zip(right.offered).map(|(left, right)| add(left, right)),
            loads: self.loads.joined(&right.loads),
            range: KeyRange { end: right.range.end, ..self.range },
            merged_at: Some(now),
            rejoined_at: self.rejoined_at.max(right.rejoined_at),
            ..self
        }
    }
}
