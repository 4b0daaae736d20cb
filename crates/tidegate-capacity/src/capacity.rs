//! All tables and nodes of a store, and the decision on each access.
//!
//! **Guarantees.** An access is refused only because its own partition has used up its allocation:
//! the levels of neighbours, of the table and of the node play no part. A refused access leaves
//! everything as it was.
//!
//! **Nodes.** Every admitted access is also debited from the node of its partition, whatever is
//! left there, so the node's level shows its spare throughput and may be negative. No access is
//! refused for it. A placement whose rates exceed those of the node is an error, when the store is
//! built and in [`Capacity::place`].
//!
//! **Large requests.** An access is admitted when its partition has anything left, even if less
//! than it weighs. The debt, at most [`Units::LARGEST_REQUEST`], is repaid before anything else. So
//! a partition of 100 units a second admits a write of 400 now and then, and never more than its
//! rate in the long run.

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::{Reason, Timestamp};

use crate::access::{Access, operation_of};
use crate::bucket::{BucketCharge, BucketSpec};
use crate::error::{CapacityError, check_load, shortened};
use crate::fault::Fault;
use crate::key_range::key_hash;
use crate::node::{Node, NodeLoad};
use crate::status::{CapacityStatus, NodeStatus, OperationStatus, PartitionStatus, TableStatus};
use crate::table::{Partition, Table, TableConfig, TableId};
use crate::throttled::Throttled;
use crate::units::Units;

/// Tables with provisioned throughput on nodes.
///
/// All methods take `&self` and may be called from any number of threads; each access changes one
/// word of its partition and one of its node. Full of units at first.
///
/// ```
/// # use tidegate_capacity::{Access, Admission, Capacity, TableConfig};
/// # use tidegate_core::{Reason, Timestamp};
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let orders = TableConfig::new("shop", "orders", 400, 100).nodes(["node-a"]);
/// let capacity = Capacity::builder().node("node-a", 10_000).table(orders).build()?;
/// let write = Access::write("orders", b"order-7", 100 << 10); // weighs 100 units
/// assert!(matches!(capacity.admit("shop", &write, now)?, Admission::Admit(_)));
/// let Admission::Throttle(throttled) = capacity.admit("shop", &write, now)? else { panic!() };
/// assert_eq!(throttled.reason, Reason::TableThroughputExceeded);
/// // Reads have throughput of their own.
/// let read = Access::read("orders", b"order-7", 4_096);
/// assert!(matches!(capacity.admit("shop", &read, now)?, Admission::Admit(_)));
/// # Ok::<(), tidegate_capacity::CapacityError>(())
/// ```
pub struct Capacity {
    tables: Box<[Arc<Table>]>,
    /// The hash of each table's namespace and name and its position, in order of the hashes.
    by_name: Box<[(u64, u32)]>,
    pub(crate) nodes: Box<[Arc<Node>]>,
    /// The id of the next table that is made.
    pub(crate) next_id: u32,
    /// The partitions on each node. Locked by placements only.
    loads: Mutex<Vec<NodeLoad>>,
}

impl Capacity {
    /// A store of checked tables and nodes. `by_name` has the hash of each table's namespace and
    /// name and its position, in order of the hashes; `loads` has the load of each node.
    pub(crate) fn of(
        tables: Vec<Arc<Table>>,
        by_name: Vec<(u64, u32)>,
        nodes: Vec<Arc<Node>>,
        loads: Vec<NodeLoad>,
        next_id: u32,
    ) -> Self {
        let (tables, by_name, nodes) = (tables.into(), by_name.into(), nodes.into());
        Self { tables, by_name, nodes, next_id, loads: Mutex::new(loads) }
    }

