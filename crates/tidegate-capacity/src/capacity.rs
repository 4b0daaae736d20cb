//! All tables and nodes of a store, and whether an access may go ahead.
//!
//! **What it guarantees.** A partition is refused for nothing but its own allocation: no level of a
//! neighbour, of the table or of the node is looked at before an access is admitted. A refused
//! access leaves everything as it was.
//!
//! **Nodes.** Every admitted access is debited from the node of its partition, without asking, so
//! that the node's level says what it has to spare and may be negative. Nothing is refused for it:
//! that is for the burst of later, which is spent from what nodes have to spare. Instead a table
//! whose shares a node could not bear is an error when it is placed.
//!
//! **Large requests.** An access is admitted when its partition has anything left, even if less
//! than it weighs. The debt, at most [`Units::LARGEST_REQUEST`], is repaid before anything else. So
//! a partition of 100 units a second admits a write of 400 now and then, and never more than its
//! rate in the long run.

use core::fmt;

use tidegate::{Reason, Timestamp};

use crate::access::Access;
use crate::bucket::{Bucket, BucketCharge, BucketSpec};
use crate::error::CapacityError;
use crate::key_range::{KeyRange, key_hash};
use crate::table::{Partition, Table};
use crate::units::Units;

/// Tables with provisioned throughput on nodes.
///
/// All methods take `&self` and may be called from any number of threads; each access changes one
/// word of its partition and one of its node. Full of units at first.
pub struct Capacity {
    pub(crate) tables: Box<[Table]>,
    /// The hash of each table's name and its position, in order of the hashes.
    pub(crate) by_name: Box<[(u64, u32)]>,
    pub(crate) nodes: Box<[Node]>,
}

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Node {
    pub(crate) name: Box<str>,
    pub(crate) spec: BucketSpec,
    pub(crate) bucket: Bucket,
}

