//! The state of a table that an access meets, as explanations show it.

use tidegate_capacity::split::SplitVerdict;
use tidegate_capacity::{AccessOperation, CapacityStatus, DirectionStatus, TableMode, TokensStatus, Units};

/// The units of an admitted access, or of one that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessCharge {
    /// The units charged to the table, without those of its indexes.
    pub units: Units,
    /// The units of the allocation that the partition of the key has left, for reads or for writes;
    /// negative in debt.
    pub left: Units,
}

/// The state of the partition that one access is for: in a table, or in an index that a write
/// changes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AccessReport {
    /// The table.
    pub table: String,
    /// The index of the table; `None`: the table itself.
    pub index: Option<String>,
    /// Read or write; each has throughput of its own.
    pub operation: AccessOperation,
    /// How the throughput of the table moves between its partitions.
    pub mode: TableMode,
    /// The units that the access would be charged.
    pub units: Units,
    /// The number of the partition of the key.
    pub partition: u32,
    /// The keys of that partition.
    pub key_range: String,
    /// The node on which the partition lies.
    pub node: String,
    /// The units that the node has to spare.
    pub node_left: Units,
    /// The rates and levels of the partition.
    pub direction: DirectionStatus,
    /// The tokens of the table; `None` without global admission.
    pub tokens: Option<TokensStatus>,
    /// The tokens of the account that bounds the table; `None` without one.
    pub account_tokens: Option<TokensStatus>,
    /// Where a split of the partition would help, or why none would; `None` while the partition is
    /// not warm.
    pub verdict: Option<SplitVerdict>,
    /// Whether the partition would admit the access now.
    pub is_admitted: bool,
}

impl AccessReport {
    pub(crate) fn new(status: &CapacityStatus<'_>, verdict: Option<SplitVerdict>) -> Self {
        Self {
            table: status.table.to_owned(),
            index: status.index.map(str::to_owned),
            operation: status.operation,
            mode: status.mode,
            units: status.units,
            partition: status.partition.0,
            key_range: status.range.to_string(),
            node: status.node.to_owned(),
            node_left: status.node_left,
            direction: status.direction,
            tokens: status.tokens,
            account_tokens: status.account_tokens,
            verdict,
            is_admitted: status.throttled.is_none(),
        }
    }
}
