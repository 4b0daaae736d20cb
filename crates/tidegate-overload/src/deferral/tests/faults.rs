//! Each planted fault is found by tests that know nothing of it.

use tidegate_core::planted_fault::PlantedFault;

use super::*;
use crate::fault::Fault;

#[test]
fn spent_tickets_that_are_forgotten_are_found() {
    let fault = Fault::SpentForgotten;
    assert!(PlantedFault::is_found_by(fault, spent_tickets::a_ticket_is_spent_once_unless_it_is_given_back));
    assert!(PlantedFault::is_found_by(fault, model::a_short_random_life_keeps_to_the_rules));
}

#[test]
fn an_oversold_second_is_found() {
    let sold = sale::seconds_are_sold_in_order_each_up_to_the_share_of_the_capacity;
    assert!(PlantedFault::is_found_by(Fault::SlotOversold, sold));
    assert!(PlantedFault::is_found_by(Fault::SlotOversold, model::a_short_random_life_keeps_to_the_rules));
}