impl Capacity {
    /// Whether `access` may go ahead at `now`. If so its units are charged to its partition and
    /// node until they are given back; if not, nothing is.
    ///
    /// Fails when there is no such table, and when the access is larger than one may be.
    pub fn admit(&self, access: &Access<'_>, now: Timestamp) -> Result<Admission<'_>, CapacityError> {
        let units = access.units()?;
        let (table_index, table) = self.table(access.table)?;
        let is_read = access.kind.is_read();
        let index = table.partition_of(key_hash(access.key));
        let partition = &table.partitions[index as usize];
        let allocation = partition.allocation(is_read);
        let cost = units.as_thousandths().cast_unsigned();
        let on_partition = match allocation.bucket.take(allocation.spec(), cost, now) {
            Ok(charged) => charged,
            Err(retry) => return Ok(Admission::Throttle(table.throttle(index, is_read, retry, now))),
        };
        let node = &self.nodes[partition.node as usize];
        let on_node = node.bucket.charge(node.spec, cost, now);
        Ok(Admission::Admit(UnitsHold {
            table: table_index,
            partition: index,
            is_read,
            units,
            on_partition,
            on_node,
        }))
    }

    /// Takes back what `hold` charged, as if the access had never been.
    ///
    /// With nothing charged since, the state is bit for bit what it was. Otherwise no later access
    /// is admitted that would not have been without the charge, if instants come in order; units
    /// that would have overflowed the bucket in the meantime are not given back.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a hold is used up, so that it is not given back twice"
    )]
    pub fn give_back(&self, hold: UnitsHold, now: Timestamp) {
        let units = hold.units;
        self.give_back_part(&hold, units, now);
    }

    /// Replaces what `hold` charged by what the access turned out to weigh.
    ///
    /// What it weighed less is given back; what it weighed more is charged whether or not there is
    /// room. The debt of a partition never exceeds [`Units::LARGEST_REQUEST`]; what is above is not
    /// booked. A negative amount counts as nothing.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a hold is used up, so that it is not given back twice"
    )]
    pub fn settle(&self, hold: UnitsHold, true_units: Units, now: Timestamp) {
        let true_units = true_units.max(Units::ZERO);
        let difference = true_units.as_thousandths() - hold.units.as_thousandths();
        if difference <= 0 {
            self.give_back_part(&hold, Units::from_thousandths(-difference), now);
        } else if let Some((_, partition, node)) = self.places(&hold) {
            let allocation = partition.allocation(hold.is_read);
            allocation.bucket.charge(allocation.spec(), difference.cast_unsigned(), now);
            node.bucket.charge(node.spec, difference.cast_unsigned(), now);
        }
    }

    fn give_back_part(&self, hold: &UnitsHold, units: Units, now: Timestamp) {
        let Some((table, partition, node)) = self.places(hold) else { return };
        let allocation = partition.allocation(hold.is_read);
        let units = units.as_thousandths().cast_unsigned();
        node.bucket.give_back(node.spec, hold.on_node, units, now);
        allocation.bucket.give_back(allocation.spec(), hold.on_partition, units, now);
        table.used_up(hold.is_read).forget();
    }

    /// Where `hold` was charged; `None` if it is another store's.
    fn places(&self, hold: &UnitsHold) -> Option<(&Table, &Partition, &Node)> {
        let table = self.tables.get(hold.table as usize)?;
        let partition = table.partitions.get(hold.partition as usize)?;
        Some((table, partition, self.nodes.get(partition.node as usize)?))
    }

    #[inline]
    fn table(&self, name: &str) -> Result<(u32, &Table), CapacityError> {
        let hash = key_hash(name.as_bytes());
        let first = self.by_name.partition_point(|(known, _)| *known < hash);
        self.by_name[first..]
            .iter()
            .take_while(|(known, _)| *known == hash)
            .map(|(_, index)| (*index, &self.tables[*index as usize]))
            .find(|(_, table)| *table.name == *name)
            .ok_or_else(|| CapacityError::unknown_table(name))
    }

    /// The partitions of `table` as they are at `now`, in the order of their ranges.
    ///
    /// Fails when there is no such table.
    pub fn partitions(
        &self,
        table: &str,
        now: Timestamp,
    ) -> Result<impl ExactSizeIterator<Item = PartitionStatus<'_>>, CapacityError> {
        let (_, table) = self.table(table)?;
        Ok(table.partitions.iter().enumerate().map(move |(index, partition)| PartitionStatus {
            range: table.range(index as u32),
            node: &self.nodes[partition.node as usize].name,
            read_rate: rate_of(partition.read.spec()),
            write_rate: rate_of(partition.write.spec()),
            read_left: partition.read.bucket.level(partition.read.spec(), now),
            write_left: partition.write.bucket.level(partition.write.spec(), now),
        }))
    }

    /// The nodes as they are at `now`, in the order they were given.
    pub fn nodes(&self, now: Timestamp) -> impl ExactSizeIterator<Item = NodeStatus<'_>> {
        self.nodes.iter().map(move |node| NodeStatus {
            name: &node.name,
            rate: rate_of(node.spec),
            left: node.bucket.level(node.spec, now),
        })
    }

    /// The names of the tables, in the order they were given.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tables.iter().map(|table| &*table.name)
    }

    /// The whole mutable state, to be compared with itself at another time.
    pub fn fingerprint(&self) -> Fingerprint {
        let partitions = self.tables.iter().flat_map(|table| table.partitions.iter());
        let words =
            partitions.flat_map(|partition| [partition.read.bucket.word(), partition.write.bucket.word()]);
        Fingerprint(words.chain(self.nodes.iter().map(|node| node.bucket.word())).collect())
    }
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

