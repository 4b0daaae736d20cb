//! Features that degrade and come back (E4): the load of two features that matter rises and falls,
//! and a third one, which does not, is switched off at T1 and on again at T2.
//!
//! The levels are seen from outside: by the page of the features, which is asked ten times a
//! second, and by the answers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::attack::{Failure, RunContext};
use crate::daemon::Daemon;
use crate::findings::{Findings, Gate};
use crate::http1;
use crate::load::generator;
use crate::load::measurement::{Ending, Measurement, millis};
use crate::load::schedule::{Schedule, Stream};
use crate::load::service_process::ServiceProcess;
use crate::load::testbed::free_address;

/// Workers of the upstream, and its places.
const WORKERS: usize = 40;
/// The mean work of a request. With a deadline of 500 ms, one request in 270 000 has more work than
/// a client waits for.
const WORK: Duration = Duration::from_millis(40);
/// Requests a second that it can serve.
const CAPACITY: f64 = 1000.0;
/// The parts of the capacity that A and C ask for together, at the ends and in the middle.
const ESSENTIAL: (f64, f64) = (0.40, 0.80);
/// The part of the capacity that B asks for.
const DISPENSABLE: f64 = 0.25;
/// The time of a step of the ramp.
const STEP: Duration = Duration::from_secs(1);
/// How often the levels are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The p99 of A and C between T1 and T2, as a multiple of the one before T1.
const P99_RATIO_MAX: f64 = 1.5;
/// The part of the requests of A and C that is answered between T1 and T2, in per cent.
const SUCCESS_MIN: f64 = 100.0;
/// How long before its first request a run is prepared.
const LEAD: Duration = Duration::from_millis(200);
/// The folder that the picture of the run is written to.
const PICTURES: &str = "TIDEGATE_PICTURES";

const A: Stream = Stream { path: "/a", tenant: "a", class: "critical", mean_work: WORK, seed: 11 };
const B: Stream = Stream { path: "/b", tenant: "b", class: "sheddable", mean_work: WORK, seed: 12 };
const C: Stream = Stream { path: "/c", tenant: "c", class: "critical_plus", mean_work: WORK, seed: 13 };

/// The level of B at an instant of the run.
#[derive(Clone, Debug)]
struct LevelLook {
    at: Duration,
    level: String,
    pressure: f64,
}

/// A and C rise for three eighths of the run, stay for a quarter and fall as they rose.
fn schedule(length: Duration) -> Schedule {
    let mut schedule = Schedule::default();
    let steps = length.as_secs();
    for step in 0..steps {
        let part = (step as f64 + 0.5) / steps as f64;
        let height = (part.min(1.0 - part) / 0.375).min(1.0);
        let essential = ESSENTIAL.0 + (ESSENTIAL.1 - ESSENTIAL.0) * height;
        let from = STEP * u32::try_from(step).unwrap_or(u32::MAX);
        for (stream, share) in [(A, essential / 2.0), (C, essential / 2.0), (B, DISPENSABLE)] {
            schedule.add(stream, from, from + STEP, share * CAPACITY);
        }
    }
    schedule
}

fn policy(app: SocketAddr, proxy: SocketAddr) -> String {
    let claims = "attributes: { tenant: header.x-tenant }, feature: path.0, \
                  class: { from: header.x-class, default: sheddable, ceiling: critical_plus }";
    format!(
        "listen: {{ http: '127.0.0.1:0', admin: '127.0.0.1:0', proxy: '{proxy}' }}\n\
         resources:\n  app:\n    concurrency: {WORKERS}\n    \
           queue: {{ requests: 2000, wait: {{ critical: 400ms, sheddable: 250ms }} }}\n    \
           levels: {{ soft: 0.70, brownout: 0.90, hard: 0.95, emergency: 0.98, margin: 0.10, settle: 5s }}\n\
         features:\n  \
           - a\n  - c\n  \
           - {{ name: b, class: sheddable, levels: [{{ name: full, cost: 1 }}, {{ name: 'off', cost: 0 }}] }}\n\
         namespaces:\n  load: {{ limits: [{{ name: ample, rate: 1000000/s }}] }}\n\
         proxy:\n  waiting: 4096\n  upstreams: {{ app: ['http://{app}'] }}\n  routes:\n    \
           - {{ upstream: app, namespace: load, {claims} }}\n"
    )
}

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let length = context.either(Duration::from_secs(150), Duration::from_secs(40));
    let service = ServiceProcess::start(WORKERS)?;
    let proxy = free_address()?;
    let daemon = Daemon::start(context, &policy(service.address(), proxy))?;
    let operators = daemon.admin()?;
    let schedule = schedule(length);
    let start = Instant::now() + LEAD;
    let is_over = AtomicBool::new(false);
    let (run, seen) = thread::scope(|scope| {
        let looks = scope.spawn(|| look(operators, start, &is_over));
        let run = generator::run(&schedule, proxy, start);
        is_over.store(true, Ordering::Relaxed);
        (run, looks.join().expect("a look does not panic"))
    });
    let (run, seen) = (run?, seen?);
    findings.begin_run("A + C at 40, 80 and 40 %, B at 25 %", &run);
    judge(findings, &run, &seen);
    if let Some(folder) = std::env::var_os(PICTURES) {
        draw(context, operators, &PathBuf::from(folder).join("features.svg"))?;
    }
    Ok(())
}

