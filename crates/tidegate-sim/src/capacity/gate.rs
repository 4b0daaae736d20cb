//! The gate: the lines by which every comparison of tables is judged, and the checkers of all runs.

use crate::capacity::design::Design;
use crate::capacity::judge::invariant::{Invariant, judged};
use crate::capacity::run::CapacityRun;
use crate::capacity::summary::{DesignSummary, TableSummary};
use crate::kit::report::{GateLine, GateOutcome};

/// The shortest run in seconds whose lines can fail: that of a run for which no length is given. In
/// a shorter one most of what is bounded has not come to an end: a recovery, or the last minute.
pub const JUDGED_SECONDS: u32 = 300;

/// The lines of the gate for tables of one's own.
pub(crate) fn judge(summaries: &[TableSummary], runs: &[CapacityRun]) -> Vec<GateLine> {
    let mut lines: Vec<GateLine> = summaries.iter().flat_map(|summary| judge_table(summary, [])).collect();
    lines.extend(judge_runs(runs));
    lines
}

/// The lines of one table: `own`, which are about this table alone, and those that every table has.
/// A run that is too short fails none of them.
pub fn judge_table(summary: &TableSummary, own: impl IntoIterator<Item = GateLine>) -> Vec<GateLine> {
    let mut lines: Vec<GateLine> = own.into_iter().collect();
    lines.push(useless(summary));
    lines.extend(order(summary));
    if summary.seconds < JUDGED_SECONDS {
        lines.iter_mut().for_each(GateLine::leave_open_unless_passed);
    }
    lines
}

/// The lines that hold of every run: tenants within their throughput are not refused, and no
/// checker has found anything.
pub fn judge_runs(runs: &[CapacityRun]) -> Vec<GateLine> {
    tenants(runs).into_iter().chain(evidence(runs)).collect()
}

/// A share in hundredths.
pub fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

/// A line about a design, or that it was not simulated.
pub fn judge_design(
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
            GateLine::new(experiment, what, figure, bound, is_within)
        }
        None => GateLine {
            outcome: GateOutcome::NotJudged,
            ..GateLine::new(experiment, what, "-".to_owned(), bound, true)
        },
    }
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
    Some(GateLine::new("E-SKEW", what, medians.join(", "), bound, is_in_order))
}

/// Each cut lowers the throttled share of its range by a tenth within a minute.
fn useless(summary: &TableSummary) -> GateLine {
    let what = "cuts that did not lower the throttled share of their range by a tenth within 60 s";
    judge_design(summary, Design::Split, "E-SKEW", what, "0".to_owned(), |result| {
        let useless = result.most_changes.useless_splits;
        (useless.to_string(), useless == 0)
    })
}

/// E-ISO: tenants beside the table that keep within their throughput are never refused.
fn tenants(runs: &[CapacityRun]) -> Option<GateLine> {
    let counts = runs.iter().flat_map(|run| run.designs.iter().map(|design| design.tenants(&run.scenario)));
    let (throttled, offered) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    let what = format!("refusals of tenants within their throughput, of {offered} requests");
    (offered > 0)
        .then(|| GateLine::new("E-ISO", what, throttled.to_string(), "exactly 0".to_owned(), throttled == 0))
}

/// E-WHY and the invariants: nothing was found by any checker.
fn evidence(runs: &[CapacityRun]) -> Vec<GateLine> {
    let designs = || runs.iter().flat_map(|run| &run.designs);
    let sum = |value: fn(&crate::capacity::DesignResult) -> u64| designs().map(value).sum::<u64>();
    let (decisions, refusals) = (sum(|one| one.decisions), sum(|one| one.refusals_checked));
    let mut lines = Vec::new();
    for invariant in judged() {
        let breaches: u64 = designs().filter_map(|one| one.breach_counts.get(&invariant)).sum();
        let (experiment, of) = match invariant {
            Invariant::RefusalEvidence => ("E-WHY", format!("{refusals} refusals")),
            _ => ("E-PROP", format!("{decisions} decisions")),
        };
        let what = format!("breaches of {} in {of}", invariant.id());
        lines.push(GateLine::new(experiment, what, breaches.to_string(), "0".to_owned(), breaches == 0));
    }
    lines
}
