//! A hostile namespace beside an honest one: what one tenant of the daemon can do to another at all
//! listeners.
//!
//! The hostile namespace does everything it may at once, at a bounded rate ([`HOSTILE_PER_SECOND`]
//! operations a second in all), so that its floods decide and not the processor they share. Each
//! kind of operation has a thread, and each thread a part of the rate. The honest namespace makes
//! [`HONEST_PER_SECOND`] requests a second at each listener, well within its limits. It is measured
//! alone first, then beside the hostile one.

use std::collections::BTreeMap;
use std::io::Result as IoResult;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use tidegate_wire::envoy::Code;

use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::daemon::Daemon;
use crate::grpc::{self, GrpcClient};
use crate::http1::{self, Http1Client};
use crate::load::measurement::Percentiles;
use crate::raw::{self, RawConnection};
use crate::resp::{self, Value};
use crate::upstream::{Manner, Upstream};

/// Operations of the hostile namespace a second, all kinds together.
const HOSTILE_PER_SECOND: u64 = 4_000;
/// Requests of the honest namespace a second at each listener.
const HONEST_PER_SECOND: u64 = 25;
/// Silent connections and slow bodies that the hostile namespace holds.
const HELD_CONNECTIONS: usize = 200;
/// The p99 of the honest namespace beside the hostile one, as a multiple of its p99 alone.
const P99_RATIO_MAX: f64 = 2.0;
/// A p99 below this counts as this: schedulers of small machines are no finer.
const P99_MIN: Duration = Duration::from_millis(1);
/// The part of the whole time that the honest namespace runs alone.
const ALONE_PART: f64 = 0.2;

fn policy(upstream: &Upstream) -> String {
    let limits = |rate: &str| {
        format!(
            "limits: [{{ name: rate, key: [user], missing: group, rate: {rate} }}, \
             {{ name: rolling, key: [user], missing: group, rolling: {{ limit: 1048576, window: 50m }} }}, \
             {{ name: parallel, key: [user], missing: group, concurrency: {{ limit: 65536, hold: 24h }} }}]"
        )
    };
    format!(
        "listen: {{ http: '127.0.0.1:0', grpc: '127.0.0.1:0', resp: '127.0.0.1:0', proxy: '127.0.0.1:0' }}\n\
         memory: {{ keys: 8MiB }}\n\
         namespaces:\n  hostile: {{ {} }}\n  honest: {{ {} }}\n\
         proxy:\n  upstreams: {{ app: ['{}'] }}\n  routes:\n    \
         - {{ match: {{ path: '/hostile' }}, upstream: app, namespace: hostile, wait: 10s, attributes: {{ user: header.x-user }} }}\n    \
         - {{ upstream: app, namespace: honest, attributes: {{ user: header.x-user }} }}\n",
        limits("1000000/s"),
        limits("100000/s"),
        upstream.url()
    )
}

/// Ten minutes by default; [`RunContext::minutes`].
pub(crate) fn long_run(context: &RunContext) -> AttackResult {
    run(context, Duration::from_secs_f64(context.minutes() * 60.0), true)
}

/// A few seconds, in which refusals are counted and latency is only reported.
pub(crate) fn brief_run(context: &RunContext) -> AttackResult {
    run(context, Duration::from_secs(6), false)
}

