//! Tables, partitions and nodes as they are at some instant.

use tidegate_core::{AccessOperation, Timestamp};

use crate::admission::throttled::Throttled;
use crate::layout::key_range::KeyRange;
use crate::layout::partition_id::PartitionId;
use crate::table_mode::TableMode;
use crate::units::Units;

/// The answer to an access that is only looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CapacityStatus<'a> {
    /// The table.
    pub table: &'a str,
    /// The index of the table; `None`: the table itself.
    pub index: Option<&'a str>,
    /// How the throughput of the table moves between its partitions.
    pub mode: TableMode,
    /// Read or write; each has throughput of its own.
    pub operation: AccessOperation,
    /// The partition of the key.
    pub partition: PartitionId,
    /// The keys of that partition.
    pub range: KeyRange,
    /// The node on which the partition lies.
    pub node: &'a str,
    /// The units that the node has to spare; negative when its partitions have used more.
    pub node_left: Units,
    /// The units that the access would be charged.
    pub units: Units,
    /// The rates and levels of this direction of the partition.
    pub direction: DirectionStatus,
    /// The tokens of the table; `None` without global admission.
    pub tokens: Option<TokensStatus>,
    /// The tokens of the account that bounds the table; `None` without one.
    pub account_tokens: Option<TokensStatus>,
    /// The instant at which the partition is full again, if nothing is charged before; the instant
    /// of the look if it is full.
    pub reset_at: Timestamp,
    /// The refusal that the access would get; `None` if it would be admitted.
    pub throttled: Option<Throttled<'a>>,
}

/// The tokens of a table or an account for one operation at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokensStatus {
    /// Units a second.
    pub rate: Units,
    /// Units left; negative in debt.
    pub left: Units,
    /// Whether routers lease them, so that `left` is only as much as this router knows, or its
    /// [share](crate::TokenSource::Share) of them.
    pub is_leased: bool,
}

/// The throughput that a table may use, and that it can reach at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DemandStatus {
    /// Whether its limits follow what it uses; otherwise they are provisioned.
    pub is_on_demand: bool,
    /// Its reads.
    pub read: OperationDemand,
    /// Its writes.
    pub write: OperationDemand,
    /// The number of its partitions.
    pub partitions: u32,
    /// The number of partitions that it may have at once when they are needed.
    pub partitions_warm: u32,
}

/// The throughput of one operation of a table, in units a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationDemand {
    /// The most that it may use now.
    pub limit: Units,
    /// The highest average of a minute, less by the half-life. Zero for a provisioned table without
    /// mode global.
    pub peak: Units,
    /// The throughput for which the table may have partitions at once: the limit on demand;
    /// otherwise the peak, or the warm throughput of the configuration if that is more.
    pub warm: Units,
    /// Whether a limit on demand is the configured maximum, so that more use does not raise it.
    pub is_at_maximum: bool,
}

/// A table at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStatus<'a> {
    /// The namespace that it belongs to.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// How its throughput moves between its partitions.
    pub mode: TableMode,
    /// The number of its partitions.
    pub partitions: u32,
    /// The partitions that were split since the table was first configured.
    pub splits: u64,
    /// The pairs of partitions that were merged since then.
    pub merges: u64,
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
    /// When it, or one of the partitions that were joined to it, was last cut off from a neighbour;
    /// `None` if the table began with it.
    pub made_at: Option<Timestamp>,
    /// Its keys.
    pub range: KeyRange,
    /// The node on which it lies; of a group, the node of the leader.
    pub node: &'a str,
    /// The nodes of the other members of its group.
    pub followers: [Option<&'a str>; 2],
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
    /// Units a second that it is allocated, which is also what it holds when it is full.
    pub rate: Units,
    /// Units a second that one member serves at most.
    pub ceiling: Units,
    /// Units of its allocation that are left; negative in debt.
    pub left: Units,
    /// Burst credit left. It is kept in every mode, so that a change of mode loses none, and spent
    /// in those that [`TableMode::spends_burst`].
    pub burst_left: Units,
    /// Units admitted in the last second.
    pub consumed: Units,
    /// Units a second that were admitted in the last ten seconds, and not given back.
    pub recently_consumed: Units,
    /// Units a second that its allocation, burst credit or ceiling refused in the last ten seconds.
    pub recently_throttled: Units,
    /// Units admitted, and not given back, since it was made. Negative where units came back to a
    /// part of a cut that has not admitted as many: sums over a table are exact.
    pub admitted: Units,
    /// Units asked for by first attempts since it was made, refused ones included.
    pub offered: Units,
    /// Units that its allocation, burst credit or ceiling refused since it was made.
    pub throttled: Units,
    /// The part of them that its ceiling refused: more partitions would have let it through.
    pub throttled_at_ceiling: Units,
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
