//! Tables and resources of a policy through every protocol, over reloads, and what operators see
//! of them.

mod histories;
mod loads;
mod shares;
mod streams;
mod tables;
mod unsettled_places;
mod waiting_memory;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_server::policy_file::PolicyFile;
use tidegate_server::{Handle, ManualClock, from_policy};
use tidegate_test_support::{TemporaryFolder, eventually, eventually_some};
use tidegate_wire::envoy::RateLimitUnit;
use tokio::net::TcpStream;

use crate::authorization::{CHECKOUT, OPS, bearer, request as send};
use crate::client::{Answer, Client, post};
use crate::grpc::{Envoy, descriptor, request, under};
use crate::proxy::upstream::{answering, well};
use crate::resp;
use crate::world::START;

const SHOP: &str = "
nodes: [{ name: n1, units: 100 }, { name: n2, units: 100 }]
namespaces:
  shop:
    limits: []
    tables:
      - { name: orders, partition_by: hash, provisioned: { read: 4, write: 4 }, mode: static, partitions: { min: 2 } }
  blog:
    limits: [{ name: per-user, key: [user], rate: 5/s }]
resources:
  app: { concurrency: 2, status: 529 }
  other: { concurrency: 1 }
";

struct Daemon {
    handle: Handle,
    clock: Arc<ManualClock>,
    folder: TemporaryFolder,
}

