//! The gate: the lines by which workloads and experiments are judged.

use tidegate_sim::capacity::gate::{judge_design, judge_runs, judge_table, percent};
use tidegate_sim::capacity::{CapacityReport, CapacityRun, Design, GateLine, TableSummary};

use crate::capacity::experiment::Experiment;
use crate::capacity::report::CapacityComparisonReport;
use crate::capacity::workload::Workload;

/// Measured shares lie this near to the fluid model: a hundredth of all requests.
const MODEL_TOLERANCE: f64 = 0.01;

/// The report of `runs`, which come by workload and experiment in their order, and within each in
/// the order of their seeds. `divisor` is that of all rates; `None` for tables of one's own.
pub fn report(runs: Vec<CapacityRun>, divisor: Option<u32>) -> CapacityComparisonReport {
    CapacityComparisonReport::new(CapacityReport::judged(runs, divisor, judge))
}

/// The lines of the gate for these summaries and the runs they are of.
fn judge(summaries: &[TableSummary], runs: &[CapacityRun]) -> Vec<GateLine> {
    let mut lines: Vec<GateLine> =
        summaries.iter().flat_map(|summary| judge_table(summary, own_lines(summary))).collect();
    for experiment in Experiment::ALL {
        let of_it: Vec<&CapacityRun> =
            runs.iter().filter(|run| run.scenario.experiment == Some(experiment.note())).collect();
        if !of_it.is_empty() {
            lines.extend(experiment.judge(&of_it));
        }
    }
    lines.extend(judge_runs(runs));
    lines
}

/// The lines of a workload. The nodes of one's own tables may bound them, which the model does not
/// know.
fn own_lines(summary: &TableSummary) -> Vec<GateLine> {
    let Some(workload) = Workload::from_note(summary.workload) else { return Vec::new() };
    let mut lines = skew(workload, summary);
    lines.extend(recovery(workload, summary));
    lines.extend(splits(workload, summary));
    lines.extend(model(summary));
    lines
}

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
    let mut lines = vec![judge_design(
        summary,
        Design::Split,
        "E-SKEW",
        "throttled while demand is within the table's throughput",
        bound(most),
        |result| (percent(result.worst), result.worst <= most),
    )];
    if workload == Workload::ContiguousZipf {
        lines.push(judge_design(
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

/// E-REC: how soon little is throttled.
fn recovery(workload: Workload, summary: &TableSummary) -> Option<GateLine> {
    let (design, most) = match workload {
        Workload::Step | Workload::Spike => (Design::Global, 15),
        Workload::ContiguousZipf => (Design::Split, 90),
        _ => return None,
    };
    let what = "time until ten seconds with less than 1 % throttled have passed";
    Some(judge_design(summary, design, "E-REC", what, format!("at most {most} s"), |result| {
        let recovery = result.worst_recovery_seconds;
        let figure = recovery.map_or("never".to_owned(), |seconds| format!("{seconds} s"));
        (figure, recovery.is_some_and(|seconds| seconds <= most))
    }))
}

/// E-KEY, E-SEQ, E-MOVE: what must not be cut is not cut.
fn splits(workload: Workload, summary: &TableSummary) -> Vec<GateLine> {
    let of = |experiment, most: u32| {
        judge_design(summary, Design::Split, experiment, "splits", format!("at most {most}"), |result| {
            (result.most_changes.splits.to_string(), result.most_changes.splits <= most)
        })
    };
    match workload {
        Workload::OneKey => {
            let bound = "at most 0.5 points".to_owned();
            let what = "throttled beyond the floor";
            let excess = judge_design(summary, Design::Split, "E-KEY", what, bound, |result| {
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
    judge_design(summary, design, "E-MOVE", "moves", "at most 1 a minute".to_owned(), |result| {
        let moves = result.most_changes.moves;
        (moves.to_string(), moves <= summary.seconds.div_ceil(60))
    })
}

/// E-SEQ: the tail is called sequential soon.
fn sequential(summary: &TableSummary) -> GateLine {
    let what = "first verdict SEQUENTIAL";
    judge_design(summary, Design::Split, "E-SEQ", what, "within 60 s".to_owned(), |result| {
        let second = result.worst_sequential_second;
        (
            second.map_or("never".to_owned(), |second| format!("{second} s")),
            second.is_some_and(|second| second <= 60),
        )
    })
}

/// Measured shares are those of the fluid model.
fn model(summary: &TableSummary) -> Vec<GateLine> {
    let fluid = summary.fluid;
    let of = |design, expected: f64| {
        let bound = format!("{} give or take a point", percent(expected));
        judge_design(summary, design, "MODEL", "throttled as the fluid model says", bound, |result| {
            (percent(result.median), (result.median - expected).abs() <= MODEL_TOLERANCE)
        })
    };
    [(Design::Static, fluid.static_shares), (Design::Burst, fluid.burst), (Design::Global, fluid.global)]
        .into_iter()
        .filter(|(design, _)| summary.of_design(*design).is_some())
        .map(|(design, expected)| of(design, expected))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sim::capacity::gate::JUDGED_SECONDS;
    use tidegate_sim::capacity::{DesignSummary, FluidShares, GateOutcome, ShapeChanges};

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
        TableSummary {
            id: workload.note().id.to_owned(),
            workload: Some(workload.note()),
            seconds: 900,
            fluid,
            designs,
        }
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
            let lines = judge(&[summary(Workload::Zipf, designs)], &[]);
            lines.into_iter().find(|line| line.what.contains(": order of ")).unwrap().outcome
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
