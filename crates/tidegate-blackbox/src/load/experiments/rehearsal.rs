//! The refusals that a resource in shadow mode would make, beside those of one that enforces.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{Failure, RunContext};
use crate::daemon::Daemon;
use crate::findings::{Findings, Gate};
use crate::http1;
use crate::load::gauges::Gauges;
use crate::load::generator;
use crate::load::measurement::{Ending, Measurement};
use crate::load::schedule::Schedule;
use crate::load::service_process::ServiceProcess;
use crate::load::testbed::{APP_CAPACITY, APP_WORKERS, BRONZE, GOLD, GOLD_RATE, free_address};

/// The load, in multiples of the capacity.
const LOAD: f64 = 2.0;
/// How far the refusals of the two runs may be apart.
const TOLERANCE: f64 = 0.05;
/// How often the requests that wait are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long before its first request a run is prepared.
const LEAD: Duration = Duration::from_millis(200);

/// A run and what the daemon says of it at its end.
struct Run {
    measurement: Measurement,
    /// The requests that the resource would have refused.
    would_refuse: u64,
    /// The most requests that waited at a time.
    waiting: u64,
}

fn policy(app: SocketAddr, proxy: SocketAddr, mode: &str) -> String {
    let claims = "attributes: { tenant: header.x-tenant }, \
                  class: { from: header.x-class, default: sheddable, ceiling: critical }";
    let queue = "{ requests: 2000, wait: { critical: 400ms, sheddable: 250ms } }";
    format!(
        "listen: {{ http: '127.0.0.1:0', admin: '127.0.0.1:0', proxy: '{proxy}' }}\n\
         resources:\n  app: {{ concurrency: {APP_WORKERS}, queue: {queue}, mode: {mode} }}\n\
         namespaces:\n  load: {{ limits: [{{ name: ample, rate: 1000000/s }}] }}\n\
         proxy:\n  waiting: 4096\n  upstreams: {{ app: ['http://{app}'] }}\n  routes:\n    \
           - {{ upstream: app, namespace: load, {claims} }}\n"
    )
}

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let shadow = run_in(context, "shadow")?;
    findings.begin_run("shadow", &shadow.measurement);
    let refused = refused(&shadow.measurement);
    findings.gated("refused", refused as f64, "", Gate::AtMost(0.0), "in shadow mode");
    findings.gated("waiting at a time", shadow.waiting as f64, "", Gate::AtMost(0.0), "in shadow mode");
    let enforced = run_in(context, "enforce")?;
    findings.begin_run("enforce", &enforced.measurement);
    let (would, did) = (shadow.would_refuse as f64, self::refused(&enforced.measurement) as f64);
    let apart = (would - did).abs() / did.max(1.0) * 100.0;
    let note = format!("{would} would be refused, {did} are");
    findings.gated("refusals: apart", apart, "%", Gate::AtMost(TOLERANCE * 100.0), &note);
    Ok(())
}

fn refused(run: &Measurement) -> usize {
    run.count(|ending| matches!(ending, Ending::Refused(_)))
}

fn run_in(context: &RunContext, mode: &str) -> Result<Run, Failure> {
    let length = context.either(Duration::from_secs(30), Duration::from_secs(15));
    let service = ServiceProcess::start(APP_WORKERS)?;
    let proxy = free_address()?;
    let daemon = Daemon::start(context, &policy(service.address(), proxy, mode))?;
    let operators = daemon.admin()?;
    let mut schedule = Schedule::default();
    schedule.add(GOLD, Duration::ZERO, length, GOLD_RATE);
    schedule.add(BRONZE, Duration::ZERO, length, LOAD * APP_CAPACITY - GOLD_RATE);
    let is_over = AtomicBool::new(false);
    let (measurement, waiting) = thread::scope(|scope| {
        let looks = scope.spawn(|| most_waiting(operators, &is_over));
        let run = generator::run(&schedule, proxy, Instant::now() + LEAD);
        is_over.store(true, Ordering::Relaxed);
        (run, looks.join().expect("a look does not panic"))
    });
    // Stand-ins that wait are decided by then.
    thread::sleep(Duration::from_secs(1));
    Ok(Run { measurement: measurement?, would_refuse: would_refuse(operators)?, waiting: waiting? })
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

fn would_refuse(operators: SocketAddr) -> Result<u64, Failure> {
    let metrics = http1::ask(operators, http1::get("/metrics"))?.text();
    let counts = metrics.lines().filter(|line| line.starts_with("tidegate_resource_would_refuse_total{"));
    Ok(counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}
