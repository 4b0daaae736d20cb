//! Tables and their indexes as they are written.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

/// A table of a partitioned store. Requests that name it with `access` are charged capacity units.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "table")]
pub(crate) struct TableForm {
    /// Its name, unique in the namespace. Another name is another table, which starts full.
    pub(crate) name: String,
    /// The order of its keys, which decides the partition of each. Default: `hash`.
    pub(crate) partition_by: Option<PartitionByForm>,
    /// The text that all keys begin with, for `partition_by: range`: the 32 bytes that count begin
    /// behind it. At most 1024 bytes. Default: empty.
    pub(crate) key_prefix: Option<String>,
    /// The promised throughput. A table has either this or `on_demand`.
    pub(crate) provisioned: Option<ProvisionedForm>,
    /// Throughput that follows use: the limit is twice the peak, and more partitions are made as it
    /// grows. A table has either this or `provisioned`.
    pub(crate) on_demand: Option<OnDemandForm>,
    /// The throughput that the table can reach at once, for `on_demand` and `mode: global`. On
    /// demand the limit is never below, so a table whose load is known beforehand takes it from the
    /// start. Partitions are made for it at the start, and again without a verdict when they are
    /// needed after merges. Provisioned throughput stays the bound of a provisioned table. Nodes
    /// are promised nothing more. Default: what the table had lately.
    pub(crate) warm: Option<DirectionsForm>,
    /// How the throughput moves between partitions. Default: `static`, or `global` with
    /// `on_demand`.
    pub(crate) mode: Option<TableModeForm>,
    /// How long unused throughput of a partition is kept for bursts, in whole seconds, 0s to 1h.
    /// Default: `5m`.
    pub(crate) burst: Option<String>,
    /// Its partitions. Each has an equal share of the throughput; they lie on the nodes in turn.
    pub(crate) partitions: Option<PartitionsForm>,
    /// The largest read and the largest write. Larger ones are errors, which are not charged.
    /// Default: `{}`.
    pub(crate) max_access: Option<MaxAccessForm>,
    /// The members of the group of each partition, 1 to 3, each on another node. Default: `1`.
    #[cfg_attr(test, schemars(range(min = 1, max = 3)))]
    pub(crate) replicas: Option<u8>,
    /// The members that serve reads. Default: `any`.
    pub(crate) reads: Option<ReadsForm>,
    /// The writes that need room at the nodes of all required members. Default: `burst_only`.
    pub(crate) write_check: Option<WriteCheckForm>,
    /// The members that a write requires. Default: `all`.
    pub(crate) write_quorum: Option<WriteQuorumForm>,
    /// The account whose throughput bounds this table and others together. Default: none.
    pub(crate) account: Option<String>,
    /// Its indexes, at most 25. Each is a table of its own with the name `table/index`, which every
    /// write to the table is charged to as well. Default: none.
    pub(crate) indexes: Option<Vec<IndexForm>>,
}

/// An index of a table. The table gives the settings that it does not have.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "index")]
pub(crate) struct IndexForm {
    /// Its name, unique in the table, without `/`.
    pub(crate) name: String,
    /// The order of its keys. Default: `hash`.
    pub(crate) partition_by: Option<PartitionByForm>,
    /// Its promised throughput. Default: as its table, which must be provisioned, or the terms of
    /// a table on demand.
    pub(crate) provisioned: Option<ProvisionedForm>,
    /// Its partitions. Default: one.
    pub(crate) partitions: Option<PartitionsForm>,
}

/// The order of the keys of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "partition_by")]
pub(crate) enum PartitionByForm {
    /// By a hash of the key: neighbours in the order are unrelated keys.
    #[default]
    Hash,
    /// By the bytes of the key: a partition holds a run of the sorted keys.
    Range,
    /// By the hash slot of a Redis or Valkey Cluster: keys with the same tag in braces share one.
    Slot,
}

