//! Callers that fill the memory for requests that wait, with all that a protocol lets them bring.
//!
//! One caller holds the only permit of a limit, and others wait for it until one is refused for
//! want of room: over HTTP/1 and HTTP/2 with large heads and bodies, over gRPC with descriptors
//! that are only looked at, and through the proxy with large heads and with bodies that have begun.
//! The daemon may then have grown by 1.3 times `memory.waiting`.

use std::iter::{once, repeat_n};
use std::time::Duration;

use tidegate_test_support::holds_within;
use tidegate_wire::envoy::RateLimitDescriptor;

use crate::attack::{AttackResult, Failure, RunContext, all_hold, in_parallel, require};
use crate::daemon::Daemon;
use crate::grpc;
use crate::http1;
use crate::http2_frames::{Http2Connection, post_fields};
use crate::raw::{self, RawConnection};
use crate::upstream::{Manner, Upstream};

/// Callers that connect before the waiting requests are counted again.
const STEP: usize = 8;
/// How long requests have to be counted as waiting; after it the room counts as full.
const ARRIVAL_MAX: Duration = Duration::from_millis(500);
/// How long the daemon has to notice that callers have left.
const LEAVING_MAX: Duration = Duration::from_secs(10);
/// More connections than any bound has room for.
const CALLERS_MAX: usize = 4000;
/// Requests that wait on one connection of HTTP/2.
const STREAMS: usize = 4;
/// Fields of a large head, and the length of each value.
const FIELDS: usize = 60;
const FIELD_BYTES: usize = 150;
/// The bytes of a body that is sent.
const BODY_BYTES: usize = 60_000;
const CHECK: &str = r#"{"namespace":"shop","attributes":{"kind":"job"},"wait_ms":60000"#;

/// The protocol over which callers wait, and how they use it.
#[derive(Clone, Copy, Debug)]
enum WaitingProtocol {
    Http1,
    Http2,
    /// One stream on each connection, of two of which the first was reset.
    Http2Reset,
    Grpc,
    ProxyHttp1,
    ProxyHttp2,
}

const ALL: [WaitingProtocol; 6] = [
    WaitingProtocol::Http1,
    WaitingProtocol::Http2,
    WaitingProtocol::Http2Reset,
    WaitingProtocol::Grpc,
    WaitingProtocol::ProxyHttp1,
    WaitingProtocol::ProxyHttp2,
];

/// How much is filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilledMemory {
    /// `memory.waiting` in MiB.
    bound_mib: u64,
    /// The most growth of the daemon in hundredths of the bound. Of a small bound more is noise.
    growth_max: u64,
    /// The bytes of each of four descriptors that a call over gRPC only looks at.
    looked_at: usize,
    /// Whether memory counts that the allocator keeps, and that the first requests of a protocol
    /// take once: as much as a small bound, and more or less of it in each run.
    counts_spare: bool,
    /// How many protocols are tried at once.
    at_once: usize,
}

/// 24 MiB.
pub(crate) const BRIEF: FilledMemory =
    FilledMemory { bound_mib: 24, growth_max: 150, looked_at: 15_000, counts_spare: false, at_once: 3 };
/// 48 MiB, over one protocol after the other.
pub(crate) const LONG: FilledMemory =
    FilledMemory { bound_mib: 48, growth_max: 130, looked_at: BODY_BYTES, counts_spare: true, at_once: 1 };

/// Fills the memory over each protocol.
pub(crate) fn run_all(context: &RunContext, filled: FilledMemory) -> AttackResult {
    let each = ALL.chunks(filled.at_once);
    all_hold(each.flat_map(|at_once| in_parallel(at_once, |protocol| run(context, *protocol, filled))))
}

fn run(context: &RunContext, protocol: WaitingProtocol, filled: FilledMemory) -> AttackResult {
    let bound_mib = filled.bound_mib;
    let upstream = Upstream::start(Manner::Plain)?;
    let policy = format!(
        "listen: {{ http: '127.0.0.1:0', grpc: '127.0.0.1:0', admin: '127.0.0.1:0', proxy: '127.0.0.1:0' }}\n\
         memory: {{ waiting: {bound_mib}MiB }}\n\
         namespaces:\n  shop:\n    limits: [{{ name: jobs, key: [kind], missing: skip, concurrency: {{ limit: 1, hold: 1h }} }}]\n\
         proxy:\n  waiting: 100000\n  upstreams: {{ app: ['{}'] }}\n  \
           routes: [{{ upstream: app, namespace: shop, wait: 60s, attributes: {{ kind: header.x-kind }} }}]\n",
        upstream.url()
    );
    let start = if filled.counts_spare { Daemon::start } else { Daemon::start_without_spare_memory };
    let daemon = start(context, &policy)?;
    let held = http1::ask(daemon.http()?, http1::post("/v1/check", format!("{CHECK}}}")))?;
    require!(held.status == 200, "the first check gets {} {}", held.status, held.reason())?;
    let waiting = || daemon.metric("tidegate_proxy_waiting").unwrap_or(0) as usize;
    let mut first = Vec::new();
    for _ in 0..if filled.counts_spare { 0 } else { 2 * STEP } {
        first.push(WaitingCaller::open(&daemon, protocol, filled.looked_at)?.0);
    }
    holds_within(ARRIVAL_MAX, || waiting() >= first.len());
    drop(first);
    require!(
        holds_within(LEAVING_MAX, || waiting() == 0),
        "{protocol:?}: {} wait after their callers have left",
        waiting()
    )?;
    let before = daemon.growth();
    let mut callers = Vec::new();
    let mut asked = 0;
    while callers.len() < CALLERS_MAX {
        for _ in 0..STEP {
            let (caller, requests) = WaitingCaller::open(&daemon, protocol, filled.looked_at)?;
            callers.push(caller);
            asked += requests;
        }
        if !holds_within(ARRIVAL_MAX, || waiting() >= asked) {
            break;
        }
    }
    let (most, grown) = (waiting(), daemon.growth().saturating_sub(before));
    let bound = bound_mib << 20;
    let part = grown * 100 / bound;
    let each = grown / most.max(1) as u64;
    let text = format!(
        "{protocol:?}: {most} wait, {} KiB for {bound_mib} MiB, {part} %, {each} bytes each",
        grown >> 10
    );
    require!(callers.len() < CALLERS_MAX && most >= STEP && part <= filled.growth_max, "{text}")?;
    drop(callers);
    require!(
        holds_within(LEAVING_MAX, || waiting() == 0),
        "{text}; {} wait after their callers have left",
        waiting()
    )?;
    http1::ask(daemon.http()?, http1::release(&held.member("permit")))?;
    let after = http1::ask(daemon.http()?, http1::post("/v1/check", format!("{CHECK}}}")))?;
    require!(after.status == 200, "{text}; afterwards a check gets {}", after.status)?;
    Ok(text)
}

