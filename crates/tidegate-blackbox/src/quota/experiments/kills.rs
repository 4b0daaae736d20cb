//! Daemons and Envoys are killed and started again, then both daemons are killed for good.

use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate};
use crate::fleet::bound::{Allowance, AllowedExcess};
use crate::quota::assignments::{ListedAssignment, of_daemon};
use crate::quota::edge_load::{CallSpan, EdgeLoad, SETTLED_S};
use crate::quota::testbed::{EdgeLimit, QuotaTestbed};

/// Units a second; the burst is as many.
const RATE: f64 = 20.0;
const LIMIT: EdgeLimit = EdgeLimit { rate: 20 };

/// Seconds between two deaths of daemons, and between two of Envoys.
const EVERY_S: f64 = 10.0;

/// An assignment lives for so long, in seconds.
const TIME_TO_LIVE_S: f64 = 10.0;

/// By now the whole rate must be used again, in seconds.
const RECOVERED_WITHIN_S: f64 = 20.0;

/// The kills of a run.
#[derive(Debug, Default)]
struct KillRecord {
    /// The parts that dead holders may still spend.
    exceptions: Vec<AllowedExcess>,
    deaths: usize,
    last_restart: f64,
    /// When both daemons were killed, and what their assignments allow from then on.
    both_dead: f64,
    left: f64,
}

/// The instants of a run, in seconds.
#[derive(Clone, Copy, Debug)]
struct KillTimes {
    /// No daemon or Envoy is killed from here on.
    calm_from: f64,
    both_dead: f64,
    until: f64,
}

pub(in crate::quota) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let calm_from = SETTLED_S + context.either(120.0, 40.0);
    let both_dead = calm_from + 2.0 * RECOVERED_WITHIN_S;
    let times = KillTimes { calm_from, both_dead, until: both_dead + 2.0 * TIME_TO_LIVE_S };
    let mut testbed = QuotaTestbed::start(context, LIMIT, &[&[0, 1], &[1, 0]])?;
    let spans = CallSpan::of_each(&[1.5 * RATE, 1.5 * RATE], times.until);
    let (load, record) =
        EdgeLoad::run(&testbed.edges(), &spans, |begun| disturb(&mut testbed, begun, times))?;
    load.begin_findings("kills", findings);
    judge(&load, &record, times, findings);
    Ok(())
}

fn disturb(testbed: &mut QuotaTestbed<'_>, begun: Instant, times: KillTimes) -> Result<KillRecord, Failure> {
    let now = || begun.elapsed().as_secs_f64();
    let wait = |at: f64| thread::sleep(Duration::from_secs_f64((at - now()).max(0.0)));
    let mut record = KillRecord::default();
    for round in 0.. {
        let at = SETTLED_S + EVERY_S * f64::from(round);
        if at >= times.calm_from {
            break;
        }
        let victim = usize::from(round % 2 == 1);
        wait(at);
        note_dead(&mut record, of_daemon(testbed, victim, None)?, now());
        testbed.kill_daemon(victim);
        testbed.start_daemon(victim)?;
        wait(at + EVERY_S / 2.0);
        let name = testbed.envoys[victim].name().to_owned();
        for daemon in 0..2 {
            note_dead(&mut record, of_daemon(testbed, daemon, Some(&name))?, now());
        }
        testbed.envoys[victim].kill();
        testbed.envoys[victim].start_again()?;
        record.deaths += 2;
        record.last_restart = now();
    }
    wait(times.both_dead);
    record.both_dead = now();
    for daemon in 0..2 {
        record.left +=
            of_daemon(testbed, daemon, None)?.into_iter().map(ListedAssignment::admits).sum::<f64>();
    }
    for daemon in 0..2 {
        testbed.kill_daemon(daemon);
    }
    Ok(record)
}

fn note_dead(record: &mut KillRecord, assignments: Vec<ListedAssignment>, at: f64) {
    record.exceptions.extend(assignments.into_iter().map(|one| one.excess_from(at)));
}

fn judge(load: &EdgeLoad, record: &KillRecord, times: KillTimes, findings: &mut Findings) {
    // B and a tenth of a second of R.
    let burst = Gate::AtMost(RATE + 0.1 * RATE);
    let admissions = load.admissions();
    let allowance = Allowance { rate: RATE, exceptions: record.exceptions.clone() };
    let note = format!(
        "over every span of admitted requests, beside R W and {} assignments of {} dead holders, each with its \
         tokens and its rate for the life it had left",
        record.exceptions.len(),
        record.deaths
    );
    findings.gated(
        "kills: most units beyond",
        allowance.certainly_beyond(&admissions),
        "units",
        burst,
        &note,
    );
    let plain = Allowance::per_second(RATE).certainly_beyond(&admissions);
    findings.shown("kills: most units beyond R W alone", plain, "units", "no allowance for the dead");
    let during = load.admitted(None, SETTLED_S, times.calm_from) / (times.calm_from - SETTLED_S);
    findings.shown("kills: rate used meanwhile", during / RATE, "", &format!("{during:.2} a second"));

    let width = 5.0;
    let window = (record.last_restart, times.both_dead);
    let full_after =
        load.first_span(None, 0.95 * RATE * width, width, window).map_or(f64::INFINITY, |at| at + width);
    let gate = Gate::AtMost(1e3 * RECOVERED_WITHIN_S);
    let note = "end of the first 5 s with 95 % of the rate, from the last restart";
    findings.gated("recovery: 95 % of the rate after", 1e3 * full_after, "ms", gate, note);
    let from = record.last_restart + RECOVERED_WITHIN_S;
    let used = load.admitted(None, from, record.both_dead) / (record.both_dead - from) / RATE;
    findings.gated("recovery: rate used from then on", used, "", Gate::AtLeast(0.95), "from 20 s after it");

    let dead = record.both_dead;
    let admitted = load.admitted(None, dead, times.until);
    let note = "tokens and rate for the life left, of all assignments that both daemons listed";
    findings.gated("both dead: admitted", admitted, "units", Gate::AtMost(record.left.ceil()), note);
    let last =
        admissions.iter().map(|one| one.answered - dead).filter(|after| *after >= 0.0).fold(0.0, f64::max);
    let gate = Gate::AtMost(1e3 * (TIME_TO_LIVE_S + 5.0));
    findings.gated("both dead: last admission after", 1e3 * last, "ms", gate, "expired means DENY_ALL");
}