/// How the throughput of a table moves between its partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "table_mode")]
pub(crate) enum TableModeForm {
    /// Not at all: each partition has its share.
    #[default]
    Static,
    /// A partition may also spend what it left unused earlier, while its nodes have room.
    Burst,
    /// As `burst`, and partitions that are throttled are given more than their share while the
    /// table as a whole is below its throughput.
    Adaptive,
    /// Accesses are admitted from the throughput of the whole table; a partition is bounded by its
    /// ceiling and, beyond its share, by the room of its nodes.
    Global,
}

/// The members of a group that serve reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "reads")]
pub(crate) enum ReadsForm {
    /// Any of them for reads that need not be consistent; the leader for the others.
    #[default]
    Any,
    /// The leader alone.
    Local,
}

/// The writes that need room at the nodes of all required members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "write_check")]
pub(crate) enum WriteCheckForm {
    /// Those beyond the share of their partition.
    #[default]
    BurstOnly,
    /// All of them.
    Always,
}

/// The members that a write requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "write_quorum")]
pub(crate) enum WriteQuorumForm {
    /// All members.
    #[default]
    All,
    /// The leader and as many others as make a majority.
    Majority,
}

/// Capacity units a second, of reads and of writes.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "provisioned")]
pub(crate) struct ProvisionedForm {
    /// Units of reading in a second, 1 to 1000000.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) read: u64,
    /// Units of writing in a second, 1 to 1000000.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) write: u64,
}

/// The terms of a table on demand.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "on_demand")]
pub(crate) struct OnDemandForm {
    /// The limit of a new table, below which it never falls. Default:
    /// `{ read: 12000, write: 4000 }`.
    pub(crate) initial: Option<DirectionsForm>,
    /// The highest limit. Default: as for any table, 1000000 each.
    pub(crate) max: Option<DirectionsForm>,
    /// The time in which the limit at most doubles, 1s to 1h. Default: `1m`.
    pub(crate) growth: Option<String>,
}

/// Units a second of reads, of writes, or of both.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "directions")]
pub(crate) struct DirectionsForm {
    /// Units of reading in a second, 1 to 1000000. Default: as if the key above were
    /// left out.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) read: Option<u64>,
    /// Units of writing in a second, 1 to 1000000. Default: as if the key above were
    /// left out.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) write: Option<u64>,
}

/// The most bytes of one access. An access also weighs at most 800 units, whatever its size.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "max_access")]
pub(crate) struct MaxAccessForm {
    /// The bytes that a read returns, 1B to 6400KiB. Default: `1MiB`.
    pub(crate) read: Option<String>,
    /// The bytes that a write carries, 1B to 800KiB. Default: `400KiB`.
    pub(crate) write: Option<String>,
}

/// The partitions of a table.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "partitions")]
pub(crate) struct PartitionsForm {
    /// The number of partitions at first, and the least that merges leave, 1 to 16384. Default:
    /// `1`, or on demand as many as `initial` needs.
    #[cfg_attr(test, schemars(range(min = 1, max = 16384)))]
    pub(crate) min: Option<u32>,
    /// Whether a partition that is asked for more than its ceiling is split where that helps, and a
    /// table on demand as its limit grows. Default: `true`.
    pub(crate) split: Option<bool>,
    /// Whether neighbours that have been cool for ten minutes are merged. Default: `true`.
    pub(crate) merge: Option<bool>,
    /// The most that a partition serves, however much its table has left.
    pub(crate) ceiling: Option<CeilingForm>,
}

/// The most units in a second that one member of a partition serves.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "ceiling")]
pub(crate) struct CeilingForm {
    /// Units of reading, 1 to 1000000. Default: `3000`, or the share of a partition if that is
    /// more.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) read: Option<u64>,
    /// Units of writing, 1 to 1000000. Default: `1000`, or the share of a partition if that is
    /// more.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) write: Option<u64>,
}
