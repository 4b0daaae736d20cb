//! Tables, partitions and nodes as they are at some instant.

use tidegate_core::{AccessOperation, Timestamp};

use crate::key_range::KeyRange;
use crate::partition_id::PartitionId;
use crate::throttled::Throttled;
use crate::units::Units;

/// The answer to an access that is only looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CapacityStatus<'a> {
    /// The table.
    pub table: &'a str,
    /// Read or write; each has throughput of its own.
    pub operation: AccessOperation,
    /// The partition of the key.
    pub partition: PartitionId,
    /// The keys of that partition.
    pub range: KeyRange,
    /// The node on which the partition lies.
    pub node: &'a str,
    /// The units that the access would be charged.
    pub units: Units,
    /// The units a second that the partition is allocated for this operation, which is also what
    /// it holds when it is full.
    pub limit: Units,
    /// The units left of them; negative in debt.
    pub remaining: Units,
    /// The instant at which the partition is full again, if nothing is charged before; the instant
    /// of the look if it is full.
    pub reset_at: Timestamp,
    /// The refusal that the access would get; `None` if it would be admitted.
    pub throttled: Option<Throttled<'a>>,
}

/// A table at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStatus<'a> {
    /// The namespace that it belongs to.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The number of its partitions.
    pub partitions: u32,
    /// Its throughput of reading.
    pub read: OperationStatus,
    /// Its throughput of writing.
    pub write: OperationStatus,
}

/// One operation of a table, over all its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationStatus {
    /// Units a second that are provisioned.
    pub rate: Units,
    /// Units left, at most one second of them; the debts of partitions count as negative.
    pub left: Units,
    /// The accesses that were refused since the table was first configured.
    pub throttled: u64,
}

/// A partition at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStatus<'a> {
    /// Its number, never used twice in its table.
    pub id: PartitionId,
    /// When a split or a merge made it; `None` if the table began with it.
    pub made_at: Option<Timestamp>,
    /// Its keys.
    pub range: KeyRange,
    /// The node on which it lies; of a group, the node of the leader.
    pub node: &'a str,
    /// Units of reading a second.
    pub read_rate: Units,
    /// Units of writing a second.
    pub write_rate: Units,
    /// Units of reading left, at most one second of them; negative in debt.
    pub read_left: Units,
    /// Units of writing left, at most one second of them; negative in debt.
    pub write_left: Units,
    /// More about its reads.
    pub read: DirectionStatus,
    /// More about its writes.
    pub write: DirectionStatus,
}

/// One direction of a partition at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectionStatus {
    /// Its share of the table's throughput, in units a second. Its allocation is never below.
    pub base: Units,
    /// Units a second that it is allocated.
    pub rate: Units,
    /// Units a second that one member serves at most.
    pub ceiling: Units,
    /// Units of its allocation that are left; negative in debt.
    pub left: Units,
    /// Burst credit left.
    pub burst_left: Units,
    /// Units admitted in the last second.
    pub consumed: Units,
    /// Units admitted, and not given back, since it was made. Negative where units came back to a
    /// part of a cut that has not admitted as many: sums over a table are exact.
    pub admitted: Units,
    /// Units asked for by first attempts since it was made, refused ones included.
    pub offered: Units,
    /// Units that its allocation, burst credit or ceiling refused since it was made.
    pub throttled: Units,
    /// Units that were given back, or no longer had room after a change, and were not kept.
    pub overflow: Units,
}

/// A node at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus<'a> {
    /// Its name.
    pub name: &'a str,
    /// Units a second.
    pub rate: Units,
    /// Units a second that its partitions are promised.
    pub promised: Units,
    /// Units a second that they may be promised.
    pub promisable: Units,
    /// Units that were given back and found no room.
    pub overflow: Units,
    /// Units it has to spare, at most a tenth of a second of them; negative when its partitions
    /// have used more.
    pub left: Units,
}