    /// Decides whether `access` of a request of `namespace` may go ahead at `now`. The units of an
    /// admitted access are charged to its partition and node until they are given back; a throttled
    /// access is charged nothing.
    ///
    /// Fails when the namespace has no such table, and when the access is larger than one may be.
    pub fn admit(
        &self,
        namespace: &str,
        access: &Access<'_>,
        now: Timestamp,
    ) -> Result<Admission<'_>, CapacityError> {
        let units = access.units()?;
        let (table_index, table) = self.table(namespace, access.table)?;
        let is_read = access.kind.is_read();
        let index = table.partition_of(key_hash(access.key));
        let partition = &table.partitions[index as usize];
        let allocation = partition.allocation(is_read);
        let cost = units.as_thousandths().cast_unsigned();
        let on_partition = match allocation.bucket.take(allocation.spec(), cost, now) {
            Ok(charged) => charged,
            Err(retry) => {
                table.count_throttled(is_read);
                Fault::RefusalCharged
                    .is_planted()
                    .then(|| allocation.bucket.charge(allocation.spec(), cost, now));
                // Of a table with one partition there is nothing to remember.
                let learn = |until| {
                    if table.partitions.len() > 1 {
                        table.used_up(is_read).learn(until);
                    }
                };
                return Ok(Admission::Throttle(self.throttle(table, index, is_read, retry, now, learn)));
            }
        };
        let node_index = partition.node();
        let node = &self.nodes[node_index as usize];
        let on_node = node.bucket.charge(node.spec(), cost, now);
        Ok(Admission::Admit(UnitsHold {
            on_partition: [on_partition.before, on_partition.after],
            on_node: [on_node.before, on_node.after],
            table: table_index,
            table_id: table.id,
            units: cost as u32,
            units_on_node: on_node.cost as u32,
            partition: index as u16,
            node: node_index as u16,
            is_read,
        }))
    }

    /// The state of the partition of `access` at `now`, and the refusal that the access would get.
    /// Charges and changes nothing.
    ///
    /// Fails as [`Capacity::admit`] does.
    pub fn peek(
        &self,
        namespace: &str,
        access: &Access<'_>,
        now: Timestamp,
    ) -> Result<CapacityStatus<'_>, CapacityError> {
        let units = access.units()?;
        let (_, table) = self.table(namespace, access.table)?;
        let is_read = access.kind.is_read();
        let index = table.partition_of(key_hash(access.key));
        let partition = &table.partitions[index as usize];
        let allocation = partition.allocation(is_read);
        let spec = allocation.spec();
        let closed_until = allocation.bucket.closed_until(spec, now);
        Ok(CapacityStatus {
            table: &table.name,
            operation: access.kind.operation(),
            partition: index,
            range: table.range(index),
            node: self.node_name(partition),
            units,
            limit: rate_of(spec),
            remaining: allocation.bucket.level(spec, now),
            reset_at: allocation.bucket.full_from(spec, now),
            throttled: closed_until.map(|retry| self.throttle(table, index, is_read, retry, now, |_| {})),
        })
    }

    /// Takes back the charge of `hold`, as if the access had not been made.
    ///
    /// If nothing was charged since, the state is bit for bit the same as before the charge.
    /// Otherwise no later access is admitted that would not have been admitted without the charge,
    /// provided that instants come in order; units that would have overflowed the bucket in the
    /// meantime are not given back.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a hold is used up, so that it is not given back twice"
    )]
    pub fn give_back(&self, hold: UnitsHold, now: Timestamp) {
        let units = hold.units();
        self.give_back_part(&hold, units, now);
    }

    /// Replaces the charge of `hold` by the true weight of the access. With `None` the weight is
    /// not known, and the charge stays.
    ///
    /// A surplus is given back, under the rules of [`Capacity::give_back`]; a shortfall is charged
    /// even if nothing is left. The debt of a partition never exceeds [`Units::LARGEST_REQUEST`];
    /// the part of the shortfall that would exceed it is not booked. A negative weight counts as 0.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a hold is used up, so that it is not given back twice"
    )]
    pub fn settle(&self, hold: UnitsHold, true_units: Option<Units>, now: Timestamp) {
        let Some(true_units) = true_units else { return };
        let true_units = true_units.max(Units::ZERO);
        let difference = true_units.as_thousandths() - hold.units().as_thousandths();
        if difference <= 0 {
            self.give_back_part(&hold, Units::from_thousandths(-difference), now);
        } else if let Some((_, partition, node)) = self.places(&hold)
            && !Fault::ShortfallForgotten.is_planted()
        {
            let allocation = partition.allocation(hold.is_read);
            allocation.bucket.charge(allocation.spec(), difference.cast_unsigned(), now);
            node.bucket.charge(node.spec(), difference.cast_unsigned(), now);
        }
    }

    fn give_back_part(&self, hold: &UnitsHold, units: Units, now: Timestamp) {
        let Some((table, partition, node)) = self.places(hold) else { return };
        let allocation = partition.allocation(hold.is_read);
        let units = units.as_thousandths().cast_unsigned();
        let on_node = if Fault::NodeForgotten.is_planted() { 0 } else { units };
        node.bucket.give_back(node.spec(), hold.on_node(), on_node, now);
        allocation.bucket.give_back(allocation.spec(), hold.on_partition(), units, now);
        table.used_up(hold.is_read).forget();
    }

    /// The buckets that `hold` was charged to, wherever its partition lies now; `None` if its table
    /// is gone or was changed.
    fn places(&self, hold: &UnitsHold) -> Option<(&Table, &Partition, &Node)> {
        let at_its_place = self.tables.get(hold.table as usize).filter(|table| table.id == hold.table_id);
        let table = at_its_place.or_else(|| self.tables.iter().find(|table| table.id == hold.table_id))?;
        let partition = table.partitions.get(hold.partition as usize)?;
        Some((table, partition, self.nodes.get(hold.node as usize)?))
    }

    /// Places a partition of `table` on another node.
    ///
    /// Accesses from then on are charged to the new node. Units that are held were taken from the
    /// old one and are given back there. The levels of both nodes stay as they are; so does that of
    /// the partition.
    ///
    /// Fails when there is no such table, partition or node, and when the node cannot bear the
    /// partition's rates beside those it bears already; then nothing changes.
    pub fn place(
        &self,
        namespace: &str,
        table: &str,
        partition: u32,
        node: &str,
        _now: Timestamp,
    ) -> Result<(), CapacityError> {
        let (_, table) = self.table(namespace, table)?;
        let Some(placed) = table.partitions.get(partition as usize) else {
            let last = table.partition_count() - 1;
            return Err(CapacityError::UnknownPartition { table: table.name.to_string(), partition, last });
        };
        let Some(to) = self.nodes.iter().position(|known| *known.name == *node) else {
            let (table, node) = (table.name.to_string(), shortened(node));
            return Err(CapacityError::UnknownNode { table, node });
        };
        // A panic elsewhere leaves the loads valid: they change below, where nothing can fail.
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let from = placed.node() as usize;
        if from == to {
            return Ok(());
        }
        let node = &self.nodes[to];
        let load = loads[to].with_partition(placed.promised());
        check_load(&node.name, node.rate() / 1000, load)?;
        loads[from] = loads[from].without_partition(placed.promised());
        loads[to] = load;
        node.bear(load);
        placed.place(to as u32);
        Ok(())
    }

    fn node_name(&self, partition: &Partition) -> &str {
        &self.nodes[partition.node() as usize].name
    }

    #[inline]
    pub(crate) fn table(&self, namespace: &str, name: &str) -> Result<(u32, &Arc<Table>), CapacityError> {
        let hash = name_hash(namespace, name);
        let first = self.by_name.partition_point(|(known, _)| *known < hash);
        self.by_name[first..]
            .iter()
            .take_while(|(known, _)| *known == hash)
            .map(|(_, index)| (*index, &self.tables[*index as usize]))
            .find(|(_, table)| *table.name == *name && *table.namespace == *namespace)
            .ok_or_else(|| CapacityError::unknown_table(namespace, name))
    }

    /// The partitions of `table` as they are at `now`, in the order of their ranges.
    ///
    /// Fails when there is no such table.
    pub fn partitions(
        &self,
        namespace: &str,
        table: &str,
        now: Timestamp,
    ) -> Result<impl ExactSizeIterator<Item = PartitionStatus<'_>>, CapacityError> {
        let (_, table) = self.table(namespace, table)?;
        Ok(table.partitions.iter().enumerate().map(move |(index, partition)| PartitionStatus {
            range: table.range(index as u32),
            node: self.node_name(partition),
            read_rate: rate_of(partition.read.spec()),
            write_rate: rate_of(partition.write.spec()),
            read_left: partition.read.bucket.level(partition.read.spec(), now),
            write_left: partition.write.bucket.level(partition.write.spec(), now),
        }))
    }

    /// The tables from index `first` on, as they are at `now`, in the order they were given.
    pub fn table_statuses(
        &self,
        first: usize,
        now: Timestamp,
    ) -> impl ExactSizeIterator<Item = TableStatus<'_>> {
        self.tables.iter().skip(first).map(move |table| {
            let operation = |is_read| {
                let allocations = table.partitions.iter().map(|partition| partition.allocation(is_read));
                let left = allocations.map(|one| one.bucket.level(one.spec(), now).as_thousandths());
                let rate = table.units_per_second(is_read).cast_signed() * 1000;
                OperationStatus {
                    rate: Units::from_thousandths(rate),
                    left: Units::from_thousandths(left.sum()),
                    throttled: table.throttled_count(is_read),
                }
            };
            TableStatus {
                namespace: &table.namespace,
                name: &table.name,
                partitions: table.partition_count(),
                read: operation(true),
                write: operation(false),
            }
        })
    }

    /// The nodes as they are at `now`, in the order they were given.
    pub fn nodes(&self, now: Timestamp) -> impl ExactSizeIterator<Item = NodeStatus<'_>> {
        self.nodes.iter().map(move |node| NodeStatus {
            name: &node.name,
            rate: rate_of(node.spec()),
            left: node.bucket.level(node.spec(), now),
        })
    }

    /// The namespace and the name of each table, in the order they were given.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.tables.iter().map(|table| (&*table.namespace, &*table.name))
    }

    /// The whole mutable state, to be compared with itself at another time.
    pub fn fingerprint(&self) -> Fingerprint {
        let partitions = self.tables.iter().flat_map(|table| table.partitions.iter());
        let words = partitions.flat_map(|partition| {
            [partition.read.bucket.word(), partition.write.bucket.word(), u64::from(partition.node())]
        });
        Fingerprint(words.chain(self.nodes.iter().map(|node| node.bucket.word())).collect())
    }
}

