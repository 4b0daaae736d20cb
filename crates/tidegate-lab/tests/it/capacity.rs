//! The capacity world: what holds of every workload under every design.

use std::collections::BTreeSet;

use tidegate_lab::capacity::{self as compared, Experiment, Workload};
use tidegate_sim::capacity::{
    CapacityRun, CapacityScenario, CapacityScenarioError, Design, GateOutcome, Pattern, Phase, simulate,
};

/// A small world: a hundredth of the rates, a minute.
fn small(workload: Workload, seed: u64) -> CapacityRun {
    simulate(&workload.scenario(seed, 60, 100)).expect("the baseline is in range")
}

#[test]
fn no_checker_finds_anything_and_tenants_are_never_refused() {
    for workload in Workload::ALL {
        let run = small(workload, 7);
        for design in &run.designs {
            assert_eq!(design.breaches, [], "{workload:?} {:?}", design.design);
            let (throttled, offered) = design.tenants(&run.scenario);
            assert!(throttled == 0 && offered > 500, "{workload:?} {throttled} of {offered}");
        }
    }
}

#[test]
fn no_checker_finds_anything_in_experiments_with_groups_reloads_forced_changes_and_growth() {
    for experiment in Experiment::cheap() {
        let run = simulate(&experiment.scenario(11)).expect("the scenarios of experiments are in range");
        for design in &run.designs {
            assert_eq!(design.breaches, [], "{experiment:?} {:?}", design.design);
            assert!(design.decisions > 1000, "{experiment:?} {:?}", design.design);
        }
    }
}

#[test]
fn every_design_is_asked_the_same() {
    let run = small(Workload::Zipf, 3);
    let offered = |design: &tidegate_sim::capacity::DesignResult| -> Vec<Vec<u32>> {
        let seconds =
            design.tables.iter().map(|table| table.seconds.iter().map(|count| count.offered).collect());
        seconds.collect()
    };
    let first = offered(&run.designs[0]);
    assert!(run.designs.iter().all(|design| offered(design) == first));
}

#[test]
fn the_same_seed_gives_the_same_report_byte_for_byte_and_another_seed_another() {
    let report = |seed| compared::report(vec![small(Workload::MovingPartition, seed)], Some(100));
    let (first, again, other) = (report(5), report(5), report(6));
    assert_eq!(first.to_html(), again.to_html());
    assert_eq!(first.to_string(), again.to_string());
    assert_eq!(serde_json::to_string(&first).unwrap(), serde_json::to_string(&again).unwrap());
    assert_ne!(first.to_html(), other.to_html());
}

#[test]
fn designs_fall_in_order_where_two_hot_keys_share_a_partition() {
    // At a hundredth of the rates a partition has ten units a second, so the shares of the fluid
    // model are met within a few points only.
    let run = simulate(&Workload::SteepZipf.scenario(1, 200, 20)).unwrap();
    let share = |design| run.of(design).unwrap().tables[0].share_within;
    let (s, b, g) = (share(Design::Static), share(Design::Burst), share(Design::Global));
    assert!(s > b + 0.05 && b > g + 0.03 && g > 0.02, "{s} {b} {g}");
    assert!((s - run.fluid[0].static_shares).abs() < 0.01);
    assert!((b - run.fluid[0].burst).abs() < 0.01);
    assert!((g - run.fluid[0].global).abs() < 0.01);
}

#[test]
fn a_spike_beyond_the_table_is_borne_by_burst_and_bounded_by_tokens() {
    let run = simulate(&Workload::Spike.scenario(1, 150, 10)).unwrap();
    let of = |design| &run.of(design).unwrap().tables[0];
    assert!(of(Design::Static).share_beyond.unwrap() > 0.25);
    assert!(of(Design::Burst).share_beyond.unwrap() < 0.001);
    assert!(of(Design::Global).share_beyond.unwrap() > 0.25);
    assert!(of(Design::Global).by_bound.keys().copied().eq(["table tokens"]));
    assert!(of(Design::Global).recovery_seconds.is_some_and(|seconds| seconds <= 15));
}

