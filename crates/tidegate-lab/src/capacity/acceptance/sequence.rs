//! E-SEQ: new keys in their order, which no cut helps, and the same arrivals with the keys
//! permuted, which a cut does.

use super::figures::{Figure, at_least, least, line, none, worst};
use crate::capacity::workload::Workload;
use tidegate_sim::capacity::{CapacityRun, CapacityScenario, Design, Pattern};
use tidegate_sim::kit::GateLine;

pub(super) const MIXED: &str = "80 % of the table's throughput is asked for as writes, 40 % of them new keys in their \
    order, which pass through the partitions one after the other, each in a minute; the others for all keys alike. \
    No cut helps the tail.";

pub(super) const MIXED_PERMUTED: &str = "The same arrivals: the same instants, old keys and numbers of new keys. Only \
    the order of the new keys is permuted: each lies at a scattered place of one partition, which is asked for more \
    than its ceiling as long as the run lasts. A cut helps.";

pub(super) const SEQUENCE_PERMUTED: &str = "The arrivals of W10: the same instants, old keys and numbers of new keys. \
    Only the order of the new keys is permuted: each lies at a scattered place of one partition, which is asked for \
    more than its ceiling as long as the run lasts. A cut helps.";

const SECONDS: u32 = 300;

/// The arrivals of W10.
pub(super) fn of_w10(seed: u64) -> CapacityScenario {
    let scenario = Workload::Sequential.scenario(seed, SECONDS, 10);
    CapacityScenario { designs: vec![Design::Global, Design::Split], ..scenario }
}

/// 40 % in order and 60 % uniform.
pub(super) fn mixed(seed: u64) -> CapacityScenario {
    let mut scenario = of_w10(seed);
    for phase in &mut scenario.tables[0].demand.phases {
        phase.units_per_second *= 80.0 / 50.0;
        phase.pattern = Pattern::Tail { percent: 40 };
    }
    scenario
}

/// The same arrivals with the order of the new keys permuted.
pub(super) fn permuted(mut scenario: CapacityScenario) -> CapacityScenario {
    for phase in &mut scenario.tables[0].demand.phases {
        if let Pattern::Tail { percent } = phase.pattern {
            phase.pattern = Pattern::ScatteredTail { percent };
        }
    }
    scenario
}

/// The lines of new keys in order.
pub(super) fn judge_mixed(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let design = Design::Split;
    let splits = worst(runs, design, |_, result| f64::from(result.tables[0].changes.splits));
    let verdict = worst(runs, design, |_, result| {
        let verdicts = &result.tables[0].verdicts;
        let found = verdicts.iter().find(|one| one.verdict == "SEQUENTIAL");
        found.map_or(f64::INFINITY, |one| f64::from(one.second))
    });
    vec![
        none(design, "40 % in order: splits", splits),
        line(
            design,
            "40 % in order: first verdict SEQUENTIAL",
            if verdict.is_finite() { format!("{verdict} s") } else { "never".to_owned() },
            "within 60 s",
            verdict <= 60.0,
        ),
    ]
}

/// The lines of permuted keys.
pub(super) fn judge_permuted(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let id = runs[0].scenario.experiment.map_or("", |one| one.id);
    let splits = least(runs, Design::Split, |_, result| f64::from(result.tables[0].changes.splits));
    let gain = least(runs, Design::Split, |run, result| {
        let global = run.of(Design::Global).map_or(0.0, |global| global.tables[0].share_at_end);
        global - result.tables[0].share_at_end
    });
    let of = |what: &str| format!("{id}: {what}");
    vec![
        at_least(Design::Split, &of("splits"), Figure::count(splits), 1.0),
        line(
            Design::Split,
            &of("throttled less than under G in the last minute"),
            format!("{:.2} points", gain * 100.0),
            "at least 1 point",
            gain >= 0.01,
        ),
    ]
}
