//! Plans: one split, merge or move that is proposed or runs, with its reason and its benefit.

use core::fmt;

use tidegate_core::{AccessOperation, Timestamp};

use crate::control::placement::MoveOrder;
use crate::control::reshape::SplitShares;
use crate::layout::partition_id::PartitionId;
use crate::layout::position::Position;
use crate::units::Units;

/// A change of one partition that a control loop proposes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The namespace of the table.
    pub namespace: String,
    /// The table.
    pub table: String,
    /// The change.
    pub change: PlannedChange,
    /// Why.
    pub reason: PlanReason,
    /// The units a second that it lets through, as predicted; zero for a merge.
    pub benefit: Units,
    /// When it was proposed.
    pub proposed_at: Timestamp,
}

impl Plan {
    /// Whether it changes this partition.
    pub(crate) fn is_of(&self, id: PartitionId) -> bool {
        match &self.change {
            PlannedChange::Split { partition, .. } | PlannedChange::Isolate { partition, .. } => {
                *partition == id
            }
            PlannedChange::Merge { left } => *left == id,
            PlannedChange::Move(order) => order.partition == id,
        }
    }

    /// A plan for a table, without a benefit that is known.
    pub(crate) fn new(
        (namespace, table): (&str, &str),
        change: PlannedChange,
        reason: PlanReason,
        proposed_at: Timestamp,
    ) -> Self {
        let (namespace, table) = (namespace.to_owned(), table.to_owned());
        Self { namespace, table, change, reason, benefit: Units::ZERO, proposed_at }
    }
}

/// The change of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum PlannedChange {
    /// A partition is cut.
    Split {
        /// The partition.
        partition: PartitionId,
        /// The first position of the right part.
        at: Position,
        /// The parts of reads and writes that the left part gets.
        shares: SplitShares,
    },
    /// A key is parted from its neighbours by two cuts, one after the other.
    Isolate {
        /// The partition.
        partition: PartitionId,
        /// The position of the key, which is the first one of the middle part.
        key: Position,
        /// The first position of the right part.
        behind: Position,
        /// The parts of reads and writes before the key, and of the rest those of the key.
        shares: [SplitShares; 2],
    },
    /// A partition is joined with the one behind it.
    Merge {
        /// The left partition.
        left: PartitionId,
    },
    /// A replica goes to another node.
    Move(MoveOrder),
}

impl fmt::Display for PlannedChange {
    /// `partition 3 is cut before 8000000000000000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Split { partition, at, .. } => write!(f, "partition {partition} is cut before {at}"),
            Self::Isolate { partition, key, behind, .. } => {
                write!(f, "partition {partition} is cut before {key} and before {behind}")
            }
            Self::Merge { left } => write!(f, "partition {left} is joined with the one behind it"),
            Self::Move(MoveOrder { partition, from, to, .. }) => {
                write!(f, "partition {partition} moves from {from} to {to}")
            }
        }
    }
}

/// The reason of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanReason {
    /// The partition is asked for more than its ceiling.
    AboveCeiling(AccessOperation),
    /// A key alone is asked for more than the ceiling; its neighbours are parted from it.
    HotKey(AccessOperation),
    /// Neighbours have been cool for long.
    Cool,
    /// The node is asked for more than it can do.
    NodeBusy,
    /// The table grew on demand, and its limit needs more partitions.
    Growth,
}

impl PlanReason {
    /// The reason in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AboveCeiling(_) => "it is asked for more than its ceiling",
            Self::HotKey(_) => {
                "one key alone is asked for more than the ceiling; its neighbours are parted from it"
            }
            Self::Cool => "neighbours have been cool for long",
            Self::NodeBusy => "its node is nearly full",
            Self::Growth => "the table grows on demand",
        }
    }

    /// The direction whose ceiling is too low for the load; `None` for a plan of another reason.
    pub const fn operation(self) -> Option<AccessOperation> {
        match self {
            Self::AboveCeiling(operation) | Self::HotKey(operation) => Some(operation),
            Self::Cool | Self::NodeBusy | Self::Growth => None,
        }
    }
}