impl Table {
    /// The refusal of an access to a partition whose allocation is used up until `retry`.
    #[cold]
    fn throttle(&self, partition: u32, is_read: bool, retry: Timestamp, now: Timestamp) -> Throttled<'_> {
        let has_room =
            !self.used_up(is_read).is_known_at(now) && self.has_room_beside(partition, is_read, retry, now);
        let (reason, limit) = if has_room {
            let spec = self.partitions[partition as usize].allocation(is_read).spec();
            (Reason::KeyRangeThroughputExceeded, rate_of(spec))
        } else {
            (Reason::TableThroughputExceeded, Units::whole(self.units_per_second(is_read)))
        };
        Throttled {
            reason,
            table: &self.name,
            partition,
            range: self.range(partition),
            retry,
            limit,
            remaining: Units::ZERO,
        }
    }

    /// Whether any partition has anything left beside this one, which has nothing until `retry`. If
    /// none has, remembers until when.
    fn has_room_beside(&self, partition: u32, is_read: bool, retry: Timestamp, now: Timestamp) -> bool {
        // From the next one on, so that one hot partition finds a neighbour with room at once.
        let (before, rest) = self.partitions.split_at(partition as usize);
        let mut until = retry;
        for other in rest.iter().skip(1).chain(before) {
            let allocation = other.allocation(is_read);
            match allocation.bucket.closed_until(allocation.spec(), now) {
                Some(opening) => until = until.min(opening),
                None => return true,
            }
        }
        // Of a table with one partition nothing need be remembered.
        if self.partitions.len() > 1 {
            self.used_up(is_read).learn(until);
        }
        false
    }
}

/// The answer to an access.
#[derive(Debug)]
#[must_use = "units stay charged until the hold is given back"]
pub enum Admission<'a> {
    /// It may go ahead; its units are charged.
    Admit(UnitsHold),
    /// It may not; nothing is charged.
    Throttle(Throttled<'a>),
}

/// The units an admitted access was charged.
///
/// Dropped, they stay charged, as is right for work that was done and weighed what was thought.
#[derive(Debug)]
pub struct UnitsHold {
    table: u32,
    partition: u32,
    is_read: bool,
    units: Units,
    on_partition: BucketCharge,
    on_node: BucketCharge,
}

impl UnitsHold {
    /// What was charged.
    pub const fn units(&self) -> Units {
        self.units
    }

    /// The partition of its table it was charged to, counted from 0.
    pub const fn partition(&self) -> u32 {
        self.partition
    }
}

/// Why an access may not go ahead, and when it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttled<'a> {
    /// [`Reason::KeyRangeThroughputExceeded`]: this partition is used up and another one of the table is not.
    /// [`Reason::TableThroughputExceeded`]: all of them are.
    pub reason: Reason,
    /// The table.
    pub table: &'a str,
    /// The partition, counted from 0.
    pub partition: u32,
    /// The keys that share its fate.
    pub range: KeyRange,
    /// The first instant at which the same access is admitted, if nothing else is charged before.
    pub retry: Timestamp,
    /// The units a second, in the direction asked for, of the partition or of the table, as the
    /// reason says.
    pub limit: Units,
    /// The units left of them: nothing.
    pub remaining: Units,
}

/// A partition at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStatus<'a> {
    /// The hashes of its keys.
    pub range: KeyRange,
    /// The node it lies on.
    pub node: &'a str,
    /// Units of reading a second.
    pub read_rate: Units,
    /// Units of writing a second.
    pub write_rate: Units,
    /// Units of reading left, at most one second of them; negative in debt.
    pub read_left: Units,
    /// Units of writing left, at most one second of them; negative in debt.
    pub write_left: Units,
}

/// A node at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus<'a> {
    /// Its name.
    pub name: &'a str,
    /// Units a second.
    pub rate: Units,
    /// Units it has to spare, at most a tenth of a second of them; negative when its partitions
    /// have used more.
    pub left: Units,
}

/// The whole mutable state of a [`Capacity`]. Equal states admit the same from then on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(Box<[u64]>);

#[cfg(test)]
mod tests;