#[test]
fn the_report_tells_who_was_throttled_when_and_why() {
    let report =
        compared::report(vec![simulate(&Workload::OneKey.scenario(2, 200, 100)).unwrap()], Some(100));
    let html = report.to_html();
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</body></html>\n"));
    for part in [
        "because its share of 10 units a second was used up, and this design gives it no more",
        "because its share and its burst credit were used up",
        "because more was asked of it than one partition may serve: 30 units a second",
        "<h2 id=\"W9\">W9: one key with half of the requests</h2>",
        "prefers-color-scheme: dark",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    assert!(!html.contains("<script") && !html.contains("http:") && !html.contains("https:"));
}

#[test]
fn a_line_of_the_gate_is_judged_only_if_its_design_was_simulated() {
    let mut scenario = Workload::Zipf.scenario(1, 30, 100);
    scenario.designs = vec![Design::Static];
    let report = compared::report(vec![simulate(&scenario).unwrap()], Some(100));
    let skew: Vec<_> = report.gate.iter().filter(|line| line.experiment == "E-SKEW").collect();
    assert_eq!(skew.len(), 2);
    assert!(skew.iter().all(|line| line.outcome == GateOutcome::NotJudged));
}

#[test]
fn each_experiment_has_an_id_of_its_own_and_a_scenario_that_can_be_simulated() {
    let ids: BTreeSet<&str> = Experiment::ALL.into_iter().map(Experiment::id).collect();
    assert_eq!(ids.len(), Experiment::ALL.len());
    assert!(Experiment::cheap().count() == Experiment::ALL.len() - 1);
    for experiment in Experiment::ALL {
        let scenario = experiment.scenario(1);
        assert_eq!(scenario.experiment, Some(experiment.note()));
        assert_eq!(scenario.check(), Ok(()));
    }
}

#[test]
fn the_report_of_an_experiment_has_its_lines_its_requests_and_is_the_same_each_time() {
    let report = || compared::report(vec![simulate(&Experiment::LargeItems.scenario(3)).unwrap()], Some(10));
    let (first, again) = (report(), report());
    assert_eq!(first.to_html(), again.to_html());
    assert_eq!(first.to_string(), again.to_string());
    assert!(first.tables.is_empty(), "no throttled share is compared with those of workloads");
    assert_eq!(first.gate.iter().filter(|line| line.experiment == "E-BIG").count(), 8);
    let text = first.to_string();
    assert!(text.starts_with("seed 3, "), "{text}");
    assert!(text.contains("\nE-BIG: writes of 400 units, 600 s\n"), "{text}");
    let html = first.to_html();
    for part in ["<h2 id=\"E-BIG\">E-BIG: writes of 400 units</h2>", "paced, writes of 400<", "Table random"]
    {
        assert!(html.contains(part), "{part}");
    }
}

/// The outcomes of the lines about permuted keys and about their order.
fn outcomes(experiment: Experiment) -> Vec<GateOutcome> {
    let run = simulate(&experiment.scenario(1)).expect("the scenarios of experiments are in range");
    let report = compared::report(vec![run], Some(10));
    let lines = report.gate.iter().filter(|line| line.experiment == experiment.name());
    lines.map(|line| line.outcome).collect()
}

#[test]
fn new_keys_in_order_are_not_cut_and_the_same_arrivals_with_permuted_keys_are() {
    for experiment in [Experiment::MixedSequence, Experiment::MixedPermuted, Experiment::SequencePermuted] {
        assert_eq!(outcomes(experiment), [GateOutcome::Pass; 3], "{experiment:?}");
    }
}

#[test]
fn balancing_matters_where_nodes_are_nearly_full() {
    assert!(outcomes(Experiment::Saturation).iter().all(|outcome| *outcome == GateOutcome::Pass));
}

#[test]
fn a_change_of_mode_keeps_every_level() {
    let run = simulate(&Experiment::ModeChanges.scenario(2)).unwrap();
    let result = &run.designs[0];
    assert_eq!((result.reloads.len(), result.breaches_total()), (5, 0));
    assert!(result.reloads.iter().all(|reload| reload.levels > 80 && reload.levels_changed == 0));
}

#[test]
fn static_shares_are_a_twentieth_after_twenty_times_the_load_and_ceilings_stay() {
    let scenario = Experiment::TwentyTimes.scenario(1);
    // Until right after the return.
    let run = simulate(&CapacityScenario { seconds: 910, ..scenario }).unwrap();
    let bounds = |design| {
        let growth = &run.of(design).unwrap().tables[0].growth;
        (growth.key_bounds[100], growth.key_bounds[905], growth.partitions[905])
    };
    assert_eq!(bounds(Design::Static), (50_000, 2_500, 80));
    // A reload that does change levels is seen to.
    assert!(run.of(Design::Static).unwrap().reloads[1].levels_changed > 80);
    let (first, last, partitions) = bounds(Design::Split);
    assert!(first == 50_000 && last == 50_000 && partitions > 40);
}

#[test]
fn what_cannot_be_simulated_is_said_with_what_to_do() {
    let scenario = || Workload::Zipf.scenario(1, 30, 100);
    let error = |change: &dyn Fn(&mut CapacityScenario)| {
        let mut changed = scenario();
        change(&mut changed);
        simulate(&changed).unwrap_err().to_string()
    };
    assert_eq!(
        error(&|scenario| scenario.seconds = 9),
        "number of seconds 9 is not between 10 and 86400; use one that is"
    );
    assert_eq!(error(&|scenario| scenario.designs.clear()), "there is no design; name at least one");
    assert_eq!(
        error(&|scenario| scenario.tables[0].demand.keys = 0),
        "table \"orders\": number of keys 0 is not between 1 and 1000000; use one that is"
    );
    let late = |phase: &Phase| Phase { from: 5.0, ..phase.clone() };
    assert_eq!(
        error(&|scenario| scenario.tables[0].demand.phases = vec![late(&scenario.tables[0].demand.phases[0])]),
        "table \"orders\": the phases begin at 5; let the first begin at 0 and each later than the one before it"
    );
    assert_eq!(
        error(&|scenario| scenario.tables[0].demand.phases[0].pattern = Pattern::Tail { percent: 10 }),
        "table \"orders\": new keys have no order where keys are hashed; partition the table by the order of its keys"
    );
    // The plane reports its own checks in its own words.
    let mut overcommitted = scenario();
    overcommitted.nodes[0].units_per_second = 5;
    let error = simulate(&overcommitted).unwrap_err();
    assert!(matches!(error, CapacityScenarioError::Refused(_)), "{error}");
}
