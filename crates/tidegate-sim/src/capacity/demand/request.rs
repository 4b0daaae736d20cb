//! The requests of a table: read or written, each kind with sizes and a demand of its own.

use serde::Serialize;
use tidegate_capacity::{AccessKind, AccessOperation, ReadConsistency};

use crate::capacity::demand::Demand;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// A strongly consistent read, which the leader of a group serves.
    StrongRead,
    /// An eventually consistent read, which any member serves and which weighs half.
    EventualRead,
    /// A write, which all members apply.
    Write,
}

impl RequestKind {
    /// Read or write.
    pub const fn operation(self) -> AccessOperation {
        match self {
            Self::StrongRead | Self::EventualRead => AccessOperation::Read,
            Self::Write => AccessOperation::Write,
        }
    }

    /// A word or two for tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::StrongRead => "reads",
            Self::EventualRead => "eventual reads",
            Self::Write => "writes",
        }
    }

    /// The kind and the bytes of an access that weighs `units`.
    pub(crate) fn access(self, units: u32) -> (AccessKind, u64) {
        let units = u64::from(units);
        match self {
            Self::StrongRead => (AccessKind::Read { consistency: ReadConsistency::Strong }, units * 4096),
            Self::EventualRead => {
                (AccessKind::Read { consistency: ReadConsistency::Eventual }, units * 2 * 4096)
            }
            Self::Write => (AccessKind::Write, units * 1024),
        }
    }
}

/// Requests of one kind and one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestStream {
    /// Their operation.
    pub kind: RequestKind,
    /// How many, of which size, and for which keys.
    pub demand: Demand,
    /// Whether they come at equal distances; otherwise they are a Poisson process.
    pub is_paced: bool,
}

impl RequestStream {
    /// Requests that come as a Poisson process.
    pub const fn new(kind: RequestKind, demand: Demand) -> Self {
        Self { kind, demand, is_paced: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_weighs_the_units_that_it_is_made_for() {
        for kind in [RequestKind::StrongRead, RequestKind::EventualRead, RequestKind::Write] {
            for units in [1, 7, 100] {
                let (access, bytes) = kind.access(units);
                assert_eq!(access.units(bytes).unwrap().as_thousandths(), i64::from(units) * 1000);
                assert_eq!(access.operation(), kind.operation());
            }
        }
    }
}
