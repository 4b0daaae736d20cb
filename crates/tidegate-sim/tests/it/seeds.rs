//! Many small fleets in which all goes wrong that can.

use tidegate_sim::fleet::{Scenario, Where, simulate};

/// How many seeds each of the tests takes, so that those of four tests are 200.
/// `tidegate simulate fleet --seeds 10000` takes more.
const SEEDS: usize = 50;

fn nothing_is_found(first: u64, alter: impl Fn(&mut Scenario)) {
    let mut found = Vec::new();
    for seed in (first..).step_by(4).take(SEEDS) {
        let mut scenario = Scenario::drawn(seed);
        alter(&mut scenario);
        let report = simulate(&scenario).expect("drawn in range");
        if report.violations_total > 0 || report.errors > 0 {
            found.push(report.to_string());
        }
    }
    assert!(found.is_empty(), "{} seeds of {}:\n{}", found.len(), SEEDS, found.join("\n"));
}

#[test]
fn nothing_is_found_in_the_first_of_four_seeds() {
    nothing_is_found(0, |_| {});
}

#[test]
fn nothing_is_found_in_the_second_of_four_seeds() {
    nothing_is_found(1, |_| {});
}

#[test]
fn nothing_is_found_in_the_third_of_four_seeds() {
    nothing_is_found(2, |_| {});
}

#[test]
fn nothing_is_found_in_the_last_of_four_seeds() {
    nothing_is_found(3, |_| {});
}

#[test]
fn nothing_is_found_where_every_request_asks_the_store() {
    nothing_is_found(1_000_000, |scenario| scenario.consistency = Where::Exact);
}
