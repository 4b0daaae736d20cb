//! An operator who changes tables while a world runs, whatever the design.
//!
//! `tidegate simulate` has none. The laboratory has one that follows a script.

use core::fmt;

use serde::Serialize;
use tidegate_capacity::Capacity;

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
    fn work(&mut self, capacity: &mut Capacity, at: u64) -> bool;

    /// The changes that the operator has made.
    fn into_changes(self: Box<Self>) -> OperatorChanges;
}

/// The changes that an operator has made in the world of one design.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorChanges {
    /// Partitions that were cut and moved, by the position of the table.
    pub forced: Vec<ForcedChanges>,
    /// The reloads.
    pub reloads: Vec<ReloadRecord>,
}

/// A reload that the scenario made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReloadRecord {
    /// When.
    pub second: u32,
    /// The table.
    pub table: String,
    /// The change.
    pub what: String,
    /// The levels of all partitions and nodes that were compared.
    pub levels: u32,
    /// Those that were not the same before and after.
    pub levels_changed: u32,
    /// Partitions of the table that had more than their share before.
    pub rates_above_base_before: u32,
    /// Those that had more than it afterwards.
    pub rates_above_base: u32,
    /// Why the plane refused it.
    pub error: Option<String>,
}

/// Partitions of one table that an operator changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForcedChanges {
    /// Partitions that were cut.
    pub cuts: u32,
    /// Partitions that were moved.
    pub moves: u32,
}
