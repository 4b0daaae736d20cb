//! Judges an experiment of the overload world by one seed.

use tidegate_lab::overload::{OverloadExperiment, report};
use tidegate_sim::kit::GateOutcome;
use tidegate_sim::overload::simulate;

/// A seed that nothing was tuned with.
pub(crate) const SEED: u64 = 404;

/// Runs an experiment, and wants each of its lines that is judged to pass, `lines` of them.
pub(crate) fn assert_passes(experiment: OverloadExperiment, lines: usize) {
    let scenarios = experiment.gate_scenarios(SEED);
    let runs = scenarios.iter().map(|scenario| simulate(scenario).expect("the scenario is in range"));
    let report = report(runs.collect());
    let judged = report.gate.iter().filter(|line| line.outcome != GateOutcome::NotJudged);
    let own = judged.clone().filter(|line| line.experiment == experiment.name()).count();
    assert_eq!(own, lines, "seed {SEED}: {report}");
    let failed: Vec<String> = judged
        .filter(|line| line.outcome == GateOutcome::Fail)
        .map(|line| format!("{}: {} ({})", line.what, line.figure, line.bound))
        .collect();
    assert_eq!(failed, Vec::<String>::new(), "seed {SEED}");
}
