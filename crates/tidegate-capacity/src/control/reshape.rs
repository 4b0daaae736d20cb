//! Changes of partitions while accesses are decided: cuts, joins, moves and boosts.
//!
//! Each is decided elsewhere, by an operator or a control loop, and named by the numbers of the
//! partitions, which are never used twice: a change that was decided for a partition that has been
//! split or merged since is an error and changes nothing.

use tidegate_core::{AccessOperation, Timestamp};

use crate::admission::tokens::TokenTerms;
use crate::capacity::Capacity;
use crate::error::{CapacityError, check_load, shown};
use crate::layout::partition_id::PartitionId;
use crate::layout::position::Position;
use crate::layout::{Layout, LayoutPlan};
use crate::levels::Share;
use crate::node::NodeLoad;
use crate::sync::Ordering;
use crate::table::Table;
use crate::table_config::TableConfig;
use crate::units::Units;

/// The parts of reads and writes that the left one of two new partitions gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitShares {
    /// Of the reads.
    pub read: Share,
    /// Of the writes.
    pub write: Share,
}

impl SplitShares {
    /// Halves.
    pub const HALF: Self = Self { read: Share::HALF, write: Share::HALF };
}

impl Capacity {
    /// Places a partition on another node: the replica of its leader moves there.
    ///
    /// Accesses from then on are charged to the new node. Units that are held were taken from the
    /// old one and are given back there. The levels of both nodes stay as they are; so does that of
    /// the partition.
    ///
    /// Fails when there is no such table, partition or node, when the node holds another replica of
    /// the partition, and when it cannot bear the partition's rates beside those it bears already;
    /// then nothing changes.
    pub fn place(
        &self,
        namespace: &str,
        table: &str,
        partition: u32,
        node: &str,
        now: Timestamp,
    ) -> Result<(), CapacityError> {
        let id = PartitionId(partition);
        let from = {
            let layout = &self.table(namespace, table)?.layout;
            let plan = layout.plan();
            layout.lock(&plan, index_of(layout, &plan, id)?).members.leader()
        };
        let from = self.node_name(from).to_owned();
        self.move_replica(namespace, table, id, &from, node, now)
    }

    /// Moves the replica of a partition from one node to another, as [`Capacity::place`] does.
    ///
    /// Fails as [`Capacity::place`] does, and when `from` holds no replica.
    pub fn move_replica(
        &self,
        namespace: &str,
        table: &str,
        partition: PartitionId,
        from: &str,
        to: &str,
        _now: Timestamp,
    ) -> Result<(), CapacityError> {
        let table = self.table(namespace, table)?;
        let mut loads = self.loads();
        let layout = &table.layout;
        let plan = layout.plan();
        let mut state = layout.lock(&plan, index_of(layout, &plan, partition)?);
        let position = |node: &str| {
            self.nodes.iter().position(|known| *known.name == *node).ok_or_else(|| {
                CapacityError::UnknownNode { table: table.name.to_string(), node: shown(node) }
            })
        };
        let [from, to] = [position(from)?, position(to)?];
        let [from_number, to_number] = [from, to].map(|position| self.nodes[position].id.number);
        let members = state.members;
        let Some(member) = members.as_slice().iter().position(|number| *number == from_number) else {
            let (table, node) = (table.name.to_string(), self.nodes[from].name.to_string());
            return Err(CapacityError::NoReplica { table, partition: partition.0, node });
        };
        if from == to {
            return Ok(());
        }
        if members.as_slice().contains(&to_number) {
            let (table, node) = (table.name.to_string(), self.nodes[to].name.to_string());
            return Err(CapacityError::SecondReplica { table, partition: partition.0, node });
        }
        let promised = state.directions.promised()[usize::from(member > 0)];
        let node = &self.nodes[to];
        let load = loads[to].with_replica(promised);
        check_load(&node.name, node.rate() / 1000, node.reserve_percent(), load)?;
        loads[from] = loads[from].without_replica(promised);
        loads[to] = load;
        node.bear(load);
        state.members = members.replaced(from_number, to_number);
        Ok(())
    }

    /// Refuses accesses to a partition until `until`, while it moves. An instant that has passed
    /// ends the move.
    ///
    /// Fails when there is no such table or partition.
    pub fn gate(
        &self,
        namespace: &str,
        table: &str,
        partition: PartitionId,
        until: Timestamp,
    ) -> Result<(), CapacityError> {
        let layout = &self.table(namespace, table)?.layout;
        let plan = layout.plan();
        layout.lock(&plan, index_of(layout, &plan, partition)?).gated_until = Some(until);
        Ok(())
    }

