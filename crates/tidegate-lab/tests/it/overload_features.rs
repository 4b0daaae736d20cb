//! E4 to E6 as far as the gate has the time: the product alone, one seed that nothing was tuned
//! with, a tenth of a day.

use tidegate_lab::overload::{FEATURE_DESIGNS, OverloadExperiment};
use tidegate_sim::overload::simulate;

use crate::overload_gate::{SEED, assert_passes};

#[test]
fn a_feature_makes_room_at_t1_and_is_back_at_t2_while_all_else_goes_on_as_normal() {
    assert_passes(OverloadExperiment::FeatureRamp, 28);
}

#[test]
fn noise_and_waves_at_the_threshold_change_a_feature_twice_and_a_day_below_it_never() {
    assert_passes(OverloadExperiment::FeatureNoise, 6);
}

#[test]
fn levels_refuse_nothing_where_on_and_off_refuse_much() {
    assert_passes(OverloadExperiment::FeatureLevels, 3);
}

#[test]
fn one_threshold_flaps_in_the_same_world() {
    let mut scenario = OverloadExperiment::FeatureRamp.gate_scenarios(SEED).remove(0);
    scenario.designs = vec![FEATURE_DESIGNS[0]];
    let run = simulate(&scenario).expect("the scenario is in range");
    let changes = run.designs[0].feature("b").map_or(0, |feature| feature.transitions.len());
    assert!(changes >= 100, "{changes} changes");
}
