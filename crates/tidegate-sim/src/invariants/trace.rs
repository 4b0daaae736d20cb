//! The answers of a store, as events that can be checked.
//!
//! A simulator or a test gives each answer, each return and each change, in their order, to an
//! [`InvariantChecker`](crate::invariants::InvariantChecker). Tables are named by their positions
//! in the store, so that an event costs no allocation.

use tidegate_capacity::{
    AccessOperation, Bound, PartitionId, Position, Settlement, Throttled, Units, UnitsHold,
};
use tidegate_core::Timestamp;

/// An access, as its caller and its router know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedAccess {
    /// When it was decided.
    pub at: Timestamp,
    /// The position of its table.
    pub table: usize,
    /// The position of its key.
    pub position: Position,
    /// Read or write.
    pub operation: AccessOperation,
    /// Its weight.
    pub units: Units,
    /// Whether it is the first attempt of its caller.
    pub is_first: bool,
}

/// An access that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedAdmission {
    /// The access.
    pub access: TracedAccess,
    /// The partition that decided.
    pub partition: PartitionId,
    /// The member of its group that serves the access.
    pub member: usize,
    /// The units that were charged.
    pub billed: Units,
}

/// An access that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRefusal {
    /// The access.
    pub access: TracedAccess,
    /// The partition that decided.
    pub partition: PartitionId,
    /// The bucket that refused.
    pub bound: Bound,
    /// The level of that bucket, as the refusal shows it.
    pub level: Units,
    /// The units that the same request was charged elsewhere before, and that were taken back: a
    /// write is charged to its table before its indexes. Nodes and accounts may be the same.
    pub beside: Units,
}

/// The end of an admitted access: units are given back, or more are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedReturn {
    /// When.
    pub at: Timestamp,
    /// The units charged beyond the true weight of the access; negative if it weighed more.
    pub surplus: Units,
    /// The answer.
    pub settlement: Settlement,
}

impl TracedAdmission {
    /// The admission that made `hold`, of an access that weighs what it was charged.
    pub const fn from_hold(hold: &UnitsHold) -> Self {
        let access = TracedAccess {
            at: hold.charged_at(),
            table: hold.table_position(),
            position: hold.position(),
            operation: hold.operation(),
            units: hold.units(),
            is_first: true,
        };
        Self { access, partition: hold.partition(), member: hold.member(), billed: hold.units() }
    }
}

impl TracedRefusal {
    /// The refusal of `access`.
    pub const fn new(access: TracedAccess, throttled: &Throttled<'_>) -> Self {
        let Throttled { partition, bound, level, .. } = *throttled;
        Self { access, partition, bound, level, beside: Units::ZERO }
    }
}
