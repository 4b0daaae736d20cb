//! The capacity and overload planes as they are written: nodes, tables and resources.

use schemars::JsonSchema;
use serde::Deserialize;

/// A node: a machine or process on which partitions of tables lie.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "node")]
pub(crate) struct NodeConfig {
    /// Its name, unique.
    pub(crate) name: String,
    /// Its capacity units a second, reads and writes together, 1 to 1000000. The partitions on it
    /// must not be promised more.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) units: u64,
}

/// A table of a partitioned store. Requests that name it with `access` are charged capacity units.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "table")]
pub(crate) struct TableConfig {
    /// Its name, unique in the namespace. Another name is another table, which starts full.
    pub(crate) name: String,
    /// How its keys are cut into partitions. Default: `hash`.
    pub(crate) partition_by: Option<PartitionByConfig>,
    /// The promised throughput.
    pub(crate) provisioned: ProvisionedForm,
    /// How the throughput moves between partitions. Default: `static`.
    pub(crate) mode: Option<TableModeConfig>,
    /// Its partitions. Each has an equal share of the throughput; they lie on the nodes in turn.
    pub(crate) partitions: Option<PartitionsForm>,
}

/// How the keys of a table are cut into partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "partition_by")]
pub(crate) enum PartitionByConfig {
    /// By a hash of the key.
    #[default]
    Hash,
}

/// How the throughput of a table moves between its partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "table_mode")]
pub(crate) enum TableModeConfig {
    /// Not at all: each partition has its share.
    #[default]
    Static,
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
    /// The number of partitions, 1 to 1000. Default: `1`.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) min: Option<u32>,
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
