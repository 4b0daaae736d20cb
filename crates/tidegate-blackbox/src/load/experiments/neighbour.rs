//! An upstream of the same daemon beside one that is offered ten times its capacity.

use std::time::Duration;

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate};
use crate::load::measurement::Measurement;
use crate::load::schedule::Schedule;
use crate::load::testbed::{APP_CAPACITY, AppPlaces, BRONZE, GOLD, GOLD_RATE, OTHER, Testbed, on_time};

/// Requests a second to the other upstream, a tenth of its capacity.
const OTHER_RATE: f64 = 20.0;
/// The load offered to the first upstream, as a multiple of its capacity.
const FACTOR: f64 = 10.0;
/// The p99 of the other upstream, as a multiple of its p99 alone.
const P99_RATIO_MAX: f64 = 2.0;

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let length = context.either(Duration::from_secs(30), Duration::from_secs(5));
    let mut quiet = Schedule::default();
    quiet.add(OTHER, Duration::ZERO, length, OTHER_RATE);
    let mut busy = quiet.clone();
    busy.add(GOLD, Duration::ZERO, length, GOLD_RATE);
    busy.add(BRONZE, Duration::ZERO, length, FACTOR * APP_CAPACITY - GOLD_RATE);
    let mut p99 = |name: &str, schedule: &Schedule| -> Result<f64, Failure> {
        let load = || Testbed::usual(context, AppPlaces::Fixed)?.load(schedule);
        let run = on_time(load, |run: &Measurement| run)?;
        findings.begin_run(name, &run);
        let other = run.of_tenant(OTHER.tenant);
        let gate = Gate::AtLeast(100.0);
        findings.gated(&format!("{name}: success"), other.success() * 100.0, "%", gate, &other.endings());
        Ok(other.latency().p99.as_secs_f64() * 1e3)
    };
    let alone = p99("alone", &quiet)?;
    let beside = p99("beside 10x", &busy)?;
    let note = format!("{alone:.1} -> {beside:.1} ms");
    findings.gated("p99 beside 10x / alone", beside / alone, "", Gate::AtMost(P99_RATIO_MAX), &note);
    Ok(())
}
