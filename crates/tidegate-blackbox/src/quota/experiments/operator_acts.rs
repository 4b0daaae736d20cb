//! A block, its end and a reset, by the clock of the callers.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::attack::{Failure, RunContext};
use crate::daemon::Daemon;
use crate::findings::{Findings, Gate};
use crate::fleet::attempt::CheckAttempt;
use crate::http1;
use crate::quota::edge_load::{CallSpan, EdgeLoad, SETTLED_S};
use crate::quota::envoy_process::USER;
use crate::quota::testbed::{EdgeLimit, QuotaTestbed};

/// Of blocks: callers stay far within the limit, so that only a block refuses them.
const AMPLE: EdgeLimit = EdgeLimit { rate: 200 };

/// Of resets: callers ask for more.
const SCARCE: EdgeLimit = EdgeLimit { rate: 20 };

/// Requests a second at each Envoy: by so much the instants are known.
const RATE: f64 = 50.0;

/// A block lasts so long, and so does the time without one, in seconds: no whole number of reports.
const LASTS_S: f64 = 7.3;

/// Within this time an act reaches an Envoy of the daemon that was told, and of another one.
const TOLD_S: f64 = 1.0;
const OTHER_S: f64 = 6.0;

/// At another one a bucket whose block has ended begins with a part of its part.
const BEGUN_S: f64 = OTHER_S + 2.0;

pub(in crate::quota) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let times = context.either(10, 2);
    block(context, times, findings)?;
    reset(context, times, findings)
}

/// One block and its end through one daemon, and when that was asked for.
#[derive(Clone, Copy, Debug)]
struct BlockRound {
    told: usize,
    blocked: f64,
    lifted: f64,
}

impl BlockRound {
    /// Seconds until the last answer of an Envoy that was not yet as the act wants it: the block,
    /// or its end. Infinite if the Envoy was so before, as then it shows nothing.
    fn delay(self, load: &EdgeLoad, edge: usize, is_block: bool) -> f64 {
        let at = if is_block { self.blocked } else { self.lifted };
        let (before, after) = (at - 0.5..at, at..at + LASTS_S);
        let is_wrong = |one: &&CheckAttempt| one.is_admitted() == is_block;
        if load.at(edge).filter(|one| before.contains(&one.answered)).filter(is_wrong).count() == 0 {
            return f64::INFINITY;
        }
        let wrong = load.at(edge).filter(|one| after.contains(&one.asked)).filter(is_wrong);
        wrong.map(|one| one.answered - at).fold(0.0, f64::max)
    }
}

/// Blocks the key and lifts that, through either daemon in turn.
fn block(context: &RunContext, times: u32, findings: &mut Findings) -> Result<(), Failure> {
    let round = 2.0 * LASTS_S + 2.0;
    let until = SETTLED_S + round * f64::from(times);
    let testbed = QuotaTestbed::start(context, AMPLE, &[&[0], &[1]])?;
    let spans = CallSpan::of_each(&[RATE, RATE], until);
    let (load, rounds) = EdgeLoad::run(&testbed.edges(), &spans, |begun| {
        let at = |due: f64| {
            thread::sleep(Duration::from_secs_f64(due).saturating_sub(begun.elapsed()));
            begun.elapsed().as_secs_f64()
        };
        let carry_out = |number: u32| {
            let (told, begins) = ((number % 2) as usize, SETTLED_S + round * f64::from(number));
            let blocked = at(begins);
            set_blocked(testbed.daemon(told)?, true)?;
            let lifted = at(begins + LASTS_S);
            set_blocked(testbed.daemon(told)?, false)?;
            at(begins + 2.0 * LASTS_S);
            Ok(BlockRound { told, blocked, lifted })
        };
        (0..times).map(carry_out).collect::<Result<Vec<_>, Failure>>()
    })?;
    load.begin_findings("block", findings);
    for (name, is_block, other) in [("block", true, OTHER_S), ("unblock", false, BEGUN_S)] {
        for (place, is_told, at_most) in [("told daemon", true, TOLD_S), ("other daemon", false, other)] {
            let delay = |round: &BlockRound| {
                let edge = if is_told { round.told } else { 1 - round.told };
                round.delay(&load, edge, is_block)
            };
            let delays: Vec<f64> = rounds.iter().map(delay).collect();
            let name = format!("{name}: Envoy of the {place}");
            judge(&name, &delays, at_most, findings);
        }
    }
    Ok(())
}