/// The hash by which a table is found.
#[inline]
pub(crate) fn name_hash(namespace: &str, name: &str) -> u64 {
    key_hash(namespace.as_bytes()).rotate_left(29) ^ key_hash(name.as_bytes())
}

fn rate_of(spec: BucketSpec) -> Units {
    Units::from_thousandths(spec.rate().cast_signed())
}

impl fmt::Debug for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capacity")
            .field("tables", &self.tables().collect::<Vec<_>>())
            .field("nodes", &self.nodes.iter().map(|node| &node.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Capacity {
    /// The refusal of an access to a partition whose allocation is used up until `retry`. If the
    /// allocations of all partitions are used up, `learn` gets the end of that time.
    #[cold]
    fn throttle<'a>(
        &'a self,
        table: &'a Table,
        partition: u32,
        is_read: bool,
        retry: Timestamp,
        now: Timestamp,
        learn: impl FnOnce(Timestamp),
    ) -> Throttled<'a> {
        let throttled = &table.partitions[partition as usize];
        let rate = rate_of(throttled.allocation(is_read).spec());
        let has_room = !table.used_up(is_read).is_known_at(now)
            && table.find_room_beside(partition, is_read, retry, now).map_err(learn).is_ok();
        let (reason, limit) = if has_room {
            (Reason::KeyRangeThroughputExceeded, rate)
        } else {
            (Reason::TableThroughputExceeded, Units::whole(table.units_per_second(is_read)))
        };
        Throttled {
            reason,
            table: &table.name,
            operation: operation_of(is_read),
            partition,
            range: table.range(partition),
            node: self.node_name(throttled),
            retry,
            limit,
            remaining: Units::ZERO,
            rate,
            ceiling: None,
            consumed: None,
            burst_left: None,
        }
    }
}

