//! The invariants by their numbers, and the violations of them.

use core::fmt;

use serde::{Serialize, Serializer};
use tidegate_core::Timestamp;

use crate::kit::Findings;

/// An invariant of the capacity plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// I1.
    TableBound,
    /// I2.
    PartitionBound,
    /// I3.
    CeilingBound,
    /// I4.
    Isolation,
    /// I5.
    NodeBound,
    /// I6.
    NodePromise,
    /// I7.
    WriteMembers,
    /// I8.
    Conservation,
    /// I9.
    LeaseBound,
    /// I10.
    Tiling,
    /// I11.
    KeyCeiling,
    /// I12.
    ReshapePace,
    /// I13.
    Liveness,
    /// I14.
    RefusalEvidence,
    /// I15.
    Billing,
    /// I16.
    RefillPattern,
}

impl Invariant {
    /// All of them in order.
    pub const ALL: [Self; 16] = [
        Self::TableBound,
        Self::PartitionBound,
        Self::CeilingBound,
        Self::Isolation,
        Self::NodeBound,
        Self::NodePromise,
        Self::WriteMembers,
        Self::Conservation,
        Self::LeaseBound,
        Self::Tiling,
        Self::KeyCeiling,
        Self::ReshapePace,
        Self::Liveness,
        Self::RefusalEvidence,
        Self::Billing,
        Self::RefillPattern,
    ];

    /// Its number.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Its number as it is written: `I1` to `I16`.
    pub const fn id(self) -> &'static str {
        const IDS: [&str; 16] = [
            "I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I12", "I13", "I14", "I15",
            "I16",
        ];
        IDS[self as usize]
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
            Self::Isolation => {
                "a partition that is asked for no more than its share and a second of it is refused by neither its \
                 own buckets nor its nodes"
            }
            Self::NodeBound => {
                "a request beyond a partition's allocation is admitted only while its node has room for it"
            }
            Self::NodePromise => "the allocations on a node are together at most what the node may promise",
            Self::WriteMembers => {
                "a write beyond a partition's allocation is admitted only while every required member's node has \
                 room for it"
            }
            Self::Conservation => {
                "the level of each bucket is what it was, plus what flowed in and came back, minus what was granted \
                 and what overflowed"
            }
            Self::LeaseBound => {
                "the tokens of leases that have not ended are together at most the table's rate over the longest \
                 lease and its depth, and none is spent after its lease"
            }
            Self::Tiling => {
                "the ranges of a table's partitions tile its keys, each request is decided by the one that owns its \
                 key, and cuts and joins conserve rates and levels"
            }
            Self::KeyCeiling => "the ceiling of a key never decreases because partitions were added",
            Self::ReshapePace => {
                "no partition is joined within 10 minutes of its cut, and no range is cut and joined twice within 20"
            }
            Self::Liveness => {
                "a stationary demand that the table, its keys' ceilings and the nodes can serve is served after a \
                 while"
            }
            Self::RefusalEvidence => {
                "each refusal names one bucket, and that bucket is short by the refusal's own level and by the trace"
            }
            Self::Billing => {
                "the units that partitions have admitted add up to those of the admitted requests, and those that \
                 they were asked for to those of first attempts"
            }
            Self::RefillPattern => "a level does not depend on how often it was refilled",
        }
    }
}

impl Serialize for Invariant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// An invariant that an event broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvariantViolation {
    /// The invariant.
    pub invariant: Invariant,
    /// When.
    pub at: Timestamp,
    /// The position of the table; `None` where it is about a node.
    pub table: Option<usize>,
    /// The numbers.
    pub what: String,
}

/// The violations that were found: the first of each invariant, and how many there were.
pub type Violations = Findings<Invariant, InvariantViolation>;
