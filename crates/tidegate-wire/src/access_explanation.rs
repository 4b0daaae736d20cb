//! The part of an explanation that shows the table of an access: the state of its partition.

use serde::{Deserialize, Serialize};

use crate::expected_decision::ExpectedDecision;

/// The partition that a request accesses: of its table, or of an index that a write changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AccessExplanation {
    /// The table.
    pub table: String,
    /// The index of the table; absent for the table itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// `read` or `write`; each has throughput of its own.
    pub operation: String,
    /// How the throughput of the table moves between its partitions: `static`, `burst`, `adaptive`
    /// or `global`.
    pub mode: String,
    /// The capacity units that the access would be charged.
    pub units: f64,
    /// The decision of the table now: `admit` or `refuse`.
    pub would: ExpectedDecision,
    /// The number of the partition of the key.
    pub partition: u32,
    /// The keys of that partition.
    pub key_range: String,
    /// The node on which the partition lies.
    pub node: String,
    /// Capacity units that the node has to spare; negative when its partitions have used more.
    pub node_left: f64,
    /// Capacity units a second that the partition is allocated for this operation.
    pub rate: f64,
    /// Capacity units of the allocation that are left; negative in debt.
    pub left: f64,
    /// The most capacity units a second of one member of the partition.
    pub ceiling: f64,
    /// Burst credit left; absent in a mode that spends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_left: Option<f64>,
    /// Capacity units that the partition admitted in the last second.
    pub consumed: f64,
    /// The throughput of the whole table; absent without global admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensExplanation>,
    /// The throughput of the account of the table; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_tokens: Option<TokensExplanation>,
    /// Where a split of the partition would help, or why none would: `split`, `hot_key`,
    /// `sequential`, `moving`, `scan`, `useless` or `wait`. Absent while the partition is not warm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
}

/// The throughput that a table or an account has left.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TokensExplanation {
    /// Capacity units a second.
    pub rate: f64,
    /// Capacity units left; negative in debt.
    pub left: f64,
    /// Whether members lease them from a shared store: then `left` is as much as this member knows
    /// of, or while the store is away what is left of its share. Absent if not.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub leased: bool,
}