    /// Cuts a partition before position `at`. Its rates and levels are shared out as `shares` say,
    /// and add up exactly; both parts keep its ceiling and its nodes, and have new numbers.
    ///
    /// Fails when there is no such table or partition, when `at` is not within the partition or is
    /// its first position, and when the table has [`TableConfig::PARTITIONS_MAX`] partitions.
    pub fn split(
        &self,
        namespace: &str,
        table: &str,
        partition: PartitionId,
        at: Position,
        shares: SplitShares,
        now: Timestamp,
    ) -> Result<[PartitionId; 2], CapacityError> {
        let table = self.table(namespace, table)?;
        let mut loads = self.loads();
        let mut plan = table.layout.plan();
        let index = cut_index(table, &plan, partition, &[at])?;
        Ok(self.cut(table, &mut plan, &mut loads, index, (at, shares), now))
    }

    /// Cuts a partition before the position `key` and before `behind`, both as [`Capacity::split`]
    /// does, or not at all. The shares are those of the left part, and of the rest those of the
    /// middle part.
    ///
    /// Fails as [`Capacity::split`] does, and when `behind` is not behind `key`.
    pub fn isolate(
        &self,
        namespace: &str,
        table: &str,
        partition: PartitionId,
        [key, behind]: [Position; 2],
        [before, within]: [SplitShares; 2],
        now: Timestamp,
    ) -> Result<[PartitionId; 3], CapacityError> {
        let table = self.table(namespace, table)?;
        let mut loads = self.loads();
        let mut plan = table.layout.plan();
        let index = cut_index(table, &plan, partition, &[key, behind])?;
        let [left, _] = self.cut(table, &mut plan, &mut loads, index, (key, before), now);
        let [middle, right] = self.cut(table, &mut plan, &mut loads, index + 1, (behind, within), now);
        Ok([left, middle, right])
    }

    /// Cuts the partition at `index` where [`cut_index`] allows it.
    fn cut(
        &self,
        table: &Table,
        plan: &mut LayoutPlan,
        loads: &mut [NodeLoad],
        index: usize,
        (at, shares): (Position, SplitShares),
        now: Timestamp,
    ) -> [PartitionId; 2] {
        let layout = &table.layout;
        let members = layout.lock(plan, index).members;
        let ids = layout.split(plan, index, at, [shares.read, shares.write], now);
        for number in members.as_slice() {
            if let Some(position) = self.node_position(*number) {
                // The same rates in one more replica.
                loads[position] = loads[position].with_replica(0);
                self.nodes[position].bear(loads[position]);
            }
        }
        table.used_up(true).forget();
        table.used_up(false).forget();
        table.reshaped.splits.fetch_add(1, Ordering::Relaxed);
        ids
    }

    /// The partition that holds a position, and its first position.
    ///
    /// Fails when there is no such table.
    pub fn partition_at(
        &self,
        namespace: &str,
        table: &str,
        at: Position,
    ) -> Result<(PartitionId, Position), CapacityError> {
        let owner = self.table(namespace, table)?.layout.owner(at);
        Ok((owner.id, owner.range.first))
    }

    /// Joins a partition and the one behind it, which must lie on the same nodes. Rates and levels
    /// add up. The new partition has a new number.
    ///
    /// Fails when there is no such table or partition, when it is the last one, and when the two
    /// lie on different nodes.
    pub fn merge(
        &self,
        namespace: &str,
        table: &str,
        left: PartitionId,
        now: Timestamp,
    ) -> Result<PartitionId, CapacityError> {
        let table = self.table(namespace, table)?;
        let mut loads = self.loads();
        let layout = &table.layout;
        let mut plan = layout.plan();
        let index = index_of(layout, &plan, left)?;
        let refused = |why| {
            let (table, partition) = (table.name.to_string(), left.0);
            Err(CapacityError::MergeImpossible { table, partition, why })
        };
        if index + 1 >= plan.len() {
            return refused("no partition lies behind it");
        }
        let members = layout.lock(&plan, index).members;
        if members != layout.lock(&plan, index + 1).members {
            return refused("the partition behind it lies on other nodes");
        }
        let id = layout.merge(&mut plan, index, now);
        for number in members.as_slice() {
            if let Some(position) = self.node_position(*number) {
                loads[position] = loads[position].without_replica(0);
            }
        }
        table.reshaped.merges.fetch_add(1, Ordering::Relaxed);
        Ok(id)
    }

