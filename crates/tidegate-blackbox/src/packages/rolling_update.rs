//! A rolling update of the chart's fleet by the chart's own timing, under calls.
//!
//! Daemons are processes, and a balancer of connections stands for the Service. The order and the
//! times are those of the rendered Deployment, in real time: a new pod gets calls after its
//! readiness probe, the pod that leaves sleeps before SIGTERM, and its endpoint leaves the list
//! [`ENDPOINT_DELAY`] after its deletion, as a slow kube-proxy would see to.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::balancer::ConnectionBalancer;
use super::rendered_chart::RenderedFleet;
use crate::attack::{Failure, RunContext};
use crate::daemon::{Daemon, START_MAX};
use crate::findings::{Findings, Gate};
use crate::http1::{self, Http1Client};
use crate::redis_relay::start_server;

/// From the deletion of a pod until no new connection goes to it.
const ENDPOINT_DELAY: Duration = Duration::from_secs(3);

/// The calls of a run, at least.
const CALLS: usize = 10_000;

/// Callers that keep their connections, and as many that open one for each call.
const CALLERS: usize = 4;

/// The pause of a caller between two calls.
const PAUSE: Duration = Duration::from_millis(5);

/// Users, each of which stays far below the limits of the example policy.
const USERS: usize = 200;

/// The answers that callers got.
#[derive(Debug, Default)]
struct CallCounts {
    /// Admitted calls of each user.
    admitted: Vec<usize>,
    calls: usize,
    refused: usize,
    failed: Vec<String>,
}

impl CallCounts {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.refused += other.refused;
        self.failed.extend(other.failed);
        self.admitted.resize(USERS, 0);
        self.admitted.iter_mut().zip(other.admitted).for_each(|(sum, count)| *sum += count);
    }
}

pub(super) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let fleet = RenderedFleet::read()?;
    let redis = start_server(&[])?;
    let policy = fleet.policy(&redis.url());
    let began = Instant::now();
    let (counts, slowest_end) = update(context, &fleet, &policy, CALLS)?;
    let note = format!(
        "{} daemons by sleep {} s, probes each {} s, {:.0} s in all; {} calls, {} refused",
        fleet.replicas,
        fleet.pre_stop.as_secs(),
        fleet.readiness_period.as_secs(),
        began.elapsed().as_secs_f64(),
        counts.calls,
        counts.refused,
    );
    let first = counts.failed.first().cloned().unwrap_or(note);
    findings.gated("failed calls", counts.failed.len() as f64, "", Gate::AtMost(0.0), &first);
    findings.gated("calls", counts.calls as f64, "", Gate::AtLeast(CALLS as f64), "");
    let grace = fleet.grace.as_secs_f64();
    findings.gated("longest end of a pod", slowest_end.as_secs_f64(), "s", Gate::AtMost(grace), "");
    let survivor = Daemon::start(context, &policy)?;
    let wrong = (0..USERS).filter(|user| charged(&survivor, *user).ok() != Some(counts.admitted[*user]));
    let wrong = wrong.count() as f64;
    findings.gated("users with a lost or doubled charge", wrong, "", Gate::AtMost(0.0), "");
    // The same without the sleep: calls that this part could not miss.
    let hasty = fleet.without_pre_stop();
    let (counts, _) = update(context, &hasty, &policy, 0)?;
    let note = "the balancer sends calls to daemons that have gone";
    findings.gated("failed calls without preStop", counts.failed.len() as f64, "", Gate::AtLeast(1.0), note);
    Ok(())
}

/// Updates each daemon of a fleet while callers call, for as many calls at least; and the longest
/// end of a pod.
fn update(
    context: &RunContext,
    fleet: &RenderedFleet,
    policy: &str,
    calls_min: usize,
) -> Result<(CallCounts, Duration), Failure> {
    let balancer = ConnectionBalancer::start()?;
    let mut old = Vec::new();
    for _ in 0..fleet.replicas {
        old.push(start_pod(context, fleet, policy, &balancer)?);
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let calls_each = calls_min.div_ceil(2 * CALLERS);
        let callers: Vec<_> = (0..2 * CALLERS)
            .map(|caller| {
                let (address, is_over) = (balancer.address(), &is_over);
                scope.spawn(move || call(address, caller, calls_each, is_over))
            })
            .collect();
        let mut leaving = Vec::new();
        let mut new = Vec::new();
        let mut failure = None;
        for pod in old {
            match start_pod(context, fleet, policy, &balancer) {
                Ok(pod) => new.push(pod),
                Err(error) => failure = failure.or(Some(error)),
            }
            let balancer = &balancer;
            leaving.push(scope.spawn(move || end_pod(pod, fleet, balancer)));
        }
        let ends: Vec<_> = leaving.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        // Relaxed: the callers only have to see it at some time.
        is_over.store(true, Ordering::Relaxed);
        let mut counts = CallCounts::default();
        for thread in callers {
            counts.add(thread.join().expect("no panic"));
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let ends: Vec<_> = ends.into_iter().collect::<Result<_, _>>()?;
        for pod in new {
            pod.terminate()?;
        }
        Ok((counts, ends.into_iter().max().unwrap_or_default()))
    })
}

