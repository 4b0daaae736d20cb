//! The trace of a run: what clients and routers see, which is all that checkers judge by.

use crate::invariants::trace::TracedAccess;
use tidegate_capacity::{AccessOperation, PartitionId, PartitionStatus, Position, Units};

use crate::capacity::plane::instant;

/// A request as its client knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedRequest {
    /// When, in nanoseconds since the world began.
    pub(crate) at: u64,
    /// The number of the stream of requests.
    pub(crate) stream: usize,
    /// The position of the table in the scenario.
    pub(crate) table: usize,
    pub(crate) operation: AccessOperation,
    pub(crate) position: Position,
    /// The weight of the request in thousandths of a unit.
    pub(crate) cost: i64,
}

/// A partition as routers know it, after a change or at the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionRecord {
    pub(crate) id: PartitionId,
    pub(crate) range: tidegate_capacity::KeyRange,
    /// The position of the node that leads its group.
    pub(crate) leader: usize,
    /// Thousandths a second.
    pub(crate) rate: i64,
    pub(crate) ceiling: i64,
    /// Thousandths since it was made: asked for, and refused by its own buckets.
    pub(crate) offered: i64,
    pub(crate) throttled: i64,
}

impl CheckedRequest {
    #[inline]
    pub(crate) const fn traced(&self) -> TracedAccess {
        TracedAccess {
            at: instant(self.at),
            table: self.table,
            position: self.position,
            operation: self.operation,
            units: Units::from_thousandths(self.cost),
            // A refused request is not tried again.
            is_first: true,
        }
    }
}

impl PartitionRecord {
    /// The record of one direction of a partition, whose group the node at position `leader` leads.
    pub(crate) fn new(status: &PartitionStatus<'_>, operation: AccessOperation, leader: usize) -> Self {
        let direction = match operation {
            AccessOperation::Read => &status.read,
            AccessOperation::Write => &status.write,
        };
        Self {
            id: status.id,
            range: status.range,
            leader,
            rate: direction.rate.as_thousandths(),
            ceiling: direction.ceiling.as_thousandths(),
            offered: direction.offered.as_thousandths(),
            throttled: direction.throttled.as_thousandths(),
        }
    }
}
