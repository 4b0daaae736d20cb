//! Mistakes that protocols of this kind have been shipped with, each built in: the checkers find
//! it.

use tidegate::lease::Fault;
use tidegate_sim::fleet::{Rule, Scenario, simulate};

/// How many seeds it may take.
const SEEDS: u64 = 50;

/// Each mistake, and the rules that it breaks: every group of them is broken by one of the first
/// [`SEEDS`] seeds.
const FAULTS: &[(Fault, &[&[Rule]])] = &[
    (Fault::GrantWithoutDebit, &[&[Rule::OverAdmission], &[Rule::LeaseSum]]),
    (Fault::RecordBegunAnew, &[&[Rule::OverAdmission]]),
    (Fault::EmptyAtBeginning, &[&[Rule::RefusedTooLong]]),
    (Fault::AloneWithTokens, &[&[Rule::AloneWithTokens]]),
    (Fault::AloneWhenAnswered, &[&[Rule::AloneWhenAnswered]]),
    (Fault::ShareOfOne, &[&[Rule::AloneBeyondShare]]),
    (Fault::NothingAlone, &[&[Rule::RefusedTooLong]]),
    (Fault::RetriesAsDemand, &[&[Rule::Unfair]]),
    (Fault::ExpiryFromReply, &[&[Rule::SpentAfterEnd]]),
    (Fault::ReturnAppliedTwice, &[&[Rule::OverAdmission, Rule::LeaseSum]]),
    (Fault::WindowEndIgnored, &[&[Rule::OverAdmission]]),
];

/// Whether a seed shows the mistake by one of these rules.
fn shows(fault: Fault, by: &[Rule], seed: u64) -> bool {
    let mut scenario = Scenario::drawn(seed);
    scenario.fault = Some(fault);
    let report = simulate(&scenario).expect("drawn in range");
    report.violations.iter().any(|violation| by.contains(&violation.rule))
}

/// Every second of the faults from `first` on, so that two tests share the work.
fn are_found(first: usize) {
    let mut missed = Vec::new();
    for (fault, groups) in FAULTS.iter().skip(first).step_by(2) {
        for by in *groups {
            match (0..SEEDS).find(|seed| shows(*fault, by, *seed)) {
                Some(seed) => println!("{fault:?} breaks {by:?} with seed {seed}"),
                None => missed.push(format!("{fault:?} by {by:?}")),
            }
        }
    }
    assert!(missed.is_empty(), "not found in {SEEDS} seeds: {missed:?}");
}

#[test]
fn every_second_fault_is_found() {
    are_found(0);
}

#[test]
fn the_other_faults_are_found() {
    are_found(1);
}
