//! The refusal of the capacity plane, with its details.

use tidegate_core::{AccessOperation, CapacityDetails, Reason, RefusalDetails, Timestamp};

use crate::layout::key_range::KeyRange;
use crate::layout::partition_id::PartitionId;
use crate::units::Units;

/// The bucket that refused an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// The tokens of the table.
    Table,
    /// The share of a router that decides alone, because it cannot reach the lender of the table's
    /// tokens.
    TableShare,
    /// The tokens of the account.
    Account,
    /// The tokens of an on-demand table that has reached its maximum.
    OnDemandMaximum,
    /// The ceiling of the partition.
    Ceiling,
    /// The allocation of the partition, where nothing may be spent beyond it.
    Allocation,
    /// The burst credit of the partition, whose allocation is used up.
    Burst,
    /// The bucket of the node that leads the partition's group, or that would serve the read.
    Node,
    /// The bucket of another node of the group.
    Replica,
    /// The partition moves.
    Move,
}

impl Bound {
    /// The reason that callers are told.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Table => Reason::TableThroughputExceeded,
            Self::TableShare => Reason::StoreUnavailable,
            Self::Account => Reason::AccountThroughputExceeded,
            Self::OnDemandMaximum => Reason::OnDemandMaximumExceeded,
            Self::Ceiling | Self::Allocation | Self::Burst => Reason::KeyRangeThroughputExceeded,
            Self::Node => Reason::NodeSaturated,
            Self::Replica => Reason::ReplicaSaturated,
            Self::Move => Reason::Migrating,
        }
    }
}

/// An access that may not go ahead: why, and from when on it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttled<'a> {
    /// The reason that callers are told: that of `bound`, or
    /// [`Reason::TableThroughputExceeded`] when the allocations of all partitions are used up.
    pub reason: Reason,
    /// The bucket that refused the access.
    pub bound: Bound,
    /// The level of that bucket: at most zero where anything left admits an access (`Allocation`,
    /// `Ceiling`), and below what the access needs of it elsewhere. Zero for a move.
    pub level: Units,
    /// The units of the access.
    pub units: Units,
    /// The table.
    pub table: &'a str,
    /// The index of the table; `None`: the table itself.
    pub index: Option<&'a str>,
    /// Read or write; each has throughput of its own.
    pub operation: AccessOperation,
    /// The partition.
    pub partition: PartitionId,
    /// The keys of that partition.
    pub range: KeyRange,
    /// The node of the bucket that refused, or the one that leads the partition's group.
    pub node: &'a str,
    /// The first instant at which the same access is admitted, if nothing else is charged before
    /// and no other bucket is short as well. The last instant there is, if the bucket never holds
    /// as much.
    pub retry: Timestamp,
    /// The units a second of this operation, of the bucket that refused.
    pub limit: Units,
    /// The units left of them, at least zero.
    pub remaining: Units,
    /// The units a second that the partition is allocated for this operation.
    pub rate: Units,
    /// The units a second that the partition may reach; `None` where its share is the bound.
    pub ceiling: Option<Units>,
    /// The units that the partition consumed in the last second.
    pub consumed: Units,
    /// The burst credit left; `None` in a mode that spends none.
    pub burst_left: Option<Units>,
}

impl Throttled<'_> {
    /// Whether the same access is never admitted, because the bucket never holds as much.
    pub const fn is_never(&self) -> bool {
        self.retry.as_nanos() == u64::MAX
    }

    /// The name that `DynamoDB` gives the reason, of the sixteen that it has: resource, operation
    /// and limit. `None` for a node, a replica, a move and a share, which it does not show.
    pub const fn dynamodb_reason(&self) -> Option<&'static str> {
        macro_rules! by_limit {
            ($resource:literal) => {
                match self.reason {
                    Reason::TableThroughputExceeded => {
                        concat!($resource, "ProvisionedThroughputExceeded")
                    }
                    Reason::AccountThroughputExceeded => concat!($resource, "AccountLimitExceeded"),
                    Reason::KeyRangeThroughputExceeded => {
                        concat!($resource, "KeyRangeThroughputExceeded")
                    }
                    Reason::OnDemandMaximumExceeded => {
                        concat!($resource, "MaxOnDemandThroughputExceeded")
                    }
                    _ => return None,
                }
            };
        }
        Some(match (self.index.is_some(), self.operation) {
            (false, AccessOperation::Read) => by_limit!("TableRead"),
            (false, AccessOperation::Write) => by_limit!("TableWrite"),
            (true, AccessOperation::Read) => by_limit!("IndexRead"),
            (true, AccessOperation::Write) => by_limit!("IndexWrite"),
        })
    }

    /// The details of the refusal.
    pub fn details(&self) -> RefusalDetails {
        let thousandths = |units: Units| u64::try_from(units.as_thousandths()).unwrap_or(0);
        let (table, partition, range) = (self.table, self.partition.0, self.range.to_string());
        let rate = thousandths(self.rate);
        let mut details = CapacityDetails::new(table, self.operation, partition, range, self.node, rate);
        details.index = self.index.map(Into::into);
        details.ceiling_thousandths = self.ceiling.map(thousandths);
        details.consumed_thousandths = Some(thousandths(self.consumed));
        details.burst_left_thousandths = self.burst_left.map(thousandths);
        RefusalDetails::Capacity(details)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;
    use crate::layout::position::{PartitionBy, Position};

    #[test]
    fn resource_operation_and_limit_give_the_sixteen_reasons_and_four_are_not_shown() {
        let bounds = [
            Bound::Table,
            Bound::TableShare,
            Bound::Account,
            Bound::OnDemandMaximum,
            Bound::Ceiling,
            Bound::Allocation,
            Bound::Burst,
            Bound::Node,
            Bound::Replica,
            Bound::Move,
        ];
        let mut names = std::collections::BTreeSet::new();
        for bound in bounds {
            for (index, operation) in [None, Some("by-user")]
                .into_iter()
                .flat_map(|index| [AccessOperation::Read, AccessOperation::Write].map(|one| (index, one)))
            {
                let throttled = Throttled {
                    reason: bound.reason(),
                    bound,
                    level: Units::ZERO,
                    units: Units::whole(1),
                    table: "orders",
                    index,
                    operation,
                    partition: PartitionId(7),
                    range: KeyRange { by: PartitionBy::Hash, first: Position::FIRST, end: None },
                    node: "a",
                    retry: Timestamp::from_secs(1),
                    limit: Units::whole(10),
                    remaining: Units::ZERO,
                    rate: Units::whole(10),
                    ceiling: Some(Units::whole(1000)),
                    consumed: Units::whole(11),
                    burst_left: Some(Units::ZERO),
                };
                let is_hidden =
                    matches!(bound, Bound::Node | Bound::Replica | Bound::Move | Bound::TableShare);
                assert_eq!(throttled.dynamodb_reason().is_none(), is_hidden);
                names.extend(throttled.dynamodb_reason());
                let details = throttled.details();
                let details = details.capacity().unwrap();
                assert_eq!((details.index.as_deref(), details.partition), (index, 7));
                assert_eq!(details.burst_left_thousandths, Some(0));
            }
        }
        assert_eq!(names.len(), 16);
        assert!(names.contains("IndexWriteKeyRangeThroughputExceeded"));
    }
}
