//! The same search finds each of the mistakes that protocols of this kind have been shipped with.

use stateright::{Checker, HasDiscoveries, Model};
use tidegate_core::lease::Fault;

use crate::fleet::{Fleet, Limit, SAFE};
use crate::real::{bucket, window};

/// A window that does not end within what is looked at, and of which a first grant leaves a token
/// in hand.
fn long_window() -> Fleet {
    Fleet { limit: Limit::Window { limit: 4, length: 3, period: 4 }, ..bucket() }
}

fn is_found(fault: Fault, fleet: Fleet) {
    let fleet = Fleet { fault: Some(fault), ..fleet };
    let checker = fleet.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let path = checker.discovery(SAFE).unwrap_or_else(|| panic!("{fault:?} was not found"));
    println!("{fault:?} after {} states: {:?}", checker.unique_state_count(), path.into_actions());
}

#[test]
fn a_grant_without_debit_is_found() {
    is_found(Fault::GrantWithoutDebit, bucket());
    is_found(Fault::GrantWithoutDebit, window());
}

#[test]
fn a_record_that_is_there_and_is_begun_anew_is_found() {
    is_found(Fault::RecordBegunAnew, bucket());
    is_found(Fault::RecordBegunAnew, window());
}

#[test]
fn retries_that_count_as_demand_are_found() {
    is_found(Fault::RetriesAsDemand, Fleet { retries: true, ..bucket() });
}

#[test]
fn an_expiry_counted_from_the_reply_is_found() {
    is_found(Fault::ExpiryFromReply, window());
    is_found(Fault::ExpiryFromReply, Fleet { ticks: 4, ..bucket() });
}

#[test]
fn a_return_that_is_applied_twice_is_found() {
    is_found(Fault::ReturnAppliedTwice, long_window());
}

#[test]
fn a_lease_beyond_the_end_of_its_window_is_found() {
    is_found(Fault::WindowEndIgnored, Fleet { retries: true, ..window() });
}
