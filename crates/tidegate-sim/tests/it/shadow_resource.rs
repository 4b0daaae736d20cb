//! A rehearsal beside the run that enforces: what a resource in shadow mode would refuse.

use tidegate_core::Class;
use tidegate_sim::overload::{
    ClientSpec, LoadPhase, OverloadDesign, OverloadResult, OverloadScenario, ServiceSpec, ServiceTime,
    simulate,
};

/// E1 at so many times the capacity: a service of ten workers that can do 1000 requests a second.
fn e1(seed: u64, load: f64) -> OverloadScenario {
    let clients = vec![ClientSpec::gold(200.0), ClientSpec::bronze(1000.0 * load - 200.0)];
    let mut scenario = OverloadScenario::new(seed, 20, vec![ServiceSpec::reference("main")], clients);
    scenario.designs = vec![OverloadDesign::TIDEGATE, OverloadDesign::TIDEGATE_SHADOW];
    scenario
}

/// The refusals of a run by class, and those of its rehearsal.
fn compared(scenario: &OverloadScenario) -> [[u64; Class::ALL.len()]; 2] {
    let run = simulate(scenario).expect("the scenario is in range");
    let [enforced, shadow] = [OverloadDesign::TIDEGATE, OverloadDesign::TIDEGATE_SHADOW].map(|design| {
        let result: &OverloadResult = run.of(design).expect("it was simulated");
        assert_eq!(result.violations, [], "{}", design.name);
        &result.services[0]
    });
    let ledger = shadow.ledger;
    assert_eq!((ledger.offered, ledger.shed + ledger.expired), (ledger.admitted, 0), "nobody is refused");
    assert!(shadow.wait_p99_ms < 1e-9, "nobody is delayed");
    println!("seed {}: {:?} {:?}", scenario.seed, enforced.refused_by_class, shadow.refused_by_class);
    [enforced.refused_by_class, shadow.refused_by_class]
}

#[test]
fn a_rehearsal_of_e1_at_twice_the_capacity_would_refuse_what_the_run_refuses_within_a_twentieth() {
    for seed in 1..=3 {
        let [enforced, shadow] = compared(&e1(seed, 2.0)).map(|all| all.iter().sum::<u64>());
        assert!(enforced > 15_000, "{enforced}");
        assert!(enforced.abs_diff(shadow) * 20 <= enforced, "seed {seed}: {enforced} and {shadow}");
    }
}

/// A service that bears twice as many requests at once as its resource has places, and is asked for
/// half of what these can do, then for 1.5 times as much.
fn too_few_places(seed: u64) -> OverloadScenario {
    let mut scenario = e1(seed, 1.5);
    scenario.services[0].workers = 20;
    scenario.services[0].places = Some(10);
    for client in &mut scenario.clients {
        client.phases = vec![LoadPhase { from: 0.0, factor: 0.33 }, LoadPhase { from: 5.0, factor: 1.0 }];
    }
    scenario
}

#[test]
fn a_rehearsal_of_too_few_places_says_so_although_the_service_bears_the_load() {
    for seed in 1..=3 {
        let [enforced, shadow] = compared(&too_few_places(seed)).map(|all| all.iter().sum::<u64>());
        assert!(enforced > 6_000, "{enforced}");
        assert!(enforced.abs_diff(shadow) * 20 <= enforced, "seed {seed}: {enforced} and {shadow}");
    }
}

#[test]
fn a_rehearsal_that_begins_below_the_capacity_agrees_as_well() {
    for seed in 1..=3 {
        let mut scenario = e1(seed, 2.0);
        for client in &mut scenario.clients {
            client.phases = vec![LoadPhase { from: 0.0, factor: 0.3 }, LoadPhase { from: 5.0, factor: 1.0 }];
        }
        let [enforced, shadow] = compared(&scenario).map(|all| all.iter().sum::<u64>());
        assert!(enforced.abs_diff(shadow) * 20 <= enforced, "seed {seed}: {enforced} and {shadow}");
    }
}

/// One place for three workers of 65 ms, which are asked for so many requests a second.
fn one_place_of_three(seed: u64, rate: f64) -> OverloadScenario {
    let mut scenario = e1(seed, 1.0);
    let service = &mut scenario.services[0];
    (service.workers, service.places) = (3, Some(1));
    service.service_time = ServiceTime::Exponential { mean_ms: 65.0 };
    scenario.clients = vec![ClientSpec::bronze(rate)];
    scenario.seconds = 120;
    scenario
}

#[test]
fn a_rehearsal_of_one_place_for_three_workers_is_within_a_third() {
    for (seed, rate) in [(1, 24.0), (2, 29.0), (3, 36.0), (4, 44.0), (5, 44.0)] {
        let [enforced, shadow] = compared(&one_place_of_three(seed, rate)).map(|all| all.iter().sum::<u64>());
        assert!(enforced.abs_diff(shadow) * 3 <= enforced, "{rate}: {enforced} and {shadow}");
    }
    // The service has a queue of its own all the time: how long one request takes is never seen.
    let [enforced, shadow] = compared(&one_place_of_three(6, 100.0)).map(|all| all.iter().sum::<u64>());
    assert!((enforced / 2..=enforced).contains(&shadow), "{enforced} and {shadow}");
}