/// A caller with requests that wait.
enum WaitingCaller {
    Http1(#[expect(dead_code, reason = "it is kept open")] RawConnection),
    Http2(#[expect(dead_code, reason = "it is kept open")] Http2Connection),
}

impl WaitingCaller {
    /// The caller, and how many of its requests are to wait.
    fn open(
        daemon: &Daemon<'_>,
        protocol: WaitingProtocol,
        looked_at: usize,
    ) -> Result<(Self, usize), Failure> {
        let value = "v".repeat(FIELD_BYTES);
        let names: Vec<String> = (0..FIELDS).map(|number| format!("x-field-{number}")).collect();
        let spaces = " ".repeat(BODY_BYTES);
        let (small, body) = (format!("{CHECK}}}"), format!("{CHECK}{spaces}}}"));
        let address = match protocol {
            WaitingProtocol::Http1 | WaitingProtocol::Http2 | WaitingProtocol::Http2Reset => daemon.http()?,
            WaitingProtocol::Grpc => daemon.grpc()?,
            WaitingProtocol::ProxyHttp1 | WaitingProtocol::ProxyHttp2 => daemon.proxy()?,
        };
        let others: Vec<_> = names.iter().map(|name| (name.as_str(), value.as_str())).collect();
        if matches!(protocol, WaitingProtocol::Http1 | WaitingProtocol::ProxyHttp1) {
            let mut connection = RawConnection::open(address)?;
            if matches!(protocol, WaitingProtocol::Http1) {
                let request = http1::with_body("POST", "/v1/check", &others, body);
                connection.send(&raw::encoded(&request))?;
            } else {
                // As much of the body as the daemon takes, which does not read it.
                let head = others
                    .iter()
                    .fold(String::new(), |head, (name, value)| head + name + ": " + value + "\r\n");
                let head = format!(
                    "POST / HTTP/1.1\r\nhost: a\r\nx-kind: job\r\n{head}content-length: 9000000\r\n\r\n"
                );
                connection.send(&[head.as_bytes(), spaces.as_bytes()].concat())?;
            }
            return Ok((Self::Http1(connection), 1));
        }
        let mut connection = Http2Connection::open(address)?;
        match protocol {
            WaitingProtocol::Http2 => {
                let mut fields = post_fields("/v1/check", "application/json");
                fields.extend(others);
                for _ in 0..STREAMS {
                    connection.send_whole(&fields, body.as_bytes())?;
                }
                Ok((Self::Http2(connection), STREAMS))
            }
            WaitingProtocol::Http2Reset => {
                let mut fields = post_fields("/v1/check", "application/json");
                fields.extend(others);
                let first = connection.send_whole(&fields, small.as_bytes())?;
                connection.send_whole(&fields, small.as_bytes())?;
                connection.read_for(Duration::from_millis(5))?;
                connection.send_reset(first)?;
                Ok((Self::Http2(connection), 1))
            }
            WaitingProtocol::Grpc => {
                let waiting = grpc::descriptor(&[("kind", "job"), ("tidegate-wait-ms", "60000")]);
                let large = grpc::descriptor(&[("large", &"x".repeat(looked_at))]);
                let only_read = RateLimitDescriptor { hits_addend: Some(0), ..large };
                let descriptors = once(waiting).chain(repeat_n(only_read, 4));
                let message = grpc::framed(&grpc::request_of("shop", descriptors));
                let mut fields = post_fields(grpc::PATH, "application/grpc");
                fields.extend(others);
                for _ in 0..STREAMS {
                    connection.send_whole(&fields, &message)?;
                }
                Ok((Self::Http2(connection), STREAMS))
            }
            _ => {
                let mut fields = post_fields("/", "text/plain");
                fields.push(("x-kind", "job"));
                fields.extend(others);
                for _ in 0..STREAMS {
                    connection.send_unfinished(&fields, b"", 1 << 20)?;
                    connection.read_for(Duration::from_millis(1))?;
                }
                Ok((Self::Http2(connection), STREAMS))
            }
        }
    }
}
