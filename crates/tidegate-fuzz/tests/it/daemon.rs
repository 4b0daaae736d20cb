//! A whole daemon on loopback withstands inputs that resemble right ones, over each of its
//! protocols: it never panics, and goes on.
//!
//! A run of the gate sends 5 000. `TIDEGATE_FUZZ_INPUTS=50000` sends so many, and fails if one of
//! them takes longer than a second, which a busy machine would make of any.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use prost::Message;
use tidegate_fuzz::{Taken, envoy_files, mutated, policy};
use tidegate_server::{Handle, from_policy};
use tidegate_wire::envoy::rate_limit_descriptor::{Entry, RateLimitOverride};
use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit};

/// The inputs of a run of the gate.
const INPUTS: u64 = 5_000;

/// The longest that an answer may take on an idle machine.
const SLOWEST: Duration = Duration::from_secs(1);

const POLICY: &str = r#"
listen: { http: "127.0.0.1:0", grpc: "127.0.0.1:0", resp: "127.0.0.1:0" }
store: { kind: memory }
memory: { keys: 1MiB }
nodes: [{ name: n1, units: 9000 }]
resources: { db: { concurrency: 9, queue: { requests: 9 } } }
namespaces:
  api:
    costs: [{ match: { op: export }, cost: 5 }]
    limits:
      - { name: per-user, key: [user], rate: 1000/s, burst: 1000 }
      - { name: daily, key: [user], calendar: { limit: 100000, unit: day } }
      - { name: parallel, key: [user], concurrency: { limit: 9, hold: 1s } }
    tables: [{ name: orders, provisioned: { read: 900, write: 900 }, indexes: [{ name: by, provisioned: { read: 9, write: 900 } }] }]
"#;

