//! The partitions of a table in the order of their keys, and how they are cut and joined.
//!
//! An access locks the partition that owns its position and nothing else. Changes come one at a
//! time, under the lock of the plan, and hold the locks of the partitions that they change, the
//! left one first. A partition knows its range: an access that was led to a partition that no
//! longer owns its position looks it up in the plan.
//!
//! The ranges tile the keys by construction: a range ends where the next one begins.

pub(crate) mod grown_ranges;
pub(crate) mod key_hash;
pub mod key_range;
pub(crate) mod members;
pub(crate) mod partition;
pub(crate) mod partition_id;
pub mod position;
pub mod position_list;
pub(crate) mod routes;

use std::sync::{OnceLock, PoisonError};

use tidegate_core::Timestamp;

use crate::layout::key_range::KeyRange;
use crate::layout::members::Members;
use crate::layout::partition::{Directions, Partition, PartitionState};
use crate::layout::partition_id::PartitionId;
use crate::layout::position::{Keyspace, PartitionBy, Position};
use crate::layout::routes::Routes;
use crate::levels::Share;
use crate::sync::{Mutex, MutexGuard};
use crate::table_config::{TableConfig, TableNumbers};

/// Chunks of 1, 2, 4 up to 65 536 slots.
const CHUNKS: usize = 17;

/// The partitions of a table.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) keyspace: Keyspace,
    routes: Routes,
    chunks: [OnceLock<Box<[Partition]>>; CHUNKS],
    // A panic leaves a valid plan: each change is whole.
    plan: Mutex<LayoutPlan>,
}

/// The order of the partitions. Its lock is held while they change.
#[derive(Debug)]
pub(crate) struct LayoutPlan {
    /// The configuration in force. Its partitions may have been split and merged since.
    pub(crate) config: TableConfig,
    pub(crate) numbers: TableNumbers,
    /// The first position and the slot of each partition, ascending from [`Position::FIRST`].
    order: Vec<(Position, u32)>,
    /// Slots that merges have left, to be used again.
    free: Vec<u32>,
    next_id: u32,
}

impl Layout {
    /// A layout of these partitions in order, each with its first position.
    pub(crate) fn new(
        config: TableConfig,
        numbers: TableNumbers,
        parts: Vec<(Position, Members, Directions)>,
    ) -> Self {
        let keyspace = Keyspace { by: config.partition_by, prefix: config.key_prefix.as_slice().into() };
        let order: Vec<(Position, u32)> = parts.iter().map(|(first, ..)| *first).zip(0..).collect();
        debug_assert!(order[0].0 == Position::FIRST && order.is_sorted());
        // At most PARTITIONS_MAX.
        let next_id = order.len() as u32;
        let plan = LayoutPlan { config, numbers, order, free: Vec::new(), next_id };
        let layout = Self {
            routes: Routes::new(keyspace.by, &plan.order),
            keyspace,
            chunks: [const { OnceLock::new() }; CHUNKS],
            plan: Mutex::new(plan),
        };
        {
            let plan = layout.plan();
            for (index, (_, members, directions)) in parts.into_iter().enumerate() {
                let id = PartitionId(index as u32);
                let range = plan.range(layout.keyspace.by, index);
                let state = PartitionState::new(id, range, members, numbers, directions);
                layout.fill(index as u32, state);
            }
        }
        layout
    }

