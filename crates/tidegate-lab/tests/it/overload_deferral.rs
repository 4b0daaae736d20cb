//! E9 as far as the gate has the time: one seed that nothing was tuned with.

use tidegate_lab::overload::{OverloadExperiment, RETURN_DESIGNS};
use tidegate_sim::overload::{OverloadDesign, simulate};

use crate::overload_gate::{SEED, assert_passes};

#[test]
fn a_batch_comes_back_at_the_reserved_rate_in_order_and_is_done_in_time() {
    assert_passes(OverloadExperiment::Deferral, 33);
}

#[test]
fn a_fixed_time_brings_all_back_at_once_in_the_same_world_and_no_rule_keeps_the_order() {
    let mut scenario = OverloadExperiment::Deferral.gate_scenarios(SEED).remove(0);
    scenario.designs = RETURN_DESIGNS.to_vec();
    let run = simulate(&scenario).expect("the scenario is in range");
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
