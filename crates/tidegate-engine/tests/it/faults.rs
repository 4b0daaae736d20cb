//! Each planted fault is found by tests that know nothing of it.

use tidegate_core::planted_fault::PlantedFault;
use tidegate_engine::Fault;

use crate::{batch, order, ticket_model};

#[test]
fn a_refused_request_that_keeps_its_charges_is_found() {
    let fault = Fault::RefusalKeepsHolds;
    let throttled = order::position_3_the_capacity_plane_throttles_and_the_limits_get_their_charges_back;
    assert!(PlantedFault::is_found_by(fault, throttled));
    let shed =
        order::position_5_a_place_that_others_wait_for_sheds_and_limits_and_capacity_get_their_charges_back;
    assert!(PlantedFault::is_found_by(fault, shed));
}

#[test]
fn capacity_units_that_are_not_given_back_are_found() {
    let cancelled = order::a_cancelled_request_leaves_nothing_anywhere;
    assert!(PlantedFault::is_found_by(Fault::UnitsKept, cancelled));
}

#[test]
fn a_batch_that_does_not_undo_is_found() {
    let refused = batch::a_refusal_by_any_plane_gives_back_what_the_others_hold;
    assert!(PlantedFault::is_found_by(Fault::BatchKept, refused));
}

#[test]
fn denied_requests_that_count_as_demand_are_found() {
    let denied = order::a_denied_request_is_no_demand_on_the_system;
    assert!(PlantedFault::is_found_by(Fault::DenialIsDemand, denied));
    let denied = batch::requests_that_were_refused_together_are_no_demand_on_the_system;
    assert!(PlantedFault::is_found_by(Fault::DenialIsDemand, denied));
}

#[test]
fn tickets_that_anybody_may_make_are_found() {
    let life = ticket_model::a_short_random_life_of_a_member_keeps_to_the_rules_of_tickets;
    assert!(PlantedFault::is_found_by(Fault::TicketUnverified, life));
}