    /// Allocates so many units a second to one direction of a partition, from its share up to its
    /// ceiling; less or more counts as that. Levels are kept. Returns the rate.
    ///
    /// Fails when there is no such table or partition, and when a node cannot bear the rate.
    pub fn allocate(
        &self,
        namespace: &str,
        table: &str,
        partition: PartitionId,
        operation: AccessOperation,
        rate: Units,
        now: Timestamp,
    ) -> Result<Units, CapacityError> {
        let table = self.table(namespace, table)?;
        let mut loads = self.loads();
        let layout = &table.layout;
        let plan = layout.plan();
        let mut state = layout.lock(&plan, index_of(layout, &plan, partition)?);
        let is_read = operation == AccessOperation::Read;
        let members = state.members;
        let directions = &mut state.directions;
        let before = directions.promised();
        let mut rates = directions.of(is_read).rates;
        let wanted = rate.as_thousandths().max(0).cast_unsigned();
        let allocated = wanted.min(rates.ceiling).max(rates.base);
        let mut after = directions.clone();
        after.of_mut(is_read).rates.allocated = allocated;
        let after = after.promised();
        let mut changed = loads.clone();
        for (member, number) in members.as_slice().iter().enumerate() {
            let Some(position) = self.node_position(*number) else { continue };
            let (node, role) = (&self.nodes[position], usize::from(member > 0));
            let load = changed[position].without_replica(before[role]).with_replica(after[role]);
            if after[role] > before[role] {
                check_load(&node.name, node.rate() / 1000, node.reserve_percent(), load)?;
            }
            changed[position] = load;
        }
        for (node, load) in self.nodes.iter().zip(&changed) {
            node.bear(*load);
        }
        *loads = changed;
        rates.allocated = allocated;
        directions.of_mut(is_read).set_rates(rates, now);
        table.used_up(is_read).forget();
        Ok(Units::from_rate(allocated))
    }

    /// [`Capacity::allocate`], but no more than the nodes of the partition have room to promise; a
    /// rate that is there already is not taken back for want of room. Returns the rate.
    ///
    /// Fails when there is no such table or partition.
    pub fn allocate_within(
        &self,
        namespace: &str,
        table: &str,
        partition: PartitionId,
        operation: AccessOperation,
        rate: Units,
        now: Timestamp,
    ) -> Result<Units, CapacityError> {
        let bound = self.allocation_bound(self.table(namespace, table)?, partition, operation)?;
        self.allocate(namespace, table, partition, operation, rate.min(bound), now)
    }

    /// The highest rate that the nodes of a partition have room to promise to one direction of it;
    /// at least the one that it has.
    fn allocation_bound(
        &self,
        table: &Table,
        partition: PartitionId,
        operation: AccessOperation,
    ) -> Result<Units, CapacityError> {
        let loads = self.loads();
        let layout = &table.layout;
        let plan = layout.plan();
        let state = layout.lock(&plan, index_of(layout, &plan, partition)?);
        let is_read = operation == AccessOperation::Read;
        let members = state.members;
        // Reads are promised at the leader, writes at every member.
        let bearing = &members.as_slice()[..if is_read { 1 } else { members.as_slice().len() }];
        let room = bearing.iter().filter_map(|number| {
            let position = self.node_position(*number)?;
            Some(self.nodes[position].promisable().saturating_sub(loads[position].promised))
        });
        let room = room.min().unwrap_or(0);
        Ok(Units::from_rate(state.directions.of(is_read).rates.allocated + room))
    }

    /// Sets the tokens of a table as its lease grants them, for tables with global admission. The
    /// tokens that are left are kept, up to the new depth.
    ///
    /// Fails when there is no such table.
    pub fn set_tokens(
        &self,
        namespace: &str,
        table: &str,
        operation: AccessOperation,
        terms: TokenTerms,
        now: Timestamp,
    ) -> Result<(), CapacityError> {
        let is_read = operation == AccessOperation::Read;
        self.table(namespace, table)?.tokens(is_read).set_terms(terms, now);
        Ok(())
    }
}

/// The index of a partition that may be cut before each of these positions, which ascend.
fn cut_index(
    table: &Table,
    plan: &LayoutPlan,
    partition: PartitionId,
    cuts: &[Position],
) -> Result<usize, CapacityError> {
    let layout = &table.layout;
    let index = index_of(layout, plan, partition)?;
    let range = plan.range(layout.keyspace.by, index);
    let mut before = range.first;
    for at in cuts {
        if !range.contains(*at) || *at <= before || !layout.keyspace.has(*at) {
            let (table, range) = (table.name.to_string(), range.to_string());
            return Err(CapacityError::SplitOutside { table, partition: partition.0, range });
        }
        before = *at;
    }
    let (what, count) = ("partitions", plan.len() + cuts.len());
    let max = TableConfig::PARTITIONS_MAX as usize;
    if count > max {
        return Err(CapacityError::TooMany { what, count, max });
    }
    Ok(index)
}

/// The index of a partition; or an error if it was split or merged, or never was.
pub(crate) fn index_of(layout: &Layout, plan: &LayoutPlan, id: PartitionId) -> Result<usize, CapacityError> {
    // Where it is as long as nothing was split.
    let guess = id.0 as usize;
    let found = if guess < plan.len() && layout.lock(plan, guess).id == id {
        Some(guess)
    } else {
        (0..plan.len()).find(|index| layout.lock(plan, *index).id == id)
    };
    found.ok_or_else(|| CapacityError::UnknownPartition {
        table: plan.config.name.clone(),
        partition: id.0,
        count: plan.len(),
    })
}