impl Daemon {
    async fn start(policy: &str) -> Self {
        let (server, _) = well().await;
        let head = format!(
            "store: {{ kind: memory }}
memory: {{ keys: 1MiB }}
listen: {{ http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
proxy:
  upstreams: {{ app: [\"http://{server}\"] }}
  routes: [{{ upstream: app, namespace: blog, attributes: {{ user: header.x-user }} }}]
"
        );
        Self::headed(head, policy).await
    }

    /// A daemon of this policy, whose first part stays over reloads.
    async fn headed(head: String, policy: &str) -> Self {
        let folder = TemporaryFolder::new();
        std::fs::write(folder.path().join("head"), &head).unwrap();
        std::fs::write(folder.path().join("policy.yaml"), head + policy).unwrap();
        let (file, text) = PolicyFile::open(folder.path().join("policy.yaml")).unwrap();
        let checked = tidegate_policy::parse_bytes("policy.yaml", &text, &|_| None);
        let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.bounds.drain_grace = Duration::ZERO;
        let clock = Arc::new(ManualClock::new(START));
        let mut handle =
            from_policy::serve_on(&policy, &text, config, Arc::clone(&clock) as _).await.unwrap();
        handle.follow(file, policy);
        Self { handle, clock, folder }
    }

    /// Has it take over another policy; the problems, if there are any.
    async fn reload(&self, policy: &str) -> Option<String> {
        let version = |answer: &Value| answer["policy"]["version"].clone();
        let before = self.get("/v1/limits").await.json();
        let head = std::fs::read_to_string(self.folder.path().join("head")).unwrap();
        std::fs::write(self.folder.path().join("new"), head + policy).unwrap();
        std::fs::rename(self.folder.path().join("new"), self.folder.path().join("policy.yaml")).unwrap();
        eventually_some("the policy is taken over or rejected", async || {
            self.handle.reload();
            let now = self.get("/v1/limits").await.json();
            if version(&now) != version(&before) {
                return Some(None);
            }
            let problems = now["policy"]["last_error"]["problems"].as_str();
            problems.map(|problems| Some(problems.to_owned()))
        })
        .await
    }

    async fn client(&self) -> Client {
        Client::connect(self.handle.http().unwrap().tcp().unwrap()).await
    }

    async fn get(&self, target: &str) -> Answer {
        self.client().await.get(target).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.client().await.post(path, &body.to_string()).await
    }

    /// The value of a series.
    async fn series(&self, series: &str) -> String {
        let page = self.get("/metrics").await.body;
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in {page}")).to_owned()
    }

    /// Asks with these words; `None` if it is admitted, otherwise the answer as text.
    async fn ask(&self, protocol: &str, words: &[(&str, &str)]) -> Option<String> {
        match protocol {
            "http" => {
                let get = |name: &str| words.iter().find(|(word, _)| *word == name).map(|(_, value)| *value);
                let mut body = json!({"namespace": get("namespace").unwrap_or("shop"), "attributes": {}});
                if let Some(resource) = get("resource") {
                    body["resource"] = json!(resource);
                }
                if let Some(table) = get("table") {
                    let (key, kind) = (get("key").unwrap_or(""), get("kind").unwrap_or("read"));
                    body["access"] = json!({"table": table, "key": key, "kind": kind});
                    if let Some(size) = get("size") {
                        body["access"]["size"] = json!(size.parse::<u64>().unwrap());
                    }
                }
                let answer = self.post("/v1/check", &body).await;
                (answer.status != 200).then(|| format!("{} {}", answer.status, answer.body))
            }
            "authorize" => {
                let words: Vec<String> =
                    words.iter().map(|(name, value)| format!("&{name}={value}")).collect();
                let namespace =
                    if words.iter().any(|word| word.starts_with("&namespace=")) { "" } else { "shop" };
                let namespace =
                    if namespace.is_empty() { String::new() } else { format!("namespace={namespace}") };
                let target = format!("/v1/authorize?{namespace}{}", words.concat());
                let answer = self.get(&target.replace("?&", "?")).await;
                (answer.status != 200).then(|| answer.shown())
            }
            "rls" => {
                let mut envoy = Envoy::at(self.handle.grpc().unwrap().tcp().unwrap()).await;
                match envoy.call(request("shop", &[descriptor(words)])).await {
                    Ok(answer) => (answer.overall_code != 1).then(|| format!("{answer:?}")),
                    Err(status) => Some(format!("{status:?}")),
                }
            }
            _ => {
                let address = self.handle.resp().unwrap().tcp().unwrap();
                let mut client = resp::Client::over(TcpStream::connect(address).await.unwrap());
                let words: Vec<String> =
                    words.iter().map(|(name, value)| format!(" {name} {value}")).collect();
                let release = if protocol == "resp release" { " RELEASE" } else { "" };
                let answer = client.ask(&format!("TG.CHECK shop{release}{}", words.concat())).await;
                (!answer.starts_with("[decision, admit")).then_some(answer)
            }
        }
    }
}

const PROTOCOLS: [&str; 4] = ["http", "authorize", "rls", "resp"];

const WRITE: [(&str, &str); 3] = [("table", "orders"), ("key", "order-7"), ("kind", "write")];

#[tokio::test]
async fn every_protocol_charges_a_table_and_names_the_partition_that_throttles() {
    let daemon = Daemon::start(SHOP).await;
    for protocol in PROTOCOLS {
        for _ in 0..2 {
            assert_eq!(daemon.ask(protocol, &WRITE).await, None, "{protocol}");
        }
        let refused = daemon.ask(protocol, &WRITE).await.expect(protocol);
        assert!(refused.contains("key_range_throughput_exceeded"), "{protocol}: {refused}");
        if protocol != "authorize" {
            assert!(refused.contains("partition ") && refused.contains(", write: key range"), "{refused}");
            for part in ["partition", "node", "key_range", "capacity"] {
                assert!(refused.contains(part), "{protocol}: no {part} in {refused}");
            }
        }
        assert_eq!(
            daemon.ask(protocol, &[("table", "orders"), ("key", "order-7")]).await,
            None,
            "reads have their own"
        );
        daemon.clock.advance(Duration::from_secs(10));
    }
    let throttled = r#"tidegate_capacity_throttled_total{namespace="shop",table="orders",operation="write"}"#;
    assert_eq!(daemon.series(throttled).await, "4");
    let rate = r#"tidegate_capacity_provisioned_units{namespace="shop",table="orders",operation="write"}"#;
    assert_eq!(daemon.series(rate).await, "4.0");
}

#[tokio::test]
async fn explain_says_which_plane_would_refuse_and_charges_nothing() {
    let daemon = Daemon::start(SHOP).await;
    let asked = json!({"namespace": "shop", "attributes": {}, "resource": "other",
        "access": {"table": "orders", "key": "order-7", "kind": "write"}});
    for _ in 0..3 {
        let explained = daemon.post("/v1/explain", &asked).await.json();
        assert_eq!(
            (&explained["would"], &explained["planes"]),
            (&json!("admit"), &Value::Null),
            "{explained}"
        );
    }
    let mut write = asked.clone();
    write.as_object_mut().unwrap().remove("resource");
    for _ in 0..2 {
        assert_eq!(daemon.post("/v1/check", &write).await.status, 200);
    }
    let explained = daemon.post("/v1/explain", &asked).await.json();
    let plane = &explained["planes"][0];
    assert_eq!((&explained["would"], &plane["plane"]), (&json!("refuse"), &json!("capacity")), "{explained}");
    assert_eq!(plane["capacity"]["table"], "orders", "{explained}");
    let held = json!({"namespace": "shop", "attributes": {}, "resource": "other"});
    assert_eq!(daemon.post("/v1/check", &held).await.status, 200);
    let explained = daemon.post("/v1/explain", &held).await.json();
    let plane = &explained["planes"][0];
    assert_eq!((&plane["plane"], &plane["overload"]["resource"]), (&json!("overload"), &json!("other")));
    let because = plane["because"].as_str().unwrap();
    assert!(because.starts_with("resource \"other\": the only place is taken"), "{because}");
}

#[tokio::test]
async fn a_resource_bounds_what_is_in_flight_until_permits_are_released_and_answers_with_its_status() {
    let daemon = Daemon::start(SHOP).await;
    let body = json!({"namespace": "shop", "attributes": {}, "resource": "app"});
    let mut permits = Vec::new();
    for _ in 0..2 {
        let answer = daemon.post("/v1/check", &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        permits.push(answer.json()["permit"].as_str().unwrap().to_owned());
    }
    let in_flight = r#"tidegate_resource_in_flight{resource="app"}"#;
    assert_eq!(daemon.series(in_flight).await, "2");
    let refused = daemon.post("/v1/check", &body).await;
    assert_eq!((refused.status, refused.json()["status"].as_u64()), (529, Some(529)), "{refused:?}");
    assert_eq!(refused.json()["plane"], "overload");
    assert_eq!(refused.json()["overload"]["resource"], "app", "{refused:?}");
    let refused = daemon.ask("resp release", &[("resource", "app")]).await.unwrap();
    assert!(refused.contains("overload_shed"), "{refused}");
    assert!(refused.contains("overload"), "{refused}");
    // Doors that do not report the end of the work take no place.
    for protocol in ["authorize", "rls", "resp"] {
        assert_eq!(daemon.ask(protocol, &[("resource", "app")]).await, None, "{protocol}");
    }
    // The upstream of the same name has the same places.
    let mut proxied = Client::connect(daemon.handle.proxy().unwrap().tcp().unwrap()).await;
    proxied.send("GET / HTTP/1.1\r\nhost: t\r\nx-user: ada\r\n\r\n").await;
    assert_eq!(proxied.answer().await.unwrap().status, 529);
    // Another resource has places of its own.
    let other = json!({"namespace": "shop", "attributes": {}, "resource": "other"});
    assert_eq!(daemon.post("/v1/check", &other).await.status, 200);
    let released = daemon.post("/v1/release", &json!({"permit": permits[0]})).await;
    assert_eq!(released.status, 200, "{released:?}");
    assert_eq!(daemon.series(in_flight).await, "1");
    // TG.CHECK with RELEASE answers with a permit, which keeps the place.
    assert_eq!(daemon.ask("resp release", &[("resource", "app")]).await, None);
    assert_eq!(daemon.series(in_flight).await, "2");
    assert_eq!(daemon.post("/v1/release", &json!({"permit": permits[1]})).await.status, 200);
    proxied.send("GET / HTTP/1.1\r\nhost: t\r\nx-user: ada\r\n\r\n").await;
    assert_eq!(proxied.answer().await.unwrap().status, 200);
    let offered: u64 =
        daemon.series(r#"tidegate_resource_offered_total{resource="app"}"#).await.parse().unwrap();
    let mut outcomes = 0;
    for outcome in [
        "admitted",
        "denied",
        "throttled",
        "shed",
        "deferred",
        "disabled",
        "expired",
        "unavailable",
        "failed",
        "cancelled",
    ] {
        let series = format!(r#"tidegate_resource_outcomes_total{{resource="app",outcome="{outcome}"}}"#);
        outcomes += daemon.series(&series).await.parse::<u64>().unwrap();
    }
    assert_eq!(offered, outcomes, "every offer has one outcome");
    assert!(offered >= 8, "{offered}");
    let shed = r#"tidegate_resource_outcomes_total{resource="app",outcome="shed"}"#;
    assert_eq!(daemon.series(shed).await, "3", "a request without a place was shed");
}

/// The header fields of an answer that speak of a quota.
fn quota_fields(answer: &Answer) -> Vec<&str> {
    answer.headers.iter().map(|(name, _)| name.as_str()).filter(|name| name.contains("ratelimit")).collect()
}

#[tokio::test]
async fn a_refusal_that_no_limit_made_shows_no_quota_at_any_door() {
    let daemon = Daemon::start(
        "
http: { legacy_headers: [rate_limit, x_rate_limit] }
namespaces:
  shop: { limits: [] }
  blog: { limits: [{ name: per-user, key: [user], rate: 5/s }] }
resources: { app: { concurrency: 1 } }
",
    )
    .await;
    let app = json!({"namespace": "shop", "resource": "app"});
    let critical = json!({"namespace": "shop", "resource": "app", "class": "critical"});
    assert_eq!(daemon.post("/v1/check", &app).await.status, 200);
    let names = |answer: &Answer, limit: &str, reason: &str| {
        assert_eq!(quota_fields(answer), [""; 0], "{answer:?}");
        assert_eq!(answer.header("x-tidegate-reason"), Some(reason), "{answer:?}");
        assert_eq!(answer.header("x-tidegate-limit"), Some(limit), "{answer:?}");
        assert_eq!(answer.header("retry-after").is_some(), reason == "overload_shed", "{answer:?}");
    };
    let reserve = json!({"namespace": "shop", "resource": "app", "expires_ms": 1000});
    for (path, body) in [("/v1/check", &app), ("/v1/reserve", &reserve)] {
        names(&daemon.post(path, body).await, "in_flight", "overload_shed");
    }
    // The page for people and the problem for programs.
    let address = daemon.handle.proxy().unwrap().tcp().unwrap();
    for accept in ["text/html", "application/json"] {
        let mut client = Client::connect(address).await;
        client.send(format!("GET / HTTP/1.1\r\nhost: t\r\nx-user: ada\r\naccept: {accept}\r\n\r\n")).await;
        names(&client.answer().await.unwrap(), "in_flight", "overload_shed");
    }
    let late = post("/v1/check", r#"{"namespace":"shop"}"#);
    let mut client = daemon.client().await;
    client.send(late.replace("\r\n\r\n", "\r\ntidegate-deadline-ms: 0\r\n\r\n")).await;
    names(&client.answer().await.unwrap(), "deadline", "deadline_unmeetable");
    // Gateways' requests take no place. They are shed once more important requests lack places.
    let gateway = "/v1/authorize?namespace=shop&resource=app";
    let mut shed = daemon.get(gateway).await;
    for _ in 0..600 {
        if shed.status != 200 {
            break;
        }
        daemon.clock.advance(Duration::from_millis(100));
        assert_eq!(daemon.post("/v1/check", &critical).await.status, 503);
        shed = daemon.get(gateway).await;
    }
    names(&shed, "admission_cursor", "overload_shed");
    let mut envoy = Envoy::at(daemon.handle.grpc().unwrap().tcp().unwrap()).await;
    let answer = envoy.call(request("shop", &[descriptor(&[("resource", "app")])])).await.unwrap();
    assert_eq!((answer.overall_code, &answer.statuses[0].current_limit), (2, &None), "{answer:?}");
    let headers = answer.response_headers_to_add.iter().map(|header| header.key.as_str());
    let expected = ["retry-after", "x-tidegate-reason", "x-tidegate-limit", "content-type"];
    assert!(headers.eq(expected), "{answer:?}");
    // Descriptors with limits of their own count by their class and deadline as all others do.
    let own = |words: &[(&str, &str)]| under(5, RateLimitUnit::Minute, descriptor(words));
    for (words, code) in [
        (&[("resource", "app")][..], 2),
        (&[("resource", "app"), ("tidegate-class", "critical_plus")], 1),
        (&[("tidegate-deadline-ms", "0")], 2),
        (&[("tidegate-deadline-ms", "1000")], 1),
    ] {
        let answer = envoy.call(request("shop", &[own(words)])).await.unwrap();
        assert_eq!(answer.overall_code, code, "{words:?}: {answer:?}");
    }
}

#[tokio::test]
async fn an_unknown_resource_table_or_kind_is_an_error_that_names_it_at_every_protocol() {
    let daemon = Daemon::start(SHOP).await;
    for protocol in PROTOCOLS {
        let resource = daemon.ask(protocol, &[("resource", "nowhere")]).await.expect(protocol);
        assert!(resource.contains("nowhere") && resource.contains("app, other"), "{protocol}: {resource}");
        let table = daemon.ask(protocol, &[("table", "invoices"), ("key", "k")]).await.expect(protocol);
        assert!(table.contains("invoices"), "{protocol}: {table}");
        let kind = [("table", "orders"), ("key", "k"), ("kind", "sweep")];
        let kind = daemon.ask(protocol, &kind).await.expect(protocol);
        assert!(kind.contains("sweep"), "{protocol}: {kind}");
    }
    let known = daemon.ask("http", &[("resource", "nowhere")]).await.unwrap();
    assert!(known.starts_with("400") && known.contains("unknown_resource"), "{known}");
    for (namespace, table, status, error) in
        [("blog", "orders", 404, "table_of_another_namespace"), ("shop", "invoices", 400, "unknown_table")]
    {
        let words = [("namespace", namespace), ("table", table), ("key", "k")];
        let answer = daemon.ask("http", &words).await.unwrap();
        assert!(answer.starts_with(&format!("{status} ")) && answer.contains(error), "{answer}");
    }
    for words in [
        [("table", "orders"), ("size", "-1"), ("key", "k")],
        [("table", "orders"), ("size", "1e3"), ("key", "k")],
    ] {
        let size = daemon.ask("resp", &words).await.unwrap();
        assert!(size.contains("is not a whole number of bytes"), "{size}");
    }
    let keyless = daemon.ask("resp", &[("table", "orders")]).await.unwrap();
    assert!(keyless.contains("needs a key"), "{keyless}");
}

#[tokio::test]
async fn names_of_planes_are_plain_attributes_where_the_policy_has_no_planes() {
    let daemon = Daemon::start(
        "namespaces: { shop: { limits: [{ name: by-table, key: [table], fixed: { limit: 1, window: 1h } }] }, blog: { limits: [] } }\n",
    )
    .await;
    for protocol in ["authorize", "rls", "resp"] {
        let words = [("table", protocol), ("resource", "any"), ("kind", "sweep")];
        assert_eq!(daemon.ask(protocol, &words).await, None, "{protocol}");
        let refused = daemon.ask(protocol, &words).await.expect(protocol);
        assert!(refused.contains("by-table"), "{protocol}: {refused}");
    }
    let page = daemon.get("/metrics").await.body;
    assert!(!page.contains("tidegate_capacity_") && !page.contains("tidegate_resource_"), "{page}");
}

#[tokio::test]
async fn a_reload_keeps_the_levels_of_tables_and_the_places_of_resources_by_name() {
    let daemon = Daemon::start(SHOP).await;
    for _ in 0..2 {
        assert_eq!(daemon.ask("http", &WRITE).await, None);
    }
    let body = json!({"namespace": "shop", "attributes": {}, "resource": "app"});
    let permit = daemon.post("/v1/check", &body).await.json()["permit"].as_str().unwrap().to_owned();
    // Another limit beside them: nothing of the planes has changed.
    let with_limit = SHOP.replace("limits: []", "limits: [{ name: per-user, key: [user], rate: 9/s }]");
    assert_eq!(daemon.reload(&with_limit).await, None);
    assert!(daemon.ask("http", &WRITE).await.is_some(), "the level was kept");
    // Twice the throughput: levels are kept.
    let raised = SHOP.replace("write: 4", "write: 8").replace("concurrency: 2", "concurrency: 1");
    assert_eq!(daemon.reload(&raised).await, None);
    assert!(daemon.ask("http", &WRITE).await.is_some(), "no unit comes from a change");
    daemon.clock.advance(Duration::from_secs(1));
    for _ in 0..4 {
        assert_eq!(daemon.ask("http", &WRITE).await, None, "the new share of the partition");
    }
    assert!(daemon.ask("http", &WRITE).await.is_some(), "and no more");
    assert_eq!(daemon.series(r#"tidegate_resource_in_flight{resource="app"}"#).await, "1");
    assert_eq!(daemon.post("/v1/check", &body).await.status, 529, "a lowered bound holds at once");
    // Without the resource and the table, with a hold of both outstanding.
    let gone = "namespaces: { shop: { limits: [] }, blog: { limits: [] } }\n";
    assert_eq!(daemon.reload(gone).await, None);
    assert_eq!(daemon.post("/v1/check", &body).await.status, 400);
    assert_eq!(daemon.post("/v1/release", &json!({"permit": permit})).await.status, 200);
    assert_eq!(daemon.ask("http", &WRITE).await.map(|answer| answer[..3].to_owned()).as_deref(), Some("400"));
    // And with them again.
    assert_eq!(daemon.reload(SHOP).await, None);
    assert_eq!(daemon.series(r#"tidegate_resource_in_flight{resource="app"}"#).await, "0");
    assert_eq!(daemon.post("/v1/check", &body).await.status, 200);
}

#[tokio::test]
async fn a_reload_with_a_node_that_cannot_bear_its_partitions_changes_nothing_and_says_so() {
    let daemon = Daemon::start(SHOP).await;
    let small = SHOP.replace("units: 100", "units: 1");
    let problems = daemon.reload(&small).await.expect("an error");
    assert!(problems.contains("n1"), "{problems}");
    assert_eq!(daemon.ask("http", &WRITE).await, None, "the policy before is in force");
}

#[tokio::test]
async fn a_resource_takes_the_verb_place_and_a_placement_the_verb_change_of_the_namespace() {
    let grants = format!(
        "{SHOP}authorization:
  - {{ name: checkout, token: {CHECKOUT}, namespaces: [shop], verbs: [check] }}
  - {{ name: operators, token: {OPS}, namespaces: [shop], verbs: [check, place, change] }}
"
    );
    let daemon = Daemon::start(&grants).await;
    for (token, line, body, status) in [
        (CHECKOUT, "POST /v1/check", json!({"namespace": "shop", "resource": "app"}), 403),
        (CHECKOUT, "POST /v1/reserve", json!({"namespace": "shop", "resource": "app"}), 403),
        (CHECKOUT, "POST /v1/check", json!({"namespace": "shop"}), 200),
        (OPS, "POST /v1/check", json!({"namespace": "shop", "resource": "app"}), 200),
        (CHECKOUT, "GET /v1/authorize?namespace=shop&resource=app", json!(null), 403),
        (OPS, "GET /v1/authorize?namespace=shop&resource=app", json!(null), 200),
    ] {
        let mut client = daemon.client().await;
        let answer = send(&mut client, line, &bearer(token), &body.to_string()).await;
        assert_eq!(answer.status, status, "{line}: {answer:?}");
        assert_eq!(status == 403, answer.body.contains("may not place in namespace \\\"shop\\\""));
    }
    let address = daemon.handle.resp().unwrap().tcp().unwrap();
    let mut redis = resp::Client::over(TcpStream::connect(address).await.unwrap());
    for (token, is_permitted) in [(CHECKOUT, false), (OPS, true)] {
        assert_eq!(redis.ask(&format!("AUTH {token}")).await, "+OK");
        let answer = redis.ask("TG.CHECK shop resource app").await;
        assert_eq!(answer.starts_with("[decision, admit"), is_permitted, "{answer}");
    }
    for (token, namespace, status) in [(CHECKOUT, "shop", 403), (OPS, "blog", 403), (OPS, "shop", 200)] {
        let body = json!({"namespace": namespace, "table": "orders", "partition": 0, "node": "n2"});
        let mut client = daemon.client().await;
        let answer = send(&mut client, "POST /v1/placements", &bearer(token), &body.to_string()).await;
        assert_eq!(answer.status, status, "{namespace}: {answer:?}");
    }
}

#[tokio::test]
async fn a_long_list_of_tables_comes_in_pieces_that_make_one_document() {
    use std::fmt::Write;
    let mut policy = "namespaces:\n  shop:\n    limits: []\n    tables:\n".to_owned();
    for number in 0..500 {
        let _ = writeln!(
            policy,
            "      - {{ name: t{number}, partition_by: hash, provisioned: {{ read: 10, write: 10 }}, mode: static, partitions: {{ min: 2 }} }}"
        );
    }
    policy += "  blog: { limits: [] }\n";
    let daemon = Daemon::start(&policy).await;
    let names = |tables: &serde_json::Value| -> Vec<String> {
        let tables = tables["tables"].as_array().unwrap().iter();
        tables.map(|table| table["name"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<String> = (0..500).map(|number| format!("t{number}")).collect();
    let whole = daemon.get("/v1/tables").await;
    assert_eq!(whole.header("transfer-encoding"), Some("chunked"));
    assert_eq!(names(&whole.json()), all);
    assert_eq!(names(&daemon.get("/v1/tables?namespace=shop").await.json()), all);
    let none = daemon.get("/v1/tables?namespace=blog").await.json();
    assert_eq!((names(&none), none["nodes"].as_array().unwrap().len()), (vec![], 1), "{none}");
    let last = daemon.get("/v1/tables?namespace=shop&table=t499").await.json();
    assert_eq!(names(&last), ["t499"]);
    assert_eq!(last["tables"][0]["partitions"].as_array().unwrap().len(), 2, "{last}");
    assert_eq!(daemon.get("/v1/tables").await.json()["tables"][7].get("partitions"), None);
}

#[tokio::test]
async fn an_operator_sees_tables_and_places_partitions() {
    let daemon = Daemon::start(SHOP).await;
    let tables = daemon.get("/v1/tables").await.json();
    assert_eq!(tables["tables"][0]["name"], "orders", "{tables}");
    assert_eq!(tables["tables"][0]["write"], json!({"provisioned": 4.0, "left": 4.0, "throttled": 0}));
    assert_eq!(tables["nodes"].as_array().unwrap().len(), 2, "{tables}");
    let of = |namespace: &str, table: &str| format!("/v1/tables?namespace={namespace}&table={table}");
    let shown = daemon.get(&of("shop", "orders")).await.json();
    let partitions = &shown["tables"][0]["partitions"];
    assert_eq!((&partitions[0]["node"], &partitions[1]["node"]), (&json!("n1"), &json!("n2")), "{shown}");
    let place = |partition: u32, node: &str| json!({"namespace": "shop", "table": "orders", "partition": partition, "node": node});
    let placed = daemon.post("/v1/placements", &place(0, "n2")).await;
    assert_eq!((placed.status, &placed.json()["node"]), (200, &json!("n2")), "{placed:?}");
    let shown = daemon.get(&of("shop", "orders")).await.json();
    assert_eq!(shown["tables"][0]["partitions"][0]["node"], "n2", "{shown}");
    for (body, status, hint) in [
        (place(2, "n1"), 400, "has no partition 2"),
        (place(0, "n3"), 400, "n3"),
        (json!({"namespace": "blog", "table": "orders", "partition": 0, "node": "n1"}), 404, "orders"),
        (json!({"namespace": "shop", "table": "invoices", "partition": 0, "node": "n1"}), 400, "invoices"),
        (json!({"namespace": "shop", "table": "orders", "partition": -1, "node": "n1"}), 400, "partition"),
    ] {
        let answer = daemon.post("/v1/placements", &body).await;
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert!(answer.body.contains(hint), "{body}: {answer:?}");
    }
    assert_eq!(daemon.get(&of("blog", "orders")).await.status, 404);
    assert_eq!(daemon.get("/v1/tables?table=orders").await.status, 400);
    assert_eq!(daemon.get("/v1/tables?namespace=nowhere").await.status, 404);
    // A reload that leaves nodes and tables as they are leaves the placement.
    let with_limit = SHOP.replace("limits: []", "limits: [{ name: per-user, key: [user], rate: 9/s }]");
    assert_eq!(daemon.reload(&with_limit).await, None);
    let shown = daemon.get(&of("shop", "orders")).await.json();
    assert_eq!(shown["tables"][0]["partitions"][0]["node"], "n2", "{shown}");
}

/// A table of one partition with 10 units of reading and 10 of writing a second.
fn one_partition(mode: &str) -> String {
    format!(
        "namespaces:
  shop:
    limits: []
    tables: [{{ name: orders, provisioned: {{ read: 10, write: 10 }}, {mode} }}]
  blog: {{ limits: [] }}
"
    )
}

#[tokio::test]
async fn true_units_at_settle_are_felt_by_the_next_access() {
    let daemon = Daemon::start(&one_partition("mode: static")).await;
    let access = json!({"table": "orders", "key": "order-7", "kind": "read"});
    let reserve = json!({"namespace": "shop", "attributes": {}, "access": access, "cost": 1});
    let permit = daemon.post("/v1/reserve", &reserve).await.json()["permit"].as_str().unwrap().to_owned();
    for wrong in [
        json!({"units": -1}),
        json!({"units": "many"}),
        json!({"units": 0.0001}),
        json!({"units": 1_000_001}),
        json!({"units": 3, "outcome": "cancelled"}),
    ] {
        let mut body = wrong.clone();
        body["permit"] = json!(permit);
        let answer = daemon.post("/v1/settle", &body).await;
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
        assert!(answer.body.contains("units"), "{wrong}: {answer:?}");
    }
    assert_eq!(daemon.post("/v1/settle", &json!({"permit": permit, "units": 40.5})).await.status, 200);
    let read = [("table", "orders"), ("key", "order-7"), ("kind", "read")];
    assert!(daemon.ask("http", &read).await.is_some(), "30.5 units of debt");
    daemon.clock.advance(Duration::from_millis(3040));
    assert!(daemon.ask("http", &read).await.is_some(), "a tenth of a unit is owed");
    daemon.clock.advance(Duration::from_millis(20));
    assert_eq!(daemon.ask("http", &read).await, None);
    assert_eq!(daemon.ask("http", &[WRITE[0], WRITE[1], WRITE[2]]).await, None, "writes are apart");
}

#[tokio::test]
async fn true_units_in_an_answer_reconcile_the_access_of_a_route_and_are_not_passed_on() {
    for (header, is_refused) in [
        ("tidegate-units: 40", true),
        ("tidegate-units: 0", false),
        ("tidegate-units: -3", false),
        ("tidegate-units: 40\r\ntidegate-units: 40", false),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{header}\r\ncontent-length: 2\r\n\r\nok");
        let (server, _) = answering(answer.leak()).await;
        let policy = format!(
            "store: {{ kind: memory }}
listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
proxy:
  upstreams: {{ app: [\"http://{server}\"] }}
  routes:
    - {{ upstream: app, namespace: shop, access: {{ table: '\"orders\"', key: path.0, kind: method }} }}
{}",
            one_partition("mode: static")
        );
        let parsed = tidegate_policy::parse("policy.yaml", &policy, &|_| None).unwrap().policy;
        let config = from_policy::server_config(&parsed).unwrap();
        let clock = Arc::new(ManualClock::new(START));
        let handle = from_policy::serve_on(&parsed, policy.as_bytes(), config, clock).await.unwrap();
        let get = async || {
            let mut client = Client::connect(handle.proxy().unwrap().tcp().unwrap()).await;
            client.send(crate::proxy::get("/order-7", "")).await;
            client.answer().await.unwrap()
        };
        let first = get().await;
        assert_eq!((first.status, first.header("tidegate-units")), (200, None), "{header}: {first:?}");
        eventually("the proxy holds no permit", async || handle.proxy_in_flight() == 0).await;
        let status = if is_refused { 429 } else { 200 };
        assert_eq!(get().await.status, status, "{header}");
    }
}

#[tokio::test]
async fn a_table_with_bursts_spends_what_it_left_unused_and_a_static_one_does_not() {
    for (mode, admitted) in [("mode: static", 10), ("mode: burst, burst: 10s", 110)] {
        let daemon = Daemon::start(&one_partition(mode)).await;
        let admitted_now = async || {
            let mut count = 0;
            while daemon.ask("http", &WRITE).await.is_none() {
                count += 1;
            }
            count
        };
        // A start gives no credit, so that restarts admit no more than running on.
        assert_eq!(admitted_now().await, 10, "{mode}: 1 s of its share");
        for idle in [11, 60] {
            daemon.clock.advance(Duration::from_secs(idle));
            assert_eq!(
                admitted_now().await,
                admitted,
                "{mode}: 1 s of its share, and 10 s that it left unused"
            );
        }
    }
}
