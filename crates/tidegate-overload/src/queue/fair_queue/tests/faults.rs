//! Each planted fault is found by tests that know nothing of it.

use tidegate_core::planted_fault::PlantedFault;

use super::*;
use crate::fault::Fault;

#[test]
fn hoarded_credit_is_found() {
    let test = fairness::a_tenant_that_comes_back_has_hoarded_no_credit;
    assert!(PlantedFault::is_found_by(Fault::CreditHoarded, test));
}

#[test]
fn a_victim_of_the_wrong_class_is_found() {
    let test = the_newest_request_of_the_longest_sub_queue_of_the_lowest_class_makes_room;
    assert!(PlantedFault::is_found_by(Fault::VictimOfOwnClass, test));
}

#[test]
fn expired_requests_that_are_served_are_found() {
    let test = delay::after_a_suspension_everything_is_refused_and_nothing_served;
    assert!(PlantedFault::is_found_by(Fault::ExpiredServed, test));
}
