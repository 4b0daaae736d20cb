//! Changes that a scenario makes by itself, whatever the design: an operator's commands.

use std::sync::Arc;

use tidegate_capacity::TableMode;
use tidegate_sim::capacity::plane::operator::{OperatorScript, StepNote, TableOperator};
use tidegate_sim::capacity::{CapacityScenario, Design};

use super::operator::ScriptOperator;

/// The script of these steps, which are in their order.
pub(crate) fn script_of(steps: Vec<ScriptedStep>) -> Arc<dyn OperatorScript> {
    Arc::new(StepScript(steps))
}

/// Steps in their order.
#[derive(Debug)]
struct StepScript(Vec<ScriptedStep>);

impl OperatorScript for StepScript {
    fn steps(&self) -> Vec<StepNote> {
        let note = |step: &ScriptedStep| StepNote {
            at: step.at,
            table: step.table,
            kind: format!("{:?}", step.kind),
        };
        self.0.iter().map(note).collect()
    }

    fn operator(&self, scenario: &CapacityScenario, design: Design) -> Box<dyn TableOperator> {
        Box::new(ScriptOperator::new(scenario, design, self.0.clone()))
    }
}

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
