//! One access as a partition decides it, and the bucket that has too little for it.

use tidegate_core::Timestamp;

use crate::access::{Access, AccessKind};
use crate::admission::throttled::Bound;
use crate::layout::position::Position;
use crate::units::Units;

/// One access to one table, weighed and located.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeighedAccess {
    pub(crate) is_read: bool,
    pub(crate) needs_leader: bool,
    pub(crate) position: Position,
    /// In thousandths; at most the largest request.
    pub(crate) cost: u64,
    pub(crate) is_scan: bool,
}

/// The bucket that has too little for an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shortage {
    pub(crate) bound: Bound,
    pub(crate) level: Units,
    pub(crate) retry: Timestamp,
    /// The number of the node of the bucket, if it is one of a node.
    pub(crate) node: Option<u32>,
}

impl WeighedAccess {
    pub(crate) fn new(access: &Access<'_>, position: Position, units: Units) -> Self {
        Self {
            is_read: access.kind.is_read(),
            needs_leader: access.kind.needs_leader(),
            position,
            cost: units.as_thousandths().cast_unsigned(),
            is_scan: matches!(access.kind, AccessKind::Scan { .. }),
        }
    }
}
