//! Warm throughput: what a table can reach at once, because its partitions are there or may be cut
//! without the delay of a verdict.
//!
//! | table | what its warm throughput does |
//! |---|---|
//! | on demand | its limit is never below, and its partitions are cut for it at the beginning |
//! | provisioned, mode global | its partitions are cut for it at the beginning, and may be cut again at once after they have merged. What it may use stays its provisioned throughput: warm throughput above that prepares an increase |
//! | other modes | an error: there, more partitions mean less for each |
//!
//! It is a right, not a number of partitions to keep: partitions that stay cool are merged.

/// The units a second that a table can reach at once.
///
/// ```
/// # use tidegate_capacity::{Capacity, TableConfig, TableMode, WarmThroughput};
/// # use tidegate_core::Timestamp;
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let table = TableConfig::new("shop", "orders", 3_000, 1_000).mode(TableMode::Global);
/// let table = table.warm(WarmThroughput { read: 12_000, write: 4_000 }).nodes(["node-a"]);
/// let capacity = Capacity::builder().node("node-a", 10_000).table(table).build()?;
/// // Reads and writes of 3 000 and 1 000 units a second fill one partition each.
/// assert_eq!(capacity.partitions("shop", "orders", now)?.len(), 8);
/// assert_eq!(capacity.token_rate("shop", "orders", tidegate_capacity::AccessOperation::Write)?.whole_left(), 1_000);
/// # Ok::<(), tidegate_capacity::CapacityError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmThroughput {
    /// Units of reading; 1 to [`crate::TableConfig::UNITS_PER_SECOND_MAX`].
    pub read: u64,
    /// Units of writing; 1 to [`crate::TableConfig::UNITS_PER_SECOND_MAX`].
    pub write: u64,
}
