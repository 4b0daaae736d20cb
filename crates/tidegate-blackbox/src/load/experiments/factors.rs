//! Goodput and the tenant that matters, at multiples of the capacity (E1 and E2).
//!
//! Goodput is answers in time a second, divided by the capacity of the upstream. It is measured
//! through the proxy, and again with the generator straight at the upstream.

use std::time::{Duration, Instant};

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate};
use crate::load::generator;
use crate::load::measurement::{Measurement, millis};
use crate::load::schedule::Schedule;
use crate::load::service::ServiceCounts;
use crate::load::service_process::ServiceProcess;
use crate::load::testbed::{APP_CAPACITY, APP_WORKERS, AppPlaces, BRONZE, GOLD, GOLD_RATE, Testbed, on_time};

/// Multiples of the capacity that are offered, each with the least goodput.
const FACTORS: [(f64, f64); 4] = [(1.0, 0.95), (2.0, 0.95), (5.0, 0.94), (10.0, 0.90)];
/// The multiple that is also offered to a resource with `concurrency: auto`.
const ADAPTIVE_FACTOR: (f64, f64) = (2.0, 0.95);
/// The goodput without Tidegate that counts as a collapse, from twice the capacity on.
const COLLAPSED_MAX: f64 = 0.05;
/// The part of gold's requests that is answered in time, in per cent.
const GOLD_SUCCESS_MIN: f64 = 99.9;
/// The p99 of gold, as a multiple of its p99 without bronze. The quick run has too few samples for
/// the first one.
const GOLD_P99_RATIO_MAX: (f64, f64) = (1.25, 2.0);
/// The part of the capacity that gold leaves over, or of bronze's demand if that is less, which
/// bronze is served.
const BRONZE_SHARE_MIN: f64 = 0.95;

/// Gold at its rate, and bronze so that both are `factor` times the capacity; without bronze at 0.
fn schedule(length: Duration, factor: f64) -> Schedule {
    let mut schedule = Schedule::default();
    schedule.add(GOLD, Duration::ZERO, length, GOLD_RATE);
    schedule.add(BRONZE, Duration::ZERO, length, (factor * APP_CAPACITY - GOLD_RATE).max(0.0));
    schedule
}

/// The window of a run in which its figures are taken: all but its beginning.
#[derive(Clone, Copy, Debug)]
struct Window {
    settled: Duration,
    length: Duration,
}

impl Window {
    fn goodput(self, run: &Measurement) -> f64 {
        run.answer_rate(self.settled..self.length) / APP_CAPACITY
    }

    /// The requests that were scheduled in it.
    fn of(self, run: &Measurement) -> Measurement {
        run.within(self.settled..self.length)
    }
}

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let settled = context.either(Duration::from_secs(2), Duration::from_secs(1));
    let window = Window { settled, length: context.either(Duration::from_secs(30), Duration::from_secs(5)) };
    let (alone, _) = through_proxy(context, AppPlaces::Fixed, &schedule(window.length, 0.0))?;
    findings.begin_run("gold alone", &alone);
    let alone_p99 = window.of(&alone).latency().p99;
    findings.shown("gold alone: p99", millis(alone_p99), "ms", "");
    for (factor, least) in FACTORS {
        let schedule = schedule(window.length, factor);
        let (run, counts) = through_proxy(context, AppPlaces::Fixed, &schedule)?;
        let name = format!("{factor}x");
        judge(findings, &name, window, &run, least);
        // A place is free when its client has left, while the upstream goes on with the request. So
        // only requests whose clients wait are bounded by the places.
        let ServiceCounts { present_max, attended_max, departed, .. } = counts;
        let note = format!("at most {present_max} at the upstream, {departed} clients left");
        let gate = Gate::AtMost(APP_WORKERS as f64);
        findings.gated(&format!("{name}: places kept"), attended_max as f64, "", gate, &note);
        judge_gold(context, findings, &name, window, &run, alone_p99);
    }
    for (factor, _) in FACTORS {
        let schedule = schedule(window.length, factor);
        let run = on_time(|| straight(&schedule), |run| run)?;
        let name = format!("{factor}x without Tidegate");
        findings.begin_run(&name, &run);
        let goodput = window.goodput(&run);
        let name = format!("{name}: goodput");
        // At the capacity itself the queue grows slowly.
        if factor < 2.0 {
            findings.shown(&name, goodput, "", "");
        } else {
            findings.gated(&name, goodput, "", Gate::AtMost(COLLAPSED_MAX), "it collapses");
        }
    }
    let (factor, least) = ADAPTIVE_FACTOR;
    let (run, counts) = through_proxy(context, AppPlaces::Adaptive, &schedule(window.length, factor))?;
    let name = format!("{factor}x, concurrency auto");
    judge(findings, &name, window, &run, least);
    findings.shown(&format!("{name}: most at the upstream"), counts.present_max as f64, "requests", "");
    judge_gold(context, findings, &name, window, &run, alone_p99);
    Ok(())
}

fn judge(findings: &mut Findings, name: &str, window: Window, run: &Measurement, least: f64) {
    findings.begin_run(name, run);
    findings.gated(&format!("{name}: goodput"), window.goodput(run), "", Gate::AtLeast(least), "of capacity");
}

fn judge_gold(
    context: &RunContext,
    findings: &mut Findings,
    name: &str,
    window: Window,
    run: &Measurement,
    alone_p99: Duration,
) {
    let gold = window.of(run).of_tenant(GOLD.tenant);
    let success = gold.success() * 100.0;
    let gate = Gate::AtLeast(GOLD_SUCCESS_MIN);
    findings.gated(&format!("{name}: gold success"), success, "%", gate, &gold.endings());
    let p99 = gold.latency().p99;
    let (whole, quick) = GOLD_P99_RATIO_MAX;
    let gate = Gate::AtMost(context.either(whole, quick));
    let ratio = p99.as_secs_f64() / alone_p99.as_secs_f64();
    let note = format!("{:.0} ms", millis(p99));
    findings.gated(&format!("{name}: gold p99 / alone"), ratio, "", gate, &note);
    let rate_of = |tenant| run.of_tenant(tenant).answer_rate(window.settled..window.length);
    let (gold_rate, bronze_rate) = (rate_of(GOLD.tenant), rate_of(BRONZE.tenant));
    let demand = window.of(run).of_tenant(BRONZE.tenant).samples().len() as f64
        / window.length.saturating_sub(window.settled).as_secs_f64();
    let share = bronze_rate / (APP_CAPACITY - gold_rate).min(demand);
    let note = format!("{bronze_rate:.0}/s");
    findings.gated(&format!("{name}: bronze / leftover"), share, "", Gate::AtLeast(BRONZE_SHARE_MIN), &note);
}

fn through_proxy(
    context: &RunContext,
    places: AppPlaces,
    schedule: &Schedule,
) -> Result<(Measurement, ServiceCounts), Failure> {
    let run = || {
        let testbed = Testbed::usual(context, places)?;
        let run = testbed.load(schedule)?;
        Ok((run, testbed.app.counts()?))
    };
    on_time(run, |(run, _)| run)
}

fn straight(schedule: &Schedule) -> Result<Measurement, Failure> {
    let service = ServiceProcess::start(APP_WORKERS)?;
    Ok(generator::run(schedule, service.address(), Instant::now())?)
}
