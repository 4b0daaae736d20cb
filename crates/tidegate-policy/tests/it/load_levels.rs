//! The thresholds of load levels of a resource, and the half-life of demand for its features.

use core::time::Duration;

use tidegate_overload::{LevelThresholds, ResourceConfig};
use tidegate_policy::compare;

use crate::{problems, settings};

/// A policy whose resource has these settings.
fn with_resource(more: &str) -> String {
    format!(
        "namespaces: {{ a: {{ limits: [{{ name: all, rate: 1/s }}] }} }}\nresources: {{ app: {{ concurrency: 4{more} }} }}\n"
    )
}

/// The resource as the overload plane takes it.
fn resource(more: &str) -> ResourceConfig {
    settings(&with_resource(more)).resources[0].config
}

/// The problems of such a resource, each line without its position.
fn told(more: &str) -> Vec<String> {
    let lines = problems(&with_resource(more)).into_iter();
    lines
        .map(|line| line.split_once("resources.app.").expect("it is about the resource").1.to_owned())
        .collect()
}

#[test]
fn load_levels_have_the_defaults_of_the_plane_and_each_a_threshold_of_its_own() {
    assert_eq!(resource("").levels, LevelThresholds::DEFAULT);
    assert_eq!(resource(", levels: {}").levels, LevelThresholds::DEFAULT);
    assert_eq!(resource("").demand_half_life, Duration::from_mins(5));
    assert_eq!(
        resource(", levels: { brownout: 0.85 }").levels,
        LevelThresholds { brownout: 0.85, ..LevelThresholds::DEFAULT }
    );
    let all = resource(
        ", demand_half_life: 90s, levels: { soft: 0.8, brownout: 0.9, hard: 1, emergency: 2, margin: 0, settle: 100ms }",
    );
    let expected = LevelThresholds {
        soft: 0.8,
        brownout: 0.9,
        hard: 1.0,
        emergency: 2.0,
        margin: 0.0,
        settle: Duration::from_millis(100),
    };
    assert_eq!((all.levels, all.demand_half_life), (expected, Duration::from_secs(90)));
    assert!(expected.check().is_ok());
}

#[test]
fn load_levels_that_do_not_work_are_told_where_they_stand() {
    for (more, expected) in [
        (
            "levels: { soft: 0 }",
            &["levels.soft: soft 0 is not above 0; use the pressure at which the level is entered, as 0.7"][..],
        ),
        (
            "levels: { soft: 0.8, brownout: 0.7, hard: 0.7 }",
            &[
                "levels.brownout: brownout 0.7 is not above the 0.8 of `soft`; use more, or write a lower `soft`",
                "levels.hard: hard 0.7 is not above the 0.7 of `brownout`; use more, or write a lower `brownout`",
            ],
        ),
        (
            "levels: { brownout: 0.9 }",
            &[
                "levels.brownout: brownout 0.9 is not below the 0.9 that `hard` has by default; use less, or write a higher `hard`",
            ],
        ),
        (
            "levels: { brownout: 0.6 }",
            &[
                "levels.brownout: brownout 0.6 is not above the 0.7 that `soft` has by default; use more, or write a lower `soft`",
            ],
        ),
        (
            "levels: { soft: 0.3, margin: 0.4 }",
            &["levels.soft: soft 0.3 is not above the 0.4 of `margin`; use more, or write a lower `margin`"],
        ),
        (
            "levels: { soft: 0.1 }",
            &[
                "levels.soft: soft 0.1 is not above the 0.1 that `margin` has by default; use more, or write a lower `margin`",
            ],
        ),
        (
            "levels: { soft: high, hard: 2.1, emergency: -1, margin: 0.6, settle: 2h, brownuot: 1 }",
            &[
                "levels.soft: expected a number, found \"high\"; write a decimal, for example 0.5",
                "levels.hard: 2.1 is out of range; use a number from 0 to 2",
                "levels.emergency: -1 is out of range; use a number from 0 to 2",
                "levels.margin: 0.6 is out of range; use a number from 0 to 0.5",
                "levels.settle: settle \"2h\" is out of range; use a span from 100ms to 1h",
                "levels.brownuot: unknown key \"brownuot\"; did you mean `brownout`?",
            ],
        ),
        (
            "levels: { settle: 99ms }, demand_half_life: 999ms",
            &[
                "levels.settle: settle \"99ms\" is out of range; use a span from 100ms to 1h",
                "demand_half_life: demand_half_life \"999ms\" is out of range; use a span from 1s to 1d",
            ],
        ),
        (
            "demand_half_life: 25h",
            &["demand_half_life: demand_half_life \"25h\" is out of range; use a span from 1s to 1d"],
        ),
    ] {
        assert_eq!(told(&format!(", {more}")), expected, "{more}");
    }
}

#[test]
fn a_change_of_load_levels_needs_no_restart_and_is_shown() {
    let changes = |old: &str, new: &str| -> Vec<String> {
        let (old, new) = (settings(&with_resource(old)), settings(&with_resource(new)));
        assert_eq!(new.clone().in_place_of(&old).resources, new.resources);
        let changes = compare(&old, &new).settings;
        assert!(changes.iter().all(|one| !one.needs_restart));
        changes.iter().map(|one| format!("{}: {} -> {}", one.path, one.old, one.new)).collect()
    };
    let written = ", levels: { soft: 0.70, settle: 5000ms }, demand_half_life: 300s";
    assert_eq!(changes("", written), [""; 0]);
    assert_eq!(
        changes("", ", levels: { hard: 0.95, settle: 1s }, demand_half_life: 1m"),
        [
            "resources.app.levels.hard: 0.9 -> 0.95",
            "resources.app.levels.settle: 5s -> 1s",
            "resources.app.demand_half_life: 5m -> 1m",
        ]
    );
}
