//! The last ten seconds that a resource shows, beside the count of the client that asked.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::attack::{Failure, RunContext};
use crate::daemon::Daemon;
use crate::findings::{Findings, Gate};
use crate::http1;
use crate::load::generator;
use crate::load::measurement::{Ending, Measurement};
use crate::load::schedule::{Schedule, Stream};
use crate::load::service_process::ServiceProcess;
use crate::load::testbed::free_address;

/// Workers of the upstream, and its places.
const WORKERS: usize = 16;
/// The mean work of a request: 1 600 a second are served.
const WORK: Duration = Duration::from_millis(10);
/// The requests a second of the two runs: well within the capacity, and above it.
const RATES: [f64; 2] = [200.0, 2000.0];
/// The classes of the client, each with a half of the rate.
const STREAMS: [Stream; 2] = [
    Stream { path: "/a", tenant: "a", class: "critical", mean_work: WORK, seed: 21 },
    Stream { path: "/b", tenant: "b", class: "sheddable", mean_work: WORK, seed: 22 },
];
/// How often the page is looked at, once the window is full.
const LOOK: Duration = Duration::from_secs(5);
const FIRST_LOOK: Duration = Duration::from_secs(15);
/// How far a rate may be from the client's.
const TOLERANCE: f64 = 0.02;
/// How long before its first request a run is prepared.
const LEAD: Duration = Duration::from_millis(200);

/// The page of the resource at an instant of the run.
struct PageLook {
    at: Duration,
    page: Value,
}

fn policy(app: SocketAddr, proxy: SocketAddr) -> String {
    let claims = "attributes: { tenant: header.x-tenant }, \
                  class: { from: header.x-class, default: sheddable, ceiling: critical_plus }";
    format!(
        "listen: {{ http: '127.0.0.1:0', admin: '127.0.0.1:0', proxy: '{proxy}' }}\n\
         resources:\n  app: {{ concurrency: {WORKERS}, queue: {{ requests: 2000, wait: 250ms }} }}\n\
         namespaces:\n  load: {{ limits: [{{ name: ample, rate: 1000000/s }}] }}\n\
         proxy:\n  waiting: 4096\n  upstreams: {{ app: ['http://{app}'] }}\n  routes:\n    \
           - {{ upstream: app, namespace: load, {claims} }}\n"
    )
}

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let length = context.either(Duration::from_mins(1), Duration::from_secs(20));
    for rate in RATES {
        let service = ServiceProcess::start(WORKERS)?;
        let proxy = free_address()?;
        let daemon = Daemon::start(context, &policy(service.address(), proxy))?;
        let operators = daemon.admin()?;
        let mut schedule = Schedule::default();
        for stream in STREAMS {
            schedule.add(stream, Duration::ZERO, length, rate / STREAMS.len() as f64);
        }
        let start = Instant::now() + LEAD;
        let is_over = AtomicBool::new(false);
        let (run, looks) = thread::scope(|scope| {
            let looks = scope.spawn(|| look(operators, start, &is_over));
            let run = generator::run(&schedule, proxy, start);
            is_over.store(true, Ordering::Relaxed);
            (run, looks.join().expect("a look does not panic"))
        });
        let (run, looks) = (run?, looks?);
        findings.begin_run(&format!("{rate:.0} requests a second"), &run);
        judge(findings, &run, &looks);
    }
    Ok(())
}

/// The pages until the run is over.
fn look(operators: SocketAddr, start: Instant, is_over: &AtomicBool) -> Result<Vec<PageLook>, Failure> {
    let mut looks = Vec::new();
    thread::sleep((start + FIRST_LOOK).saturating_duration_since(Instant::now()));
    while !is_over.load(Ordering::Relaxed) {
        let answer = http1::ask(operators, http1::get("/v1/resources/app"))?;
        if answer.status != 200 {
            return Err(Failure::Unfinished(format!("GET /v1/resources/app answers {}", answer.status)));
        }
        let page = serde_json::from_slice(&answer.body);
        let page = page.map_err(|error| Failure::Unfinished(error.to_string()))?;
        looks.push(PageLook { at: start.elapsed(), page });
        thread::sleep(LOOK);
    }
    Ok(looks)
}

/// A figure with its name, as the client counted it and as the page shows it.
type RateFigure = (&'static str, fn(&Measurement) -> usize, fn(&Value) -> f64);

fn judge(findings: &mut Findings, run: &Measurement, looks: &[PageLook]) {
    let figures: [RateFigure; 3] = [
        ("offered", |part| part.samples().len(), |rates| number(&rates["offered"])),
        (
            "admitted",
            |part| part.count(|ending| ending == Ending::Answered),
            |rates| number(&rates["admitted"]),
        ),
        (
            "shed",
            |part| part.count(|ending| matches!(ending, Ending::Refused(_))),
            |rates| {
                let shed = rates["shed"].as_object().into_iter().flatten();
                shed.map(|(_, rate)| number(rate)).sum()
            },
        ),
    ];
    for (name, of_client, of_page) in figures {
        let mut worst: f64 = 0.0;
        let (mut client_sum, mut page_sum) = (0.0, 0.0);
        for look in looks {
            let recent = &look.page["recent"];
            let span = Duration::from_millis(recent["span_ms"].as_u64().unwrap_or(0));
            let begin = look.at.saturating_sub(span);
            let client = of_client(&run.within(begin..look.at)) as f64 / span.as_secs_f64();
            let page = of_page(&recent["all"]);
            (client_sum, page_sum) = (client_sum + client, page_sum + page);
            // Of a few requests each one is more than the tolerance.
            worst = worst.max((page - client).abs() / client.max(50.0));
        }
        let apart = (page_sum - client_sum).abs() / client_sum.max(50.0 * looks.len() as f64);
        let looks_made = looks.len() as f64;
        let note = format!(
            "{:.1} a second on the page, {:.1} by the client, {} looks; the worst {:.1} % apart",
            page_sum / looks_made,
            client_sum / looks_made,
            looks.len(),
            worst * 100.0
        );
        findings.gated(&format!("{name}: apart"), apart * 100.0, "%", Gate::AtMost(TOLERANCE * 100.0), &note);
    }
    if let Some(last) = looks.last() {
        let load = number(&last.page["recent"]["offered_load"]);
        let note = format!("pressure {:.2}", number(&last.page["pressure"]));
        findings.shown("offered load", load, "", &note);
        let times = &last.page["recent"]["all"]["place_time"];
        findings.shown("place time, p50", number(&times["p50_ms"]), "ms", "");
        findings.shown("place time, p99", number(&times["p99_ms"]), "ms", "");
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}
