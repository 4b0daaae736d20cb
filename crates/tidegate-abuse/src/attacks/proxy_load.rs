//! Attacks in which requests through the reverse proxy slow down or fail others.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{AttackContext, AttackResult, Failure, require};
use crate::daemon::Daemon;
use crate::http1::{self, Http1Connection};
use crate::upstream::{Manner, Upstream};

/// Requests that wait, one below the most there may be.
const WAITING: usize = 1023;
/// How long throughput is measured.
const MEASURED: Duration = Duration::from_secs(2);
/// The part of the throughput that others keep at least.
const KEPT_MIN: f64 = 0.5;
/// Requests to a service that closes its connections at times.
const REQUESTS: u64 = 8_000;

/// Requests that wait leave others their throughput.
pub(crate) fn waiting_requests(context: &AttackContext) -> AttackResult {
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
        let request = format!("GET /slow HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\n\r\n");
        let mut connection = Http1Connection::open(address)?;
        connection.ask(request.as_bytes())?;
        connection.send(request.as_bytes())?;
        waiting.push(connection);
    }
    thread::sleep(Duration::from_millis(300));
    let beside = throughput(address)?;
    let seen = format!("{alone:.0} requests a second alone, {beside:.0} beside {} that wait", waiting.len());
    require(beside >= alone * KEPT_MIN, || seen.clone())?;
    Ok(seen)
}

/// Requests a second on two connections.
fn throughput(address: SocketAddr) -> Result<f64, Failure> {
    let counts: Vec<std::io::Result<u32>> = thread::scope(|scope| {
        let one = || {
            let mut connection = Http1Connection::open(address)?;
            let (began, mut count) = (Instant::now(), 0);
            while began.elapsed() < MEASURED {
                connection.ask(&http1::get("/"))?;
                count += 1;
            }
            Ok(count)
        };
        let threads = [scope.spawn(one), scope.spawn(one)];
        threads.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
    });
    let mut total = 0.0;
    for count in counts {
        total += f64::from(count?) / MEASURED.as_secs_f64();
    }
    Ok(total)
}

/// A service that closes connections between requests costs no request that it never saw.
pub(crate) fn closed_upstream_connections(context: &AttackContext) -> AttackResult {
    let upstream = Upstream::start(Manner::ClosesAtTimes)?;
    let policy = format!(
        "listen: {{ http: '127.0.0.1:0', proxy: '127.0.0.1:0' }}\n\
         namespaces: {{ api: {{ limits: [{{ name: rate, rate: 1000000/s }}] }} }}\n\
         proxy:\n  upstreams: {{ app: {{ servers: ['{}'], failures: 0 }} }}\n  \
         routes: [{{ upstream: app, namespace: api, retry: off }}]\n",
        upstream.url()
    );
    let daemon = Daemon::start(context, &policy)?;
    let statuses = http1::flood(daemon.proxy()?, REQUESTS, 4, |_| http1::get("/"), |_| {})?;
    let broken: u64 = statuses.iter().filter(|(status, _)| **status != 200).map(|(_, count)| count).sum();
    let seen = format!("{broken} of {REQUESTS} requests were not answered 200: {statuses:?}");
    require(broken == 0, || seen.clone())?;
    Ok(seen)
}
