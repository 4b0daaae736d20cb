//! Stand-ins for the engine's limits that arrive with a request.

use tidegate::algorithm::Verdict;
use tidegate::{Algorithm, Timestamp};

/// A limit that arrives with the request.
#[derive(Clone, Debug)]
pub struct CarriedLimit<'a> {
    /// For people.
    pub name: &'a str,
    /// The parts of its counter's identity.
    pub key: &'a [&'a [u8]],
    /// How it counts.
    pub algorithm: Algorithm,
    /// What is charged; 0 only looks.
    pub cost: u64,
}

/// What is charged when something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charging {
    /// All limits or none.
    AllOrNone,
    /// Each by itself; a refused one is not charged.
    Each,
    /// Each by itself; a refused one is charged all the same.
    Always,
}

/// How a limit stands afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedStatus {
    /// Whether there was room.
    pub verdict: Verdict,
    /// The limit.
    pub limit: u64,
    /// What is used.
    pub used: u64,
    /// What is left.
    pub remaining: u64,
    /// When nothing is used any more.
    pub reset_at: Timestamp,
}
