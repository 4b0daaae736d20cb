//! The invariants that checkers judge from the trace, and a breach of one.

pub use crate::invariants::Invariant;
use serde::Serialize;

/// The invariants that the checkers of this world judge. The world has no leases (I9), and asks
/// each plane in one way (I16).
pub fn judged() -> impl Iterator<Item = Invariant> {
    let is_judged = |one: &Invariant| !matches!(one, Invariant::LeaseBound | Invariant::RefillPattern);
    Invariant::ALL.into_iter().filter(is_judged)
}

/// A breach of an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breach {
    /// The invariant.
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
