//! The capacity plane as it is written: nodes and accounts.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

/// A node: a machine or process on which partitions of tables lie.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "node")]
pub(crate) struct NodeForm {
    /// Its name, unique.
    pub(crate) name: String,
    /// Its capacity units a second, reads and writes together, 1 to 1000000.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) units: u64,
    /// The part of its units that is promised to no partition and not spent on bursts, 0 to 0.9 in
    /// hundredths. The partitions on it must not be promised more than the rest. Default: `0.1`.
    pub(crate) reserve: Option<String>,
}

/// An account: a bound on the throughput of several tables together.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "account")]
pub(crate) struct AccountForm {
    /// Its name, unique. Tables name it with `account`.
    pub(crate) name: String,
    /// Units of reading in a second of all its tables together, 1 to 1000000. Default: `40000`.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) read: Option<u64>,
    /// Units of writing in a second of all its tables together, 1 to 1000000. Default: `40000`.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) write: Option<u64>,
}
