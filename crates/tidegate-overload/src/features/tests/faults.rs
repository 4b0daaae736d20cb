//! Each planted fault is found by tests that know nothing of it.

use tidegate_core::planted_fault::PlantedFault;

use super::{brownout, callers, choice};
use crate::fault::Fault;

#[test]
fn a_footprint_without_refused_demand_is_found() {
    let doubled = callers::a_demand_that_doubled_while_b_was_off_keeps_it_off_until_that_fits;
    assert!(PlantedFault::is_found_by(Fault::RefusedLeftOut, doubled));
}

#[test]
fn relief_that_counts_twice_is_found() {
    let rises = callers::demand_that_rises_on_after_a_step_is_met_by_the_next_step_at_once;
    assert!(PlantedFault::is_found_by(Fault::ReliefCountedTwice, rises));
}

#[test]
fn a_class_that_degrades_before_a_lower_one_is_found() {
    let best = choice::of_all_steps_that_keep_the_order_of_classes_the_best_are_taken;
    assert!(PlantedFault::is_found_by(Fault::HigherClassFirst, best));
    let mixed = brownout::the_levels_are_worth_about_as_much_as_the_best_that_keep_the_order_of_classes;
    assert!(PlantedFault::is_found_by(Fault::HigherClassFirst, mixed));
}
