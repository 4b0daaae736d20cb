//! Two Envoys at a daemon each share one limit by demand.

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate};
use crate::quota::edge_load::{CallSpan, EdgeLoad, SETTLED_S};
use crate::quota::testbed::{EdgeLimit, QuotaTestbed};

/// Units a second.
const RATE: f64 = 20.0;
const LIMIT: EdgeLimit = EdgeLimit { rate: 20 };

/// Total and parts may be off by so much, of the total.
const OFF_BY_AT_MOST_PERCENT: f64 = 10.0;

/// Demand that moves is followed within this time, in seconds.
const FOLLOWED_WITHIN_S: f64 = 11.0;

/// An Envoy has its part when it admits, in this many seconds, its part less a tenth of the total.
const PART_WIDTH_S: f64 = 2.0;

pub(in crate::quota) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let seconds = context.either(60.0, 20.0) + SETTLED_S;
    for demand in [[40.0, 40.0], [40.0, 4.0], [40.0, 0.0]] {
        let testbed = QuotaTestbed::start(context, LIMIT, &[&[0], &[1]])?;
        let spans = CallSpan::of_each(&demand, seconds);
        let (load, ()) = EdgeLoad::run(&testbed.edges(), &spans, |_| Ok(()))?;
        let name = format!("{}:{}", demand[0], demand[1]);
        load.begin_findings(&name, findings);
        judge_parts(&name, &load, &demand, RATE, (SETTLED_S, seconds), findings);
    }
    move_demand(context, findings)
}

/// Holds the total and the part of each Envoy in a span against the limit, shared by demand.
pub(super) fn judge_parts(
    name: &str,
    load: &EdgeLoad,
    demand: &[f64],
    rate: f64,
    (from, until): (f64, f64),
    findings: &mut Findings,
) {
    let gate = Gate::AtMost(OFF_BY_AT_MOST_PERCENT);
    let per_second = |edge| load.admitted(edge, from, until) / (until - from);
    let asked: f64 = demand.iter().sum();
    let (total, expected) = (per_second(None), rate.min(asked));
    let note = format!("{total:.2} a second of {expected}, seconds {from} to {until}");
    let off = 100.0 * (total / expected - 1.0).abs();
    findings.gated(&format!("{name}: total off by"), off, "%", gate, &note);
    let parts: Vec<(f64, f64)> =
        (0..demand.len()).map(|edge| (per_second(Some(edge)), expected * demand[edge] / asked)).collect();
    let off = parts.iter().map(|(part, expected)| (part - expected).abs()).fold(0.0, f64::max);
    let each: Vec<String> =
        parts.iter().map(|(part, expected)| format!("{part:.2} of {expected:.2}")).collect();
    let note = format!("{} a second", each.join(", "));
    findings.gated(
        &format!("{name}: worst part off by, of the total"),
        100.0 * off / expected,
        "%",
        gate,
        &note,
    );
}

/// Demand moves from the first Envoy to the second.
fn move_demand(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let (moves, until) = (30.0, 60.0);
    let testbed = QuotaTestbed::start(context, LIMIT, &[&[0], &[1]])?;
    let before = CallSpan::of_each(&[40.0, 3.0], moves);
    let after = CallSpan::of_each(&[3.0, 30.0], until);
    let after = after.into_iter().map(|span| CallSpan { from: moves, ..span });
    let spans: Vec<CallSpan> = before.into_iter().chain(after).collect();
    let (load, ()) = EdgeLoad::run(&testbed.edges(), &spans, |_| Ok(()))?;
    let name = "40:3 -> 3:30";
    load.begin_findings(name, findings);
    let part = RATE * 30.0 / 33.0;
    let enough = PART_WIDTH_S * (part - RATE / 10.0);
    let took = load.first_span(Some(1), enough, PART_WIDTH_S, (moves, until));
    let per_second = |from: f64| load.admitted(Some(1), moves + from, moves + from + 2.0) / 2.0;
    let course: Vec<String> =
        (0..7).map(|step| format!("{:.1}", per_second(2.0 * f64::from(step)))).collect();
    let note = format!(
        "from then on {:.1} a second or more in {PART_WIDTH_S} s; by two seconds: {}",
        enough / PART_WIDTH_S,
        course.join(" ")
    );
    let seconds = took.unwrap_or(f64::INFINITY);
    let gate = Gate::AtMost(1e3 * FOLLOWED_WITHIN_S);
    findings.gated("40:3 -> 3:30: second Envoy has its part after", 1e3 * seconds, "ms", gate, &note);
    judge_parts(name, &load, &[3.0, 30.0], RATE, (moves + FOLLOWED_WITHIN_S, until), findings);
    Ok(())
}
