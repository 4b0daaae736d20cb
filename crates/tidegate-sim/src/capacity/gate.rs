//! The gate: the lines by which workloads, experiments and checkers are judged.

use crate::capacity::design::Design;
use crate::capacity::experiment::Experiment;
use crate::capacity::invariant::{Invariant, JUDGED};
use crate::capacity::run::CapacityRun;
use crate::capacity::summary::{DesignSummary, TableSummary};
use crate::capacity::workload::Workload;
use crate::kit::gate_line::{GateLine, GateOutcome};

/// Measured shares lie this near to the fluid model: a hundredth of all requests.
const MODEL_TOLERANCE: f64 = 0.01;

/// The lines of the gate for these summaries and the runs they are of.
pub(crate) fn judge(summaries: &[TableSummary], runs: &[CapacityRun]) -> Vec<GateLine> {
    let mut lines = Vec::new();
    for summary in summaries {
        let from = lines.len();
        if let Some(workload) = summary.workload {
            lines.extend(skew(workload, summary));
            lines.extend(recovery(workload, summary));
            lines.extend(splits(workload, summary));
            // The nodes of one's own tables may bound them, which the model does not know.
            lines.extend(model(summary));
        }
        lines.push(useless(summary));
        lines.extend(order(summary));
        if summary.seconds < JUDGED_SECONDS {
            lines[from..].iter_mut().for_each(GateLine::leave_open_unless_passed);
        }
    }
    for experiment in Experiment::ALL {
        let of_it: Vec<&CapacityRun> =
            runs.iter().filter(|run| run.scenario.experiment == Some(experiment)).collect();
        if !of_it.is_empty() {
            lines.extend(experiment.judge(&of_it));
        }
    }
    lines.extend(tenants(runs));
    lines.extend(evidence(runs));
    lines
}

fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

/// A line about a design, or that it was not simulated.
fn about(
    summary: &TableSummary,
    design: Design,
    experiment: &'static str,
    what: &str,
    bound: String,
    judge: impl FnOnce(&DesignSummary) -> (String, bool),
) -> GateLine {
    let what = format!("{} {}: {what}", summary.id, design.letters());
    match summary.of_design(design) {
        Some(result) => {
            let (figure, is_within) = judge(result);
            GateLine::of(experiment, what, figure, bound, is_within)
        }
        None => GateLine {
            experiment,
            what,
            figure: "-".to_owned(),
            bound,
            outcome: GateOutcome::NotJudged,
            group: None,
        },
    }
}

/// The shortest run in seconds whose lines can fail: that of a run for which no length is given. In
/// a shorter one most of what is bounded has not come to an end: a recovery, or the last minute.
const JUDGED_SECONDS: u32 = 300;

/// The length in seconds of the runs that the bounds of shares are for.
const BOUND_SECONDS: f64 = 900.0;

/// E-SKEW: what is throttled at most with splits.
///
/// The requests that are throttled before the first cut are the same in a shorter run, so that the
/// bound of their share grows as the run gets shorter.
fn skew(workload: Workload, summary: &TableSummary) -> Vec<GateLine> {
    let most = match workload {
        Workload::Uniform | Workload::Zipf | Workload::Step => 0.001,
        Workload::SteepZipf | Workload::SkewSpike => 0.005,
        Workload::ContiguousZipf => 0.03,
        _ => return Vec::new(),
    };
    let most = most * f64::max(1.0, BOUND_SECONDS / f64::from(summary.seconds));
    let bound = |most: f64| format!("at most {:.2} %", most * 100.0);
    let mut lines = vec![about(
        summary,
        Design::Split,
        "E-SKEW",
        "throttled while demand is within the table's throughput",
        bound(most),
        |result| (percent(result.worst), result.worst <= most),
    )];
    if workload == Workload::ContiguousZipf {
        lines.push(about(
            summary,
            Design::Split,
            "E-SKEW",
            "throttled in the last minute",
            bound(0.001),
            |result| (percent(result.worst_at_end), result.worst_at_end <= 0.001),
        ));
    }
    lines
}

