//! A daemon that is asked only by `/v1/authorize`, whose callers never report the end of work.

use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate};
use crate::load::gauges::Gauges;
use crate::load::generator;
use crate::load::schedule::{Schedule, Stream};
use crate::load::testbed::{AppPlaces, Testbed};

/// Requests a second.
const RATE: f64 = 100.0;
/// The part that is answered, in per cent: otherwise there is nothing to hold places for.
const SUCCESS_MIN: f64 = 99.9;
/// How often places and permits are looked at.
const LOOK: Duration = Duration::from_millis(250);

const SUBREQUEST: Stream = Stream {
    path: "/v1/authorize?namespace=load&resource=app",
    tenant: "gold",
    class: "critical",
    mean_work: Duration::ZERO,
    seed: 4,
};

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let length = context.either(Duration::from_mins(2), Duration::from_secs(5));
    let testbed = Testbed::usual(context, AppPlaces::Fixed)?;
    let mut schedule = Schedule::default();
    schedule.add(SUBREQUEST, Duration::ZERO, length, RATE);
    let (callers, operators) = (testbed.callers()?, testbed.operators()?);
    let (run, most) = thread::scope(|scope| {
        let load = scope.spawn(|| generator::run(&schedule, callers, Instant::now()));
        let mut most: Result<Gauges, Failure> = Ok(Gauges::default());
        while !load.is_finished() {
            most = most.and_then(|most: Gauges| Ok(most.max(Gauges::read(operators)?)));
            thread::sleep(LOOK);
        }
        (load.join().expect("the generator does not panic"), most)
    });
    let (run, most) = (run?, most?);
    let most = most.max(Gauges::read(operators)?);
    findings.begin_run("100/s", &run);
    let gate = Gate::AtLeast(SUCCESS_MIN);
    findings.gated("answered 200", run.success() * 100.0, "%", gate, &run.endings());
    findings.gated("most places at a time", most.places as f64, "", Gate::AtMost(0.0), "");
    findings.gated("most waiting at a time", most.waiting as f64, "", Gate::AtMost(0.0), "");
    findings.gated("most permits at a time", most.permits as f64, "", Gate::AtMost(0.0), "");
    Ok(())
}
