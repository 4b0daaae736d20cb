//! Fleets with Envoys that decide by what members assign to them.

use tidegate_sim::fleet::{Chaos, DecisionSite, EnvoyReport, Load, Numbers, Report, Scenario, simulate};

/// Six Envoys at three members that share 240 a second and are asked for three times as much.
fn scenario(load: Load) -> Scenario {
    let mut scenario = Scenario::new(3);
    (scenario.members, scenario.envoys, scenario.load) = (3, 6, load);
    (scenario.limit, scenario.requests_per_second) = (Numbers::per_second(240, 240), 720);
    scenario.seconds = 90;
    scenario
}

fn simulated(load: Load) -> (Report, EnvoyReport) {
    let report = simulate(&scenario(load)).expect("the scenario is in range");
    assert_eq!(report.violations, [], "{report}");
    let envoys = report.envoys.clone().expect("the scenario has Envoys");
    (report, envoys)
}

#[test]
fn envoys_use_a_limit_within_its_bound_and_share_it_by_demand() {
    for load in [Load::Steady, Load::Uneven, Load::OneIdle] {
        let (report, envoys) = simulated(load);
        assert!(report.fullest.units <= report.fullest.bound, "{report}");
        assert!(envoys.second_max <= envoys.second_bound, "{report}");
        assert!(report.used.unwrap() >= 0.9, "{report}");
        let parts = (envoys.least_part, envoys.most_part);
        assert!(parts.0 > 0.8 && parts.1 < 1.2, "{report}");
        // Six Envoys report every five seconds, and the first request of each at once.
        assert!((6 * 17..=6 * 20).contains(&envoys.reports), "{report}");
        assert!(report.store_calls < 400 && report.calls_per_decision < 0.01, "{report}");
    }
}

#[test]
fn envoys_with_ten_times_the_demand_get_ten_times_as_much() {
    let (report, envoys) = simulated(Load::Uneven);
    let [busy, quiet] = envoys.groups[..] else { panic!("{report}") };
    assert_eq!((busy.envoys, quiet.envoys), (3, 3));
    let times = busy.admitted_per_second / quiet.admitted_per_second;
    assert!((8.0..12.0).contains(&times), "{report}");
}

#[test]
fn an_idle_envoy_leaves_its_part_to_the_others() {
    let (report, envoys) = simulated(Load::OneIdle);
    let [busy, idle] = envoys.groups[..] else { panic!("{report}") };
    assert!(busy.admitted_per_second > 0.9 * 240.0 && idle.admitted_per_second < 0.1, "{report}");
}

#[test]
fn moved_demand_is_followed_within_eleven_seconds() {
    let (report, envoys) = simulated(Load::Moved);
    assert!(envoys.followed_after_ms.unwrap() <= 11_000, "{report}");
    assert!(envoys.used_after_move.unwrap() > 0.5, "{report}");
}

#[test]
fn a_fleet_with_envoys_gives_the_same_report_byte_for_byte() {
    let json = || serde_json::to_string(&simulate(&scenario(Load::Moved)).unwrap()).unwrap();
    assert_eq!(json(), json());
}

#[test]
fn several_keys_are_buckets_of_their_own() {
    let mut scenario = scenario(Load::Steady);
    (scenario.keys, scenario.seconds) = (4, 40);
    scenario.requests_per_second *= 4;
    let report = simulate(&scenario).unwrap();
    assert_eq!(report.violations, [], "{report}");
    assert!(report.used.unwrap() >= 0.9, "{report}");
}

#[test]
fn what_envoys_cannot_do_is_no_scenario() {
    type Spoil = fn(&mut Scenario);
    let wrong: [(Spoil, &str); 5] = [
        (|one| one.consistency = DecisionSite::Exact, "a leased limit of the policy"),
        (
            |one| one.limit = Numbers::per_second(10, 10),
            "a rate of at least 1 a minute with a burst of at least 16",
        ),
        (|one| one.load = Load::Callers, "a load of other than `callers`"),
        (|one| one.retries = 1, "requests of one unit that are not retried"),
        (|one| one.chaos = Chaos::Some, "a run without chaos"),
    ];
    for (spoil, needs) in wrong {
        let mut scenario = scenario(Load::Steady);
        spoil(&mut scenario);
        let error = simulate(&scenario).unwrap_err().to_string();
        assert_eq!(error, format!("Envoys need {needs}; use that, or no Envoys"));
    }
}

#[test]
fn more_envoys_than_first_grants_of_the_burst_share_by_demand_too() {
    let report = simulate(&Scenario { envoys: 12, ..scenario(Load::Steady) });
    let report = report.expect("the scenario is in range");
    assert_eq!(report.violations, [], "{report}");
    assert!(report.envoys.as_ref().is_some_and(|envoys| envoys.least_part > 0.8), "{report}");
}
