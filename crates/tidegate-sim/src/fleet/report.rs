//! The report of a simulation: counts, use, times, a series by the second, and the violations that
//! the checkers found.

mod envoys;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

pub use self::envoys::{EnvoyGroup, EnvoyReport};
use crate::fleet::chaos::Trouble;
use crate::fleet::rule::Violation;
use crate::fleet::scenario::Scenario;

/// The report of a scenario. Serialised it is the same, byte for byte, each time the scenario is
/// simulated.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The scenario that was simulated.
    pub scenario: Scenario,
    /// Requests that were decided.
    pub decisions: u64,
    /// Requests that were admitted, and what they cost.
    pub admitted: u64,
    /// Units that were admitted.
    pub admitted_units: u64,
    /// Requests that were refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Requests that the engine could not decide.
    pub errors: u64,
    /// Requests at a member that was down.
    pub unreached: u64,
    /// Requests that waited when their member crashed.
    pub cut_short: u64,
    /// Batches that members sent to the store.
    pub store_calls: u64,
    /// Asks of leases in them.
    pub lease_asks: u64,
    /// Batches for each decision.
    pub calls_per_decision: f64,
    /// Which part of the limit was used, of the hottest key, while all should have been well;
    /// `None` where too little was asked for to tell, or that time was shorter than eight seconds.
    pub used: Option<f64>,
    /// The most that was admitted of any key beyond what had drained, beside the most that may be.
    pub fullest: Fullest,
    /// How long decisions took.
    pub delay: Delay,
    /// The troubles, and how long after its end the hottest key was used again.
    pub recoveries: Vec<Recovery>,
    /// Jain's index of fairness between members while all should have been well:
    /// `sum(x)^2 / (n * sum(x^2))`, where x is the admitted part of a member's first attempts. 1 if
    /// all had the same.
    pub fairness: Option<f64>,
    /// The requests of callers that kept to their limit.
    pub conforming: Conforming,
    /// The figures of Envoys; `None` without Envoys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envoys: Option<EnvoyReport>,
    /// The counts of each second.
    pub series: Vec<Second>,
    /// The violations that the checkers found: of each rule the first five.
    pub violations: Vec<Violation>,
    /// How many violations they found, by rule.
    pub violations_by_rule: BTreeMap<String, u64>,
    /// How many violations they found.
    pub violations_total: u64,
}

/// How full a limit was at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fullest {
    /// Which key.
    pub key: u32,
    /// When, in milliseconds; where the store decides by its clock, which may be half a second
    /// apart.
    pub at_ms: u64,
    /// Units admitted and not drained, or admitted in the window.
    pub units: u64,
    /// The most there may be.
    pub bound: u64,
}

/// The requests of callers that kept to their limit. A request that a member without
/// room in its share refused while it decided alone is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conforming {
    /// First attempts that were decided.
    pub first_attempts: u64,
    /// Of these, those that were admitted.
    pub admitted: u64,
    /// The longest time for which a caller was refused at every attempt, in milliseconds.
    pub refused_max_ms: u64,
}

/// How long decisions took, in simulated microseconds; at most a sixteenth too low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Delay {
    /// Half of them took no longer.
    pub p50_us: u64,
    /// Of a hundred, ninety-nine took no longer.
    pub p99_us: u64,
    /// Of a thousand, all but one took no longer.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
}

/// Something that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// The trouble.
    pub trouble: Trouble,
    /// When it began, in milliseconds.
    pub from_ms: u64,
    /// When it ended.
    pub until_ms: u64,
    /// How long afterwards a second began in which 95 % of the limit of the hottest key was
    /// admitted, or of what was asked for if that is less. `None` if there was none, or the limit
    /// is not a bucket with a rate by the second.
    pub recovered_after_ms: Option<u64>,
}

/// The counts of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Second {
    /// Units asked for, of all keys, tries again included.
    pub offered: u64,
    /// Units admitted, of all keys.
    pub admitted: u64,
    /// Units asked for of the hottest key.
    pub hot_offered: u64,
    /// Units admitted of the hottest key.
    pub hot_admitted: u64,
    /// Units of the hottest key that members were lent and may still spend, at the end of the
    /// second.
    pub hot_lent: u64,
    /// Batches that members sent to the store.
    pub calls: u64,
    /// Batches that the store carried out.
    pub served: u64,
}

/// Milliseconds as seconds.
pub(crate) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