    pub(crate) fn plan(&self) -> MutexGuard<'_, LayoutPlan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The partition that owns `position`, locked.
    #[inline]
    pub(crate) fn owner(&self, position: Position) -> MutexGuard<'_, PartitionState> {
        let state = self.slot(self.routes.find(position)).lock();
        if state.owns(position) {
            return state;
        }
        drop(state);
        self.owner_by_plan(position)
    }

    /// [`Layout::owner`] when the routes were just being changed.
    #[cold]
    fn owner_by_plan(&self, position: Position) -> MutexGuard<'_, PartitionState> {
        let plan = self.plan();
        self.slot(plan.order[plan.find(position)].1).lock()
    }

    #[inline]
    fn slot(&self, slot: u32) -> &Partition {
        let chunk = (slot + 1).ilog2();
        let chunk_slots = self.chunks[chunk as usize].get().expect("a route leads to a slot that is filled");
        &chunk_slots[(slot + 1 - (1 << chunk)) as usize]
    }

    fn fill(&self, slot: u32, state: PartitionState) {
        let chunk = (slot + 1).ilog2();
        self.chunks[chunk as usize]
            .get_or_init(|| (0..1_u32 << chunk).map(|_| Partition::unused(state.numbers)).collect());
        *self.slot(slot).lock() = state;
    }

    /// The partition at `index` of the plan, locked.
    pub(crate) fn lock(&self, plan: &LayoutPlan, index: usize) -> MutexGuard<'_, PartitionState> {
        self.slot(plan.order[index].1).lock()
    }

    /// Calls `each` with the partitions in the order of their ranges, each of them locked for the
    /// call.
    pub(crate) fn map<T>(&self, plan: &LayoutPlan, each: impl Fn(&PartitionState) -> T) -> Vec<T> {
        (0..plan.len()).map(|index| each(&self.lock(plan, index))).collect()
    }

    /// Cuts a partition before `at`, which lies in it and is not its first position. The left part
    /// gets these shares of reads and writes. Both parts are new partitions on the same nodes.
    pub(crate) fn split(
        &self,
        plan: &mut LayoutPlan,
        index: usize,
        at: Position,
        shares: [Share; 2],
        now: Timestamp,
    ) -> [PartitionId; 2] {
        let [read, write] = shares;
        let mut parent = self.lock(plan, index);
        debug_assert!(parent.owns(at) && parent.range.first != at);
        let [left_read, right_read] = parent.directions.read.clone().cut(read, now);
        let [left_write, right_write] = parent.directions.write.clone().cut(write, now);
        let ids = [plan.next_id(), plan.next_id()];
        let range = parent.range;
        let right = PartitionState {
            id: ids[1],
            range: KeyRange { first: at, ..range },
            made_at: Some(now),
            directions: Directions { read: right_read, write: right_write },
            sketches: [None, None],
            ..parent.clone()
        };
        // One more than the partitions, where no merge has left a slot.
        let slot = plan.free.pop().unwrap_or(plan.order.len() as u32);
        self.fill(slot, right);
        parent.id = ids[0];
        parent.range.end = Some(at);
        parent.made_at = Some(now);
        parent.sketches = [None, None];
        parent.directions = Directions { read: left_read, write: left_write };
        plan.order.insert(index + 1, (at, slot));
        self.routes.set(&plan.order);
        ids
    }

    /// Joins a partition and the one behind it. The new partition lies on the nodes of the left.
    pub(crate) fn merge(&self, plan: &mut LayoutPlan, index: usize, now: Timestamp) -> PartitionId {
        let id = plan.next_id();
        let mut left = self.lock(plan, index);
        let mut right = self.lock(plan, index + 1);
        let (mine, other) = (left.directions.clone(), right.directions.clone());
        left.directions = Directions {
            read: mine.read.joined(other.read, now),
            write: mine.write.joined(other.write, now),
        };
        left.id = id;
        left.range.end = right.range.end;
        left.made_at = left.made_at.max(right.made_at);
        left.sketches = [None, None];
        left.gated_until = left.gated_until.max(right.gated_until);
        right.is_live = false;
        let (_, slot) = plan.order.remove(index + 1);
        plan.free.push(slot);
        self.routes.set(&plan.order);
        id
    }
}

impl LayoutPlan {
    const fn next_id(&mut self) -> PartitionId {
        let id = PartitionId(self.next_id);
        // A split every millisecond for 49 days; a table is split every ten seconds at most.
        self.next_id = self.next_id.checked_add(1).expect("fewer than 2^32 splits");
        id
    }

    /// A number that every cut and join changes.
    pub(crate) const fn version(&self) -> u32 {
        self.next_id
    }

    /// Whether a table of this configuration has its keys in the same order.
    pub(crate) fn has_order_of(&self, config: &TableConfig) -> bool {
        self.config.partition_by == config.partition_by && self.config.key_prefix == config.key_prefix
    }

    /// The index of the partition that owns `position`.
    pub(crate) fn find(&self, position: Position) -> usize {
        // At least one, since the first range begins with the first position.
        self.order.partition_point(|(first, _)| *first <= position) - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn range(&self, by: PartitionBy, index: usize) -> KeyRange {
        let end = self.order.get(index + 1).map(|(first, _)| *first);
        KeyRange { by, first: self.order[index].0, end }
    }

    /// The first position of a partition.
    pub(crate) fn first(&self, index: usize) -> Position {
        self.order[index].0
    }
}

#[cfg(test)]
#[cfg(tidegate_loom)]
mod loom;
