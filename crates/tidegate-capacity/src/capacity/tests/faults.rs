//! Each planted fault is found by tests that know nothing of it.

use tidegate_core::planted_fault::{PlantedFault, planted};

use super::conservation::a_hundred_cases_lose_and_make_no_thousandth;
use super::groups::{
    a_burst_waits_for_the_allocations_of_its_neighbours,
    a_burst_write_takes_the_room_it_needs_at_every_member, a_second_attempt_is_no_demand,
};
use super::*;
use crate::fault::Fault;
use crate::levels::tests::five_idle_minutes_of_150_last_for_900_seconds_at_200;

#[test]
fn units_that_a_node_does_not_get_back_are_found() {
    let fault = Fault::NodeForgotten;
    assert!(PlantedFault::is_found_by(fault, what_is_given_back_in_reverse_leaves_the_state_bit_for_bit));
    assert!(PlantedFault::is_found_by(fault, settling_with_nothing_is_giving_back));
    assert!(PlantedFault::is_found_by(fault, a_hundred_cases_lose_and_make_no_thousandth));
}

#[test]
fn a_refusal_that_charges_is_found() {
    assert!(PlantedFault::is_found_by(Fault::RefusalCharged, a_refusal_leaves_the_state_bit_for_bit));
    assert!(PlantedFault::is_found_by(Fault::RefusalCharged, a_hundred_cases_lose_and_make_no_thousandth));
}

#[test]
fn a_shortfall_that_is_not_charged_is_found() {
    let settling = settling_books_what_the_access_turned_out_to_weigh;
    assert!(PlantedFault::is_found_by(Fault::ShortfallForgotten, settling));
}

#[test]
fn an_allocated_path_that_does_not_debit_the_node_is_found() {
    let isolation = a_burst_waits_for_the_allocations_of_its_neighbours;
    assert!(PlantedFault::is_found_by(Fault::NodeNotDebited, isolation));
}

#[test]
fn burst_credit_that_the_rate_fills_is_found() {
    let fault = Fault::BurstFilledByRate;
    assert!(PlantedFault::is_found_by(fault, five_idle_minutes_of_150_last_for_900_seconds_at_200));
    assert!(PlantedFault::is_found_by(fault, a_hundred_cases_lose_and_make_no_thousandth));
}

#[test]
fn room_of_a_follower_that_is_used_and_not_taken_is_found() {
    let room = a_burst_write_takes_the_room_it_needs_at_every_member;
    assert!(PlantedFault::is_found_by(Fault::CreditWithoutDebit, room));
}

#[test]
fn repeated_attempts_that_count_as_demand_are_found() {
    assert!(PlantedFault::is_found_by(Fault::RetriesCounted, a_second_attempt_is_no_demand));
}

#[test]
fn units_given_back_by_index_are_found_within_a_hundred_cases() {
    assert!(PlantedFault::is_found_by(Fault::GivenBackByIndex, a_hundred_cases_lose_and_make_no_thousandth));
}

#[test]
fn a_cut_that_leaves_two_balances_is_found_within_a_hundred_cases() {
    assert!(PlantedFault::is_found_by(Fault::TwoBalances, a_hundred_cases_lose_and_make_no_thousandth));
}

#[test]
fn a_fault_is_planted_in_its_thread_until_its_guard_is_dropped() {
    let _outer = PlantedFault::plant(Fault::NodeForgotten);
    {
        let _inner = PlantedFault::plant(Fault::RefusalCharged);
        assert!(Fault::RefusalCharged.is_planted() && !Fault::NodeForgotten.is_planted());
        assert_eq!(planted::<u8>(), None, "a fault of another enum");
        let elsewhere = std::thread::scope(|scope| {
            scope.spawn(|| Fault::RefusalCharged.is_planted()).join().expect("nothing panics")
        });
        assert!(!elsewhere);
    }
    assert!(Fault::NodeForgotten.is_planted());
}
