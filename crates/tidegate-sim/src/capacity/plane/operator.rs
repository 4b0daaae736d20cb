//! An operator who changes tables while a world runs, whatever the design.
//!
//! `tidegate simulate` has none. The laboratory has one that follows a script.

use core::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use tidegate_capacity::Capacity;

use crate::capacity::design::Design;
use crate::capacity::run::ReloadRecord;
use crate::capacity::scenario::CapacityScenario;

/// What an operator does in the course of a scenario.
pub trait OperatorScript: fmt::Debug + Send + Sync {
    /// The steps, as the report of a run lists them.
    fn steps(&self) -> Vec<StepNote>;

    /// The operator of the world of one design, before the first step.
    fn operator(&self, scenario: &CapacityScenario, design: Design) -> Box<dyn TableOperator>;
}

/// A step, as the report of a run lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepNote {
    /// When, in seconds.
    pub at: f64,
    /// The position of the table.
    pub table: usize,
    /// The change.
    pub kind: String,
}

/// An operator at work in the world of one design.
pub trait TableOperator: fmt::Debug {
    /// Does what is due at `at`, in nanoseconds since the world began and a tenth of a second after
    /// the last call. Returns whether there was a reload.
    fn work(&mut self, scenario: &CapacityScenario, capacity: &mut Capacity, at: u64) -> bool;

    /// What the operator has changed.
    fn into_changes(self: Box<Self>) -> OperatorChanges;
}

/// What an operator has changed in the world of one design.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorChanges {
    /// Partitions that were cut and moved, by the position of the table.
    pub forced: Vec<ForcedChanges>,
    /// The reloads.
    pub reloads: Vec<ReloadRecord>,
}

/// Partitions of one table that an operator changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForcedChanges {
    /// Partitions that were cut.
    pub cuts: u32,
    /// Partitions that were moved.
    pub moves: u32,
}

/// Writes the steps of a script; none without a script.
#[expect(clippy::ref_option, reason = "the signature is serde's")]
pub(crate) fn serialize_steps<S: Serializer>(
    script: &Option<Arc<dyn OperatorScript>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(script.iter().flat_map(|script| script.steps()))
}
