//! The capacity and overload planes as they are written: nodes, tables and resources.

use schemars::JsonSchema;
use serde::Deserialize;

/// A node: a machine or process on which partitions of tables lie.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "node")]
pub(crate) struct NodeForm {
    /// Its name, unique.
    pub(crate) name: String,
    /// Its capacity units a second, reads and writes together, 1 to 1000000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) units: u64,
    /// The part of its units that is promised to no partition and not spent on bursts, 0 to 0.9 in
    /// hundredths. The partitions on it must not be promised more than the rest. Default: `0.1`.
    pub(crate) reserve: Option<String>,
}

/// An account: a bound on the throughput of several tables together.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "account")]
pub(crate) struct AccountForm {
    /// Its name, unique. Tables name it with `account`.
    pub(crate) name: String,
    /// Units of reading in a second of all its tables together, 1 to 1000000. Default: `40000`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) read: Option<u64>,
    /// Units of writing in a second of all its tables together, 1 to 1000000. Default: `40000`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) write: Option<u64>,
}

/// A table of a partitioned store. Requests that name it with `access` are charged capacity units.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "table")]
pub(crate) struct TableForm {
    /// Its name, unique in the namespace. Another name is another table, which starts full.
    pub(crate) name: String,
    /// The order of its keys, which decides the partition of each. Default: `hash`.
    pub(crate) partition_by: Option<PartitionByForm>,
    /// The text that all keys begin with, for `partition_by: range`: the 32 bytes that count begin
    /// behind it. At most 1024 bytes. Default: empty.
    pub(crate) key_prefix: Option<String>,
    /// The promised throughput.
    pub(crate) provisioned: ProvisionedForm,
    /// How the throughput moves between partitions. Default: `static`.
    pub(crate) mode: Option<TableModeForm>,
    /// How long unused throughput of a partition is kept for bursts, in whole seconds, 0s to 1h.
    /// Default: `5m`.
    pub(crate) burst: Option<String>,
    /// Its partitions. Each has an equal share of the throughput; they lie on the nodes in turn.
    pub(crate) partitions: Option<PartitionsForm>,
    /// The members of the group of each partition, 1 to 3, each on another node. Default: `1`.
    #[schemars(range(min = 1, max = 3))]
    pub(crate) replicas: Option<u8>,
    /// The members that serve reads. Default: `any`.
    pub(crate) reads: Option<ReadsForm>,
    /// The writes that need room at the nodes of all required members. Default: `burst_only`.
    pub(crate) write_check: Option<WriteCheckForm>,
    /// The members that a write requires. Default: `all`.
    pub(crate) write_quorum: Option<WriteQuorumForm>,
    /// The account whose throughput bounds this table and others together. Default: none.
    pub(crate) account: Option<String>,
}

/// The order of the keys of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "partition_by")]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "table_mode")]
pub(crate) enum TableModeForm {
    /// Not at all: each partition has its share.
    #[default]
    Static,
    /// A partition may also spend what it left unused earlier, while its nodes have room.
    Burst,
    /// Accesses are admitted from the throughput of the whole table; a partition is bounded by its
    /// ceiling and, beyond its share, by the room of its nodes.
    Global,
}

/// The members of a group that serve reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "reads")]
pub(crate) enum ReadsForm {
    /// Any of them for reads that need not be consistent; the leader for the others.
    #[default]
    Any,
    /// The leader alone.
    Local,
}

/// The writes that need room at the nodes of all required members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "write_check")]
pub(crate) enum WriteCheckForm {
    /// Those beyond the share of their partition.
    #[default]
    BurstOnly,
    /// All of them.
    Always,
}

/// The members that a write requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "write_quorum")]
pub(crate) enum WriteQuorumForm {
    /// All members.
    #[default]
    All,
    /// The leader and as many others as make a majority.
    Majority,
}

/// Capacity units a second, of reads and of writes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "provisioned")]
pub(crate) struct ProvisionedForm {
    /// Units of reading in a second, 1 to 1000000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) read: u64,
    /// Units of writing in a second, 1 to 1000000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) write: u64,
}

/// The partitions of a table.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "partitions")]
pub(crate) struct PartitionsForm {
    /// The number of partitions, 1 to 16384. Default: `1`.
    #[schemars(range(min = 1, max = 16384))]
    pub(crate) min: Option<u32>,
    /// The most that a partition serves, however much its table has left.
    pub(crate) ceiling: Option<CeilingForm>,
}

/// The most units in a second that one member of a partition serves.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ceiling")]
pub(crate) struct CeilingForm {
    /// Units of reading, 1 to 1000000. Default: `3000`, or the share of a partition if that is
    /// more.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) read: Option<u64>,
    /// Units of writing, 1 to 1000000. Default: `1000`, or the share of a partition if that is
    /// more.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) write: Option<u64>,
}

/// A thing that serves requests: the upstream of the proxy with this name, or a name that requests
/// give.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "resource")]
pub(crate) struct ResourceConfig {
    /// The most requests in flight at once, 1 to 1000000. A place is held until the work is done,
    /// where its end is reported: in the proxy, in a layer, and by `check` with a permit.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) concurrency: u64,
    /// How requests wait for a place instead of being refused. Default: they do not wait.
    pub(crate) queue: Option<QueueForm>,
    /// The HTTP status of its refusals, 400 to 599. Default: that of the reason, which is 503.
    #[schemars(range(min = 400, max = 599))]
    pub(crate) status: Option<u16>,
}

/// How requests wait for a place of a resource.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "queue")]
pub(crate) struct QueueForm {
    /// The most requests that wait at a time, 1 to 1000000. Then a request of a higher class takes
    /// the place of one of the lowest. Default: `10000`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) requests: Option<u64>,
    /// The most memory of requests that wait, 64KiB to 64GiB. Default: `64MiB`.
    pub(crate) bytes: Option<String>,
    /// How long a request waits at most, by its class.
    pub(crate) wait: Option<WaitForm>,
}

/// How long a request waits at most, by its class, 1ms to 1h. A class that is left out does not
/// wait.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "wait")]
pub(crate) struct WaitForm {
    /// Default: it does not wait.
    pub(crate) critical_plus: Option<String>,
    /// Default: it does not wait.
    pub(crate) critical: Option<String>,
    /// Default: it does not wait.
    pub(crate) sheddable_plus: Option<String>,
    /// Default: it does not wait.
    pub(crate) sheddable: Option<String>,
}
