//! The invariants that checkers judge from the trace, and a breach of one.

use std::collections::BTreeMap;

pub use crate::invariants::Invariant;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The invariants that the checkers of this world judge. The world has no leases (I9), and asks
/// each plane in one way (I16).
pub const JUDGED: [Invariant; 14] = [
    Invariant::TableBound,
    Invariant::PartitionBound,
    Invariant::CeilingBound,
    Invariant::Isolation,
    Invariant::NodeBound,
    Invariant::NodePromise,
    Invariant::WriteMembers,
    Invariant::Conservation,
    Invariant::Tiling,
    Invariant::KeyCeiling,
    Invariant::ReshapePace,
    Invariant::Liveness,
    Invariant::RefusalEvidence,
    Invariant::Billing,
];

/// A breach of an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Breach {
    /// The invariant.
    #[serde(serialize_with = "serialize_id")]
    pub invariant: Invariant,
    /// The seed that shows it again.
    pub seed: u64,
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// The table; `-` where it is about a node.
    pub table: String,
    /// The numbers.
    pub what: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn serialize_id<S: Serializer>(invariant: &Invariant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(invariant.id())
}

/// Writes counts by the numbers of the invariants.
pub(crate) fn serialize_counts<S: Serializer>(
    counts: &BTreeMap<Invariant, u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(counts.len()))?;
    for (invariant, count) in counts {
        map.serialize_entry(invariant.id(), count)?;
    }
    map.end()
}