fn run(context: &RunContext, duration: Duration, judges_latency: bool) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let daemon = Daemon::start(context, &policy(&upstream))?;
    let addresses = ListenerAddresses {
        http: daemon.http()?,
        grpc: daemon.grpc()?,
        resp: daemon.resp()?,
        proxy: daemon.proxy()?,
    };
    let alone = honest_for(addresses, duration.mul_f64(ALONE_PART))?;
    let is_over = AtomicBool::new(false);
    let operations = AtomicU64::new(0);
    let beside = thread::scope(|scope| {
        for kind in HOSTILE_OPERATIONS {
            let (is_over, operations) = (&is_over, &operations);
            scope.spawn(move || attack(kind, addresses, is_over, operations));
        }
        let beside = honest_for(addresses, duration.mul_f64(1.0 - ALONE_PART));
        // Relaxed: the threads only have to see it some time, and joining orders the rest.
        is_over.store(true, Ordering::Relaxed);
        beside
    })?;
    let (mut failed, mut seen) = (Vec::new(), Vec::new());
    // Both maps have the same listeners in the same order.
    for ((listener, alone), beside) in alone.iter().zip(beside.values()) {
        let (before, during) = (alone.latency(), beside.latency());
        let text = format!(
            "{listener}: p50 {:.2?} -> {:.2?}, p99 {:.2?} -> {:.2?}, {} of {} not served{}",
            before.p50,
            during.p50,
            before.p99,
            during.p99,
            beside.refused(),
            during.count,
            beside.reasons()
        );
        let is_slow = judges_latency && during.p99 > before.p99.max(P99_MIN).mul_f64(P99_RATIO_MAX);
        if is_slow || beside.refused() > 0 || alone.refused() > 0 {
            failed.push(listener.to_string());
        }
        seen.push(text);
    }
    let operations = operations.into_inner();
    let seen = format!("beside {operations} hostile operations: {}", seen.join("; "));
    require!(failed.is_empty(), "failed at {}; {seen}", failed.join(", "))?;
    Ok(seen)
}

/// The listeners of the daemon.
#[derive(Clone, Copy, Debug)]
struct ListenerAddresses {
    http: SocketAddr,
    grpc: SocketAddr,
    resp: SocketAddr,
    proxy: SocketAddr,
}

/// Latencies and refusals of the honest namespace at one listener.
#[derive(Debug, Default)]
struct HonestMeasurement {
    latencies: Vec<Duration>,
    refusals: BTreeMap<String, u64>,
}

impl HonestMeasurement {
    fn latency(&self) -> Percentiles {
        Percentiles::from_durations(self.latencies.iter().copied())
    }

    fn refused(&self) -> u64 {
        self.refusals.values().sum()
    }

    fn reasons(&self) -> String {
        let each: Vec<String> =
            self.refusals.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) }
    }
}

/// Makes honest requests at every listener for `duration`.
fn honest_for(
    addresses: ListenerAddresses,
    duration: Duration,
) -> Result<BTreeMap<&'static str, HonestMeasurement>, Failure> {
    thread::scope(|scope| {
        let threads = [
            ("HTTP", scope.spawn(move || honest_at(duration, || honest_over_http(addresses.http)))),
            ("gRPC", scope.spawn(move || honest_at(duration, || honest_over_grpc(addresses.grpc)))),
            ("RESP", scope.spawn(move || honest_at(duration, || honest_over_resp(addresses.resp)))),
            ("proxy", scope.spawn(move || honest_at(duration, || honest_through_proxy(addresses.proxy)))),
        ];
        let joined = threads.into_iter().map(|(listener, thread)| {
            Ok((
                listener,
                thread.join().map_err(|_| Failure::Unfinished(format!("the client at {listener} failed")))?,
            ))
        });
        joined.collect()
    })
}

/// A client of one listener: asks once, and returns the reason when it is not served.
type HonestClient = Box<dyn FnMut(u64) -> Result<Option<String>, Failure>>;

