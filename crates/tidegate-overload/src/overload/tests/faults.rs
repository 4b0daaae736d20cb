//! Each planted fault is found by tests that know nothing of it.

use tidegate_core::planted_fault::PlantedFault;

use super::*;
use crate::fault::Fault;

#[test]
fn a_place_that_is_not_returned_is_found() {
    assert!(PlantedFault::is_found_by(Fault::PlaceKept, turning_away_at_the_bound_is_pressure_of_its_own));
    assert!(PlantedFault::is_found_by(
        Fault::PlaceKept,
        pressure_and_load_on_one_resource_leave_the_others_alone
    ));
}

#[test]
fn withdrawn_requests_that_count_as_demand_are_found() {
    let denied = requests_that_limits_deny_are_no_demand_and_shed_no_others;
    assert!(PlantedFault::is_found_by(Fault::WithdrawnCounts, denied));
}

#[test]
fn repeated_attempts_that_are_offered_again_are_found() {
    let repeated = a_repeated_attempt_is_not_offered_again_and_a_look_is_not_offered_at_all;
    assert!(PlantedFault::is_found_by(Fault::RepeatOffered, repeated));
}
