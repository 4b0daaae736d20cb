//! Attacks in which requests through the reverse proxy slow down or fail others.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{AttackResult, Failure, RunContext, in_parallel, require};
use crate::daemon::Daemon;
use crate::http1::{self, Http1Client};
use crate::load::measurement::Percentiles;
use crate::raw::{self, RawConnection};
use crate::upstream::{Manner, SLOW_ANSWER, Upstream};

/// Requests that wait, one below the most there may be.
const WAITING: usize = 1023;
/// How long throughput is measured.
const MEASURED: Duration = Duration::from_secs(2);
/// The part of the throughput that others keep at least.
const KEPT_MIN: f64 = 0.5;
/// Requests to a service that closes its connections at times.
const REQUESTS: u64 = 8_000;
/// Requests that the slow service works on at once; all others wait for a permit.
const SLOW_AT_ONCE: usize = 32;
/// Callers of the slow service at any time.
const SLOW_CALLERS: usize = 512;
/// How long callers of the slow service have to arrive, or to leave, before the other one is
/// measured.
const SETTLED: Duration = Duration::from_millis(300);
/// Alternations between a quiet slow service and a busy one.
const ROUNDS: usize = 5;
/// Requests to the other service in each half of a round.
const MEASURED_REQUESTS: usize = 400;
/// The median of the other service beside the busy one, as a multiple of that without callers.
const MEDIAN_RATIO_MAX: f64 = 2.0;

/// Requests that wait leave others their throughput.
pub(crate) fn waiting_requests(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let policy = format!(
        "listen: {{ http: '127.0.0.1:0', proxy: '127.0.0.1:0' }}\n\
         namespaces:\n  \
           slow: {{ limits: [{{ name: slow, key: [user], missing: refuse, rate: 1/50m }}] }}\n  \
           honest: {{ limits: [{{ name: parallel, concurrency: {{ limit: 100, hold: 1m }} }}] }}\n\
         proxy:\n  upstreams: {{ app: ['{}'] }}\n  routes:\n    \
           - {{ match: {{ path: '/slow' }}, upstream: app, namespace: slow, wait: 1h, attributes: {{ user: header.x-user }} }}\n    \
           - {{ upstream: app, namespace: honest }}\n",
        upstream.url()
    );
    let daemon = Daemon::start(context, &policy)?;
    let address = daemon.proxy()?;
    let alone = throughput(address)?;
    let mut waiting = Vec::new();
    for user in 0..WAITING {
        let request = raw::encoded(&http1::get_with("/slow", &[("x-user", &user.to_string())]));
        let mut connection = RawConnection::open(address)?;
        connection.send(&request)?;
        connection.answer()?;
        connection.send(&request)?;
        waiting.push(connection);
    }
    thread::sleep(Duration::from_millis(300));
    let beside = throughput(address)?;
    let seen = format!("{alone:.0} requests a second alone, {beside:.0} beside {} that wait", waiting.len());
    require!(beside >= alone * KEPT_MIN, "{seen}")?;
    Ok(seen)
}

/// Requests a second on two connections.
fn throughput(address: SocketAddr) -> Result<f64, Failure> {
    let counts = in_parallel([(); 2], |()| {
        let mut connection = Http1Client::open(address)?;
        let (began, mut count) = (Instant::now(), 0);
        while began.elapsed() < MEASURED {
            connection.ask(http1::get("/"))?;
            count += 1;
        }
        Ok(count)
    });
    let counts: std::io::Result<Vec<u32>> = counts.into_iter().collect();
    Ok(f64::from(counts?.iter().sum::<u32>()) / MEASURED.as_secs_f64())
}

