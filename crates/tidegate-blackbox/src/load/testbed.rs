//! A daemon and its upstreams.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use crate::attack::{Failure, RunContext};
use crate::daemon::Daemon;
use crate::http1;

use crate::load::generator;
use crate::load::measurement::Measurement;
use crate::load::schedule::{Schedule, Stream};
use crate::load::service_process::ServiceProcess;

/// Workers of the upstream `app`.
pub const APP_WORKERS: usize = 8;
/// The mean work of a request to it. With a deadline of 500 ms, one request in 270 000 has more
/// work than a client waits for.
pub const APP_WORK: Duration = Duration::from_millis(40);
/// Requests a second that it can serve.
pub const APP_CAPACITY: f64 = 200.0;
/// Requests a second of the tenant `gold`, a fifth of the capacity.
pub const GOLD_RATE: f64 = 40.0;
/// The part of the upstream `app` that is reserved for tickets, where it defers.
pub const TICKET_SHARE: f64 = 0.5;
/// Workers of the upstream `other`.
pub const OTHER_WORKERS: usize = 4;

/// The requests of people, which matter.
pub const GOLD: Stream =
    Stream { path: "/", tenant: "gold", class: "critical", mean_work: APP_WORK, seed: 1 };
/// The requests of batch jobs, of which there are too many.
pub const BRONZE: Stream =
    Stream { path: "/", tenant: "bronze", class: "sheddable", mean_work: APP_WORK, seed: 2 };
/// The requests of people to the other upstream.
pub const OTHER: Stream = Stream {
    path: "/other",
    tenant: "silver",
    class: "critical",
    mean_work: Duration::from_millis(20),
    seed: 3,
};

/// How long before its first request a run is prepared.
const LEAD: Duration = Duration::from_millis(50);

/// How the daemon bounds the work in flight at the upstream `app`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppPlaces {
    /// As many places as it has workers.
    Fixed,
    /// As many as the daemon finds.
    Adaptive,
    /// As many places as it has workers, in shadow mode.
    Rehearsed,
    /// As many places as it has workers, of which [`TICKET_SHARE`] is reserved for tickets.
    Deferring,
}

/// A daemon with two upstreams behind its proxy.
#[derive(Debug)]
pub struct Testbed<'run> {
    context: &'run RunContext,
    policy: String,
    /// Nothing while it is killed.
    daemon: Option<Daemon<'run>>,
    /// The upstream `app`.
    pub app: ServiceProcess,
    /// The upstream `other`, which must notice nothing.
    pub other: ServiceProcess,
    proxy: SocketAddr,
}

impl<'run> Testbed<'run> {
    /// Starts all of it. `wait` is how long requests of gold and of bronze wait for a place.
    pub fn start(context: &'run RunContext, places: AppPlaces, wait: (&str, &str)) -> Result<Self, Failure> {
        let app = ServiceProcess::start(APP_WORKERS)?;
        let other = ServiceProcess::start(OTHER_WORKERS)?;
        let proxy = free_address()?;
        let policy = policy(places, wait, proxy, (app.address(), other.address()));
        let daemon = Some(Daemon::start(context, &policy)?);
        Ok(Self { context, policy, daemon, app, other, proxy })
    }

    /// As [`Testbed::start`], with the waits of a usual policy.
    pub fn usual(context: &'run RunContext, places: AppPlaces) -> Result<Self, Failure> {
        Self::start(context, places, ("400ms", "250ms"))
    }

    fn daemon(&self) -> Result<&Daemon<'run>, Failure> {
        self.daemon.as_ref().ok_or_else(|| Failure::Unfinished("the daemon is killed".to_owned()))
    }

    /// The reverse proxy. Its address outlives the daemon.
    pub fn proxy(&self) -> SocketAddr {
        self.proxy
    }

    /// The listener for callers.
    pub fn callers(&self) -> Result<SocketAddr, Failure> {
        self.daemon()?.http()
    }

    /// The listener for operators.
    pub fn operators(&self) -> Result<SocketAddr, Failure> {
        self.daemon()?.admin()
    }

    /// A ticket of the upstream `app`, for which all its places are taken for a moment.
    pub fn deferred_ticket(&self) -> Result<String, Failure> {
        let check =
            || http1::post("/v1/check", r#"{"namespace": "load", "resource": "app", "class": "sheddable"}"#);
        let mut permits: Vec<String> = Vec::new();
        loop {
            let answer = http1::ask(self.callers()?, check())?;
            match answer.member("permit") {
                permit if permit.is_empty() => {
                    for permit in permits {
                        http1::ask(self.callers()?, http1::release(&permit))?;
                    }
                    return Ok(answer.member("ticket"));
                }
                permit => permits.push(permit),
            }
        }
    }

    /// Kills the daemon, as `kill -9` does.
    pub fn kill_daemon(&mut self) {
        self.daemon = None;
    }

    /// Starts the daemon again with the same policy and the same address of the proxy.
    pub fn restart_daemon(&mut self) -> Result<(), Failure> {
        self.daemon = Some(Daemon::start(self.context, &self.policy)?);
        Ok(())
    }

    /// Runs a schedule through the proxy.
    pub fn load(&self, schedule: &Schedule) -> Result<Measurement, Failure> {
        Ok(generator::run(schedule, self.proxy, Instant::now() + LEAD)?)
    }
}

/// Runs `run` once more if its generator was late.
pub fn on_time<T>(
    mut run: impl FnMut() -> Result<T, Failure>,
    measurement: impl Fn(&T) -> &Measurement,
) -> Result<T, Failure> {
    let first = run()?;
    if measurement(&first).is_on_time() { Ok(first) } else { run() }
}

/// An address of loopback that is free now. Another program could take it before the daemon does,
/// which then does not start; ports are given out in turn, so that is unlikely.
pub(crate) fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn policy(
    places: AppPlaces,
    (critical, sheddable): (&str, &str),
    proxy: SocketAddr,
    (app, other): (SocketAddr, SocketAddr),
) -> String {
    let concurrency = match places {
        AppPlaces::Fixed => APP_WORKERS.to_string(),
        AppPlaces::Adaptive => "auto".to_owned(),
        AppPlaces::Rehearsed => format!("{APP_WORKERS}\n    mode: shadow"),
        AppPlaces::Deferring => {
            format!("{APP_WORKERS}\n    defer: {{ classes: [sheddable], share: {TICKET_SHARE} }}")
        }
    };
    format!(
        "listen: {{ http: '127.0.0.1:0', admin: '127.0.0.1:0', proxy: '{proxy}' }}\n\
         resources:\n  \
           app:\n    concurrency: {concurrency}\n    \
             queue: {{ requests: 2000, wait: {{ critical: {critical}, sheddable: {sheddable} }} }}\n  \
           other:\n    concurrency: {OTHER_WORKERS}\n    \
             queue: {{ requests: 1000, wait: {{ critical: {critical} }} }}\n\
         namespaces:\n  \
           load: {{ limits: [{{ name: ample, rate: 1000000/s }}] }}\n\
         proxy:\n  waiting: 4096\n  upstreams: {{ app: ['http://{app}'], other: ['http://{other}'] }}\n  routes:\n    \
         - {{ match: {{ path: '/other' }}, upstream: other, namespace: load, {CLAIMS} }}\n    \
         - {{ upstream: app, namespace: load, {CLAIMS} }}\n"
    )
}

const CLAIMS: &str = "attributes: { tenant: header.x-tenant }, \
                      class: { from: header.x-class, default: sheddable, ceiling: critical }";
