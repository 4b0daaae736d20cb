//! The loads of ranges of keys over the last ten minutes, for merges.
//!
//! A range keeps its history when its partitions are joined: the loads of the parts add up. A part
//! of a partition that was cut begins without a history, so nothing is joined within ten minutes of
//! its cut.
//!
//! A range that was joined and cut again remembers when it was joined, so that it is not joined
//! again within [`CYCLE`](crate::merge::CYCLE).

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use tidegate_core::Timestamp;

use crate::capacity::Capacity;
use crate::key_range::KeyRange;
use crate::merge::{COOL, MINUTE, merges_a_minute};
use crate::partition_id::PartitionId;
use crate::sketch::WINDOW;
use crate::status::PartitionStatus;
use crate::units::Units;

/// The windows of which the load is kept, so that together they cover [`COOL`].
const WINDOWS: usize = (COOL.as_secs() / WINDOW.as_secs()) as usize;

/// The loads of all tables.
#[derive(Debug, Default)]
pub(crate) struct LoadHistory {
    tables: BTreeMap<(String, String), TableLoads>,
    observed_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct TableLoads {
    /// In the order of the ranges.
    ranges: Vec<RangeLoad>,
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
    loads: VecDeque<[Units; 2]>,
    /// The last merge that made it.
    merged_at: Option<Timestamp>,
    /// The last merge of a range that was cut afterwards.
    rejoined_at: Option<Timestamp>,
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
            (range.offered, range.loads) = (None, VecDeque::new());
        }
        Self { observed_at: None, ..self }
    }

    /// Reads the totals of all partitions at the end of a window.
    pub(crate) fn observe(&mut self, capacity: &Capacity, now: Timestamp) {
        let elapsed = self.observed_at.map(|before| now.saturating_since(before));
        self.observed_at = Some(now);
        let mut tables = core::mem::take(&mut self.tables);
        for (namespace, name) in capacity.tables() {
            let key = (namespace.to_owned(), name.to_owned());
            let mut table = tables.remove(&key).unwrap_or_default();
            if let Ok(statuses) = capacity.partitions(namespace, name, now) {
                let mut before = table.ranges.into_iter().peekable();
                table.ranges = statuses.map(|status| followed(&status, &mut before, elapsed, now)).collect();
            }
            self.tables.insert(key, table);
        }
    }

    /// The ranges of a table in their order.
    pub(crate) fn of_table(&self, namespace: &str, table: &str) -> &[RangeLoad] {
        let key = (namespace.to_owned(), table.to_owned());
        self.tables.get(&key).map_or(&[], |table| &table.ranges)
    }

    /// The merges that a table of so many partitions may have at `now`.
    pub(crate) fn merges_left(
        &self,
        namespace: &str,
        table: &str,
        partitions: usize,
        now: Timestamp,
    ) -> usize {
        let key = (namespace.to_owned(), table.to_owned());
        self.tables.get(&key).map_or(0, |table| table.pace.left_at(partitions, now).0)
    }

    /// Counts a merge of a table that had so many partitions before: `left` and the one behind it
    /// have become `joined`, which may be cut again before the next window ends.
    pub(crate) fn note_merge(
        &mut self,
        (namespace, table): (&str, &str),
        partitions: usize,
        [left, joined]: [PartitionId; 2],
        now: Timestamp,
    ) {
        let table = self.tables.entry((namespace.to_owned(), table.to_owned())).or_default();
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

    /// The reads and writes a second of the last windows, at most those of [`COOL`].
    pub(crate) const fn windows(&self) -> &VecDeque<[Units; 2]> {
        &self.loads
    }

    /// The highest reads and writes a second of the last [`COOL`]; `None` while it has not been
    /// observed for as long.
    pub(crate) fn peaks(&self) -> Option<[Units; 2]> {
        (self.loads.len() == WINDOWS).then(|| {
            self.loads
                .iter()
                .fold([Units::ZERO; 2], |most, load| [most[0].max(load[0]), most[1].max(load[1])])
        })
    }

    /// The reads and writes a second of the last window.
    pub(crate) fn latest(&self) -> [Units; 2] {
        self.loads.back().copied().unwrap_or_default()
    }

    /// The last merge of keys that were cut apart again since.
    pub(crate) const fn rejoined_at(&self) -> Option<Timestamp> {
        self.rejoined_at
    }
}

/// The loads of a partition as it is now. `before` are those of the ranges before, from the first
/// on that reaches into this one.
fn followed(
    status: &PartitionStatus<'_>,
    before: &mut core::iter::Peekable<impl Iterator<Item = RangeLoad>>,
    elapsed: Option<Duration>,
    now: Timestamp,
) -> RangeLoad {
    let (id, range) = (status.id, status.range);
    let offered = [status.read.offered, status.write.offered];
    let fresh = RangeLoad {
        id,
        range,
        offered: Some(offered),
        loads: VecDeque::new(),
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
        let load = [0, 1].map(|index| (offered[index] - before[index]).per_second(elapsed));
        if self.loads.len() == WINDOWS {
            self.loads.pop_front();
        }
        self.loads.push_back(load);
    }

    /// Two neighbours as one range from `now` on. Their loads add up as far as both are known.
    fn joined(self, right: &Self, now: Timestamp) -> Self {
        let add = |left: [Units; 2], right: [Units; 2]| [left[0] + right[0], left[1] + right[1]];
        let windows = self.loads.len().min(right.loads.len());
        let [mine, others] =
            [&self.loads, &right.loads].map(|loads| loads.iter().skip(loads.len() - windows));
        Self {
            offered: self.offered.zip(right.offered).map(|(left, right)| add(left, right)),
            loads: mine.zip(others).map(|(left, right)| add(*left, *right)).collect(),
            range: KeyRange { end: right.range.end, ..self.range },
            merged_at: Some(now),
            rejoined_at: self.rejoined_at.max(right.rejoined_at),
            ..self
        }
    }
}