/// E-SKEW: each design throttles no more than the one before it.
fn order(summary: &TableSummary) -> Option<GateLine> {
    if summary.designs.len() < 2 {
        return None;
    }
    // 0.05 points, or a hundredth of the value.
    let is_in_order = summary
        .designs
        .is_sorted_by(|before, after| after.median <= before.median + f64::max(0.0005, before.median * 0.01));
    let letters: Vec<&str> = summary.designs.iter().map(|one| one.design.letters()).collect();
    let medians: Vec<String> = summary.designs.iter().map(|one| percent(one.median)).collect();
    let what = format!("{}: order of {}", summary.id, letters.join(", "));
    let bound = "falling, within 0.05 points or 1 %".to_owned();
    Some(GateLine::of("E-SKEW", what, medians.join(", "), bound, is_in_order))
}

/// E-REC: how soon little is throttled.
fn recovery(workload: Workload, summary: &TableSummary) -> Option<GateLine> {
    let (design, most) = match workload {
        Workload::Step | Workload::Spike => (Design::Global, 15),
        Workload::ContiguousZipf => (Design::Split, 90),
        _ => return None,
    };
    let what = "time until ten seconds with less than 1 % throttled have passed";
    Some(about(summary, design, "E-REC", what, format!("at most {most} s"), |result| {
        let recovery = result.worst_recovery_seconds;
        let figure = recovery.map_or("never".to_owned(), |seconds| format!("{seconds} s"));
        (figure, recovery.is_some_and(|seconds| seconds <= most))
    }))
}

/// E-KEY, E-SEQ, E-MOVE: what must not be cut is not cut.
fn splits(workload: Workload, summary: &TableSummary) -> Vec<GateLine> {
    let of = |experiment, most: u32| {
        about(summary, Design::Split, experiment, "splits", format!("at most {most}"), |result| {
            (result.most_changes.splits.to_string(), result.most_changes.splits <= most)
        })
    };
    match workload {
        Workload::OneKey => {
            let bound = "at most 0.5 points".to_owned();
            let what = "throttled beyond the floor";
            let excess = about(summary, Design::Split, "E-KEY", what, bound, |result| {
                (format!("{:.3} points", result.worst_excess * 100.0), result.worst_excess <= 0.005)
            });
            vec![excess, of("E-KEY", 2)]
        }
        Workload::Sequential => vec![of("E-SEQ", 0), sequential(summary)],
        Workload::MovingPartition => {
            let mut lines = vec![of("E-MOVE", 0)];
            lines.extend([Design::Balanced, Design::Split].map(|design| moves(summary, design)));
            lines
        }
        _ => Vec::new(),
    }
}

/// E-MOVE: a hot spot that moves is not followed by moves.
fn moves(summary: &TableSummary, design: Design) -> GateLine {
    about(summary, design, "E-MOVE", "moves", "at most 1 a minute".to_owned(), |result| {
        let moves = result.most_changes.moves;
        (moves.to_string(), moves <= summary.seconds.div_ceil(60))
    })
}

/// E-SEQ: the tail is called sequential soon.
fn sequential(summary: &TableSummary) -> GateLine {
    let what = "first verdict SEQUENTIAL";
    about(summary, Design::Split, "E-SEQ", what, "within 60 s".to_owned(), |result| {
        let second = result.worst_sequential_second;
        (
            second.map_or("never".to_owned(), |second| format!("{second} s")),
            second.is_some_and(|second| second <= 60),
        )
    })
}

/// Each cut lowers the throttled share of its range by a tenth within a minute.
fn useless(summary: &TableSummary) -> GateLine {
    let what = "cuts that did not lower the throttled share of their range by a tenth within 60 s";
    about(summary, Design::Split, "E-SKEW", what, "0".to_owned(), |result| {
        let useless = result.most_changes.useless_splits;
        (useless.to_string(), useless == 0)
    })
}