/// Adds the worst of several times.
fn judge(name: &str, seconds: &[f64], at_most: f64, findings: &mut Findings) {
    let worst = seconds.iter().copied().fold(0.0, f64::max);
    let each: Vec<String> = seconds.iter().map(|one| format!("{:.0}", 1e3 * one)).collect();
    let note = format!("worst of {}: {} ms", seconds.len(), each.join(", "));
    findings.gated(name, 1e3 * worst, "ms", Gate::AtMost(1e3 * at_most), &note);
}

/// Resets the key of callers that ask for more than the limit.
///
/// A reset is seen by a token bucket that is sent out of turn. Each is sent in turn after a report,
/// so the reset comes a second after that, and the next report is 4 s away.
fn reset(context: &RunContext, times: u32, findings: &mut Findings) -> Result<(), Failure> {
    const IN_TURN: Duration = Duration::from_millis(1500);
    const AFTER: f64 = 3.0;
    let seconds = SETTLED_S + 12.0 * f64::from(times);
    let testbed = QuotaTestbed::start(context, SCARCE, &[&[0], &[1]])?;
    let spans = CallSpan::of_each(&[RATE, RATE], seconds);
    let (load, resets) = EdgeLoad::run(&testbed.edges(), &spans, |begun| {
        thread::sleep(Duration::from_secs_f64(SETTLED_S).saturating_sub(begun.elapsed()));
        let sent =
            |daemon: usize| testbed.daemon(daemon)?.metric("tidegate_rlqs_actions_total{action=\"tokens\"}");
        let until_sent = |daemon: usize, at_most: Duration| {
            let (before, since) = (sent(daemon)?, Instant::now());
            while since.elapsed() < at_most {
                if sent(daemon)? > before {
                    return Ok(Some(since.elapsed()));
                }
                thread::sleep(Duration::from_millis(10));
            }
            Ok::<_, Failure>(None)
        };
        let mut resets = Vec::new();
        for number in 0..times {
            let told = (number % 2) as usize;
            until_sent(told, Duration::from_secs(6))?;
            thread::sleep(Duration::from_secs(1));
            let at = begun.elapsed().as_secs_f64();
            let before = sent(told)?;
            let asked = Instant::now();
            let body = json!({ "namespace": "api", "limit": "per-user", "attributes": { "user": USER } });
            post(testbed.daemon(told)?, "/v1/reset", &body.to_string())?;
            let mut took = None;
            while took.is_none() && asked.elapsed() < IN_TURN {
                if sent(told)? > before {
                    took = Some(asked.elapsed());
                }
                thread::sleep(Duration::from_millis(10));
            }
            resets.push((at, took));
            thread::sleep(Duration::from_secs(4));
        }
        Ok(resets)
    })?;
    load.begin_findings("reset", findings);
    let delays: Vec<f64> =
        resets.iter().map(|(_, took)| took.map_or(f64::INFINITY, |took| took.as_secs_f64())).collect();
    judge("reset: told daemon sends a new part", &delays, TOLD_S, findings);
    let gained: Vec<String> = resets
        .iter()
        .map(|(at, _)| {
            let admitted = |from: f64| load.admitted(None, from, from + AFTER);
            format!("{:+.0}", admitted(*at) - admitted(*at - AFTER))
        })
        .collect();
    let note = format!("admitted in the {AFTER} s after it less the {AFTER} s before: {}", gained.join(", "));
    findings.shown("reset: at both Envoys", resets.len() as f64, "resets", &note);
    Ok(())
}

fn set_blocked(daemon: &Daemon<'_>, is_blocked: bool) -> Result<(), Failure> {
    let for_ms = if is_blocked { 600_000 } else { 0 };
    let body = json!({
        "namespace": "api", "limit": "per-user", "attributes": { "user": USER }, "for_ms": for_ms,
    });
    post(daemon, "/v1/block", &body.to_string())
}

fn post(daemon: &Daemon<'_>, path: &str, body: &str) -> Result<(), Failure> {
    let answer = http1::ask(daemon.admin()?, http1::post(path, body))?;
    if answer.status == 200 {
        return Ok(());
    }
    Err(Failure::Unfinished(format!("{path} answers {}: {}", answer.status, answer.text())))
}
