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
fn denied_requests_that_count_as_served_are_found() {
    let denied = a_request_that_is_denied_after_it_got_a_place_was_not_served;
    assert!(PlantedFault::is_found_by(Fault::DeniedServed, denied));
}

#[test]
fn repeated_attempts_that_are_offered_again_are_found() {
    let repeated = a_repeated_attempt_is_not_offered_again_and_a_look_is_not_offered_at_all;
    assert!(PlantedFault::is_found_by(Fault::RepeatOffered, repeated));
}

#[test]
fn a_timeout_that_counts_as_a_success_is_found() {
    let found = adaptive::the_bound_grows_while_work_succeeds_and_falls_when_it_times_out_or_is_rejected;
    assert!(PlantedFault::is_found_by(Fault::TimeoutSucceeds, found));
}

#[test]
fn a_timeout_that_is_no_slow_answer_is_found() {
    let found = signals::slow_answers_set_the_level_and_failures_are_no_answers;
    assert!(PlantedFault::is_found_by(Fault::TimeoutQuick, found));
}

#[test]
fn hints_that_are_not_scattered_are_found() {
    let found = crate::backoff::tests::hints_are_spread_evenly_over_half_of_the_base_and_stay_between_1_and_32_seconds;
    assert!(PlantedFault::is_found_by(Fault::HintAlike, found));
}

#[test]
fn work_of_unknown_end_that_is_not_paced_is_found() {
    let found = crate::places::pacer::tests::the_pace_is_the_places_divided_by_the_time_of_service_after_a_burst_of_all_places;
    assert!(PlantedFault::is_found_by(Fault::PaceUnbounded, found));
}

#[test]
fn an_outcome_that_counts_for_another_class_is_found() {
    let found = what_is_offered_equals_the_sum_of_the_outcomes;
    assert!(PlantedFault::is_found_by(Fault::OutcomeOfOtherClass, found));
}
