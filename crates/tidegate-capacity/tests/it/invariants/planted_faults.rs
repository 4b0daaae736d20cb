//! Mistakes that are planted in the plane are found by the checkers, which know nothing of them.

use tidegate_core::planted_fault::PlantedFault;

use tidegate_capacity::Fault;
use tidegate_sim::invariants::Invariant;

use super::no_invariant_breaks_in_a_hundred_runs;
use super::random_leases::leased_run;
use super::random_store::cases_until;
use super::refill_pattern::refill_does_not_depend_on_how_often_it_is_computed;
use super::steady_runs::{cut_while_cool, flooded, overloaded, servable};

/// Whether the invariant is broken in one of a hundred runs.
fn is_found(fault: Fault, invariant: Invariant) {
    let _planted = PlantedFault::plant(fault);
    let cases = cases_until(invariant);
    println!("{fault:?} breaks {invariant} in case {cases:?}");
    assert!(cases.is_some(), "{fault:?} breaks {invariant} in none of a hundred cases");
}

#[test]
fn i1_tokens_that_are_not_spent_are_found() {
    let _planted = PlantedFault::plant(Fault::TokensNotSpent);
    assert!(flooded().count(Invariant::TableBound) > 0);
}

#[test]
fn i2_burst_credit_that_the_rate_fills_is_found() {
    let _planted = PlantedFault::plant(Fault::BurstFilledByRate);
    assert!(overloaded().count(Invariant::PartitionBound) > 0);
}

#[test]
fn i3_a_ceiling_that_is_not_charged_is_found() {
    is_found(Fault::CeilingNotCharged, Invariant::CeilingBound);
}

#[test]
fn i4_an_allocation_that_needs_the_room_of_nodes_is_found() {
    is_found(Fault::AllocationNeedsRoom, Invariant::Isolation);
}

#[test]
fn i5_an_allocated_path_that_does_not_debit_the_node_is_found() {
    is_found(Fault::NodeNotDebited, Invariant::NodeBound);
    assert!(PlantedFault::is_found_by(Fault::NodeNotDebited, no_invariant_breaks_in_a_hundred_runs));
}

#[test]
fn i6_a_promise_that_is_not_checked_is_found() {
    is_found(Fault::PromiseUnchecked, Invariant::NodePromise);
}

#[test]
fn i7_room_of_a_follower_that_is_not_asked_is_found() {
    is_found(Fault::CreditWithoutDebit, Invariant::WriteMembers);
    assert!(PlantedFault::is_found_by(Fault::CreditWithoutDebit, no_invariant_breaks_in_a_hundred_runs));
}

#[test]
fn i8_units_that_are_lost_or_made_are_found() {
    for fault in [
        Fault::NodeForgotten,
        Fault::RefusalCharged,
        Fault::ShortfallForgotten,
        Fault::BurstFilledByRate,
        Fault::GivenBackByIndex,
        Fault::TokensNotSpent,
    ] {
        is_found(fault, Invariant::Conservation);
    }
}

#[test]
fn i9_tokens_that_are_lent_twice_are_found() {
    use tidegate_core::lease::Fault as LeaseFault;
    for fault in [LeaseFault::GrantWithoutDebit, LeaseFault::RecordBegunAnew] {
        let _planted = PlantedFault::plant(fault);
        let cases = (1..=100).find(|seed| leased_run(seed - 1).0.count(Invariant::LeaseBound) > 0);
        println!("{fault:?} breaks I9 in case {cases:?}");
        assert!(cases.is_some(), "{fault:?} breaks I9 in none of a hundred cases");
    }
}

#[test]
fn i10_two_balances_after_a_cut_are_found() {
    is_found(Fault::TwoBalances, Invariant::Tiling);
}

#[test]
fn i11_a_ceiling_that_is_cut_is_found() {
    is_found(Fault::CeilingCut, Invariant::KeyCeiling);
}

#[test]
fn i12_parts_that_are_joined_at_once_are_found() {
    let _planted = PlantedFault::plant(Fault::JoinedAtOnce);
    assert!(cut_while_cool(0).0.count(Invariant::ReshapePace) > 0);
}

#[test]
fn i13_a_table_that_does_not_use_its_spare_throughput_is_found() {
    let _planted = PlantedFault::plant(Fault::SpareUnused);
    assert!(servable().count(Invariant::Liveness) > 0);
}

#[test]
fn i14_refusals_by_another_level_than_the_trace_has_are_found() {
    for fault in [Fault::RefusalCharged, Fault::BurstFilledByRate, Fault::NodeNotDebited] {
        is_found(fault, Invariant::RefusalEvidence);
    }
}

#[test]
fn i15_repeated_attempts_that_count_as_demand_are_found() {
    is_found(Fault::RetriesCounted, Invariant::Billing);
}

#[test]
fn i16_a_begun_thousandth_that_is_dropped_is_found() {
    let fault = Fault::BegunThousandthDropped;
    assert!(PlantedFault::is_found_by(fault, refill_does_not_depend_on_how_often_it_is_computed));
    is_found(fault, Invariant::Conservation);
}
