//! Each planted fault is found by tests that know nothing of it.

use tidegate_core::planted_fault::{PlantedFault, planted};

use super::*;
use crate::fault::Fault;

#[test]
fn units_that_a_node_does_not_get_back_are_found() {
    let fault = Fault::NodeForgotten;
    assert!(PlantedFault::is_found_by(fault, what_is_given_back_in_reverse_leaves_the_state_bit_for_bit));
    assert!(PlantedFault::is_found_by(fault, settling_with_nothing_is_giving_back));
}

#[test]
fn a_refusal_that_charges_is_found() {
    assert!(PlantedFault::is_found_by(Fault::RefusalCharged, a_refusal_leaves_the_state_bit_for_bit));
}

#[test]
fn a_shortfall_that_is_not_charged_is_found() {
    let settling = settling_books_what_the_access_turned_out_to_weigh;
    assert!(PlantedFault::is_found_by(Fault::ShortfallForgotten, settling));
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
