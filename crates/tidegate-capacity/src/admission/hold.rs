//! The units that an admitted access holds.

use tidegate_core::{AccessOperation, Timestamp};

use crate::admission::tokens::{TableCharge, TokenCharge};
use crate::layout::partition_id::PartitionId;
use crate::layout::position::Position;
use crate::node::NodeCharge;
use crate::table::TableId;
use crate::throughput::{MEMBERS_MAX, ThroughputCharge};
use crate::units::Units;

/// The units an admitted access was charged.
///
/// It names the partition, the nodes and the position of the key. Units are given back, or settled,
/// to the partition that owns the position then, and to the nodes that did the work.
///
/// When the hold is dropped, the units stay charged: the work was done and weighed as expected.
#[derive(Debug)]
pub struct UnitsHold {
    /// The position of the table, where it was when it was charged.
    pub(crate) table: u32,
    pub(crate) table_id: TableId,
    pub(crate) partition: PartitionId,
    /// In thousandths; at most [`Units::LARGEST_REQUEST`].
    pub(crate) units: u32,
    pub(crate) position: Position,
    pub(crate) on_partition: ThroughputCharge,
    pub(crate) on_nodes: NodeCharges,
    pub(crate) on_table: Option<TableCharge>,
    pub(crate) on_account: Option<AccountCharge>,
    /// The holds of the indexes that a write was charged to as well.
    pub(crate) indexes: Option<Box<[Self]>>,
    pub(crate) is_read: bool,
}

const _: () = {
    assert!(Units::LARGEST_REQUEST.as_thousandths() <= u32::MAX as i64, "the units of a hold fit");
};

/// The charges of the nodes that serve an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeCharges {
    charges: [NodeCharge; MEMBERS_MAX],
    count: u8,
}

impl NodeCharges {
    pub(crate) const NONE: Self = Self { charges: [NodeCharge::NOWHERE; MEMBERS_MAX], count: 0 };

    pub(crate) fn push(&mut self, charge: NodeCharge) {
        self.charges[usize::from(self.count)] = charge;
        self.count += 1;
    }

    pub(crate) fn as_slice(&self) -> &[NodeCharge] {
        &self.charges[..usize::from(self.count)]
    }
}

/// The charge of an account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountCharge {
    /// The number of the account, never used twice.
    pub(crate) account: u32,
    pub(crate) tokens: TokenCharge,
}

impl UnitsHold {
    /// The units charged to the table, without those of its indexes.
    pub const fn units(&self) -> Units {
        Units::from_thousandths(self.units as i64)
    }

    /// The position of the table in the store, where it was when it was charged.
    pub const fn table_position(&self) -> usize {
        self.table as usize
    }

    /// Read or write.
    pub const fn operation(&self) -> AccessOperation {
        if self.is_read { AccessOperation::Read } else { AccessOperation::Write }
    }

    /// The partition of the table that was charged. It may have been split or merged since.
    pub const fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The position of the key.
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The member of the partition's group that serves the access; 0 is the leader.
    pub const fn member(&self) -> usize {
        self.on_partition.member as usize
    }

    /// The holds of the indexes that the access was charged to as well.
    pub fn indexes(&self) -> &[Self] {
        self.indexes.as_deref().unwrap_or_default()
    }

    /// When the units were charged.
    pub const fn charged_at(&self) -> Timestamp {
        self.on_partition.at()
    }
}
