//! Each planted fault of the meter is found by the model, which knows nothing of it.

use tidegate_core::planted_fault::PlantedFault;

use super::model;
use crate::fault::Fault;

fn agree() {
    model::agree(7, 8_000);
}

#[test]
fn without_a_fault_the_short_comparison_passes() {
    agree();
}

#[test]
fn an_outcome_that_is_counted_twice_is_found() {
    assert!(PlantedFault::is_found_by(Fault::OutcomeTwice, agree));
}

#[test]
fn an_eviction_that_forgets_is_found() {
    assert!(PlantedFault::is_found_by(Fault::EvictionForgets, agree));
}

#[test]
fn a_waiting_request_that_is_offered_anew_is_found() {
    assert!(PlantedFault::is_found_by(Fault::WaitOfferedAnew, agree));
}
