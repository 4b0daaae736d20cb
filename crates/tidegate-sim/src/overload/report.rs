//! The report of many runs: a table for each experiment, the gate, and the pictures of the first
//! seed.

pub mod run_story;

mod design_lines;
mod feature_story;

mod html;
mod text;

use serde::Serialize;

use super::ledger::OverloadRule;
use super::run::OverloadRun;
use super::summary::VariantSummary;
use crate::kit::report::{ExperimentNote, GateLine, GateOutcome, count_of, sorted_seeds};

/// Variants of an experiment that are shown; further ones are counted.
const SHOWN_MAX: usize = 12;

/// The report of runs. The same runs give the same report, byte for byte.
#[derive(Clone, Debug, Serialize)]
pub struct OverloadReport {
    /// Requests that were decided, over all designs and seeds, retries included.
    pub requests: u64,
    /// Each variant under each design, over all seeds.
    pub variants: Vec<VariantSummary>,
    /// The lines of the gate.
    pub gate: Vec<GateLine>,
    /// All runs, in the order of experiments, seeds and variants.
    pub runs: Vec<OverloadRun>,
}

impl OverloadReport {
    /// The report of `runs` of a scenario of one's own.
    pub fn new(runs: Vec<OverloadRun>) -> Self {
        Self::judged(runs, Vec::new())
    }

    /// The report of `runs`, which come in the order of their experiments. The lines of the gate
    /// are `own`, which judge the experiments, and those that hold of every run.
    pub fn judged(runs: Vec<OverloadRun>, own: Vec<GateLine>) -> Self {
        let mut gate = own;
        gate.extend(checks(&runs));
        let results = runs.iter().flat_map(|run| &run.designs);
        let requests =
            results.flat_map(|result| &result.services).map(|service| service.ledger.offered).sum();
        Self { requests, variants: VariantSummary::all_from_runs(&runs), gate, runs }
    }

    /// Whether no line of the gate fails.
    pub fn passes(&self) -> bool {
        count_of(&self.gate, GateOutcome::Fail) == 0
    }

    /// The seeds, in order.
    pub(crate) fn seeds(&self) -> Vec<u64> {
        sorted_seeds(self.runs.iter().map(|run| run.scenario.seed))
    }

    /// The experiments that were run, in order; `None` for a scenario of one's own.
    pub fn experiments(&self) -> Vec<Option<&'static ExperimentNote>> {
        let mut all: Vec<_> = self.runs.iter().map(|run| run.scenario.experiment).collect();
        all.dedup();
        all
    }

    /// The runs of the first seed of an experiment, as many as are shown.
    pub fn shown(&self, experiment: Option<&'static ExperimentNote>) -> impl Iterator<Item = &OverloadRun> {
        let first = self.seeds().first().copied();
        let is_shown = move |run: &&OverloadRun| {
            run.scenario.experiment == experiment && Some(run.scenario.seed) == first
        };
        self.runs.iter().filter(is_shown).take(SHOWN_MAX)
    }

    /// The variants of an experiment.
    pub fn variants_of(&self, experiment: Option<&'static ExperimentNote>) -> Vec<&VariantSummary> {
        self.variants.iter().filter(|variant| variant.experiment == experiment).collect()
    }

    /// The findings of the checks of the worlds, a sentence each.
    fn findings(&self) -> impl Iterator<Item = String> {
        let results = self.runs.iter().flat_map(|run| &run.designs);
        results.flat_map(|result| &result.violations).map(|violation| {
            format!(
                "{:?}, seed {}, {} ms, service {}: {}",
                violation.rule, violation.seed, violation.at_ms, violation.service, violation.what
            )
        })
    }
}

/// The lines of the checks of the worlds: every design keeps every rule.
fn checks(runs: &[OverloadRun]) -> impl Iterator<Item = GateLine> {
    let results = || runs.iter().flat_map(|run| &run.designs);
    OverloadRule::ALL.into_iter().map(move |rule| {
        let broken: u64 = results().filter_map(|result| result.violation_counts.get(&rule)).sum();
        let what = format!("under every design: {}; violations", rule.claim());
        GateLine::new("checks", what, format!("{broken}"), "0".to_owned(), broken == 0)
    })
}
