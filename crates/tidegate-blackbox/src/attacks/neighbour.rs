//! A hostile namespace beside an honest one: what one tenant of the daemon can do to another at all
//! listeners.
//!
//! The hostile namespace does everything it may at once, at a bounded rate ([`HOSTILE_PER_SECOND`]
//! operations a second in all), so that its floods decide and not the processor they share. Each
//! kind of operation has a thread, and each thread a part of the rate. The honest namespace makes
//! [`HONEST_PER_SECOND`] requests a second at each listener, well within its limits. It is measured
//! alone first, then beside the hostile one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{AttackContext, AttackResult, Failure, require};
use crate::daemon::Daemon;
use crate::grpc::{self, Descriptor};
use crate::http1::{self, Http1Connection};
use crate::http2_frames::{self, post_fields};
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
const P99_MS_MIN: f64 = 1.0;
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

/// Ten minutes by default; [`AttackContext::minutes`].
pub(crate) fn long_run(context: &AttackContext) -> AttackResult {
    run(context, Duration::from_secs_f64(context.minutes() * 60.0), true)
}

/// A few seconds, in which refusals are counted and latency is only reported.
pub(crate) fn brief_run(context: &AttackContext) -> AttackResult {
    run(context, Duration::from_secs(6), false)
}

fn run(context: &AttackContext, duration: Duration, judges_latency: bool) -> AttackResult {
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
        let (p50_alone, p99_alone) = (alone.percentile(50), alone.percentile(99));
        let (p50, p99) = (beside.percentile(50), beside.percentile(99));
        let text = format!(
            "{listener}: p50 {p50_alone:.2} -> {p50:.2} ms, p99 {p99_alone:.2} -> {p99:.2} ms, {} of {} not served{}",
            beside.refused(),
            beside.latencies_ms.len(),
            beside.reasons()
        );
        let is_slow = judges_latency && p99 > P99_RATIO_MAX * p99_alone.max(P99_MS_MIN);
        if is_slow || beside.refused() > 0 || alone.refused() > 0 {
            failed.push(listener.to_string());
        }
        seen.push(text);
    }
    let operations = operations.into_inner();
    let seen = format!("beside {operations} hostile operations: {}", seen.join("; "));
    require(failed.is_empty(), || format!("failed at {}; {seen}", failed.join(", ")))?;
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
    latencies_ms: Vec<f64>,
    refusals: BTreeMap<String, u64>,
}

