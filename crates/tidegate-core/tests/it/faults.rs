//! The same search finds each of the mistakes that protocols of this kind have been shipped with.

use stateright::{Checker, HasDiscoveries, Model};
use tidegate_core::lease::Fault;

use crate::fleet::{Fleet, Limit, SAFE};
use crate::real::{bucket, window};
use crate::remote::remote;
use crate::remote_fleet::{REMOTE_SAFE, RemoteFleet};

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

fn is_found_at_an_envoy(fault: Fault) {
    let fleet = RemoteFleet { ends: 0, fault: Some(fault), ..remote() };
    let checker = fleet.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let path = checker.discovery(REMOTE_SAFE).unwrap_or_else(|| panic!("{fault:?} was not found"));
    println!("{fault:?} after {} states: {:?}", checker.unique_state_count(), path.into_actions());
}

#[test]
fn an_increase_without_a_grant_is_found() {
    is_found_at_an_envoy(Fault::IncreaseNotGranted);
}

#[test]
fn a_lease_that_ends_with_its_assignment_is_found() {
    is_found_at_an_envoy(Fault::LeaseEndsWithAssignment);
}