/// Measured shares are those of the fluid model.
fn model(summary: &TableSummary) -> Vec<GateLine> {
    let fluid = summary.fluid;
    let of = |design, expected: f64| {
        let bound = format!("{} give or take a point", percent(expected));
        about(summary, design, "MODEL", "throttled as the fluid model says", bound, |result| {
            (percent(result.median), (result.median - expected).abs() <= MODEL_TOLERANCE)
        })
    };
    [(Design::Static, fluid.static_shares), (Design::Burst, fluid.burst), (Design::Global, fluid.global)]
        .into_iter()
        .filter(|(design, _)| summary.of_design(*design).is_some())
        .map(|(design, expected)| of(design, expected))
        .collect()
}

/// E-ISO: tenants beside the table that keep within their throughput are never refused.
fn tenants(runs: &[CapacityRun]) -> Option<GateLine> {
    let counts = runs.iter().flat_map(|run| run.designs.iter().map(|design| design.tenants(&run.scenario)));
    let (throttled, offered) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    let what = format!("refusals of tenants within their throughput, of {offered} requests");
    (offered > 0)
        .then(|| GateLine::of("E-ISO", what, throttled.to_string(), "exactly 0".to_owned(), throttled == 0))
}

/// E-WHY and the invariants: nothing was found by any checker.
fn evidence(runs: &[CapacityRun]) -> Vec<GateLine> {
    let designs = || runs.iter().flat_map(|run| &run.designs);
    let sum = |value: fn(&crate::capacity::DesignResult) -> u64| designs().map(value).sum::<u64>();
    let (decisions, refusals) = (sum(|one| one.decisions), sum(|one| one.refusals_checked));
    let mut lines = Vec::new();
    for invariant in JUDGED {
        let breaches: u64 = designs().filter_map(|one| one.breach_counts.get(&invariant)).sum();
        let (experiment, of) = match invariant {
            Invariant::RefusalEvidence => ("E-WHY", format!("{refusals} refusals")),
            _ => ("E-PROP", format!("{decisions} decisions")),
        };
        let what = format!("breaches of {} in {of}", invariant.id());
        lines.push(GateLine::of(experiment, what, breaches.to_string(), "0".to_owned(), breaches == 0));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::fluid::FluidShares;
    use crate::capacity::run::ShapeChanges;

    fn design(design: Design, median: f64) -> DesignSummary {
        DesignSummary {
            design,
            median,
            worst: median,
            worst_at_end: 0.0,
            median_beyond: None,
            worst_recovery_seconds: Some(10),
            most_changes: ShapeChanges::default(),
            worst_excess: 0.0,
            worst_sequential_second: Some(30),
        }
    }

    fn summary(workload: Workload, designs: Vec<DesignSummary>) -> TableSummary {
        let fluid = FluidShares { static_shares: 0.1, burst: 0.05, global: 0.0, floor: 0.0 };
        TableSummary { id: workload.id().to_owned(), workload: Some(workload), seconds: 900, fluid, designs }
    }

    fn outcomes(lines: &[GateLine], experiment: &str) -> Vec<GateOutcome> {
        lines.iter().filter(|line| line.experiment == experiment).map(|line| line.outcome).collect()
    }

    #[test]
    fn the_order_of_designs_must_fall_within_the_tolerance() {
        let of = |shares: [f64; 3]| {
            let [s, b, g] = shares;
            let designs =
                vec![design(Design::Static, s), design(Design::Burst, b), design(Design::Global, g)];
            order(&summary(Workload::Zipf, designs)).unwrap().outcome
        };
        assert_eq!(of([0.10, 0.05, 0.0]), GateOutcome::Pass);
        assert_eq!(of([0.10, 0.1009, 0.0]), GateOutcome::Pass);
        assert_eq!(of([0.10, 0.1011, 0.0]), GateOutcome::Fail);
        assert_eq!(of([0.0, 0.0004, 0.0008]), GateOutcome::Pass);
        assert_eq!(of([0.0, 0.0006, 0.0]), GateOutcome::Fail);
    }

    #[test]
    fn a_design_that_was_not_simulated_is_not_judged_and_one_beyond_its_bound_fails() {
        let without = judge(&[summary(Workload::Zipf, vec![design(Design::Static, 0.1)])], &[]);
        assert_eq!(outcomes(&without, "E-SKEW"), [GateOutcome::NotJudged; 2]);
        let with = |share| judge(&[summary(Workload::Zipf, vec![design(Design::Split, share)])], &[]);
        assert_eq!(outcomes(&with(0.001), "E-SKEW"), [GateOutcome::Pass; 2]);
        assert_eq!(outcomes(&with(0.0011), "E-SKEW"), [GateOutcome::Fail, GateOutcome::Pass]);
    }

    #[test]
    fn a_useless_cut_an_excess_and_a_late_recovery_fail() {
        let mut split = design(Design::Split, 0.0);
        split.most_changes.splits = 1;
        let of = |workload, split: &DesignSummary| judge(&[summary(workload, vec![split.clone()])], &[]);
        assert_eq!(
            outcomes(&of(Workload::Sequential, &split), "E-SEQ"),
            [GateOutcome::Fail, GateOutcome::Pass]
        );
        let not_simulated = GateOutcome::NotJudged;
        assert_eq!(
            outcomes(&of(Workload::MovingPartition, &split), "E-MOVE"),
            [GateOutcome::Fail, not_simulated, GateOutcome::Pass]
        );
        // Of 900 seconds.
        (split.most_changes.splits, split.most_changes.moves) = (0, 16);
        assert_eq!(
            outcomes(&of(Workload::MovingPartition, &split), "E-MOVE"),
            [GateOutcome::Pass, not_simulated, GateOutcome::Fail]
        );
        split.most_changes.splits = 1;
        assert_eq!(outcomes(&of(Workload::OneKey, &split), "E-KEY"), [GateOutcome::Pass; 2]);
        split.worst_excess = 0.006;
        split.most_changes.splits = 3;
        assert_eq!(outcomes(&of(Workload::OneKey, &split), "E-KEY"), [GateOutcome::Fail; 2]);
        split.worst_recovery_seconds = Some(91);
        assert_eq!(outcomes(&of(Workload::ContiguousZipf, &split), "E-REC"), [GateOutcome::Fail]);
        split.worst_recovery_seconds = None;
        assert_eq!(outcomes(&of(Workload::ContiguousZipf, &split), "E-REC"), [GateOutcome::Fail]);
        split.worst_recovery_seconds = Some(90);
        assert_eq!(outcomes(&of(Workload::ContiguousZipf, &split), "E-REC"), [GateOutcome::Pass]);
    }

    #[test]
    fn a_run_too_short_for_a_bound_does_not_fail_it() {
        let of = |seconds| {
            let short = TableSummary { seconds, ..summary(Workload::Zipf, vec![design(Design::Split, 0.5)]) };
            outcomes(&judge(&[short], &[]), "E-SKEW")
        };
        assert_eq!(of(JUDGED_SECONDS), [GateOutcome::Fail, GateOutcome::Pass]);
        assert_eq!(of(JUDGED_SECONDS - 1), [GateOutcome::NotJudged, GateOutcome::Pass]);
    }

    #[test]
    fn a_share_far_from_the_fluid_model_fails() {
        let of = |share| judge(&[summary(Workload::Zipf, vec![design(Design::Static, share)])], &[]);
        assert_eq!(outcomes(&of(0.109), "MODEL"), [GateOutcome::Pass]);
        assert_eq!(outcomes(&of(0.111), "MODEL"), [GateOutcome::Fail]);
        assert_eq!(outcomes(&of(0.089), "MODEL"), [GateOutcome::Fail]);
    }
}
