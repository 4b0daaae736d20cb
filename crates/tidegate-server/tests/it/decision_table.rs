//! One table of decisions over every protocol, with everything that is said of each: the answer,
//! the retry time, the refusal log, the decision log, the metrics, the most refused keys, and
//! `explain`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tidegate_capacity::Access;
use tidegate_core::{Cost, Timestamp};
use tidegate_engine::{Decision, Engine, Outcome, Permit, Progress, Request, Step};
use tidegate_server::{Clock, Handle, ManualClock, from_policy};
use tidegate_test_support::{TemporaryFolder, eventually_some};
use tidegate_tower::{AdmitLayer, extract};
use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitResponse};
use tokio::net::TcpStream;
use tower::{Layer, ServiceExt, service_fn};

use crate::client::{Answer, Client};
use crate::grpc::{Envoy, descriptor, request};
use crate::proxy::log::{Written, listen};
use crate::proxy::upstream::well;
use crate::resp;
use crate::world::START;

/// One kind of refusal: what admits, what is then refused, and how.
struct Row {
    /// The attribute `kind`, by which the limit matches.
    kind: &'static str,
    has_user: bool,
    /// How many requests are admitted before.
    admitted: u64,
    /// The cost of the one that is refused.
    cost: u64,
    limit: &'static str,
    reason: &'static str,
    status: u16,
    retry_ms: Option<u64>,
    /// The protocols that cannot ask for it.
    without: &'static [&'static str],
    /// The resource or the access to a table that it names beside its attributes.
    words: &'static [(&'static str, &'static str)],
}

const fn row(kind: &'static str, reason: &'static str, retry_ms: Option<u64>) -> Row {
    let (status, without) = (429, &[] as &[&str]);
    let words = &[];
    Row { kind, has_user: true, admitted: 2, cost: 1, limit: kind, reason, status, retry_ms, without, words }
}

const TABLE: [Row; 8] = [
    row("rate", "rate_exceeded", Some(30_000)),
    row("quota", "quota_exceeded", Some(3_600_000)),
    Row { admitted: 0, ..row("blocked", "blocked", Some(60_000)) },
    Row { admitted: 0, has_user: false, status: 400, ..row("required", "attribute_missing", None) },
    Row { admitted: 0, cost: 3, without: &["proxy"], ..row("rate", "cost_exceeds_limit", None) },
    // Envoy and the proxy give a permit back when the request ends.
    Row { admitted: 1, without: &["rls", "proxy"], ..row("parallel", "concurrency_exceeded", Some(10)) },
    // A route of the proxy names no table, and a layer of tower neither table nor resource.
    Row {
        limit: "orders",
        without: &["proxy", "tower"],
        words: &[("table", "orders"), ("key", "order-7"), ("kind", "write")],
        ..row("write", "table_throughput_exceeded", Some(1))
    },
    // The only place is held meanwhile. Protocols that do not report the end of the work take none,
    // so nothing is missing to them; TG.CHECK takes one with RELEASE.
    Row {
        admitted: 0,
        status: 503,
        limit: "in_flight",
        without: &["authorize", "rls", "tower"],
        words: &[("resource", "app")],
        ..row("any", "overload_shed", Some(1_000))
    },
];

/// Where decisions are observed: in logs, metrics and lists.
const PROTOCOLS: [&str; 5] = ["http", "authorize", "rls", "resp", "proxy"];
/// The same decisions in process.
const IN_PROCESS: [&str; 2] = ["library", "tower"];

const NAMESPACES: &str = "
namespaces:
  api:
    limits:
      - { name: rate, key: [user], match: { kind: rate }, rate: 2/m }
      - { name: quota, key: [user], match: { kind: quota }, fixed: { limit: 2, window: 24h } }
      - { name: blocked, key: [user], match: { kind: blocked }, rate: 2/m }
      - { name: required, key: [user], match: { kind: required }, rate: 2/m, missing: refuse }
      - { name: parallel, key: [user], match: { kind: parallel }, concurrency: { limit: 1, hold: 30s } }
    tables: [{ name: orders, partition_by: hash, provisioned: { read: 2, write: 2 }, mode: static, partitions: { min: 1 } }]
resources: { app: { concurrency: 1 } }
";

