//! E9 as far as the gate has the time: one seed that nothing was tuned with.

use tidegate_lab::overload::{OverloadExperiment, RETURN_DESIGNS, report};
use tidegate_sim::kit::GateOutcome;
use tidegate_sim::overload::{OverloadDesign, OverloadRun, OverloadScenario, simulate};

const SEED: u64 = 404;

fn run(scenario: &OverloadScenario) -> OverloadRun {
    simulate(scenario).expect("the scenario is in range")
}

#[test]
fn a_batch_comes_back_at_the_reserved_rate_in_order_and_is_done_in_time() {
    let scenarios = OverloadExperiment::Deferral.gate_scenarios(SEED);
    let report = report(scenarios.iter().map(run).collect());
    let judged = report.gate.iter().filter(|line| line.outcome != GateOutcome::NotJudged);
    assert_eq!(judged.clone().filter(|line| line.experiment == "E9").count(), 33, "seed {SEED}: {report}");
    let failed: Vec<String> = judged
        .filter(|line| line.outcome == GateOutcome::Fail)
        .map(|line| format!("{}: {} ({})", line.what, line.figure, line.bound))
        .collect();
    assert_eq!(failed, Vec::<String>::new(), "seed {SEED}");
}

#[test]
fn a_fixed_time_brings_all_back_at_once_in_the_same_world_and_no_rule_keeps_the_order() {
    let mut scenario = OverloadExperiment::Deferral.gate_scenarios(SEED).remove(0);
    scenario.designs = RETURN_DESIGNS.to_vec();
    let run = run(&scenario);
    let in_a_second = |design: OverloadDesign| {
        let steps = &run.of(design).expect("it was simulated").clients[0].steps;
        let sums = steps.windows(10).map(|steps| steps.iter().map(|step| step.returned).sum::<u32>());
        sums.max().unwrap_or(0)
    };
    let attempts = |design: OverloadDesign| run.of(design).expect("it was simulated").clients[0].attempts;
    let [fixed, jitter, tickets] = RETURN_DESIGNS;
    // 200 a second are reserved; a fixed time brings the whole batch back at once.
    assert!(in_a_second(fixed) > 8_000, "{}", in_a_second(fixed));
    assert!(in_a_second(jitter) > 2_000, "{}", in_a_second(jitter));
    assert!(in_a_second(tickets) < 240, "{}", in_a_second(tickets));
    assert!(attempts(fixed) > 2 * attempts(tickets) && attempts(jitter) > 2 * attempts(tickets));
}
