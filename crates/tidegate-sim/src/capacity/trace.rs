//! The trace of a run: what clients and routers see, which is all that checkers judge by.

use tidegate_capacity::{PartitionId, Position, Throttled};

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
    /// It was admitted by this partition and billed so many thousandths.
    Admitted { partition: PartitionId, billed: i64 },
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
