//! The load of each partition as the control loops observe it.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_core::{AccessOperation, Timestamp};

use crate::capacity::{Capacity, name_hash};
use crate::control::sketch::KeySample;
use crate::control::split::{SplitVerdict, WINDOWS_MAX};
use crate::layout::LayoutPlan;
use crate::layout::partition_id::PartitionId;
use crate::meter::Meter;
use crate::status::PartitionStatus;
use crate::table::{Table, TableId};
use crate::units::Units;

pub(super) const OPERATIONS: [AccessOperation; 2] = [AccessOperation::Read, AccessOperation::Write];

/// A table and its partitions as they were observed last.
#[derive(Debug)]
pub(super) struct TableLoad {
    pub(super) table: Arc<Table>,
    name_hash: u64,
    /// The partitions in the order of their ranges, as of `version` of the layout.
    pub(super) partitions: Vec<PartitionLoad>,
    /// The places of the partitions by their numbers.
    places: Vec<(PartitionId, u32)>,
    version: Option<u32>,
    /// When its partitions were looked at last.
    pub(super) looked_at: Timestamp,
    /// The refusals that the table had counted at the last look.
    pub(super) refused: [u64; 2],
    /// The directions of partitions whose keys are sampled.
    pub(super) sketches: usize,
    /// The totals at the last decision on boosts; empty for a table that has none.
    pub(super) boosted: BTreeMap<PartitionId, [Totals; 2]>,
}

/// A partition as it was observed last.
#[derive(Debug)]
pub(super) struct PartitionLoad {
    pub(super) id: PartitionId,
    /// Whether it was made by a cut that parted a hot key from its neighbours.
    pub(super) is_isolated: bool,
    /// Reads and writes.
    pub(super) directions: [Observed; 2],
}

/// A partition that a plan has made since the last tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewPartition {
    pub(super) table: TableId,
    pub(super) id: PartitionId,
    /// Units a second of reads and writes, as the load that was cut predicts.
    pub(super) offered: [Units; 2],
    pub(super) is_isolated: bool,
}

/// One direction of a partition over the last windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// The totals at the last beat; `None` before the first one.
    pub(super) before: Option<Totals>,
    /// Units a second of first attempts, refused ones included, over the last beat.
    pub(super) offered: Units,
    /// Units a second that were admitted.
    pub(super) admitted: Units,
    /// Units that the ceiling had refused at the last look.
    pub(super) at_ceiling: Units,
    /// Units of first attempts at the last look; `None` before the first one.
    pub(super) seen: Option<Units>,
    /// The last windows of keys, while they are sampled.
    pub(super) windows: Option<Box<KeyWindows>>,
    /// The verdict at the end of the last window.
    pub(super) verdict: Option<SplitVerdict>,
    /// The keys are not sampled until then.
    pub(super) rests_until: Option<Timestamp>,
}

/// The last windows of sampled keys, one right behind the other.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyWindows {
    pub(super) samples: VecDeque<KeySample>,
    /// Units that the ceiling had refused when the last window ended.
    pub(super) at_ceiling: Units,
}

impl KeyWindows {
    /// Frees what no later verdict reads: the oldest window, and the counters of the last one.
    pub(super) fn forget_judged(&mut self) {
        if self.samples.len() == WINDOWS_MAX {
            self.samples.pop_front();
        }
        if let Some(judged) = self.samples.back_mut() {
            judged.heavy = Vec::new();
        }
    }
}

/// A partition that was moved lately, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct MovedPartition {
    pub(super) table: TableId,
    pub(super) partition: PartitionId,
    pub(super) moved_at: Timestamp,
}

/// Sums since a partition was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) offered: Units,
    admitted: Units,
    throttled: Units,
}

impl Totals {
    pub(super) fn from_meter(meter: &Meter) -> Self {
        let [offered, throttled] = [meter.offered, meter.throttled].map(Units::from_rate);
        Self { offered, admitted: Units::from_thousandths(meter.admitted), throttled }
    }

    /// Units a second of first attempts, of admitted ones and of refused ones since `before`.
    /// Totals that fell are those of a partition that gave units back.
    pub(super) fn since(self, before: Self, elapsed: Duration) -> [Units; 3] {
        let rate = |now: Units, before: Units| (now - before).per_second(elapsed);
        [
            rate(self.offered, before.offered),
            rate(self.admitted, before.admitted),
            rate(self.throttled, before.throttled),
        ]
    }
}

impl PartitionLoad {
    fn new(id: PartitionId, new: Option<&NewPartition>) -> Self {
        let offered = new.map_or([Units::ZERO; 2], |new| new.offered);
        let directions = offered.map(|offered| Observed { offered, ..Observed::default() });
        Self { id, is_isolated: new.is_some_and(|new| new.is_isolated), directions }
    }
}

impl TableLoad {
    pub(super) fn new(table: Arc<Table>) -> Self {
        let name_hash = name_hash(&table.namespace, &table.name);
        Self {
            table,
            name_hash,
            partitions: Vec::new(),
            places: Vec::new(),
            version: None,
            looked_at: Timestamp::from_nanos(0),
            refused: [0; 2],
            sketches: 0,
            boosted: BTreeMap::new(),
        }
    }

    pub(super) fn is_named(&self, (namespace, name): (&str, &str)) -> bool {
        *self.table.name == *name && *self.table.namespace == *namespace
    }

    /// The table of this name among all.
    pub(super) fn find<'a>(tables: &'a [Self], name: (&str, &str)) -> Option<&'a Self> {
        let hash = name_hash(name.0, name.1);
        tables.iter().find(|load| load.name_hash == hash && load.is_named(name))
    }

    /// Brings the partitions into the order of the layout after cuts and joins; those that are new
    /// begin with the load that is predicted of them, if one is.
    pub(super) fn follow(&mut self, plan: &LayoutPlan, new: &[NewPartition]) {
        if self.version == Some(plan.version()) {
            return;
        }
        let mut before: BTreeMap<PartitionId, PartitionLoad> =
            core::mem::take(&mut self.partitions).into_iter().map(|one| (one.id, one)).collect();
        let ids = self.table.layout.map(plan, |state| state.id);
        let known = |id: PartitionId| {
            before.remove(&id).unwrap_or_else(|| {
                let new = new.iter().find(|one| (one.table, one.id) == (self.table.id, id));
                PartitionLoad::new(id, new)
            })
        };
        self.partitions = ids.iter().copied().map(known).collect();
        self.places = ids.into_iter().zip(0..).collect();
        self.places.sort_unstable();
        self.version = Some(plan.version());
    }

    /// Counts one sketch less, if it was counted: 1, or 0.
    pub(super) const fn end_sketch(&mut self) -> usize {
        // Those of a new partition are counted at the next look.
        let is_counted = self.sketches > 0;
        self.sketches -= is_counted as usize;
        is_counted as usize
    }

    /// Whether its partitions are those of `plan`, in its order.
    pub(super) fn follows(&self, plan: &LayoutPlan) -> bool {
        self.version == Some(plan.version())
    }

    /// The partition with this number.
    pub(super) fn partition(&self, id: PartitionId) -> Option<&PartitionLoad> {
        let found = self.places.binary_search_by_key(&id, |(known, _)| *known).ok()?;
        self.partitions.get(self.places[found].1 as usize)
    }
}

pub(super) fn statuses<'a>(
    capacity: &'a Capacity,
    namespace: &str,
    table: &str,
    now: Timestamp,
) -> Vec<PartitionStatus<'a>> {
    capacity.partitions(namespace, table, now).map(Iterator::collect).unwrap_or_default()
}
