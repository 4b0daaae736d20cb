//! Fleets of which something is known in advance.

use tidegate_sim::fleet::{Chaos, DecisionSite, Load, Numbers, Rule, Scenario, Subject, simulate};

fn scenario(consistency: DecisionSite) -> Scenario {
    let mut scenario = Scenario::new(11);
    scenario.consistency = consistency;
    scenario.seconds = 30;
    scenario.limit = Numbers::per_second(200, 100);
    scenario.requests_per_second = 600;
    scenario
}

#[test]
fn the_same_seed_gives_the_same_report_byte_for_byte() {
    let loads = [Load::Steady, Load::Callers];
    for (consistency, load) in [DecisionSite::Local, DecisionSite::Exact, DecisionSite::Leased]
        .into_iter()
        .flat_map(|one| loads.map(|load| (one, load)))
    {
        let mut scenario = scenario(consistency);
        scenario.load = load;
        scenario.keys = 10;
        scenario.seconds = 40;
        scenario.chaos = Chaos::Some;
        scenario.retries = 2;
        let json = |scenario: &Scenario| serde_json::to_string(&simulate(scenario).unwrap()).unwrap();
        let first = json(&scenario);
        assert_eq!(first, json(&scenario));
        scenario.seed += 1;
        assert_ne!(first, json(&scenario));
    }
}

#[test]
fn an_exact_limit_admits_all_it_may_and_no_more() {
    for load in [Load::Steady, Load::Bursty, Load::Skewed, Load::Moving, Load::Zipf] {
        let mut scenario = scenario(DecisionSite::Exact);
        scenario.load = load;
        let report = simulate(&scenario).unwrap();
        assert_eq!(report.violations, []);
        // All but what a moment without requests leaves.
        assert!((6050..=6100).contains(&report.admitted_units), "{report}");
        // At the end some are on their way.
        assert!((0..10).contains(&(report.store_calls - report.decisions)), "{report}");
        assert_eq!(report.fullest.units, 100);
    }
}

#[test]
fn members_that_decide_alone_share_the_numbers() {
    let report = simulate(&scenario(DecisionSite::Local)).unwrap();
    assert_eq!(report.violations, []);
    assert!((6000..=6100).contains(&report.admitted_units), "{report}");
    assert_eq!(report.store_calls, 0);
    assert_eq!(report.fullest.units, 10);
}

#[test]
fn a_leased_limit_is_used_in_full_within_its_bound() {
    for load in [Load::Steady, Load::Bursty, Load::Skewed, Load::Moving, Load::Zipf] {
        let mut scenario = scenario(DecisionSite::Leased);
        scenario.seconds = 60;
        scenario.load = load;
        scenario.limit = Numbers::per_second(1000, 1000);
        scenario.requests_per_second = 3000;
        let report = simulate(&scenario).unwrap();
        assert_eq!(report.violations, []);
        let least = match load {
            // A load that moves every half second is gone before a lease has followed.
            Load::Bursty => 0.65,
            Load::Moving => 0.85,
            _ => 0.98,
        };
        assert!(report.used.unwrap() > least, "{report}");
    }
}

/// Forty callers of a limit, with all of the store's and the members' time to themselves.
fn callers(limit: Numbers, consistency: DecisionSite) -> Scenario {
    let mut scenario = Scenario::new(5);
    scenario.load = Load::Callers;
    scenario.keys = 40;
    scenario.members = 5;
    scenario.limit = limit;
    scenario.consistency = consistency;
    scenario.seconds = if limit.rate() < 1.0 { 150 } else { 30 };
    scenario
}

#[test]
fn callers_within_their_limit_are_all_admitted_by_an_exact_store() {
    for limit in [Numbers::Bucket { units: 5, seconds: 60, burst: 5 }, Numbers::per_second(10, 10)] {
        let report = simulate(&callers(limit, DecisionSite::Exact)).unwrap();
        assert_eq!(report.violations, []);
        assert!(report.conforming.first_attempts > 200, "{report}");
        assert_eq!(report.conforming.admitted, report.conforming.first_attempts, "{report}");
        // The over-users are refused.
        assert!(report.refused["rate_exceeded"] > 50, "{report}");
    }
}

#[test]
fn callers_within_their_limit_are_admitted_by_leases_of_a_new_store() {
    for limit in [
        Numbers::Bucket { units: 5, seconds: 60, burst: 5 },
        Numbers::Bucket { units: 3, seconds: 3600, burst: 3 },
        Numbers::per_second(10, 10),
        Numbers::per_second(100, 100),
        Numbers::Window { units: 20, seconds: 1 },
        Numbers::Window { units: 60, seconds: 10 },
    ] {
        let report = simulate(&callers(limit, DecisionSite::Leased)).unwrap();
        assert_eq!(report.violations, [], "{report}");
    }
}

#[test]
fn leases_of_another_period_keep_every_bound_of_what_is_admitted() {
    let is_about_bounds = |rule| {
        !matches!(rule, Rule::RefusedTooLong | Rule::FirstAttemptsRefused | Rule::Stranded | Rule::Unfair)
    };
    for seed in 0..60 {
        let mut scenario = Scenario::drawn(seed);
        scenario.lease_seconds = 4;
        assert_eq!(simulate(&scenario).unwrap().violations, [], "seed {seed}");
        // Tokens of a lost member are missing for as long, so more may be refused.
        for period in [20, 60] {
            scenario.lease_seconds = period;
            let mut violations = simulate(&scenario).unwrap().violations;
            violations.retain(|violation| is_about_bounds(violation.rule));
            assert_eq!(violations, [], "seed {seed} with leases of {period} s");
        }
    }
}

#[test]
fn longer_leases_of_a_busy_key_cost_fewer_calls() {
    let calls = |period| {
        let mut scenario = Scenario::new(7);
        (scenario.seconds, scenario.lease_seconds) = (600, period);
        let report = simulate(&scenario).unwrap();
        assert_eq!(report.violations, [], "leases of {period} s");
        report.store_calls
    };
    let (usual, longer) = (calls(5), calls(20));
    assert!(longer * 4 < usual * 3, "{longer} calls with leases of 20 s, {usual} with 5 s");
}

#[test]
fn a_lease_period_out_of_range_is_no_scenario() {
    for seconds in [3, 61] {
        let mut scenario = scenario(DecisionSite::Leased);
        scenario.lease_seconds = seconds;
        let error = simulate(&scenario).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("lease period in seconds {seconds} is not between 4 and 60; use one that is")
        );
    }
}

/// A table of so many halves of units a second.
fn table(halves: u32) -> Scenario {
    let mut scenario = Scenario::new(11);
    scenario.subject = Subject::Table;
    scenario.limit = Numbers::per_second(halves, halves.max(Scenario::TABLE_BURST_MIN));
    scenario
}

#[test]
fn a_leased_table_is_used_in_full_within_its_bound() {
    for load in [Load::Steady, Load::Skewed, Load::Zipf] {
        let mut scenario = table(2000);
        scenario.load = load;
        scenario.members = 8;
        scenario.seconds = 300;
        scenario.requests_per_second = 6000;
        let report = simulate(&scenario).unwrap();
        assert_eq!(report.violations, []);
        assert!(report.used.unwrap() > 0.98, "{report}");
        // Beyond the burst at the beginning.
        let has = 2000 * 300 + 2000;
        assert!(report.admitted_units <= has + has / 1000, "{report}");
    }
}
