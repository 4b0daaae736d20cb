//! The trace of a run: what clients and routers see, which is all that checkers judge by.

use tidegate_capacity::{PartitionId, PartitionStatus, Position, Throttled};

/// One request and its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecisionEvent<'a> {
    /// When, in nanoseconds since the world began.
    pub(crate) at: u64,
    /// The position of the table in the scenario.
    pub(crate) table: usize,
    pub(crate) position: Position,
    /// The weight of the request in thousandths of a unit.
    pub(crate) cost: i64,
    pub(crate) answer: DecisionAnswer<'a>,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DecisionAnswer<'a> {
    /// It was admitted by this partition, is served by this member, and was billed so many
    /// thousandths.
    Admitted { partition: PartitionId, member: usize, billed: i64 },
    /// It was refused.
    Refused(&'a Throttled<'a>),
}

/// A partition as routers know it, after a change or at the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionRecord {
    pub(crate) id: PartitionId,
    pub(crate) range: tidegate_capacity::KeyRange,
    /// The position of the node that leads its group.
    pub(crate) leader: usize,
    /// Thousandths a second.
    pub(crate) base: i64,
    pub(crate) rate: i64,
    pub(crate) ceiling: i64,
    /// Thousandths left.
    pub(crate) allocation: i64,
    pub(crate) burst: i64,
    /// Thousandths since it was made: admitted, asked for, and refused by its own buckets.
    pub(crate) admitted: i64,
    pub(crate) offered: i64,
    pub(crate) throttled: i64,
}

impl PartitionRecord {
    /// The record of one direction of a partition, whose group the node at position `leader` leads.
    pub(crate) fn of(status: &PartitionStatus<'_>, is_write: bool, leader: usize) -> Self {
        let direction = if is_write { &status.write } else { &status.read };
        Self {
            id: status.id,
            range: status.range,
            leader,
            base: direction.base.as_thousandths(),
            rate: direction.rate.as_thousandths(),
            ceiling: direction.ceiling.as_thousandths(),
            allocation: direction.left.as_thousandths(),
            burst: direction.burst_left.as_thousandths(),
            admitted: direction.admitted.as_thousandths(),
            offered: direction.offered.as_thousandths(),
            throttled: direction.throttled.as_thousandths(),
        }
    }
}
