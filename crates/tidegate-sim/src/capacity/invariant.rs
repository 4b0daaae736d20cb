//! The invariants that checkers judge from the trace, and a breach of one.

use serde::{Serialize, Serializer};

/// An invariant of the capacity plane, by the number of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Invariant {
    /// I1.
    TableBound,
    /// I2.
    PartitionBound,
    /// I3.
    CeilingBound,
    /// I5.
    NodeBound,
    /// I7.
    WriteMembers,
    /// I10.
    Tiling,
    /// I11.
    KeyCeiling,
    /// I14.
    RefusalEvidence,
    /// I15.
    Billing,
}

impl Invariant {
    /// All that are judged, in order.
    pub const ALL: [Self; 9] = [
        Self::TableBound,
        Self::PartitionBound,
        Self::CeilingBound,
        Self::NodeBound,
        Self::WriteMembers,
        Self::Tiling,
        Self::KeyCeiling,
        Self::RefusalEvidence,
        Self::Billing,
    ];

    /// Its number in the specification.
    pub const fn id(self) -> &'static str {
        match self {
            Self::TableBound => "I1",
            Self::PartitionBound => "I2",
            Self::CeilingBound => "I3",
            Self::NodeBound => "I5",
            Self::WriteMembers => "I7",
            Self::Tiling => "I10",
            Self::KeyCeiling => "I11",
            Self::RefusalEvidence => "I14",
            Self::Billing => "I15",
        }
    }

    /// The claim that must hold.
    pub const fn claim(self) -> &'static str {
        match self {
            Self::TableBound => {
                "a table admits in no span more than its rate over the span and its depth (global admission), or \
                 than its partitions may together"
            }
            Self::PartitionBound => {
                "a partition admits in no span more than its rate over the span, its allocation, its burst credit \
                 and one request (designs without global admission)"
            }
            Self::CeilingBound => {
                "a partition admits in no span more than its ceiling over the span and one second, and one request"
            }
            Self::NodeBound => {
                "a request beyond a partition's allocation is admitted only while its node has room for it"
            }
            Self::WriteMembers => {
                "a write beyond a partition's allocation is admitted only while every required member's node has \
                 room for it"
            }
            Self::Tiling => {
                "the ranges of a table's partitions tile its keys, each request is decided by the one that owns its \
                 key, and cuts and joins conserve rates and levels"
            }
            Self::KeyCeiling => "the ceiling of a key never decreases because partitions were added",
            Self::RefusalEvidence => {
                "each refusal names one bucket, and that bucket is short by the refusal's own level and by the trace"
            }
            Self::Billing => {
                "the units that partitions have admitted add up to those of the admitted requests"
            }
        }
    }
}

impl Serialize for Invariant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

/// A breach of an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Breach {
    /// The invariant.
    pub invariant: Invariant,
    /// The seed that shows it again.
    pub seed: u64,
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// The table.
    pub table: String,
    /// The numbers.
    pub what: String,
}