impl HonestMeasurement {
    fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.latencies_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let at = sorted.len().saturating_sub(1) * percent / 100;
        sorted.get(at).copied().unwrap_or(0.0)
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
        measurement.latencies_ms.push(asked.elapsed().as_secs_f64() * 1000.0);
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
    let mut connection = Http1Connection::open(address)?;
    Ok(Box::new(move |number| {
        let answer = connection.ask(&http1::check("honest", &user(number)))?;
        if answer.status != 200 {
            return Ok(Some(format!("{} {}", answer.status, answer.member("reason"))));
        }
        let released = http1::post("/v1/release", &format!(r#"{{"permit":"{}"}}"#, answer.member("permit")));
        let status = connection.ask(&released)?.status;
        Ok((status != 200).then(|| format!("release {status}")))
    }))
}

fn honest_over_grpc(address: SocketAddr) -> Result<HonestClient, Failure> {
    let mut connection = http2_frames::Http2Connection::open(address)?;
    let mut asked = connection.ended();
    Ok(Box::new(move |number| {
        let value = user(number);
        let body = grpc::request("honest", Descriptor { key: "user", value: &value, limit: None });
        let request = connection.request(&post_fields(grpc::PATH, "application/grpc"), &body);
        connection.send(&request)?;
        asked += 1;
        while connection.ended() < asked {
            if !connection.read_for(http1::READ_TIMEOUT)? {
                return Err(Failure::Unfinished("the connection ended".to_owned()));
            }
        }
        let code = connection.take_data();
        let code = grpc::overall_code(&code);
        Ok((code != Some(grpc::OK)).then(|| format!("code {code:?}")))
    }))
}

fn honest_over_resp(address: SocketAddr) -> Result<HonestClient, Failure> {
    let mut connection = resp::RespConnection::open(address)?;
    Ok(Box::new(move |number| {
        let key = format!("honest-{}", user(number));
        match connection.ask(&["CL.THROTTLE", &key, "1000", "1000", "1"])? {
            Value::Array(parts) if parts.first() == Some(&Value::Number(0)) => Ok(None),
            // The wait differs each time, and would make every refusal a reason of its own.
            Value::Array(parts) if parts.first() == Some(&Value::Number(1)) => Ok(Some("refused".to_owned())),
            other => Ok(Some(format!("{other:?}"))),
        }
    }))
}

fn honest_through_proxy(address: SocketAddr) -> Result<HonestClient, Failure> {
    let mut connection = Http1Connection::open(address)?;
    Ok(Box::new(move |number| {
        let request = format!("GET /honest HTTP/1.1\r\nhost: a\r\nx-user: {}\r\n\r\n", user(number));
        let answer = connection.ask(request.as_bytes())?;
        Ok((answer.status != 200).then(|| format!("{} {}", answer.status, answer.member("reason"))))
    }))
}

/// A kind of operation of the hostile namespace.
#[derive(Clone, Copy, Debug)]
enum HostileOperation {
    UniqueKeys,
    LargeCosts,
    KeptPermits,
    SettledPermits,
    RefundKeys,
    Overrides,
    YearLongThrottle,
    UniqueDescriptors,
    WaitingRequests,
    Connections,
    LargeBodies,
    Blocks,
}

const HOSTILE_OPERATIONS: [HostileOperation; 12] = [
    HostileOperation::UniqueKeys,
    HostileOperation::LargeCosts,
    HostileOperation::KeptPermits,
    HostileOperation::SettledPermits,
    HostileOperation::RefundKeys,
    HostileOperation::Overrides,
    HostileOperation::YearLongThrottle,
    HostileOperation::UniqueDescriptors,
    HostileOperation::WaitingRequests,
    HostileOperation::Connections,
    HostileOperation::LargeBodies,
    HostileOperation::Blocks,
];

/// Does one kind of operation at its part of the rate until it is over. A connection that breaks is
/// made again.
fn attack(
    kind: HostileOperation,
    addresses: ListenerAddresses,
    is_over: &AtomicBool,
    operations: &AtomicU64,
) {
    let batch = 20;
    let every = Duration::from_secs(1) * (batch as u32 * HOSTILE_OPERATIONS.len() as u32)
        / (HOSTILE_PER_SECOND as u32);
    let mut number = 0;
    let mut held = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        // The answers to the hostile namespace do not matter here.
        let _ = attack_once(kind, addresses, number..number + batch, &mut held);
        number += batch;
        // A statistic; joining the thread publishes it.
        operations.fetch_add(batch, Ordering::Relaxed);
        thread::sleep(every.saturating_sub(began.elapsed()));
    }
}

fn attack_once(
    kind: HostileOperation,
    addresses: ListenerAddresses,
    numbers: core::ops::Range<u64>,
    held: &mut Vec<Http1Connection>,
) -> Result<(), Failure> {
    let count = numbers.end - numbers.start;
    let from = numbers.start;
    let key = |number: u64| {
        format!(r#""namespace":"hostile","attributes":{{"user":"{kind:?}-{}"}}"#, from + number)
    };
    let over_http = |request: &(dyn Fn(u64) -> Vec<u8> + Sync)| {
        http1::flood(addresses.http, count, 1, request, |_| {}).map(|_| ()).map_err(Failure::from)
    };
    let check = |more: &str, number: u64| http1::post("/v1/check", &format!("{{{}{more}}}", key(number)));
    match kind {
        HostileOperation::UniqueKeys | HostileOperation::KeptPermits => {
            over_http(&|number| check("", number))
        }
        HostileOperation::LargeCosts => over_http(&|number| check(r#","cost":1000000"#, number)),
        HostileOperation::SettledPermits => {
            let mut connection = Http1Connection::open(addresses.http)?;
            for number in 0..count {
                let permit = connection.ask(&check("", number))?.member("permit");
                connection.ask(&http1::post("/v1/release", &format!(r#"{{"permit":"{permit}"}}"#)))?;
            }
            Ok(())
        }
        HostileOperation::RefundKeys => over_http(&|number| {
            let refund_key = from + number;
            http1::post("/v1/refund", &format!(r#"{{{},"refund_key":"{refund_key}"}}"#, key(number)))
        }),
        HostileOperation::Overrides => over_http(&|number| {
            let path = format!("/v1/overrides/hostile/rolling?user=eve-{}", number % 4);
            let body = format!(
                r#"{{"numbers":{{"limit":{}}},"reason":"flood","by":"eve"}}"#,
                (from + number) % 1_000_000 + 1
            );
            http1::with_body("PUT", &path, "", &body)
        }),
        HostileOperation::YearLongThrottle => {
            let command = |number: u64| {
                resp::command(&["CL.THROTTLE", &format!("hostile-{}", from + number), "0", "1", "31536000"])
            };
            resp::flood(addresses.resp, count, 1, command, |_| {}).map(|_| ()).map_err(Failure::from)
        }
        HostileOperation::UniqueDescriptors => {
            let body = |number: u64| {
                let value = (from + number).to_string();
                grpc::request(
                    "hostile",
                    Descriptor { key: "user", value: &value, limit: Some((1, grpc::YEAR)) },
                )
            };
            let fields = post_fields(grpc::PATH, "application/grpc");
            http2_frames::flood(addresses.grpc, count, count, &fields, body)
                .map(|_| ())
                .map_err(Failure::from)
        }
        HostileOperation::WaitingRequests => {
            for number in 0..count.min(2) {
                let user = from + number;
                hold(
                    held,
                    addresses.proxy,
                    &format!("GET /hostile HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\n\r\n"),
                )?;
            }
            Ok(())
        }
        HostileOperation::Connections => hold(held, addresses.http, ""),
        HostileOperation::LargeBodies => {
            let request = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 65000\r\n\r\n";
            hold(held, addresses.http, &format!("{request}{}", "a".repeat(60_000)))
        }
        HostileOperation::Blocks => over_http(&|number| {
            http1::post("/v1/block", &format!(r#"{{{},"limit":"rate","for_ms":31000000000}}"#, key(number)))
        }),
    }
}

/// Opens a connection, sends `bytes` and keeps it; of too many the oldest is closed.
fn hold(held: &mut Vec<Http1Connection>, address: SocketAddr, bytes: &str) -> Result<(), Failure> {
    let mut connection = Http1Connection::open(address)?;
    connection.send(bytes.as_bytes())?;
    if held.len() >= HELD_CONNECTIONS {
        held.remove(0);
    }
    held.push(connection);
    Ok(())
}