fn judge(findings: &mut Findings, run: &Measurement, seen: &[LevelLook]) {
    let changes: Vec<&[LevelLook]> = seen.windows(2).filter(|pair| pair[0].level != pair[1].level).collect();
    for change in &changes {
        let [before, after] = change else { continue };
        let name = format!("B from {} to {}", before.level, after.level);
        findings.shown(&name, after.at.as_secs_f64(), "s", &format!("pressure {:.2}", after.pressure));
    }
    findings.gated("transitions of B", changes.len() as f64, "", Gate::AtMost(2.0), "2 are meant");
    let (Some(t1), Some(t2)) = (changes.first(), changes.get(1)) else {
        findings.gated("transitions of B, least", changes.len() as f64, "", Gate::AtLeast(2.0), "");
        return;
    };
    let (t1, t2) = (t1[1].at, t2[1].at);
    let off = run.within(t1..t2);
    let calm = run.within(Duration::from_secs(2)..t1);
    for stream in [A, C] {
        let (before, between) = (calm.of_tenant(stream.tenant), off.of_tenant(stream.tenant));
        let name = |what: &str| format!("{} between T1 and T2: {what}", stream.tenant.to_uppercase());
        let success = between.success() * 100.0;
        findings.gated(&name("answered"), success, "%", Gate::AtLeast(SUCCESS_MIN), &between.endings());
        let (p99, usual) = (between.latency().p99, before.latency().p99);
        let ratio = p99.as_secs_f64() / usual.as_secs_f64();
        let note = format!("{:.0} ms beside {:.0} ms before T1", millis(p99), millis(usual));
        findings.gated(&name("p99"), ratio, "", Gate::AtMost(P99_RATIO_MAX), &note);
    }
    let b = run.of_tenant(B.tenant);
    let settled = Duration::from_secs(1);
    // A look notices a change up to a look later.
    let off = t1 + settled..t2.saturating_sub(2 * LOOK);
    let answered = b.within(off).count(|ending| ending == Ending::Answered);
    findings.gated("B answered while it is off", answered as f64, "", Gate::AtMost(0.0), "from 1 s after T1");
    let on = [Duration::ZERO..t1.saturating_sub(settled), t2 + LOOK..Duration::MAX];
    let on = on.map(|part| b.within(part));
    let disabled: usize = on.iter().map(|part| part.count(|ending| ending == Ending::Disabled)).sum();
    findings.gated("B disabled while it is on", disabled as f64, "", Gate::AtMost(0.0), "");
    let refused = |part: &Measurement| part.count(|ending| matches!(ending, Ending::Refused(_)));
    let refused: usize = on.iter().map(refused).sum();
    findings.shown("B refused for want of a place while it is on", refused as f64, "", "");
    let highest = seen.iter().map(|look| look.pressure).fold(0.0, f64::max);
    findings.shown("highest smoothed pressure", highest, "", "");
}

/// The levels of B until the run is over.
fn look(operators: SocketAddr, start: Instant, is_over: &AtomicBool) -> Result<Vec<LevelLook>, Failure> {
    let mut seen = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let at = start.elapsed();
        let level = level_of_b(operators)?;
        let pressure = pressure(operators)?;
        seen.push(LevelLook { at, level, pressure });
        thread::sleep(LOOK);
    }
    Ok(seen)
}

fn page(operators: SocketAddr, path: &str) -> Result<Value, Failure> {
    let answer = http1::ask(operators, http1::get(path))?;
    if answer.status != 200 {
        return Err(Failure::Unfinished(format!("GET {path} answers {}", answer.status)));
    }
    serde_json::from_slice(&answer.body).map_err(|error| Failure::Unfinished(error.to_string()))
}

fn level_of_b(operators: SocketAddr) -> Result<String, Failure> {
    let page = page(operators, "/v1/features/b")?;
    let level = page["level"].as_str().map(str::to_owned);
    level.ok_or_else(|| Failure::Unfinished(format!("GET /v1/features/b shows no level: {page}")))
}

fn pressure(operators: SocketAddr) -> Result<f64, Failure> {
    let page = page(operators, "/v1/resources/app")?;
    Ok(page["pressure"].as_f64().unwrap_or(0.0))
}

/// Lets the command draw the picture of the run.
fn draw(context: &RunContext, operators: SocketAddr, file: &PathBuf) -> Result<(), Failure> {
    let mut command = Command::new(context.binary());
    command.args(["resources", "app", "--plot", "--at", &format!("http://{operators}"), "--svg"]).arg(file);
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::Unfinished(String::from_utf8_lossy(&output.stderr).into_owned()))
}
