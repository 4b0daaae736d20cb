//! Changes that a scenario makes by itself, whatever the design: an operator's commands.

use tidegate_capacity::TableMode;

/// A change of one table at some second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScriptedStep {
    /// When, in seconds. It is made at the first tenth of a second from then on.
    pub(crate) at: f64,
    /// The position of the table.
    pub(crate) table: usize,
    /// The change.
    pub(crate) kind: StepKind,
}

/// A change of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// Another mode, by a reload.
    SetMode(TableMode),
    /// So many times the throughput that the scenario gives it, and so many times the partitions,
    /// by a reload, if the table has static shares.
    Provision {
        /// The throughput.
        throughput: u32,
        /// The partitions.
        partitions: u32,
    },
    /// A partition drawn at random is cut in the middle.
    Cut,
    /// A partition drawn at random goes to another node that has room for it, as soon as there is
    /// one.
    Move,
}
