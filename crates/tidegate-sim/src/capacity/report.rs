//! The report of many runs: summaries, the gate, and the pictures of the first seed.

pub mod table_story;
pub mod workload_note;

mod heat_map;
mod html;
mod partition_map;
mod share_chart;
mod text;

pub use html::table_sections;
use serde::Serialize;

use crate::capacity::design::Design;
use crate::capacity::gate;
use crate::capacity::run::CapacityRun;
use crate::capacity::summary::TableSummary;
use crate::kit::report::{GateLine, GateOutcome, count_of, grouped, sorted_seeds};

/// The report of runs. The same runs give the same report, byte for byte.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityReport {
    /// The divisor of all rates; `None` for tables of one's own.
    pub divisor: Option<u32>,
    /// Requests that were decided, over all designs and seeds.
    pub decisions: u64,
    /// The tables that are compared, over all seeds.
    pub tables: Vec<TableSummary>,
    /// The lines of the gate.
    pub gate: Vec<GateLine>,
    /// All runs, in the order of workloads and seeds.
    pub runs: Vec<CapacityRun>,
}

impl CapacityReport {
    /// The report of `runs` over one's own tables, which come in the order of their seeds.
    pub fn new(runs: Vec<CapacityRun>) -> Self {
        Self::judged(runs, None, gate::judge)
    }

    /// The report of `runs`, which come in the order of their workloads, and for each workload in
    /// the order of their seeds. `judge` makes the lines of the gate.
    pub fn judged(
        runs: Vec<CapacityRun>,
        divisor: Option<u32>,
        judge: impl FnOnce(&[TableSummary], &[CapacityRun]) -> Vec<GateLine>,
    ) -> Self {
        let groups = grouped(&runs, CapacityRun::group);
        let tables: Vec<TableSummary> = groups
            .iter()
            .filter(|runs| runs[0].scenario.experiment.is_none())
            .flat_map(|runs| {
                runs[0].compared().map(|table| TableSummary::from_runs(runs, table)).collect::<Vec<_>>()
            })
            .collect();
        let gate = judge(&tables, &runs);
        let decisions = runs.iter().flat_map(|run| &run.designs).map(|design| design.decisions).sum();
        Self { divisor, decisions, tables, gate, runs }
    }

    /// Whether no line of the gate fails.
    pub fn passes(&self) -> bool {
        count_of(&self.gate, GateOutcome::Fail) == 0
    }

    /// The first run of each workload, whose pictures are shown.
    pub fn shown(&self) -> Vec<&CapacityRun> {
        grouped(&self.runs, CapacityRun::group).into_iter().map(|group| group[0]).collect()
    }

    /// The seeds, in order.
    pub(crate) fn seeds(&self) -> Vec<u64> {
        sorted_seeds(self.runs.iter().map(|run| run.scenario.seed))
    }

    /// The findings of checkers, a sentence each.
    fn findings(&self) -> impl Iterator<Item = String> {
        let designs = self.runs.iter().flat_map(|run| &run.designs);
        designs.flat_map(|design| {
            design.breaches.iter().map(|breach| {
                format!(
                    "{} under {}, seed {}, {} ms, table {}: {}",
                    breach.invariant.id(),
                    design.design.letters(),
                    breach.seed,
                    breach.at_ms,
                    breach.table,
                    breach.what
                )
            })
        })
    }

    /// The designs that were compared on the workloads or tables, in order.
    pub(crate) fn designs(&self) -> &[Design] {
        self.compared().next().map_or(&[], |run| &run.scenario.designs)
    }

    /// The runs of workloads or tables of one's own.
    pub(crate) fn compared(&self) -> impl Iterator<Item = &CapacityRun> {
        self.runs.iter().filter(|run| run.scenario.experiment.is_none())
    }
}
