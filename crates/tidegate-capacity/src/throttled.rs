//! The refusal of the capacity plane, with its details.

use tidegate::{Reason, Timestamp};

use crate::access::AccessOperation;
use crate::key_range::KeyRange;
use crate::units::Units;

/// An access that may not go ahead: why, and from when on it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttled<'a> {
    /// [`Reason::KeyRangeThroughputExceeded`]: this partition is used up and another one of the
    /// table is not. [`Reason::TableThroughputExceeded`]: all of them are.
    pub reason: Reason,
    /// The table.
    pub table: &'a str,
    /// Read or write; each has throughput of its own.
    pub operation: AccessOperation,
    /// The partition, counted from 0.
    pub partition: u32,
    /// The hashes of the keys of that partition.
    pub range: KeyRange,
    /// The node on which the partition lies.
    pub node: &'a str,
    /// The first instant at which the same access is admitted, if nothing else is charged before.
    pub retry: Timestamp,
    /// The units a second of this operation, of the partition or of the table, as the reason says.
    pub limit: Units,
    /// The units left of them: nothing.
    pub remaining: Units,
    /// The units a second that the partition is allocated for this operation.
    pub rate: Units,
    /// The units a second that the partition may reach with bursts; `None` where no burst is
    /// configured, as always in this version.
    pub ceiling: Option<Units>,
    /// The units a second that the partition consumed lately; `None` where consumption is not
    /// observed, as always in this version.
    pub consumed: Option<Units>,
    /// The burst credit left; `None` where no burst is configured, as always in this version.
    pub burst_left: Option<Units>,
}