fn honest_at(duration: Duration, connect: impl Fn() -> Result<HonestClient, Failure>) -> HonestMeasurement {
    let mut measurement = HonestMeasurement::default();
    let mut client: Option<HonestClient> = None;
    let began = Instant::now();
    for number in 0.. {
        let due = began + Duration::from_secs(1) * (number as u32) / (HONEST_PER_SECOND as u32);
        if due > began + duration {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let asked = Instant::now();
        // Latency is that of requests; connecting is part of it only when a connection has broken.
        let outcome = match &mut client {
            Some(client) => client(number),
            None => connect().and_then(|mut new| {
                let outcome = new(number);
                client = Some(new);
                outcome
            }),
        };
        measurement.latencies.push(asked.elapsed());
        let reason = match outcome {
            Ok(None) => continue,
            Ok(Some(reason)) => reason,
            Err(error) => {
                client = None;
                format!("{error:?}")
            }
        };
        *measurement.refusals.entry(reason).or_insert(0) += 1;
    }
    measurement
}

/// Every hundredth request is of a new key, as an honest namespace has new users too.
fn user(number: u64) -> String {
    if number % 100 == 99 { format!("new-{number}") } else { format!("user-{}", number % 10) }
}

fn honest_over_http(address: SocketAddr) -> Result<HonestClient, Failure> {
    let mut connection = Http1Client::open(address)?;
    Ok(Box::new(move |number| {
        let answer = connection.ask(http1::check("honest", &user(number)))?;
        if answer.status != 200 {
            return Ok(Some(format!("{} {}", answer.status, answer.member("reason"))));
        }
        let status = connection.ask(http1::release(&answer.member("permit")))?.status;
        Ok((status != 200).then(|| format!("release {status}")))
    }))
}

fn honest_over_grpc(address: SocketAddr) -> Result<HonestClient, Failure> {
    let client = GrpcClient::open(address)?;
    Ok(Box::new(move |number| {
        let answer = client.ask(grpc::request("honest", "user", &user(number)), &[])?;
        let is_admitted = answer.as_ref().is_ok_and(|answer| answer.overall_code == i32::from(Code::Ok));
        Ok((!is_admitted).then(|| format!("{answer:?}")))
    }))
}

fn honest_over_resp(address: SocketAddr) -> Result<HonestClient, Failure> {
    let mut connection = resp::RespConnection::open(address)?;
    Ok(Box::new(move |number| {
        let key = format!("honest-{}", user(number));
        match connection.ask(&["CL.THROTTLE", &key, "1000", "1000", "1"])? {
            Value::Array(parts) if parts.first() == Some(&Value::Int(0)) => Ok(None),
            // The wait differs each time, and would make every refusal a reason of its own.
            Value::Array(parts) if parts.first() == Some(&Value::Int(1)) => Ok(Some("refused".to_owned())),
            other => Ok(Some(format!("{other:?}"))),
        }
    }))
}

fn honest_through_proxy(address: SocketAddr) -> Result<HonestClient, Failure> {
    let mut connection = Http1Client::open(address)?;
    Ok(Box::new(move |number| {
        let answer = connection.ask(http1::get_with("/honest", &[("x-user", &*user(number))]))?;
        Ok((answer.status != 200).then(|| format!("{} {}", answer.status, answer.member("reason"))))
    }))
}

/// One batch of a kind of operation of the hostile namespace.
struct HostileBatch<'run> {
    /// The kind, which is a part of its keys.
    kind: &'static str,
    addresses: ListenerAddresses,
    numbers: Range<u64>,
    held: &'run mut Vec<RawConnection>,
}