const BODIES: [(&str, &str); 9] = [
    ("/v1/check", r#"{"namespace":"api","attributes":{"user":"ada","op":"export"},"cost":3,"peek":true}"#),
    (
        "/v1/check",
        r#"{"namespace":"api","attributes":{"user":"ada"},"class":"critical","resource":"db","wait_ms":5}"#,
    ),
    (
        "/v1/check",
        r#"{"namespace":"api","attributes":{},"access":{"table":"orders","key":"k","kind":"write","size":9,"index_writes":[{"index":"by","key":"u"}]}}"#,
    ),
    ("/v1/reserve", r#"{"namespace":"api","attributes":{"user":"eve"},"cost":9,"expires_ms":5000}"#),
    ("/v1/report", r#"{"namespace":"api","attributes":{"user":"eve"},"cost":9}"#),
    ("/v1/refund", r#"{"namespace":"api","attributes":{"user":"eve"},"refund_key":"order-1815"}"#),
    (
        "/v1/settle",
        r#"{"permit":"58639d5ddb18ab90011ad30327b3e2ad","outcome":"failed","cost":1,"status":503}"#,
    ),
    ("/v1/explain", r#"{"namespace":"api","attributes":{"user":"ada"},"resource":"db","tenant":"t"}"#),
    ("/v1/reset", r#"{"namespace":"api","attributes":{"user":"ada"},"limit":"daily","preview":true}"#),
];

/// An odd number, so that each is among the inputs that are sent as they are.
const COMMANDS: [&str; 7] = [
    "TG.CHECK api COST 0 user ada",
    "TG.CHECK api user ada op export tidegate-wait-ms 5",
    "TG.CHECK api COST 3 RELEASE user ada op export",
    "TG.CHECK api table orders key k kind scan size 4096",
    "CL.THROTTLE key 15 30 60 2",
    "TG.RELEASE 58639d5ddb18ab90011ad30327b3e2ad",
    "HELLO 3 SETNAME me",
];

/// How many inputs each of the four kinds gets, and whether answers are timed.
fn plan() -> (u64, bool) {
    let asked = std::env::var("TIDEGATE_FUZZ_INPUTS").ok().map(|text| text.parse().unwrap());
    (asked.unwrap_or(INPUTS).div_ceil(4), asked.is_some())
}

/// The longest time of an answer, and how many were of the kind that shows a right request.
#[derive(Default)]
struct Seen {
    slowest: Duration,
    right: u64,
}

impl Seen {
    fn add(&mut self, took: Duration, is_right: bool) {
        self.slowest = self.slowest.max(took);
        self.right += u64::from(is_right);
    }

    fn report(&self, kind: &str, inputs: u64, is_timed: bool) {
        println!("{kind}: {inputs} inputs, {} taken, the slowest in {:.1?}", self.right, self.slowest);
        assert!(self.right * 20 > inputs, "{kind}: only {} of {inputs} were taken", self.right);
        assert!(!is_timed || self.slowest < SLOWEST, "{kind}: an answer took {:?}", self.slowest);
    }
}

/// Sends these bytes and nothing after them; the answer up to where `is_whole` says that it ends,
/// or nothing more comes, and how long it took.
fn ask(address: SocketAddr, bytes: &[u8], is_whole: Option<fn(&[u8]) -> bool>) -> (Vec<u8>, Duration) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let begun = Instant::now();
    // The daemon may have closed the connection before it read everything.
    let _ = stream.write_all(bytes);
    if is_whole.is_none() {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let (mut answer, mut took) = (Vec::new(), None);
    let mut part = [0; 4096];
    while !is_whole.is_some_and(|is_whole| is_whole(&answer)) {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => answer.extend(&part[..length]),
            Err(error) => {
                let is_silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!is_silent || took.is_some(), "no answer to \"{}\"", bytes.escape_ascii());
                break;
            }
        }
        took = Some(begun.elapsed());
        // A connection with an answer that named a permit stays open for a second.
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    }
    (answer, took.unwrap_or_else(|| begun.elapsed()))
}

/// One of the right inputs, or one that resembles it.
fn input(right: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let [one, other] = [1, 7].map(|step| &right[(seed / step) as usize % right.len()]);
    if seed.is_multiple_of(16) { one.clone() } else { mutated(one, other, seed) }
}

fn http(address: SocketAddr, inputs: u64) -> Seen {
    let request = |path: &str, body: &[u8]| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let bodies: Vec<Vec<u8>> = BODIES.iter().map(|(_, body)| body.as_bytes().to_vec()).collect();
    let whole: Vec<Vec<u8>> = BODIES.iter().map(|(path, body)| request(path, body.as_bytes())).collect();
    let mut seen = Seen::default();
    for seed in 0..inputs {
        let bytes = match seed % 2 {
            0 => request(BODIES[seed as usize % BODIES.len()].0, &input(&bodies, seed)),
            _ => input(&whole, seed),
        };
        let (answer, took) = ask(address, &bytes, None);
        seen.add(took, answer.starts_with(b"HTTP/1.1 200"));
    }
    seen
}

fn resp(address: SocketAddr, inputs: u64) -> Seen {
    let command = |line: &str| {
        let words = line.split(' ').map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let words: Vec<String> = words.collect();
        format!("*{}\r\n{}", words.len(), words.concat()).into_bytes()
    };
    let right: Vec<Vec<u8>> = COMMANDS.iter().map(|line| command(line)).collect();
    let mut seen = Seen::default();
    for seed in 0..inputs {
        let (answer, took) = ask(address, &input(&right, seed), None);
        seen.add(took, !answer.is_empty() && !answer.starts_with(b"-"));
    }
    seen
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A call of Envoy's service with this message, as a client of HTTP/2 without a table for names
/// writes it.
fn call(message: &[u8]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let named = |name: &str, value: &str| [vec![0], text(name), text(value)].concat();
    let head = [
        named(":method", "POST"),
        named(":scheme", "http"),
        named(":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
        named(":authority", "t"),
        named("content-type", "application/grpc"),
        named("te", "trailers"),
    ]
    .concat();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [&[0], &length[..], message].concat();
    // HEADERS with END_HEADERS, DATA with END_STREAM.
    let frames = [frame(4, 0, 0, &[]), frame(1, 4, 1, &head), frame(0, 1, 1, &body)].concat();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frames[..]].concat()
}

/// The kind, the flags and the stream of each frame of HTTP/2.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u8)> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, flags, _, _, _, stream, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some(next) = rest.get(length..) else { break };
        frames.push((*kind, *flags, *stream));
        bytes = next;
    }
    frames
}

/// Whether frames of HTTP/2 hold the end of the call (`END_STREAM` or `RST_STREAM`) or of the
/// connection (`GOAWAY`).
fn has_ended(bytes: &[u8]) -> bool {
    let is_end =
        |(kind, flags, stream)| kind == 7 || stream == 1 && (kind == 3 || kind < 2 && flags & 1 == 1);
    frames(bytes).into_iter().any(is_end)
}

fn grpc(address: SocketAddr, inputs: u64) -> Seen {
    let message = |attributes: &[(&str, &str)], hits_addend, own: Option<u64>| {
        let entries = attributes.iter();
        let entries =
            entries.map(|(key, value)| Entry { key: (*key).to_owned(), value: (*value).to_owned() });
        let descriptor = RateLimitDescriptor {
            entries: entries.collect(),
            hits_addend: own,
            ..RateLimitDescriptor::default()
        };
        let descriptors = vec![descriptor.clone(), descriptor];
        RateLimitRequest { domain: "api".to_owned(), descriptors, hits_addend }.encode_to_vec()
    };
    // A limit that comes with the request, of as many units as there can be.
    let own_limit = |requests_per_unit: u32, unit: RateLimitUnit| {
        let entries = vec![Entry { key: "user".to_owned(), value: "eve".to_owned() }];
        let limit = Some(RateLimitOverride { requests_per_unit, unit: unit.into() });
        let descriptor = RateLimitDescriptor { entries, limit, ..RateLimitDescriptor::default() };
        RateLimitRequest { domain: "api".to_owned(), descriptors: vec![descriptor], hits_addend: 2 }
            .encode_to_vec()
    };
    let messages = [
        own_limit(u32::MAX, RateLimitUnit::Second),
        own_limit(1 << 29, RateLimitUnit::Year),
        message(&[("user", "ada"), ("op", "export")], 1, None),
        message(&[("user", "ada")], 0, Some(0)),
        message(&[("user", "ada"), ("tidegate-wait-ms", "5")], 9, None),
        message(&[("table", "orders"), ("key", "k"), ("kind", "write"), ("size", "300")], 0, None),
    ];
    let whole: Vec<Vec<u8>> = messages.iter().map(|message| call(message)).collect();
    let mut seen = Seen::default();
    for seed in 0..inputs {
        let (answer, took) = match seed % 2 {
            0 => ask(address, &call(&input(&messages, seed)), Some(has_ended)),
            _ => ask(address, &input(&whole, seed), None),
        };
        // A call that fails is answered without a message, so without DATA.
        seen.add(took, frames(&answer).into_iter().any(|(kind, _, stream)| kind == 0 && stream == 1));
    }
    seen
}

fn files(inputs: u64) -> Seen {
    let right = [
        POLICY.as_bytes().to_vec(),
        b"domain: a\ndescriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: 9 } }]\n".to_vec(),
    ];
    let mut seen = Seen::default();
    for seed in 0..inputs {
        let text = input(&right, seed);
        let begun = Instant::now();
        let (one, other) = (policy(&text), envoy_files(&text));
        seen.add(begun.elapsed(), one == Taken::Accepted || other == Taken::Accepted);
    }
    seen
}

async fn start() -> Handle {
    let checked = tidegate_policy::parse("policy.yaml", POLICY, &|_| None);
    let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
    let config = from_policy::server_config(&policy).unwrap();
    from_policy::serve(&policy, POLICY.as_bytes(), config).await.unwrap()
}

#[test]
fn a_daemon_goes_on_whatever_resembles_a_request() {
    let (inputs, is_timed) = plan();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let daemon = runtime.block_on(start());
    let [http_at, grpc_at, resp_at] =
        [daemon.http().unwrap(), daemon.grpc().unwrap(), daemon.resp().unwrap()]
            .map(|address| address.tcp().unwrap());
    http(http_at, inputs).report("http", inputs, is_timed);
    grpc(grpc_at, inputs).report("grpc", inputs, is_timed);
    resp(resp_at, inputs).report("resp", inputs, is_timed);
    files(inputs).report("files", inputs, is_timed);
    let (metrics, _) = ask(http_at, b"GET /metrics HTTP/1.1\r\nhost: t\r\n\r\n", None);
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(metrics.contains("\ntidegate_panics_total 0\n"), "{metrics}");
    runtime.block_on(daemon.shutdown());
}
