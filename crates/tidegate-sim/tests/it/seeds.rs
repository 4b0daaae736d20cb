//! Many small fleets in which all goes wrong that can.

use tidegate_sim::fleet::{DecisionSite, Scenario, simulate};
use tidegate_sim::kit::Seeds;

use crate::seed_range::chosen;

/// How many seeds the tests of leased limits take together. `TIDEGATE_SEEDS=0..10000` takes others,
/// and so does `tidegate simulate fleet --seeds 10000`.
const SEEDS: Seeds = Seeds::new(0, 200);

/// How many reports of seeds that failed are shown.
const SHOWN: usize = 20;

fn nothing_is_found(name: &str, seeds: Seeds, draw: impl Fn(u64) -> Scenario) {
    let mut decisions = 0;
    let failed = seeds.run(SHOWN, |seed| {
        let report = simulate(&draw(seed)).expect("drawn in range");
        decisions += report.decisions;
        (report.violations_total > 0 || report.errors > 0).then(|| report.to_string())
    });
    let (count, total) = (seeds.count(), failed.total());
    println!("acceptance: {name} | seeds={count} decisions={decisions} violated={total}");
    assert_eq!(total, 0, "of {count} seeds:\n{}", failed.into_kept().join("\n"));
    assert!(decisions > 0 || count == 0);
}

fn nothing_is_found_in_part(part: u64) {
    nothing_is_found("leased", chosen().unwrap_or(SEEDS).part(part, 4), Scenario::drawn);
}

#[test]
fn nothing_is_found_in_the_first_of_four_seeds() {
    nothing_is_found_in_part(0);
}

#[test]
fn nothing_is_found_in_the_second_of_four_seeds() {
    nothing_is_found_in_part(1);
}

#[test]
fn nothing_is_found_in_the_third_of_four_seeds() {
    nothing_is_found_in_part(2);
}

#[test]
fn nothing_is_found_in_the_last_of_four_seeds() {
    nothing_is_found_in_part(3);
}

#[test]
fn nothing_is_found_where_every_request_asks_the_store() {
    let seeds = chosen().unwrap_or(Seeds::new(1_000_000, SEEDS.count())).part(0, 4);
    nothing_is_found("exact", seeds, |seed| {
        let mut scenario = Scenario::drawn(seed);
        scenario.consistency = DecisionSite::Exact;
        scenario
    });
}

#[test]
fn leased_tables_keep_every_rule_whatever_goes_wrong() {
    // A table takes as long as a hundred other fleets.
    let seeds = chosen().map_or(Seeds::new(0, 8), |seeds| seeds.part(0, 100));
    nothing_is_found("tables", seeds, Scenario::drawn_with_tables);
}
