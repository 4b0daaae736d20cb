//! The capacity and overload planes as they are written: nodes, accounts and resources.

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
