//! Mistakes that protocols of this kind have been shipped with, each built in: the checkers find
//! it.

use tidegate_core::lease::Fault;
use tidegate_sim::fleet::{Rule, Scenario, simulate};
use tidegate_sim::kit::Seeds;

use crate::seed_range::chosen;

/// The seeds of which one has to show each mistake. With `TIDEGATE_SEEDS=0..1000` the tests count
/// how many of those seeds show it, and expect nothing.
const SEEDS: Seeds = Seeds::new(0, 50);

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

/// The rules that a seed breaks.
fn broken(fault: Fault, seed: u64) -> Vec<Rule> {
    let mut scenario = Scenario::drawn(seed);
    scenario.fault = Some(fault);
    let report = simulate(&scenario).expect("drawn in range");
    report.violations.iter().map(|violation| violation.rule).collect()
}

fn is_any_of(by: &[Rule], broken: &[Rule]) -> bool {
    broken.iter().any(|rule| by.contains(rule))
}

/// The names of rules, as in reports.
fn names(by: &[Rule]) -> String {
    by.iter().map(|rule| rule.name()).collect::<Vec<_>>().join(" or ")
}

/// Every second of the faults from `first` on, so that two tests share the work.
fn are_found(first: usize) {
    let mut missed = Vec::new();
    for (fault, groups) in FAULTS.iter().skip(first).step_by(2) {
        if let Some(seeds) = chosen() {
            count(*fault, groups, seeds);
            continue;
        }
        for by in *groups {
            match SEEDS.find(|seed| is_any_of(by, &broken(*fault, seed))) {
                Some(seed) => println!("{fault:?} breaks {by:?} with seed {seed}"),
                None => missed.push(format!("{fault:?} by {by:?}")),
            }
        }
    }
    assert!(missed.is_empty(), "not found in {} seeds: {missed:?}", SEEDS.count());
}

/// Prints how many seeds show the fault, for each group of rules.
fn count(fault: Fault, groups: &[&[Rule]], seeds: Seeds) {
    let mut found = vec![0_u64; groups.len()];
    for seed in seeds.iter() {
        let broken = broken(fault, seed);
        for (found, by) in found.iter_mut().zip(groups) {
            *found += u64::from(is_any_of(by, &broken));
        }
    }
    for (found, by) in found.iter().zip(groups) {
        println!("acceptance: {fault:?} by {} | seeds={} found={found}", names(by), seeds.count());
    }
}

#[test]
fn every_second_fault_is_found() {
    are_found(0);
}

#[test]
fn the_other_faults_are_found() {
    are_found(1);
}