/// A service that takes 5 s for an answer does not slow another one down.
pub(crate) fn slow_upstream(context: &RunContext) -> AttackResult {
    let (slow, quick) = (Upstream::start(Manner::Slow)?, Upstream::start(Manner::Plain)?);
    let policy = format!(
        "listen: {{ http: '127.0.0.1:0', proxy: '127.0.0.1:0' }}\n\
         namespaces:\n  \
           slow: {{ limits: [{{ name: slow, concurrency: {{ limit: {SLOW_AT_ONCE}, hold: 1m }} }}] }}\n  \
           quick: {{ limits: [{{ name: parallel, concurrency: {{ limit: 100, hold: 1m }} }}] }}\n\
         proxy:\n  upstreams: {{ slow: ['{}'], quick: ['{}'] }}\n  routes:\n    \
           - {{ match: {{ path: '/slow' }}, upstream: slow, namespace: slow, wait: 1h }}\n    \
           - {{ upstream: quick, namespace: quick }}\n",
        slow.url(),
        quick.url()
    );
    let daemon = Daemon::start(context, &policy)?;
    let address = daemon.proxy()?;
    let mut connection = Http1Client::open(address)?;
    latencies(&mut connection)?;
    let slow_request = raw::encoded(&http1::get("/slow"));
    let (mut alone, mut beside, mut answered) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        alone.extend(latencies(&mut connection)?);
        let began = Instant::now();
        let mut callers = Vec::new();
        for _ in 0..SLOW_CALLERS {
            let mut caller = RawConnection::open(address)?;
            caller.send(&slow_request)?;
            callers.push(caller);
        }
        thread::sleep(SETTLED);
        beside.extend(latencies(&mut connection)?);
        // The first callers are answered, and their permits go to the ones that wait, while the
        // other service is measured again.
        if let Some(first) = callers.first_mut() {
            let answer = first.answer()?;
            let took = began.elapsed();
            require!(
                answer.status == 200 && took >= SLOW_ANSWER,
                "the slow service answered {} after {took:.1?}",
                answer.status
            )?;
            answered += 1;
        }
        beside.extend(latencies(&mut connection)?);
        drop(callers);
        thread::sleep(SETTLED);
        alone.extend(latencies(&mut connection)?);
    }
    let (alone, beside) = (Percentiles::from_durations(alone), Percentiles::from_durations(beside));
    let seen = format!(
        "median {:.0?} alone, {:.0?} beside {SLOW_CALLERS} callers of a service that takes {SLOW_ANSWER:?}; \
         p99 {:.0?} and {:.0?}; {} requests each, {answered} rounds",
        alone.p50, beside.p50, alone.p99, beside.p99, alone.count
    );
    require!(beside.p50 <= alone.p50.mul_f64(MEDIAN_RATIO_MAX), "{seen}")?;
    Ok(seen)
}

/// The latency of requests to the quick service, one after the other.
fn latencies(connection: &mut Http1Client) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::with_capacity(MEASURED_REQUESTS);
    for _ in 0..MEASURED_REQUESTS {
        let began = Instant::now();
        let answer = connection.ask(http1::get("/"))?;
        require!(answer.status == 200, "the quick service's caller got {}", answer.status)?;
        latencies.push(began.elapsed());
    }
    Ok(latencies)
}

/// A service that closes connections between requests costs no request that it never saw.
pub(crate) fn closed_upstream_connections(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::ClosesAtTimes)?;
    let policy = format!(
        "listen: {{ http: '127.0.0.1:0', proxy: '127.0.0.1:0' }}\n\
         namespaces: {{ api: {{ limits: [{{ name: rate, rate: 1000000/s }}] }} }}\n\
         proxy:\n  upstreams: {{ app: {{ servers: ['{}'], failures: 0 }} }}\n  \
         routes: [{{ upstream: app, namespace: api, retry: off }}]\n",
        upstream.url()
    );
    let daemon = Daemon::start(context, &policy)?;
    let statuses = raw::flood(daemon.proxy()?, REQUESTS, 4, |_| http1::get("/"))?;
    let broken: u64 = statuses.iter().filter(|(status, _)| **status != 200).map(|(_, count)| count).sum();
    let seen = format!("{broken} of {REQUESTS} requests were not answered 200: {statuses:?}");
    require!(broken == 0, "{seen}")?;
    Ok(seen)
}
