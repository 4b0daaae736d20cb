//! The refusals that a resource in shadow mode would make, beside those of one that enforces.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate};
use crate::http1;
use crate::load::gauges::Gauges;
use crate::load::measurement::{Ending, Measurement};
use crate::load::schedule::Schedule;
use crate::load::testbed::{APP_CAPACITY, AppPlaces, BRONZE, GOLD, GOLD_RATE, Testbed};

/// The load, in multiples of the capacity.
const LOAD: f64 = 2.0;
/// How far the refusals of the two runs may be apart, in percent.
const APART_MAX: f64 = 5.0;
/// How often the requests that wait are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long after the load the last stand-ins are decided.
const DECIDED_AFTER: Duration = Duration::from_secs(1);

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let length = context.either(Duration::from_secs(30), Duration::from_secs(15));
    let mut schedule = Schedule::default();
    schedule.add(GOLD, Duration::ZERO, length, GOLD_RATE);
    schedule.add(BRONZE, Duration::ZERO, length, LOAD * APP_CAPACITY - GOLD_RATE);

    let testbed = Testbed::usual(context, AppPlaces::Rehearsed)?;
    let operators = testbed.operators()?;
    let is_over = AtomicBool::new(false);
    let (shadow, waiting) = thread::scope(|scope| {
        let looks = scope.spawn(|| most_waiting(operators, &is_over));
        let run = testbed.load(&schedule);
        is_over.store(true, Ordering::Relaxed);
        (run, looks.join().expect("a look does not panic"))
    });
    let shadow = shadow?;
    findings.begin_run("shadow", &shadow);
    findings.gated("refused", refused(&shadow) as f64, "", Gate::AtMost(0.0), "in shadow mode");
    findings.gated("waiting at a time", waiting? as f64, "", Gate::AtMost(0.0), "in shadow mode");
    thread::sleep(DECIDED_AFTER);
    let would = would_refuse(operators)?;

    let enforced = Testbed::usual(context, AppPlaces::Fixed)?.load(&schedule)?;
    findings.begin_run("enforce", &enforced);
    let did = refused(&enforced);
    let apart = would.abs_diff(did) as f64 / did.max(1) as f64 * 100.0;
    let note = format!("{would} would be refused, {did} are");
    findings.gated("refusals: apart", apart, "%", Gate::AtMost(APART_MAX), &note);
    Ok(())
}

fn refused(run: &Measurement) -> usize {
    run.count(|ending| matches!(ending, Ending::Refused(_)))
}

/// The most requests that wait at a time until the run is over.
fn most_waiting(operators: SocketAddr, is_over: &AtomicBool) -> Result<u64, Failure> {
    let mut most = 0;
    while !is_over.load(Ordering::Relaxed) {
        most = most.max(Gauges::read(operators)?.waiting);
        thread::sleep(LOOK);
    }
    Ok(most)
}

/// The requests that the resource would have refused.
fn would_refuse(operators: SocketAddr) -> Result<usize, Failure> {
    let metrics = http1::ask(operators, http1::get("/metrics"))?.text();
    let counts = metrics.lines().filter(|line| line.starts_with("tidegate_resource_would_refuse_total{"));
    Ok(counts.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum())
}
