//! Mistakes that protocols of this kind have been shipped with, each built in: the checkers find it.

use tidegate::lease::Fault;
use tidegate_sim::{Rule, Scenario, simulate};

/// How many seeds it may take.
const SEEDS: u64 = 50;

/// That a seed shows the mistake, by one of these rules.
fn is_found(fault: Fault, by: &[Rule]) {
    let shows = |seed: &u64| {
        let mut scenario = Scenario::drawn(*seed);
        scenario.fault = Some(fault);
        let report = simulate(&scenario).expect("drawn in range");
        report.violations.iter().any(|violation| by.contains(&violation.rule))
    };
    let seed = (0..SEEDS).find(shows);
    assert!(seed.is_some(), "{fault:?} is not found in {SEEDS} seeds");
}

#[test]
fn a_grant_that_is_not_counted_is_found() {
    is_found(Fault::GrantWithoutDebit, &[Rule::OverAdmission]);
    is_found(Fault::GrantWithoutDebit, &[Rule::LeaseSum]);
}

#[test]
fn a_record_that_starts_full_after_a_loss_is_found() {
    is_found(Fault::FullRecordAtRestart, &[Rule::OverAdmission]);
}

#[test]
fn attempts_that_count_as_demand_are_found() {
    is_found(Fault::RetriesAsDemand, &[Rule::Unfair]);
}

#[test]
fn a_lease_that_is_counted_from_the_reply_is_found() {
    is_found(Fault::ExpiryFromReply, &[Rule::SpentAfterEnd]);
}

#[test]
fn a_return_that_is_credited_twice_is_found() {
    is_found(Fault::ReturnAppliedTwice, &[Rule::OverAdmission, Rule::LeaseSum]);
}

#[test]
fn a_lease_that_outlives_its_window_is_found() {
    is_found(Fault::WindowEndIgnored, &[Rule::OverAdmission]);
}