/// Does one batch.
type HostileOperation = fn(&mut HostileBatch<'_>) -> IoResult<()>;

/// The kinds of operations. The answers to them do not matter.
const HOSTILE_OPERATIONS: [(&str, HostileOperation); 12] = [
    ("UniqueKeys", |batch| batch.post_each("/v1/check", "")),
    ("LargeCosts", |batch| batch.post_each("/v1/check", r#","cost":1000000"#)),
    ("KeptPermits", |batch| batch.post_each("/v1/check", "")),
    ("SettledPermits", |batch| batch.settle_permits()),
    ("RefundKeys", |batch| {
        batch.send_each(|batch, number| {
            batch.post("/v1/refund", number, &format!(r#","refund_key":"{number}""#))
        })
    }),
    ("Overrides", |batch| {
        batch.send_each(|_, number| {
            let (user, limit) = (number % 4, number % 1_000_000 + 1);
            let path = format!("/v1/overrides/hostile/rolling?user=eve-{user}");
            let body = format!(r#"{{"numbers":{{"limit":{limit}}},"reason":"flood","by":"eve"}}"#);
            http1::with_body("PUT", &path, &[], body)
        })
    }),
    ("YearLongThrottle", |batch| {
        let throttle = |number: u64| {
            let key = format!("hostile-{}", batch.numbers.start + number);
            resp::command(&["CL.THROTTLE", &key, "0", "1", "31536000"])
        };
        resp::flood(batch.addresses.resp, batch.count(), 1, throttle).map(drop)
    }),
    ("UniqueDescriptors", |batch| {
        let request = |number: u64| {
            let value = (batch.numbers.start + number).to_string();
            grpc::request_of("hostile", [grpc::once_a_year("user", &value)])
        };
        grpc::flood(batch.addresses.grpc, batch.count(), batch.count(), request).map(drop)
    }),
    ("WaitingRequests", |batch| {
        for user in batch.numbers.clone().take(2) {
            let request = http1::get_with("/hostile", &[("x-user", &*user.to_string())]);
            batch.hold(batch.addresses.proxy, &raw::encoded(&request))?;
        }
        Ok(())
    }),
    ("Connections", |batch| batch.hold(batch.addresses.http, b"")),
    ("LargeBodies", |batch| {
        let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 65000\r\n\r\n";
        batch.hold(batch.addresses.http, format!("{head}{}", "a".repeat(60_000)).as_bytes())
    }),
    ("Blocks", |batch| batch.post_each("/v1/block", r#","limit":"rate","for_ms":31000000000"#)),
];

/// Does one kind of operation at its part of the rate until it is over. A connection that breaks is
/// made again.
fn attack(
    (kind, operation): (&'static str, HostileOperation),
    addresses: ListenerAddresses,
    is_over: &AtomicBool,
    operations: &AtomicU64,
) {
    let count = 20;
    let every = Duration::from_secs(1) * (count as u32 * HOSTILE_OPERATIONS.len() as u32)
        / (HOSTILE_PER_SECOND as u32);
    let (mut number, mut held) = (0, Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let numbers = number..number + count;
        let _ = operation(&mut HostileBatch { kind, addresses, numbers, held: &mut held });
        number += count;
        // A statistic; joining the thread publishes it.
        operations.fetch_add(count, Ordering::Relaxed);
        thread::sleep(every.saturating_sub(began.elapsed()));
    }
}

impl HostileBatch<'_> {
    fn count(&self) -> u64 {
        self.numbers.end - self.numbers.start
    }

    /// A request for the key of its number, with more members.
    fn post(&self, path: &str, number: u64, more: &str) -> Request<Bytes> {
        let user = format!("{}-{number}", self.kind);
        http1::post(path, format!(r#"{{"namespace":"hostile","attributes":{{"user":"{user}"}}{more}}}"#))
    }

    fn post_each(&self, path: &str, more: &str) -> IoResult<()> {
        self.send_each(|batch, number| batch.post(path, number, more))
    }

    fn send_each(&self, request: impl Fn(&Self, u64) -> Request<Bytes> + Sync) -> IoResult<()> {
        let numbered = |number| request(self, self.numbers.start + number);
        raw::flood(self.addresses.http, self.count(), 1, numbered).map(drop)
    }

    fn settle_permits(&mut self) -> IoResult<()> {
        let mut connection = Http1Client::open(self.addresses.http)?;
        for number in self.numbers.clone() {
            let permit = connection.ask(self.post("/v1/check", number, ""))?.member("permit");
            connection.ask(http1::release(&permit))?;
        }
        Ok(())
    }

    /// Opens a connection, sends `bytes` and keeps it; of too many the oldest is closed.
    fn hold(&mut self, address: SocketAddr, bytes: &[u8]) -> IoResult<()> {
        let mut connection = RawConnection::open(address)?;
        connection.send(bytes)?;
        if self.held.len() >= HELD_CONNECTIONS {
            self.held.remove(0);
        }
        self.held.push(connection);
        Ok(())
    }
}
