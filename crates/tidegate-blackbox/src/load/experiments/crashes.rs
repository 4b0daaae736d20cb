//! `kill -9` of the upstream or of the daemon in the middle of overload.

use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate};
use crate::load::experiments::idleness::{judge_empty, judge_level, time_until_normal};
use crate::load::gauges::Gauges;
use crate::load::generator;
use crate::load::measurement::Measurement;
use crate::load::schedule::Schedule;
use crate::load::testbed::{APP_CAPACITY, AppPlaces, BRONZE, GOLD, GOLD_RATE, Testbed};

/// The load offered to the upstream, as a multiple of its capacity.
const FACTOR: f64 = 5.0;
/// How long the load goes on after the upstream was killed.
const AFTER_UPSTREAM: Duration = Duration::from_millis(400);
/// How long the load goes on after the daemon was killed, which is restarted at once.
const AFTER_DAEMON: Duration = Duration::from_secs(3);
/// How long after the kill the restarted daemon serves.
const SERVES_AFTER: Duration = Duration::from_secs(2);

/// Loads the upstream for a while, then does `kill`, and goes on for `after`. Returns what the
/// clients saw, the instant of the kill from the start, and the instant at which load ended.
fn killed<'context>(
    testbed: &mut Testbed<'context>,
    before: Duration,
    after: Duration,
    kill: impl FnOnce(&mut Testbed<'context>) -> Result<(), Failure>,
) -> Result<(Measurement, Instant), Failure> {
    let mut schedule = Schedule::default();
    let end = before + after;
    schedule.add(GOLD, Duration::ZERO, end, GOLD_RATE);
    schedule.add(BRONZE, Duration::ZERO, end, FACTOR * APP_CAPACITY - GOLD_RATE);
    let (proxy, start) = (testbed.proxy(), Instant::now());
    let (run, killed) = thread::scope(|scope| {
        let load = scope.spawn(|| generator::run(&schedule, proxy, start));
        thread::sleep((start + before).saturating_duration_since(Instant::now()));
        let killed = kill(testbed);
        (load.join().expect("the generator does not panic"), killed)
    });
    killed?;
    Ok((run?, start))
}

pub(crate) fn killed_upstream(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let before = context.either(Duration::from_secs(10), Duration::from_secs(3));
    let mut testbed = Testbed::usual(context, AppPlaces::Fixed)?;
    let mut gauges = None;
    let kill = |testbed: &mut Testbed<'_>| {
        gauges = Some(Gauges::read(testbed.operators()?)?);
        testbed.app.kill();
        Ok(())
    };
    let (run, start) = killed(&mut testbed, before, AFTER_UPSTREAM, kill)?;
    findings.begin_run("5x, upstream killed", &run);
    if let Some(Gauges { places, waiting, .. }) = gauges {
        // Without any, there is nothing to be returned.
        let note = format!("{waiting} waiting");
        findings.gated("places at the kill", places as f64, "", Gate::AtLeast(1.0), &note);
    }
    let event = start + before;
    judge_empty(findings, &testbed, event)?;
    judge_level(findings, time_until_normal(testbed.operators()?, event));
    Ok(())
}

pub(crate) fn killed_daemon(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let before = context.either(Duration::from_secs(10), Duration::from_secs(3));
    let mut testbed = Testbed::usual(context, AppPlaces::Fixed)?;
    let kill = |testbed: &mut Testbed<'_>| {
        testbed.kill_daemon();
        testbed.restart_daemon()
    };
    let (run, start) = killed(&mut testbed, before, AFTER_DAEMON, kill)?;
    let end = before + AFTER_DAEMON;
    findings.begin_run("5x, daemon killed and restarted", &run);
    let gold = run.within(before + SERVES_AFTER..end).of_tenant(GOLD.tenant);
    let gate = Gate::AtLeast(99.0);
    findings.gated(
        "gold success from 2 s after the kill",
        gold.success() * 100.0,
        "%",
        gate,
        &gold.endings(),
    );
    judge_empty(findings, &testbed, start + end)?;
    judge_level(findings, time_until_normal(testbed.operators()?, start + end));
    let present = testbed.app.counts()?.present;
    findings.gated("requests left at the upstream", present as f64, "", Gate::AtMost(0.0), "");
    Ok(())
}
