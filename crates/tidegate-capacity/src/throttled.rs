//! The refusal of the capacity plane, with its details.

use tidegate_core::{AccessOperation, CapacityDetails, KeyHashRange, Reason, RefusalDetails, Timestamp};

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

impl Throttled<'_> {
    /// The details of the refusal.
    pub fn details(&self) -> RefusalDetails {
        let key_range = KeyHashRange { first: self.range.first, last: self.range.last };
        let thousandths = |units: Units| u64::try_from(units.as_thousandths()).unwrap_or(0);
        let rate = thousandths(self.rate);
        let mut details =
            CapacityDetails::new(self.table, self.operation, self.partition, key_range, self.node, rate);
        details.ceiling_thousandths = self.ceiling.map(thousandths);
        details.consumed_thousandths = self.consumed.map(thousandths);
        details.burst_left_thousandths = self.burst_left.map(thousandths);
        RefusalDetails::Capacity(details)
    }
}