/// Starts a pod, and adds it to the Service when its readiness probe has passed.
fn start_pod<'context>(
    context: &'context RunContext,
    fleet: &RenderedFleet,
    policy: &str,
    balancer: &ConnectionBalancer,
) -> Result<Daemon<'context>, Failure> {
    let daemon = Daemon::start(context, policy)?;
    let admin = daemon.admin()?;
    let deadline = Instant::now() + START_MAX;
    loop {
        let answer = http1::ask(admin, http1::get(&fleet.readiness_path));
        match answer {
            Ok(answer) if answer.status == 200 => break,
            answer if Instant::now() > deadline => {
                return Err(Failure::GotThrough(format!("a pod does not become ready: {answer:?}")));
            }
            // The period of the probe.
            _ => thread::sleep(fleet.readiness_period),
        }
    }
    balancer.add(daemon.http()?);
    Ok(daemon)
}

/// Ends a pod as the kubelet does, and returns the time that it took.
fn end_pod(
    daemon: Daemon<'_>,
    fleet: &RenderedFleet,
    balancer: &ConnectionBalancer,
) -> Result<Duration, Failure> {
    let (deleted, endpoint) = (Instant::now(), daemon.http()?);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(ENDPOINT_DELAY);
            balancer.remove(endpoint);
        });
        thread::sleep(fleet.pre_stop);
        daemon.terminate()?;
        Ok(deleted.elapsed())
    })
}

/// Calls until the update is over and there were as many calls. Callers of an even number keep
/// their connection.
fn call(address: SocketAddr, caller: usize, calls_min: usize, is_over: &AtomicBool) -> CallCounts {
    let mut counts = CallCounts { admitted: vec![0; USERS], ..CallCounts::default() };
    let mut kept: Option<Http1Client> = None;
    // Relaxed, as where it is set.
    while counts.calls < calls_min || !is_over.load(Ordering::Relaxed) {
        let user = (counts.calls * 2 * CALLERS + caller) % USERS;
        let answer = match kept.take().map_or_else(|| Http1Client::open(address), Ok) {
            Ok(mut client) => {
                let answer = client.ask(http1::check("api", &format!("user-{user}")));
                // As every client of HTTP, it leaves a connection that the answer closes.
                if caller.is_multiple_of(2) && answer.as_ref().is_ok_and(|answer| !answer.closes()) {
                    kept = Some(client);
                }
                answer
            }
            Err(error) => Err(error),
        };
        counts.calls += 1;
        match answer {
            Ok(answer) if answer.status == 200 => counts.admitted[user] += 1,
            Ok(answer) if answer.status == 429 => counts.refused += 1,
            Ok(answer) => counts.failed.push(format!("{}: {}", answer.status, answer.text())),
            Err(error) => counts.failed.push(error.to_string()),
        }
        thread::sleep(PAUSE);
    }
    counts
}

/// The units that a user has used of the daily quota.
fn charged(daemon: &Daemon<'_>, user: usize) -> Result<usize, Failure> {
    let body = format!(r#"{{"namespace":"api","attributes":{{"user":"user-{user}"}},"peek":true}}"#);
    let answer = http1::ask(daemon.http()?, http1::post("/v1/check", body))?;
    let limits = answer.json()["limits"].as_array().cloned().unwrap_or_default();
    let daily = limits.iter().find(|limit| limit["name"] == "per-user-daily");
    let number = |name: &str| daily.and_then(|limit| limit[name].as_u64());
    match (number("limit"), number("remaining")) {
        (Some(limit), Some(remaining)) => Ok(usize::try_from(limit - remaining).unwrap_or(usize::MAX)),
        _ => Err(Failure::Unfinished(format!("no figures of the quota in {}", answer.text()))),
    }
}
