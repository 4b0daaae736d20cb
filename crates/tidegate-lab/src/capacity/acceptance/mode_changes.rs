//! E-MODE: a table goes from mode to mode under load, and keeps its levels.

use tidegate_capacity::TableMode;

use super::figures::{Figure, at_least, least, line, none, worst};
use crate::capacity::workload::Workload;
use crate::capacity::world::{ScriptedStep, StepKind, script_of};
use tidegate_sim::capacity::{CapacityRun, CapacityScenario, Design, DesignResult, NodeSpec};
use tidegate_sim::kit::GateLine;

pub(super) const DESCRIPTION: &str = "The demand of W4, on nodes with room for boosts. The table begins with static shares and goes on with burst \
    credit, adaptive boosts, global admission and burst credit, each for a minute, by a reload. The levels of all \
    partitions and nodes are compared right before and right after each reload. The letter A stands for the control \
    loops, which boost while the mode is adaptive and carry out nothing else.";

const SECONDS: u32 = 300;

/// The scenario.
pub(super) fn scenario(seed: u64) -> CapacityScenario {
    let modes =
        [TableMode::Static, TableMode::Burst, TableMode::Adaptive, TableMode::Global, TableMode::Burst];
    let step = |(index, mode): (u32, TableMode)| ScriptedStep {
        at: 60.0 * f64::from(index),
        table: 0,
        kind: StepKind::SetMode(mode),
    };
    let mut scenario = Workload::ContiguousZipf.scenario(seed, SECONDS, 10);
    // Room for boosts.
    scenario.nodes = NodeSpec::numbered(4, 1000, 0);
    CapacityScenario {
        designs: vec![Design::Adaptive],
        script: Some(script_of((0..).zip(modes).map(step).collect())),
        ..scenario
    }
}

/// The lines of the gate.
pub(super) fn judge(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let design = Design::Adaptive;
    let sum = |value: fn(&DesignResult) -> u64| worst(runs, design, |_, result| value(result) as f64);
    let reloads = sum(|result| result.reloads.iter().filter(|one| one.error.is_none()).count() as u64);
    let changed = sum(|result| result.reloads.iter().map(|one| u64::from(one.levels_changed)).sum());
    let compared = sum(|result| result.reloads.iter().map(|one| u64::from(one.levels)).sum());
    let breaches = sum(DesignResult::breaches_total);
    let boosted = least(runs, design, |_, result| {
        let before = result.reloads.iter().map(|one| f64::from(one.rates_above_base_before));
        before.fold(0.0, f64::max)
    });
    let kept = sum(|result| {
        let after = result.reloads.iter().filter(|one| one.what != "adaptive");
        after.map(|one| u64::from(one.rates_above_base)).max().unwrap_or(0)
    });
    vec![
        line(design, "changes of mode", format!("{reloads}"), "5", reloads >= 5.0),
        none(design, &format!("levels that a change of mode changed, of {compared}"), changed),
        at_least(design, "partitions with a boost at the end of adaptive mode", Figure::count(boosted), 1.0),
        none(design, "breaches", breaches),
        none(design, "partitions that kept a boost in a mode without boosts", kept),
    ]
}