impl Table {
    /// Whether any partition has anything left beside this one, which has nothing until `retry`;
    /// otherwise the first instant at which one has.
    fn find_room_beside(
        &self,
        partition: u32,
        is_read: bool,
        retry: Timestamp,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        // From the next one on, so that one hot partition finds a neighbour with room at once.
        let (before, rest) = self.partitions.split_at(partition as usize);
        let mut until = retry;
        for other in rest.iter().skip(1).chain(before) {
            let allocation = other.allocation(is_read);
            match allocation.bucket.closed_until(allocation.spec(), now) {
                Some(opening) => until = until.min(opening),
                None => return Ok(()),
            }
        }
        Err(until)
    }
}

/// The answer to an access.
#[derive(Debug)]
#[must_use = "units stay charged until the hold is given back"]
pub enum Admission<'a> {
    /// The access may go ahead; its units are charged.
    Admit(UnitsHold),
    /// The access may not go ahead; nothing is charged.
    Throttle(Throttled<'a>),
}

/// The units an admitted access was charged.
///
/// When the hold is dropped, the units stay charged: the work was done and weighed as expected.
///
/// Its numbers are small, since every permit of the engine has room for a hold and moves with it.
#[derive(Debug)]
pub struct UnitsHold {
    /// The word of the partition's bucket before and after the charge.
    on_partition: [u64; 2],
    /// The word of the node's bucket before and after the charge.
    on_node: [u64; 2],
    /// The position of the table, where it was when it was charged.
    table: u32,
    table_id: TableId,
    /// In thousandths; at most [`Units::LARGEST_REQUEST`].
    units: u32,
    /// The thousandths that were booked at the node; at most `units`.
    units_on_node: u32,
    /// Below [`TableConfig::PARTITIONS_MAX`].
    partition: u16,
    /// Below `CapacityBuilder::NODES_MAX`.
    node: u16,
    is_read: bool,
}

const _: () = {
    assert!(Units::LARGEST_REQUEST.as_thousandths() <= u32::MAX as i64, "the units of a hold fit");
    assert!(TableConfig::PARTITIONS_MAX <= u16::MAX as u32, "the partition of a hold fits");
};

impl UnitsHold {
    /// The units charged.
    pub const fn units(&self) -> Units {
        Units::from_thousandths(self.units as i64)
    }

    /// The partition of the table that was charged, counted from 0.
    pub const fn partition(&self) -> u32 {
        self.partition as u32
    }

    const fn on_partition(&self) -> BucketCharge {
        let [before, after] = self.on_partition;
        BucketCharge { before, after, cost: self.units as u64 }
    }

    const fn on_node(&self) -> BucketCharge {
        let [before, after] = self.on_node;
        BucketCharge { before, after, cost: self.units_on_node as u64 }
    }
}

/// The whole mutable state of a [`Capacity`]. Equal states admit the same from then on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(Box<[u64]>);

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
