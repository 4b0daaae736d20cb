//! One table of decisions over every protocol, with everything that is said of each: the answer,
//! the retry time, the refusal log, the decision log, the metrics, the most refused keys, and
//! `explain`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_server::{Handle, ManualClock, from_policy};
use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitResponse};
use tokio::net::TcpStream;

use crate::client::{Answer, Client};
use crate::grpc::{Envoy, descriptor, request};
use crate::proxy::log::{Written, listen};
use crate::proxy::upstream::well;
use crate::resp;
use crate::restartable_daemon::Folder;
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
}

const fn row(kind: &'static str, reason: &'static str, retry_ms: Option<u64>) -> Row {
    let (status, without) = (429, &[] as &[&str]);
    Row { kind, has_user: true, admitted: 2, cost: 1, limit: kind, reason, status, retry_ms, without }
}

const TABLE: [Row; 6] = [
    row("rate", "rate_exceeded", Some(30_000)),
    row("quota", "quota_exceeded", Some(3_600_000)),
    Row { admitted: 0, ..row("blocked", "blocked", Some(60_000)) },
    Row { admitted: 0, has_user: false, status: 400, ..row("required", "attribute_missing", None) },
    Row { admitted: 0, cost: 3, without: &["proxy"], ..row("rate", "cost_exceeds_limit", None) },
    // Envoy and the proxy give a permit back when the request ends.
    Row { admitted: 1, without: &["rls", "proxy"], ..row("parallel", "concurrency_exceeded", Some(10)) },
];

const PROTOCOLS: [&str; 5] = ["http", "authorize", "rls", "resp", "proxy"];

const NAMESPACES: &str = "
namespaces:
  api:
    limits:
      - { name: rate, key: [user], match: { kind: rate }, rate: 2/m }
      - { name: quota, key: [user], match: { kind: quota }, fixed: { limit: 2, window: 24h } }
      - { name: blocked, key: [user], match: { kind: blocked }, rate: 2/m }
      - { name: required, key: [user], match: { kind: required }, rate: 2/m, missing: refuse }
      - { name: parallel, key: [user], match: { kind: parallel }, concurrency: { limit: 1, hold: 30s } }
";

/// The parts of a refusal in an answer, as far as its protocol has room for them.
#[derive(Debug, PartialEq)]
struct Said {
    reason: String,
    limit: String,
    remaining: u64,
    retry_ms: Option<u64>,
}

struct Daemon {
    handle: Handle,
    folder: Folder,
    log: Written,
    _guard: tracing::subscriber::DefaultGuard,
    /// Lines of the decision log that were read.
    lines: usize,
}

impl Daemon {
    async fn start(more: &str) -> Self {
        let folder = Folder::new();
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
        let handle = from_policy::serve_on(&policy, text.as_bytes(), config, clock).await.unwrap();
        Self { handle, folder, log, _guard: guard, lines: 0 }
    }

    async fn client(&self) -> Client {
        Client::connect(self.handle.http()[0].tcp().unwrap()).await
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

    /// Sends one request; what is said if it is refused with this status.
    async fn ask(&self, protocol: &str, attributes: &[(&str, &str)], cost: u64, status: u16) -> Option<Said> {
        match protocol {
            "http" => {
                let attributes: Value = attributes.iter().map(|(name, value)| (*name, *value)).collect();
                let body = json!({"namespace": "api", "attributes": attributes, "cost": cost});
                said_in_body(&self.post("/v1/check", &body.to_string()).await, status)
            }
            "authorize" => {
                let query: Vec<String> =
                    attributes.iter().map(|(name, value)| format!("&{name}={value}")).collect();
                let query = query.concat();
                let url = format!("/v1/authorize?namespace=api&cost={cost}{query}");
                said_in_headers(&self.client().await.get(&url).await, status)
            }
            "rls" => said_to_envoy(&self.envoy("api", &[descriptor(attributes)], cost).await),
            "resp" => {
                let address = self.handle.resp().unwrap().tcp().unwrap();
                let mut client = resp::Client::over(TcpStream::connect(address).await.unwrap());
                let words: Vec<String> =
                    attributes.iter().map(|(name, value)| format!(" {name} {value}")).collect();
                let words = words.concat();
                said_to_redis(&client.ask(&format!("TG.CHECK api COST {cost}{words}")).await)
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
        let path = self.folder.path().join("decisions.jsonl");
        for _ in 0..2000 {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().skip(self.lines).collect();
            if lines.len() >= count {
                self.lines += count;
                return lines[..count].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{count} lines of the decision log are missing");
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

    async fn is_explained(&self, namespace: &str, attributes: &[(&str, &str)], cost: u64, said: &Said) {
        let attributes: Value = attributes.iter().map(|(name, value)| (*name, *value)).collect();
        let body = json!({"namespace": namespace, "attributes": attributes, "cost": cost});
        let explained = self.post("/v1/explain", &body.to_string()).await.json();
        assert_eq!(explained["would"], "refuse", "{explained}");
        let limits = explained["limits"].as_array().unwrap();
        let limit = limits.iter().find(|limit| limit["name"] == said.limit).unwrap();
        assert_eq!(limit["reason"], said.reason, "{explained}");
        if let Some(level) = limit["counter"].get("level") {
            let expected = if said.reason == "cost_exceeds_limit" { 2 } else { 0 };
            assert_eq!(level["remaining"], expected, "{explained}");
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

#[tokio::test]
async fn every_protocol_says_the_same_of_every_refusal_and_so_does_everything_that_observes_it() {
    let mut daemon = Daemon::start("").await;
    for (at, row) in TABLE.iter().enumerate() {
        for protocol in PROTOCOLS.into_iter().filter(|protocol| !row.without.contains(protocol)) {
            let label = format!("{} over {protocol}", row.reason);
            let user = format!("{protocol}-{at}");
            let mut attributes = vec![("kind", row.kind)];
            if row.has_user {
                attributes.push(("user", &user));
            }
            if row.reason == "blocked" {
                let body = json!({
                    "namespace": "api", "limit": "blocked", "for_ms": 60_000,
                    "attributes": {"kind": "blocked", "user": user},
                });
                assert_eq!(daemon.post("/v1/block", &body.to_string()).await.status, 200);
            }
            for _ in 0..row.admitted {
                assert_eq!(daemon.ask(protocol, &attributes, 1, 0).await, None, "{label}");
            }
            let said = daemon.ask(protocol, &attributes, row.cost, row.status).await.expect(&label);
            let remaining = if row.reason == "cost_exceeds_limit" { 2 } else { 0 };
            assert_eq!(said.remaining, remaining, "{label}");
            let in_seconds = row.retry_ms.map(|ms| ms.div_ceil(1000) * 1000);
            assert_eq!(
                said.retry_ms,
                if protocol == "authorize" { in_seconds } else { row.retry_ms },
                "{label}"
            );
            assert_eq!((said.reason.as_str(), said.limit.as_str()), (row.reason, row.limit), "{label}");
            let said = Said { remaining, retry_ms: row.retry_ms, ..said };
            let key = if row.has_user { format!("user={user}") } else { String::new() };
            let observed = Observed { namespace: "api", protocol, said: &said, key: &key };
            daemon.is_observed(&observed, row.admitted, &label).await;
            daemon.is_explained("api", &attributes, row.cost, &said).await;
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
    let files = Folder::new();
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
        daemon.is_explained("shop", &attributes, 1, &said).await;
    }
}
