//! Detection and recovery: a step into overload and out of it (E3).

use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate};
use crate::load::experiments::idleness::{EMPTY_AFTER, judge_empty, judge_level, time_until_normal};
use crate::load::gauges;
use crate::load::generator;
use crate::load::measurement::{Ending, Measurement, Sample};
use crate::load::schedule::Schedule;
use crate::load::testbed::{APP_CAPACITY, AppPlaces, BRONZE, GOLD, GOLD_RATE, Testbed};

/// Multiples of the capacity: before the step, during overload, and after it.
const FACTORS: [f64; 3] = [0.8, 2.0, 0.5];
/// How long after the step the first request is shed.
const FIRST_SHED_MAX: Duration = Duration::from_millis(200);
/// How long after the step no request of gold may fail.
const GOLD_UNHARMED: Duration = Duration::from_secs(2);
/// How long after the end of overload most requests are answered, and how many, in per cent.
const EASED_AFTER: Duration = Duration::from_millis(500);
const EASED_SUCCESS_MIN: f64 = 99.0;
/// How long before its first request a run is prepared.
const LEAD: Duration = Duration::from_millis(50);

/// The instants of the phases, from the start of the run.
#[derive(Clone, Copy, Debug)]
struct Phases {
    step: Duration,
    ease: Duration,
    end: Duration,
}

impl Phases {
    fn schedule(self) -> Schedule {
        let Self { step, ease, end } = self;
        let mut schedule = Schedule::default();
        schedule.add(GOLD, Duration::ZERO, end, GOLD_RATE);
        let bounds = [(Duration::ZERO, step), (step, ease), (ease, end)];
        for ((from, until), factor) in bounds.into_iter().zip(FACTORS) {
            schedule.add(BRONZE, from, until, factor * APP_CAPACITY - GOLD_RATE);
        }
        schedule
    }
}

/// A run, and what was seen of the daemon meanwhile.
#[derive(Debug)]
struct StepRun<'context> {
    run: Measurement,
    /// Its last answer was received by this instant.
    ended: Instant,
    /// The time from the end of overload until nothing waited; nothing if that took too long.
    queue_emptied: Option<Duration>,
    level: Result<Duration, String>,
    testbed: Testbed<'context>,
}

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let (calm, overload) = context.either((10.0, 10.0), (2.0, 3.0));
    // Long enough for the level to fall while there is some load.
    let (step, ease) = (calm, calm + overload);
    let [step, ease, end] = [step, ease, ease + 7.5].map(Duration::from_secs_f64);
    let phases = Phases { step, ease, end };
    let seen = seen_run(context, phases)?;
    let run = &seen.run;
    findings.begin_run("0.8x, 2x, 0.5x", run);
    let is_refused = |sample: &&Sample| matches!(sample.ending, Ending::Refused(_));
    let arrived = |sample: &Sample| sample.at + sample.took;
    let refused = run.samples().iter().filter(is_refused);
    let first_shed = refused.clone().map(arrived).filter(|instant| *instant >= step).min();
    let after_step = first_shed.map(|instant| instant.saturating_sub(step)).ok_or("nothing was shed");
    findings.timed("first shed after the step", after_step, FIRST_SHED_MAX);
    let before = refused.filter(|sample| arrived(sample) < step).count();
    findings.shown("refusals before the step", before as f64, "", "at 0.8x");
    let gold = run.within(step..step + GOLD_UNHARMED).of_tenant(GOLD.tenant);
    let failed = gold.count(|ending| ending != Ending::Answered);
    findings.gated("gold failures in the first 2 s", failed as f64, "", Gate::AtMost(0.0), &gold.endings());
    let eased = run.within(ease + EASED_AFTER..end);
    let gate = Gate::AtLeast(EASED_SUCCESS_MIN);
    findings.gated("success from 0.5 s after the ease", eased.success() * 100.0, "%", gate, &eased.endings());
    let later = run.within(ease + EMPTY_AFTER..end);
    let refused = later.count(|ending| matches!(ending, Ending::Refused(_)));
    findings.gated("refusals from 1 s after the ease", refused as f64, "", Gate::AtMost(0.0), "");
    let emptied = seen.queue_emptied.ok_or("it was never empty");
    findings.timed("queue empty after the ease", emptied, EMPTY_AFTER);
    judge_empty(findings, &seen.testbed, seen.ended)?;
    judge_level(findings, seen.level);
    Ok(())
}

fn seen_run(context: &RunContext, phases: Phases) -> Result<StepRun<'_>, Failure> {
    let testbed = Testbed::usual(context, AppPlaces::Fixed)?;
    let (operators, proxy) = (testbed.operators()?, testbed.proxy());
    let schedule = phases.schedule();
    let start = Instant::now() + LEAD;
    let (run, ended, queue_emptied, level) = thread::scope(|scope| {
        let load = scope.spawn(|| (generator::run(&schedule, proxy, start), Instant::now()));
        let ease = start + phases.ease;
        thread::sleep(ease.saturating_duration_since(Instant::now()));
        let queue_emptied = gauges::time_until(operators, EMPTY_AFTER, |gauges| gauges.waiting == 0);
        let level = time_until_normal(operators, ease);
        let (run, ended) = load.join().expect("the generator does not panic");
        (run, ended, queue_emptied, level)
    });
    Ok(StepRun { run: run?, ended, queue_emptied: queue_emptied?, level, testbed })
}
