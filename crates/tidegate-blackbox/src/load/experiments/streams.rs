//! Endless streams, as many as there are places, beside short requests to the same upstream.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::attack::{Failure, RunContext};
use crate::daemon::Daemon;
use crate::findings::{Findings, Gate};
use crate::http1;
use crate::load::experiments::idleness::EMPTY_AFTER;
use crate::load::gauges;
use crate::load::generator;
use crate::load::measurement::Measurement;
use crate::load::schedule::{Schedule, Stream};
use crate::load::service::EVENTS_PATH;
use crate::load::service_process::ServiceProcess;
use crate::load::testbed::{free_address, on_time};
use crate::raw::{self, RawConnection};

/// Places, workers of the upstream, and streams.
const PLACES: usize = 4;
/// Short requests a second, half of what the workers can serve.
const RATE: f64 = 100.0;
/// The part of what is answered alone that is answered beside the streams.
const PART_MIN: f64 = 95.0;
/// How long before its first request a run is prepared.
const LEAD: Duration = Duration::from_millis(50);

const SHORT: Stream =
    Stream { path: "/", tenant: "gold", class: "critical", mean_work: Duration::from_millis(20), seed: 5 };

/// A daemon whose streams keep their places as `hold` says.
struct StreamTestbed<'run> {
    daemon: Daemon<'run>,
    proxy: SocketAddr,
    /// Ends when this is dropped.
    _app: ServiceProcess,
}

impl<'run> StreamTestbed<'run> {
    fn start(context: &'run RunContext, hold: &str) -> Result<Self, Failure> {
        let (app, proxy) = (ServiceProcess::start(PLACES)?, free_address()?);
        let daemon = Daemon::start(context, &policy(hold, proxy, app.address()))?;
        Ok(Self { daemon, proxy, _app: app })
    }

    /// A client that reads the first event of a stream and leaves the others to its socket.
    fn open_stream(&self) -> Result<RawConnection, Failure> {
        let mut client = RawConnection::open(self.proxy)?;
        let headers = [("x-tenant", "gold"), ("x-class", "critical")];
        client.send(&raw::encoded(&http1::get_with(&format!("http://localhost{EVENTS_PATH}"), &headers)))?;
        let head = client.head()?;
        if !head.starts_with("HTTP/1.1 200") {
            return Err(Failure::Unfinished(format!("a stream is answered {head}")));
        }
        Ok(client)
    }

    fn load(&self, schedule: &Schedule) -> Result<Measurement, Failure> {
        Ok(generator::run(schedule, self.proxy, Instant::now() + LEAD)?)
    }

    /// The streams that are open.
    fn streams(&self) -> Result<f64, Failure> {
        let metrics = http1::ask(self.daemon.admin()?, http1::get("/metrics"))?.text();
        let series = "tidegate_resource_streams{resource=\"app\"} ";
        let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.parse().ok());
        value.ok_or_else(|| Failure::Unfinished(format!("/metrics has no {series}")))
    }
}

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let length = context.either(Duration::from_secs(30), Duration::from_secs(5));
    let mut schedule = Schedule::default();
    schedule.add(SHORT, Duration::ZERO, length, RATE);
    let mut answered = |name: &str, hold: &str, streams: usize| -> Result<f64, Failure> {
        let (mut open_after, mut left_after) = (0.0, 0.0);
        let measured = || {
            let bed = StreamTestbed::start(context, hold)?;
            let clients: Vec<_> = (0..streams).map(|_| bed.open_stream()).collect::<Result<_, _>>()?;
            let run = bed.load(&schedule)?;
            if hold == "first_byte" {
                open_after = bed.streams()?;
                drop(clients);
                gauges::time_until(bed.daemon.admin()?, EMPTY_AFTER, |_| {
                    bed.streams().is_ok_and(|open| open == 0.0)
                })?;
                left_after = bed.streams()?;
            }
            Ok(run)
        };
        let run = on_time(measured, |run: &Measurement| run)?;
        findings.begin_run(name, &run);
        if hold == "first_byte" {
            findings.gated(
                &format!("{name}: streams open"),
                open_after,
                "",
                Gate::AtLeast(streams as f64),
                "",
            );
            findings.gated(&format!("{name}: streams after leaving"), left_after, "", Gate::AtMost(0.0), "");
        }
        let (rate, latency) = (run.success() * RATE, run.latency());
        let note = format!("{}, p50 {:?}, p99 {:?}", run.endings(), latency.p50, latency.p99);
        findings.shown(&format!("{name}: answered"), rate, "/s", &note);
        Ok(rate)
    };
    let alone = answered("alone", "first_byte", 0)?;
    let beside = answered("beside 4 streams", "first_byte", PLACES)?;
    answered("beside 4 streams that keep their places", "end", PLACES)?;
    let note = format!("{alone:.1} -> {beside:.1} a second");
    findings.gated("beside 4 streams / alone", beside / alone * 100.0, "%", Gate::AtLeast(PART_MIN), &note);
    Ok(())
}

fn policy(hold: &str, proxy: SocketAddr, app: SocketAddr) -> String {
    let claims =
        "attributes: { tenant: header.x-tenant }, class: { from: header.x-class, ceiling: critical }";
    format!(
        "listen: {{ http: '127.0.0.1:0', admin: '127.0.0.1:0', proxy: '{proxy}' }}\n\
         resources:\n  \
           app: {{ concurrency: {PLACES}, queue: {{ requests: 1000, wait: 400ms }} }}\n\
         namespaces:\n  \
           load: {{ limits: [{{ name: ample, rate: 1000000/s }}] }}\n\
         proxy:\n  upstreams: {{ app: ['http://{app}'] }}\n  routes:\n    \
         - {{ match: {{ path: {EVENTS_PATH} }}, upstream: app, namespace: load, hold: {hold}, {claims} }}\n    \
         - {{ upstream: app, namespace: load, {claims} }}\n"
    )
}