/// The parts of a refusal in an answer, as far as its protocol has room for them.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    reason: String,
    limit: String,
    remaining: u64,
    retry_ms: Option<u64>,
}

struct Daemon {
    handle: Handle,
    clock: Arc<ManualClock>,
    folder: TemporaryFolder,
    log: Written,
    _guard: tracing::subscriber::DefaultGuard,
    /// Lines of the decision log that were read.
    lines: usize,
}

impl Daemon {
    async fn start(more: &str) -> Self {
        let folder = TemporaryFolder::new();
        let (log, guard) = listen("tidegate::refusal=info");
        let (server, _) = well().await;
        let path = folder.path().display();
        let text = format!(
            "store: {{ kind: memory }}
log: {{ decisions: {{ path: {path}/decisions.jsonl }} }}
listen: {{ http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
proxy:
  upstreams: {{ app: [\"http://{server}\"] }}
  routes:
    - {{ upstream: app, namespace: api, attributes: {{ user: header.x-user, kind: header.x-kind }} }}
{more}{NAMESPACES}"
        );
        let checked = tidegate_policy::parse_bytes("policy.yaml", text.as_bytes(), &|_| None);
        let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.bounds.drain_grace = Duration::ZERO;
        let clock = Arc::new(ManualClock::new(START));
        let handle = from_policy::serve_on(&policy, text.as_bytes(), config, Arc::clone(&clock) as _);
        let handle = handle.await.unwrap();
        Self { handle, clock, folder, log, _guard: guard, lines: 0 }
    }

    async fn client(&self) -> Client {
        Client::connect(self.handle.http().unwrap().tcp().unwrap()).await
    }

    async fn post(&self, path: &str, body: &str) -> Answer {
        self.client().await.post(path, body).await
    }

    async fn envoy(&self, domain: &str, descriptors: &[RateLimitDescriptor], hits: u64) -> RateLimitResponse {
        let mut envoy = Envoy::at(self.handle.grpc().unwrap().tcp().unwrap()).await;
        let mut request = request(domain, descriptors);
        request.hits_addend = u32::try_from(hits).unwrap();
        envoy.call(request).await.unwrap()
    }

    /// Takes the place of a resource; the permit that returns it.
    async fn hold(&mut self, resource: &str) -> String {
        let body = json!({"namespace": "api", "resource": resource}).to_string();
        let answer = self.post("/v1/check", &body).await;
        self.decision_lines(1).await;
        answer.json()["permit"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
    }

    /// Sends one request; what is said if it is refused with this status.
    async fn ask(&self, protocol: &str, asked: &Asked<'_>, cost: u64, status: u16) -> Option<Said> {
        // Protocols without members of ours for them have words among the attributes.
        let attributes = [&asked.attributes[..], asked.words].concat();
        match protocol {
            "http" => {
                said_in_body(&self.post("/v1/check", &asked.body("api", cost).to_string()).await, status)
            }
            "authorize" => {
                let query: Vec<String> =
                    attributes.iter().map(|(name, value)| format!("&{name}={value}")).collect();
                let query = query.concat();
                let url = format!("/v1/authorize?namespace=api&cost={cost}{query}");
                said_in_headers(&self.client().await.get(&url).await, status)
            }
            "rls" => said_to_envoy(&self.envoy("api", &[descriptor(&attributes)], cost).await),
            "resp" => {
                let address = self.handle.resp().unwrap().tcp().unwrap();
                let mut client = resp::Client::over(TcpStream::connect(address).await.unwrap());
                let words: Vec<String> =
                    attributes.iter().map(|(name, value)| format!(" {name} {value}")).collect();
                let words = words.concat();
                let release = if asked.word("resource").is_some() { " RELEASE" } else { "" };
                said_to_redis(&client.ask(&format!("TG.CHECK api COST {cost}{release}{words}")).await)
            }
            _ => {
                let mut client = Client::connect(self.handle.proxy().unwrap().tcp().unwrap()).await;
                let headers: Vec<String> =
                    attributes.iter().map(|(name, value)| format!("x-{name}: {value}\r\n")).collect();
                let headers = headers.concat();
                client.send(format!("GET / HTTP/1.1\r\nhost: t\r\n{headers}\r\n")).await;
                said_in_body(&client.answer().await.unwrap(), status)
            }
        }
    }

    /// The value of a series; 0 if it is not on the page.
    async fn decisions(&self, labels: &str) -> u64 {
        let page = self.client().await.get("/metrics").await.body;
        let series = format!("tidegate_decisions_total{{{labels}}} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&series));
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// The next lines of the decision log.
    async fn decision_lines(&mut self, count: usize) -> Vec<Value> {
        let (path, read) = (self.folder.path().join("decisions.jsonl"), self.lines);
        let lines = eventually_some("the lines of the decision log", async || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            // The last line may not be whole yet.
            let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let lines: Vec<&str> = whole.skip(read).take(count).collect();
            let parse = |line: &&str| -> Value { serde_json::from_str(line).unwrap() };
            (lines.len() == count).then(|| lines.iter().map(parse).collect::<Vec<_>>())
        })
        .await;
        self.lines += count;
        lines
    }

    /// Everything but the answer says the same of the last refusal.
    async fn is_observed(&mut self, of: &Observed<'_>, admitted: u64, label: &str) {
        let Observed { namespace, protocol, said, key } = of;
        let base = format!(r#"namespace="{namespace}",limit="{}""#, said.limit);
        let refused = format!(r#"{base},decision="refuse",reason="{}",protocol="{protocol}""#, said.reason);
        assert_eq!(self.decisions(&refused).await, 1, "{label}");
        let lines = self.decision_lines(usize::try_from(admitted).unwrap() + 1).await;
        for line in &lines[..lines.len() - 1] {
            assert_eq!(
                (&line["decision"], &line["limit"]),
                (&json!("admit"), &json!(said.limit)),
                "{label}: {line}"
            );
        }
        let log = self.log.lines().pop().unwrap();
        let log = &log["fields"];
        for line in [lines.last().unwrap(), log] {
            let found = (&line["namespace"], &line["limit"], &line["reason"], &line["protocol"]);
            let expected = (&json!(namespace), &json!(said.limit), &json!(said.reason), &json!(protocol));
            assert_eq!(found, expected, "{label}: {line}");
            assert_eq!(line["remaining"], said.remaining, "{label}: {line}");
            assert_eq!(line["retry_after_ms"].as_u64(), said.retry_ms, "{label}: {line}");
        }
        assert_eq!((&log["key"], &log["message"]), (&json!(key), &json!("refused")), "{label}: {log}");
        let top = self.client().await.get("/v1/keys/top").await.json();
        let keys = top["keys"].as_array().unwrap();
        let is_this = |one: &&Value| one["limit"] == said.limit && one["key"] == *key;
        assert!(
            keys.iter().find(is_this).is_some_and(|one| one["namespace"] == *namespace),
            "{label}: {top}"
        );
    }

    /// The metrics and logs show the last refusal, by a plane beside the limits.
    async fn is_observed_beside_limits(&mut self, protocol: &str, said: &Said, admitted: u64, label: &str) {
        // A table is no limit and no mechanism.
        let limit = if said.reason == "overload_shed" { said.limit.as_str() } else { "" };
        let refused = format!(
            r#"namespace="api",limit="{limit}",decision="refuse",reason="{}",protocol="{protocol}""#,
            said.reason
        );
        assert_eq!(self.decisions(&refused).await, 1, "{label}");
        let lines = self.decision_lines(usize::try_from(admitted).unwrap() + 1).await;
        let log = self.log.lines().pop().unwrap();
        for line in [lines.last().unwrap(), &log["fields"]] {
            let found = (&line["namespace"], &line["limit"], &line["reason"], &line["protocol"]);
            let expected = (&json!("api"), &json!(said.limit), &json!(said.reason), &json!(protocol));
            assert_eq!(found, expected, "{label}: {line}");
            let logged = Said { retry_ms: line["retry_after_ms"].as_u64(), ..said.clone() };
            assert_eq!(unscattered(&logged, false), said.retry_ms, "{label}: {line}");
        }
    }

    async fn is_explained(&self, namespace: &str, asked: &Asked<'_>, cost: u64, said: &Said) {
        let body = asked.body(namespace, cost);
        let explained = self.post("/v1/explain", &body.to_string()).await.json();
        assert_eq!(explained["would"], "refuse", "{explained}");
        if !asked.words.is_empty() {
            let plane = &explained["planes"][0];
            assert_eq!((&plane["name"], &plane["reason"]), (&json!(said.limit), &json!(said.reason)));
            return;
        }
        let limits = explained["limits"].as_array().unwrap();
        let limit = limits.iter().find(|limit| limit["name"] == said.limit).unwrap();
        assert_eq!(limit["reason"], said.reason, "{explained}");
        if let Some(level) = limit["counter"].get("level") {
            let expected = if said.reason == "cost_exceeds_limit" { 2 } else { 0 };
            assert_eq!(level["remaining"], expected, "{explained}");
        }
    }
}

fn answer_of(parts: &http::response::Parts, body: String) -> Answer {
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    Answer { status: parts.status.as_u16(), headers: headers.collect(), body }
}

/// A request, as a row describes it.
struct Asked<'a> {
    attributes: Vec<(&'a str, &'a str)>,
    words: &'a [(&'a str, &'a str)],
}

impl<'a> Asked<'a> {
    fn word(&self, name: &str) -> Option<&'a str> {
        self.words.iter().find(|(word, _)| *word == name).map(|(_, value)| *value)
    }

    /// The body of a check.
    fn body(&self, namespace: &str, cost: u64) -> Value {
        let attributes: Value = self.attributes.iter().map(|(name, value)| (*name, *value)).collect();
        let mut body = json!({"namespace": namespace, "attributes": attributes, "cost": cost});
        if let Some(resource) = self.word("resource") {
            body["resource"] = json!(resource);
        }
        if let Some(table) = self.word("table") {
            body["access"] = json!({"table": table, "key": self.word("key"), "kind": self.word("kind")});
        }
        body
    }
}

/// The engine of the same policy in process.
struct InProcess {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    layer: AdmitLayer,
}

impl InProcess {
    fn new() -> Self {
        let checked = tidegate_policy::parse_bytes("policy.yaml", NAMESPACES.as_bytes(), &|_| None);
        let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let engine = Arc::new(from_policy::engine(&policy, [1, 2, 3, 4], START).unwrap());
        let clock = Arc::new(ManualClock::new(START));
        let layer = AdmitLayer::new(Arc::clone(&engine), "api")
            .unwrap()
            .attribute("kind", extract::header("x-kind"))
            .attribute("user", extract::header("x-user"))
            .cost(|head| {
                let cost = head.headers.get("x-cost").and_then(|cost| cost.to_str().ok()?.parse().ok());
                Cost::new(cost.unwrap_or(1)).unwrap()
            })
            .clock(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { engine, clock, layer }
    }

    fn block(&self, asked: &Asked<'_>, until: Timestamp) {
        let request = Request::new("api", &asked.attributes[..]);
        let block = self.engine.block(&request, "blocked", until, self.clock.now());
        assert!(matches!(block, Ok(Progress::Done(()))), "{block:?}");
    }

    /// Asks once; an admitted request of the library keeps what it holds if `held` is there.
    async fn ask(
        &self,
        way: &str,
        asked: &Asked<'_>,
        cost: u64,
        status: u16,
        held: &mut Vec<Permit>,
    ) -> Option<Said> {
        if way == "tower" {
            let mut request = http::Request::builder().header("x-cost", cost);
            for (name, value) in &asked.attributes {
                request = request.header(format!("x-{name}"), *value);
            }
            let service = service_fn(|_: http::Request<()>| async {
                Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::new())))
            });
            let service = self.layer.clone().layer(service);
            let answer = service.oneshot(request.body(()).unwrap()).await.unwrap();
            let (parts, body) = answer.into_parts();
            let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
            return said_in_body(&answer_of(&parts, body), status);
        }
        let mut request = Request::new("api", &asked.attributes[..]).cost(Cost::new(cost).unwrap());
        if let Some(resource) = asked.word("resource") {
            request = request.resource(resource);
        }
        if let Some(table) = asked.word("table") {
            request = request.access(Access::write(table, asked.word("key").unwrap().as_bytes(), 1));
        }
        let now = self.clock.now();
        match self.engine.admit(&request, now).unwrap() {
            Step::Decided(Decision::Admit(permit)) => {
                held.push(permit);
                None
            }
            Step::Decided(Decision::Refuse(refused)) => {
                let refusal = refused.into_refusal();
                Some(Said {
                    reason: refusal.reason().as_str().to_owned(),
                    limit: refusal.name().to_owned(),
                    remaining: refusal.remaining(),
                    retry_ms: tidegate_wire::retry_after::millis_of(&refusal.view(), now),
                })
            }
            Step::Ask(pending) => panic!("nothing is asked in process: {pending:?}"),
        }
    }
}

/// The traces that a refusal must leave.
struct Observed<'a> {
    namespace: &'a str,
    protocol: &'a str,
    said: &'a Said,
    key: &'a str,
}

fn said_in_body(answer: &Answer, status: u16) -> Option<Said> {
    if answer.status == 200 {
        return None;
    }
    assert_eq!(answer.status, status, "{answer:?}");
    let body = answer.json();
    let said = Said {
        reason: body["reason"].as_str().unwrap().to_owned(),
        limit: body["limit"].as_str().unwrap().to_owned(),
        remaining: body["remaining"].as_u64().unwrap(),
        retry_ms: body["retry_after_ms"].as_u64(),
    };
    let seconds = said.retry_ms.map(|ms| ms.div_ceil(1000).to_string());
    assert_eq!(answer.header("retry-after"), seconds.as_deref(), "{answer:?}");
    assert_eq!(answer.header("x-tidegate-reason"), Some(said.reason.as_str()));
    Some(said)
}

fn said_in_headers(answer: &Answer, status: u16) -> Option<Said> {
    if answer.status == 200 {
        return None;
    }
    assert_eq!((answer.status, answer.body.as_str()), (status, ""), "{answer:?}");
    // A request without an attribute has no counter.
    let remaining = answer.header("ratelimit").map_or("0", |field| {
        let left = field.split(';').find_map(|part| part.strip_prefix("r="));
        left.unwrap()
    });
    Some(Said {
        reason: answer.header("x-tidegate-reason").unwrap().to_owned(),
        limit: answer.header("x-tidegate-limit").unwrap().to_owned(),
        remaining: remaining.parse().unwrap(),
        // In whole seconds.
        retry_ms: answer.header("retry-after").map(|seconds| seconds.parse::<u64>().unwrap() * 1000),
    })
}

fn said_to_envoy(answer: &RateLimitResponse) -> Option<Said> {
    use prost_types::value::Kind;

    let metadata = answer.dynamic_metadata.as_ref()?;
    let text = |name: &str| match &metadata.fields.get(name)?.kind {
        Some(Kind::StringValue(text)) => Some(text.clone()),
        _ => None,
    };
    let number = |name: &str| match &metadata.fields.get(name)?.kind {
        Some(Kind::NumberValue(number)) => format!("{number:.0}").parse().ok(),
        _ => None,
    };
    Some(Said {
        reason: text("reason")?,
        limit: text("limit")?,
        remaining: answer.statuses[0].limit_remaining.into(),
        retry_ms: number("retry_after_ms"),
    })
}

fn said_to_redis(answer: &str) -> Option<Said> {
    let words: Vec<&str> = answer.trim_matches(['[', ']']).split(", ").collect();
    let of = |name: &str| words.iter().position(|word| *word == name).map(|at| words[at + 1]);
    Some(Said {
        reason: of("reason")?.to_owned(),
        limit: of("limit")?.to_owned(),
        remaining: of("remaining")?.parse().unwrap(),
        retry_ms: of("retry_after_ms")?.parse().ok(),
    })
}

/// The wait before a retry without the part that scatters callers, which is at most half of the
/// hint of a resource; in whole seconds this is one more.
fn unscattered(said: &Said, in_seconds: bool) -> Option<u64> {
    let longest = if in_seconds { 2000 } else { 1500 };
    let is_hint = said.reason == "overload_shed";
    said.retry_ms.map(|ms| if is_hint && (1000..=longest).contains(&ms) { 1000 } else { ms })
}

#[tokio::test]
async fn every_protocol_says_the_same_of_every_refusal_and_so_does_everything_that_observes_it() {
    let mut daemon = Daemon::start("").await;
    for (at, row) in TABLE.iter().enumerate() {
        for protocol in PROTOCOLS.into_iter().filter(|protocol| !row.without.contains(protocol)) {
            let label = format!("{} over {protocol}", row.reason);
            let user = format!("{protocol}-{at}");
            let mut asked = Asked { attributes: vec![("kind", row.kind)], words: row.words };
            if row.has_user {
                asked.attributes.push(("user", &user));
            }
            if row.words.iter().any(|(word, _)| *word == "kind") {
                // The word decides the kind of the access.
                asked.attributes.remove(0);
            }
            if row.reason == "blocked" {
                let body = json!({
                    "namespace": "api", "limit": "blocked", "for_ms": 60_000,
                    "attributes": {"kind": "blocked", "user": user},
                });
                assert_eq!(daemon.post("/v1/block", &body.to_string()).await.status, 200);
            }
            let holder = match row.words {
                [("resource", resource)] => Some(daemon.hold(resource).await),
                _ => None,
            };
            for _ in 0..row.admitted {
                assert_eq!(daemon.ask(protocol, &asked, 1, 0).await, None, "{label}");
            }
            let said = daemon.ask(protocol, &asked, row.cost, row.status).await.expect(&label);
            let remaining = if row.reason == "cost_exceeds_limit" { 2 } else { 0 };
            assert_eq!(said.remaining, remaining, "{label}");
            let in_seconds = row.retry_ms.map(|ms| ms.div_ceil(1000) * 1000);
            let expected = if protocol == "authorize" { in_seconds } else { row.retry_ms };
            assert_eq!(unscattered(&said, protocol == "authorize"), expected, "{label}");
            assert_eq!((said.reason.as_str(), said.limit.as_str()), (row.reason, row.limit), "{label}");
            let said = Said { remaining, retry_ms: row.retry_ms, ..said };
            if !row.words.is_empty() {
                daemon.is_observed_beside_limits(protocol, &said, row.admitted, &label).await;
                daemon.is_explained("api", &asked, row.cost, &said).await;
                if let Some(permit) = holder {
                    let body = json!({"permit": permit}).to_string();
                    assert_eq!(daemon.post("/v1/release", &body).await.status, 200, "{label}");
                }
                if row.limit == "orders" {
                    // The next protocol finds the table full again.
                    daemon.clock.advance(Duration::from_secs(10));
                }
                continue;
            }
            let key = if row.has_user { format!("user={user}") } else { String::new() };
            let observed = Observed { namespace: "api", protocol, said: &said, key: &key };
            daemon.is_observed(&observed, row.admitted, &label).await;
            daemon.is_explained("api", &asked, row.cost, &said).await;
        }
    }
}

#[tokio::test]
async fn the_library_and_a_layer_of_tower_decide_as_the_protocols_do() {
    let process = InProcess::new();
    for (at, row) in TABLE.iter().enumerate() {
        for way in IN_PROCESS.into_iter().filter(|way| !row.without.contains(way)) {
            let label = format!("{} by {way}", row.reason);
            let user = format!("{way}-{at}");
            let mut asked = Asked { attributes: vec![("kind", row.kind)], words: row.words };
            if row.has_user {
                asked.attributes.push(("user", &user));
            }
            if row.reason == "blocked" {
                process.block(&asked, START.saturating_add(Duration::from_mins(1)));
            }
            let mut held = Vec::new();
            // A layer returns what was lent when the answer has ended, so the library holds it.
            let holder = if row.reason == "concurrency_exceeded" { "library" } else { way };
            for _ in 0..row.admitted {
                assert_eq!(process.ask(holder, &asked, 1, 0, &mut held).await, None, "{label}");
            }
            if row.words.iter().any(|(word, _)| *word == "resource") {
                assert_eq!(process.ask("library", &asked, 1, 0, &mut held).await, None, "{label}");
            }
            let said = process.ask(way, &asked, row.cost, row.status, &mut held).await.expect(&label);
            let said = Said { retry_ms: unscattered(&said, false), ..said };
            let remaining = if row.reason == "cost_exceeds_limit" { 2 } else { 0 };
            let expected = Said {
                reason: row.reason.to_owned(),
                limit: row.limit.to_owned(),
                remaining,
                retry_ms: row.retry_ms,
            };
            assert_eq!(said, expected, "{label}");
            for permit in held {
                drop(process.engine.settle(permit, Outcome::Succeeded, process.clock.now()));
            }
        }
    }
}

#[tokio::test]
async fn limits_of_redis_clients_are_observed_as_those_of_a_policy() {
    let mut daemon = Daemon::start("").await;
    let address = daemon.handle.resp().unwrap().tcp().unwrap();
    let mut client = resp::Client::over(TcpStream::connect(address).await.unwrap());
    for _ in 0..2 {
        assert!(client.ask("CL.THROTTLE ada 1 2 60").await.starts_with("[0, 2, "));
    }
    assert_eq!(client.ask("CL.THROTTLE ada 1 2 60").await, "[1, 2, 0, 30, 60]");
    let said = Said {
        reason: "rate_exceeded".to_owned(),
        limit: "CL.THROTTLE".to_owned(),
        remaining: 0,
        retry_ms: Some(30_000),
    };
    let observed = Observed { namespace: "resp", protocol: "resp", said: &said, key: "key=ada" };
    assert_eq!(
        daemon
            .decisions(r#"namespace="resp",limit="CL.THROTTLE",decision="admit",reason="",protocol="resp""#)
            .await,
        2
    );
    // Admissions by such a limit have no limit in their lines.
    daemon.lines += 2;
    daemon.is_observed(&observed, 0, "CL.THROTTLE").await;
}

#[tokio::test]
async fn a_domain_of_files_is_observed_over_all_its_protocols_as_a_namespace() {
    const RULE: &str = "shop.kind_rate.user";
    let files = TemporaryFolder::new();
    let file = "
domain: shop
descriptors:
  - key: kind
    value: rate
    descriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 2 } }]
";
    std::fs::write(files.path().join("shop.yaml"), file).unwrap();
    let more = format!("envoy_ratelimit: {{ path: {} }}\n", files.path().display());
    let mut daemon = Daemon::start(&more).await;
    for (protocol, way) in [("rls", "grpc"), ("rls", "json"), ("http", "check"), ("authorize", "authorize")] {
        let user = format!("{way}-user");
        let attributes = [("kind", "rate"), ("user", user.as_str())];
        let entries = [("kind", "rate"), ("user", user.as_str())];
        let mut refused = None;
        for _ in 0..3 {
            refused = match way {
                "grpc" => {
                    let answer = daemon.envoy("shop", &[descriptor(&entries)], 1).await;
                    Some(answer.overall_code == 2)
                }
                "json" => {
                    let entries: Vec<Value> =
                        entries.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
                    let body = json!({"domain": "shop", "descriptors": [{"entries": entries}]});
                    Some(daemon.post("/json", &body.to_string()).await.status == 429)
                }
                "check" => {
                    let body = json!({"namespace": "shop", "attributes": {"kind": "rate", "user": user}});
                    let answer = daemon.post("/v1/check", &body.to_string()).await;
                    let said = said_in_body(&answer, 429);
                    Some(said.is_some_and(|said| said.limit == RULE && said.retry_ms == Some(60_000)))
                }
                _ => {
                    let url = format!("/v1/authorize?namespace=shop&kind=rate&user={user}");
                    let said = said_in_headers(&daemon.client().await.get(&url).await, 429);
                    Some(said.is_some_and(|said| said.limit == RULE && said.retry_ms == Some(60_000)))
                }
            };
        }
        assert_eq!(refused, Some(true), "{way}");
        let said = Said {
            reason: "rate_exceeded".to_owned(),
            limit: RULE.to_owned(),
            remaining: 0,
            retry_ms: Some(60_000),
        };
        let key = format!("kind=rate, user={user}");
        let observed = Observed { namespace: "shop", protocol, said: &said, key: &key };
        if way == "json" {
            // It shares its series with gRPC.
            let labels = format!(
                r#"namespace="shop",limit="{RULE}",decision="refuse",reason="rate_exceeded",protocol="rls""#
            );
            assert_eq!(daemon.decisions(&labels).await, 2);
            daemon.lines += 3;
        } else {
            daemon.is_observed(&observed, 2, way).await;
        }
        let asked = Asked { attributes: attributes.to_vec(), words: &[] };
        daemon.is_explained("shop", &asked, 1, &said).await;
    }
}
