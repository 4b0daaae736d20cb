//! Tenant, class and mechanism of the requests that the overload plane refuses: in the answer, the
//! logs, the metrics, the most refused keys and `explain`.

use std::sync::Arc;
use std::time::Duration;

use prost_types::value::Kind;
use serde_json::{Value, json};
use tidegate_engine::Event;
use tidegate_server::{Clock, Handle, ListenerRole, ManualClock, from_policy};
use tidegate_test_support::{TemporaryFolder, eventually, eventually_some};

use crate::client::{Answer, Client, post};
use crate::grpc::{self, Envoy, descriptor};
use crate::proxy::log::{Written, listen};
use crate::proxy::upstream::well;
use crate::resp;
use crate::world::{START, World, loopback};

struct Daemon {
    handle: Handle,
    clock: Arc<ManualClock>,
    folder: TemporaryFolder,
    log: Written,
    _guard: tracing::subscriber::DefaultGuard,
}

/// A mechanism of the overload plane that refused requests.
struct Mechanism {
    reason: &'static str,
    name: &'static str,
    /// The class of the requests.
    class: &'static str,
    /// The resource that refused them.
    resource: Option<&'static str>,
}

impl Daemon {
    async fn start() -> Self {
        let folder = TemporaryFolder::new();
        let (log, guard) = listen("tidegate::refusal=info");
        let (server, _) = well().await;
        let path = folder.path().display();
        let text = format!(
            "store: {{ kind: memory }}
log: {{ decisions: {{ path: {path}/decisions.jsonl, sample: refusals }} }}
listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
namespaces: {{ api: {{ limits: [{{ name: per-customer, key: [customer], rate: 1000/s }}] }} }}
resources:
  app: {{ concurrency: 1, queue: {{ requests: 1, wait: off }} }}
  bare: {{ concurrency: 1, queue: {{ requests: 1, wait: 30s }} }}
  slow: {{ concurrency: 1, status: 529, queue: {{ requests: 10, wait: 30s }} }}
proxy:
  upstreams: {{ app: [\"http://{server}\"] }}
  routes:
    - upstream: app
      namespace: api
      attributes: {{ customer: header.x-customer }}
      tenant: customer
      wait: 30s
"
        );
        let checked = tidegate_policy::parse_bytes("policy.yaml", text.as_bytes(), &|_| None);
        let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.bounds.drain_grace = Duration::ZERO;
        let clock = Arc::new(ManualClock::new(START));
        let handle = from_policy::serve_on(&policy, text.as_bytes(), config, Arc::clone(&clock) as _);
        let handle = handle.await.unwrap();
        Self { handle, clock, folder, log, _guard: guard }
    }

    async fn client(&self) -> Client {
        Client::connect(self.handle.http().unwrap().tcp().unwrap()).await
    }

    async fn get(&self, target: &str) -> Answer {
        self.client().await.get(target).await
    }

    async fn check(&self, body: &Value) -> Answer {
        self.client().await.post("/v1/check", &body.to_string()).await
    }

    /// The answer to a check whose caller waits for so many milliseconds.
    async fn check_within(&self, deadline_ms: u64, body: &Value) -> Answer {
        let request = post("/v1/check", &body.to_string());
        let deadline = format!("\r\ntidegate-deadline-ms: {deadline_ms}\r\n");
        let mut client = self.client().await;
        client.send(request.replacen("\r\n", &deadline, 1)).await;
        client.answer().await.unwrap()
    }

    /// A client whose check is sent, and not answered yet.
    async fn asked(&self, body: &Value) -> Client {
        let mut client = self.client().await;
        client.send(post("/v1/check", &body.to_string())).await;
        client
    }

    async fn proxied(&self, customer: &str) -> Answer {
        let mut client = Client::connect(self.handle.proxy().unwrap().tcp().unwrap()).await;
        client.send(format!("GET / HTTP/1.1\r\nhost: t\r\nx-customer: {customer}\r\n\r\n")).await;
        client.answer().await.unwrap()
    }

    async fn decision_lines(&self, count: usize) -> Vec<Value> {
        let path = self.folder.path().join("decisions.jsonl");
        eventually_some("the lines of the decision log", async || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let lines: Vec<Value> = whole.map(|line| serde_json::from_str(line).unwrap()).collect();
            (lines.len() == count).then_some(lines)
        })
        .await
    }

    /// Everything says that the mechanism refused `t40`, the last time over `protocol`.
    async fn is_observed(&self, mechanism: &Mechanism, protocol: &str, lines: usize) {
        let Mechanism { reason, name, class, resource } = *mechanism;
        let line = self.decision_lines(lines).await.pop().unwrap();
        assert_eq!((&line["limit"], &line["reason"]), (&json!(name), &json!(reason)), "{line}");
        assert_eq!(line["scope"], json!({"class": class, "tenant": "t40"}), "{line}");
        let written = self.log.lines().pop().unwrap();
        assert_eq!(written["fields"]["limit"], name, "{written}");
        assert_eq!(written["fields"]["key"], format!("class={class}, tenant=t40"), "{written}");
        let page = self.get("/metrics").await.body;
        let series = format!(
            r#"tidegate_decisions_total{{namespace="api",limit="{name}",decision="refuse",reason="{reason}",protocol="{protocol}"}} 1"#
        );
        assert!(page.contains(&series), "no {series} in {page}");
        assert!(!page.contains("t40"), "no tenant is a label");
        let key = format!("class={class}, tenant=t40");
        for selection in ["key=customer=t40", "key=tenant=t40"] {
            let selection = format!("{selection}&key=class={class}");
            let top = self.get(&format!("/v1/keys/top?namespace=api&limit={name}&{selection}")).await.json();
            assert_eq!(
                (&top["keys"][0]["key"], &top["keys"][0]["limit"]),
                (&json!(key), &json!(name)),
                "{top}"
            );
            assert_eq!(top["keys"][0]["resource"].as_str(), resource, "{top}");
            assert_eq!(top["keys"][0]["class"], class, "{top}");
        }
        let top = self.get("/v1/keys/top?namespace=api&by=tenant").await.json();
        let row = top["keys"].as_array().unwrap().iter().find(|row| row["key"] == "tenant=t40").unwrap();
        let limits = row["limits"].as_array().unwrap();
        let is_listed = |one: &Value| {
            one["limit"] == name && one["class"] == class && one["resource"].as_str() == resource
        };
        assert!(limits.iter().any(is_listed), "{top}");
    }
}

fn scope_of(answer: &Answer) -> Value {
    answer.json()["scope"].clone()
}

#[tokio::test]
async fn issue_39_without_a_place_the_tenant_is_named_at_each_door() {
    let daemon = Daemon::start().await;
    let body = |tenant: &str| json!({"namespace": "api", "resource": "app", "class": "sheddable", "attributes": {"tenant": tenant}});
    assert_eq!(daemon.check(&body("t1")).await.status, 200);
    let refused = daemon.check(&body("t40")).await;
    assert_eq!((refused.status, scope_of(&refused)), (503, json!({"class": "sheddable", "tenant": "t40"})));
    let no_place =
        |class| Mechanism { reason: "overload_shed", name: "in_flight", class, resource: Some("app") };
    daemon.is_observed(&no_place("sheddable"), "http", 1).await;

    // The route lets requests wait, and the queue of the resource none.
    let refused = daemon.proxied("t40").await;
    let expected = json!({"class": "sheddable_plus", "tenant": "t40"});
    assert_eq!((refused.status, scope_of(&refused)), (503, expected), "{refused:?}");
    daemon.is_observed(&no_place("sheddable_plus"), "proxy", 2).await;

    let nobody = daemon.get("/v1/keys/top?namespace=api&key=customer=t41").await.json();
    assert_eq!(nobody["keys"], json!([]), "{nobody}");
    let wrong = daemon.get("/v1/keys/top?by=class").await;
    assert!(wrong.status == 400 && wrong.body.contains("by=tenant"), "{wrong:?}");
}

#[tokio::test]
async fn issue_39_requests_without_a_tenant_count_as_one() {
    let daemon = Daemon::start().await;
    let body = json!({"namespace": "api", "resource": "app"});
    assert_eq!(daemon.check(&body).await.status, 200);
    let refused = daemon.check(&body).await;
    assert_eq!(scope_of(&refused), json!({"class": "sheddable_plus"}));
    let top = daemon.get("/v1/keys/top?namespace=api&by=tenant").await.json();
    assert_eq!((&top["keys"][0]["key"], &top["keys"][0]["refusals"]), (&json!(""), &json!(1)), "{top}");
}

#[tokio::test]
async fn issue_39_a_full_queue_names_the_tenant() {
    let daemon = Daemon::start().await;
    let body = |tenant: &str| {
        json!({"namespace": "api", "resource": "bare", "class": "sheddable", "wait_ms": 30_000,
            "attributes": {"tenant": tenant}})
    };
    assert_eq!(daemon.check(&body("t1")).await.status, 200);
    let _waits = daemon.asked(&body("t40")).await;
    eventually("one waits", async || daemon.handle.proxy_waiting() == 1).await;
    let refused = daemon.check(&body("t40")).await;
    assert_eq!((refused.status, scope_of(&refused)), (503, json!({"class": "sheddable", "tenant": "t40"})));
    let resource = Some("bare");
    let full = Mechanism { reason: "queue_full", name: "queue", class: "sheddable", resource };
    daemon.is_observed(&full, "http", 1).await;
}

#[tokio::test]
async fn issue_39_a_wait_that_is_over_and_a_request_that_is_displaced_name_the_tenant() {
    let body = |tenant: &str, class: &str, wait_ms: u64| {
        json!({"namespace": "api", "resource": "bare", "class": class, "wait_ms": wait_ms,
            "attributes": {"tenant": tenant}})
    };
    for (name, reason) in [("in_flight", "overload_shed"), ("queue", "queue_full")] {
        let daemon = Daemon::start().await;
        assert_eq!(daemon.check(&body("t1", "critical", 1000)).await.status, 200);
        let mut waits = daemon.asked(&body("t40", "sheddable", 1000)).await;
        eventually("one waits", async || daemon.handle.proxy_waiting() == 1).await;
        let _displaces = if name == "queue" {
            Some(daemon.asked(&body("t2", "critical", 30_000)).await)
        } else {
            daemon.clock.advance(Duration::from_millis(1001));
            None
        };
        let refused = waits.answer().await.unwrap();
        let expected = json!({"class": "sheddable", "tenant": "t40"});
        assert_eq!((refused.status, scope_of(&refused)), (503, expected), "{refused:?}");
        let mechanism = Mechanism { reason, name, class: "sheddable", resource: Some("bare") };
        daemon.is_observed(&mechanism, "http", 1).await;
    }
}

#[tokio::test]
async fn issue_39_a_queue_that_is_too_long_names_the_tenant() {
    let daemon = Daemon::start().await;
    let body = |tenant: &str, wait_ms: u64| {
        json!({"namespace": "api", "resource": "slow", "class": "sheddable", "wait_ms": wait_ms,
            "attributes": {"tenant": tenant}})
    };
    let settle = async |admitted: &Answer| {
        let permit = json!({"permit": admitted.json()["permit"]}).to_string();
        assert_eq!(daemon.client().await.post("/v1/settle", &permit).await.status, 200);
    };
    let mut admitted = daemon.check(&body("t0", 30_000)).await;
    let mut waiting = Vec::new();
    for tenant in 1..=4 {
        waiting.push(daemon.asked(&body(&format!("t{tenant}"), 30_000)).await);
        eventually("it waits", async || daemon.handle.proxy_waiting() == tenant).await;
    }
    // Two requests leave the queue while others wait: so it is known that each takes 100 ms.
    for client in &mut waiting[..2] {
        daemon.clock.advance(Duration::from_millis(100));
        settle(&admitted).await;
        admitted = client.answer().await.unwrap();
        assert_eq!(admitted.status, 200, "{admitted:?}");
    }
    let refused = daemon.check(&body("t40", 50)).await;
    assert_eq!((refused.status, scope_of(&refused)), (529, json!({"class": "sheddable", "tenant": "t40"})));
    let resource = Some("slow");
    let delay = Mechanism { reason: "overload_shed", name: "queue_delay", class: "sheddable", resource };
    daemon.is_observed(&delay, "http", 1).await;

    let refused = daemon.check_within(100, &body("t40", 30_000)).await;
    assert_eq!((refused.status, scope_of(&refused)), (529, json!({"class": "sheddable", "tenant": "t40"})));
    assert_eq!(refused.json()["overload"]["resource"], "slow", "{refused:?}");
    let late = Mechanism { reason: "deadline_unmeetable", name: "deadline", class: "sheddable", resource };
    daemon.is_observed(&late, "http", 2).await;
}

#[tokio::test]
async fn issue_39_a_request_whose_queue_stands_at_its_turn_names_the_tenant() {
    let daemon = Daemon::start().await;
    let body = |tenant: &str| {
        json!({"namespace": "api", "resource": "slow", "class": "sheddable", "wait_ms": 30_000,
            "attributes": {"tenant": tenant}})
    };
    let mut admitted = daemon.check(&body("t0")).await;
    let mut waiting = Vec::new();
    for tenant in ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t40"] {
        waiting.push(daemon.asked(&body(tenant)).await);
        eventually("it waits", async || daemon.handle.proxy_waiting() == waiting.len()).await;
    }
    // Of two departures at 20 ms each follows a target of 40 ms. The queue stands above it from the
    // third on, for longer than 100 ms at the eighth; the ninth has waited for 180 ms.
    let mut refused = None;
    for client in &mut waiting {
        assert!(refused.is_none(), "{refused:?}");
        daemon.clock.advance(Duration::from_millis(20));
        let permit = json!({"permit": admitted.json()["permit"]}).to_string();
        assert_eq!(daemon.client().await.post("/v1/settle", &permit).await.status, 200);
        let answer = client.answer().await.unwrap();
        if answer.status == 200 { admitted = answer } else { refused = Some(answer) }
    }
    let refused = refused.expect("the last one has waited for too long");
    assert_eq!((refused.status, scope_of(&refused)), (529, json!({"class": "sheddable", "tenant": "t40"})));
    let resource = Some("slow");
    let delay = Mechanism { reason: "overload_shed", name: "queue_delay", class: "sheddable", resource };
    daemon.is_observed(&delay, "http", 1).await;
}

#[tokio::test]
async fn issue_39_a_resource_that_paces_names_the_tenant() {
    let daemon = Daemon::start().await;
    let body = json!({"namespace": "api", "resource": "app"});
    let admitted = daemon.check(&body).await;
    daemon.clock.advance(Duration::from_millis(100));
    let permit = json!({"permit": admitted.json()["permit"]}).to_string();
    assert_eq!(daemon.client().await.post("/v1/settle", &permit).await.status, 200);
    // A place is free ten times in a second, and the end of this work is never told.
    let target = "/v1/authorize?namespace=api&resource=app&class=sheddable&tenant=t40";
    daemon.clock.advance(Duration::from_secs(1));
    eventually("one is refused", async || daemon.get(target).await.status == 503).await;
    let resource = Some("app");
    let pace = Mechanism { reason: "overload_shed", name: "pace", class: "sheddable", resource };
    daemon.is_observed(&pace, "authorize", 1).await;
}

#[tokio::test]
async fn issue_39_a_drain_names_the_tenant_of_a_request_that_waited() {
    let daemon = Daemon::start().await;
    let body = |tenant: &str| {
        json!({"namespace": "api", "resource": "bare", "class": "sheddable", "wait_ms": 30_000,
            "attributes": {"tenant": tenant}})
    };
    assert_eq!(daemon.check(&body("t1")).await.status, 200);
    let mut waits = daemon.asked(&body("t40")).await;
    eventually("one waits", async || daemon.handle.proxy_waiting() == 1).await;
    let Daemon { handle, log, folder, .. } = daemon;
    let (_, refused) = tokio::join!(handle.shutdown(), async { waits.answer().await.unwrap() });
    assert_eq!((refused.status, scope_of(&refused)), (503, json!({"class": "sheddable", "tenant": "t40"})));
    let written = log.lines().pop().unwrap();
    assert_eq!(written["fields"]["key"], "class=sheddable, tenant=t40", "{written}");
    let text = std::fs::read_to_string(folder.path().join("decisions.jsonl")).unwrap();
    let line: Value = serde_json::from_str(text.lines().next_back().unwrap()).unwrap();
    assert_eq!(line["scope"], json!({"class": "sheddable", "tenant": "t40"}), "{line}");
    assert_eq!((&line["limit"], &written["fields"]["limit"]), (&json!("queue"), &json!("queue")), "{line}");
}

#[tokio::test]
async fn issue_39_a_request_that_would_wait_for_a_place_and_be_served_is_not_said_to_be_refused() {
    let daemon = Daemon::start().await;
    let body = |resource: &str, also: Value| {
        let mut body = json!({"namespace": "api", "resource": resource, "class": "critical_plus",
            "attributes": {"tenant": "t40"}});
        body.as_object_mut().unwrap().extend(also.as_object().unwrap().clone());
        body
    };
    for resource in ["app", "slow"] {
        assert_eq!(daemon.check(&body(resource, json!({}))).await.status, 200);
    }
    for (resource, also, would, longest) in [
        ("slow", json!({}), "wait", Some(30_000)),
        ("slow", json!({"wait_ms": 500}), "wait", Some(500)),
        ("slow", json!({"wait_ms": 60_000, "door": "check"}), "wait", Some(30_000)),
        ("slow", json!({"door": "check"}), "refuse", None),
        ("app", json!({"wait_ms": 500}), "refuse", None),
    ] {
        let asked = body(resource, also);
        let explained = daemon.client().await.post("/v1/explain", &asked.to_string()).await.json();
        assert_eq!(explained["would"], would, "{asked} {explained}");
        assert_eq!(explained["load"]["wait_max_ms"].as_u64(), longest, "{asked} {explained}");
        assert_eq!(explained["planes"].is_null(), would == "wait", "{asked} {explained}");
    }
}

#[tokio::test]
async fn issue_39_a_deadline_that_is_over_names_the_tenant() {
    let daemon = Daemon::start().await;
    let body = json!({"namespace": "api", "resource": "bare", "class": "sheddable",
        "attributes": {"tenant": "t40"}});
    let refused = daemon.check_within(0, &body).await;
    assert_eq!((refused.status, scope_of(&refused)), (503, json!({"class": "sheddable", "tenant": "t40"})));
    let (reason, resource) = ("deadline_unmeetable", None);
    let late = Mechanism { reason, name: "deadline", class: "sheddable", resource };
    daemon.is_observed(&late, "http", 1).await;
}

#[tokio::test]
async fn issue_39_the_cursor_names_the_tenant_and_explain_says_both_levels() {
    let (log, _guard) = listen("tidegate::refusal=info");
    let mut config = loopback();
    config.listen(ListenerRole::Grpc, "127.0.0.1:0".parse().unwrap());
    config.listen(ListenerRole::Resp, "127.0.0.1:0".parse().unwrap());
    let world = World::in_flight(1000, config).await;
    let now = world.clock.now();
    let until = now.saturating_add(Duration::from_mins(1));
    let pin = |level| Event::Pin { resource: None, level: Some(level), until };
    world.engine.event(pin(183), now).unwrap();
    let body = r#"{"namespace":"api","class":"sheddable","attributes":{"tenant":"t40"}}"#;
    let refused = world.post("/v1/check", body).await;
    let expected = json!({"class": "sheddable", "tenant": "t40"});
    assert_eq!((refused.status, scope_of(&refused)), (503, expected), "{refused:?}");
    let level = refused.json()["overload"]["level"].as_u64().unwrap();
    let target = "/v1/authorize?namespace=api&class=sheddable&tenant=t40";
    let refused = world.client().await.get(target).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    let mut envoy = Envoy::at(world.handle.grpc().unwrap().tcp().unwrap()).await;
    let described = descriptor(&[("tenant", "t40"), ("tidegate-class", "sheddable")]);
    let refused = envoy.call(grpc::request("api", &[described])).await.unwrap();
    let metadata = refused.dynamic_metadata.unwrap().fields;
    let Some(Kind::StructValue(scope)) = &metadata["scope"].kind else { panic!("{metadata:?}") };
    let said = |name: &str, value: &str| scope.fields[name].kind == Some(Kind::StringValue(value.into()));
    assert!(said("tenant", "t40") && said("class", "sheddable"), "{metadata:?}");
    let mut resp = resp::Client::connect(world.handle.resp().unwrap().tcp().unwrap()).await;
    let refused = resp.ask("TG.CHECK api tenant t40 tidegate-class sheddable").await;
    assert!(refused.contains("overload_shed") && refused.contains("admission_cursor"), "{refused}");
    let lines = log.lines();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for (line, protocol) in lines.iter().zip(["http", "authorize", "rls", "resp"]) {
        let fields = &line["fields"];
        assert_eq!((&fields["limit"], &fields["protocol"]), (&json!("admission_cursor"), &json!(protocol)));
        assert_eq!(fields["key"], "class=sheddable, tenant=t40", "{line}");
        let page = world.client().await.get("/metrics").await.body;
        let series = format!(
            r#"tidegate_decisions_total{{namespace="api",limit="admission_cursor",decision="refuse",reason="overload_shed",protocol="{protocol}"}} 1"#
        );
        assert!(page.contains(&series), "no {series} in {page}");
    }
    let top = world.client().await.get("/v1/keys/top?namespace=api&by=tenant").await.json();
    let limits = json!([{"limit": "admission_cursor", "class": "sheddable", "refusals": 4, "error": 0}]);
    assert_eq!((&top["keys"][0]["key"], &top["keys"][0]["limits"]), (&json!("tenant=t40"), &limits), "{top}");

    let asked = r#"{"namespace":"api","class":"sheddable","tenant":"t40"}"#;
    let explained = world.post("/v1/explain", asked).await.json();
    let load = &explained["load"];
    let because = format!("its level is {level}, the cursor of its namespace at 183: shed");
    assert_eq!((&load["because"], &load["would"]), (&json!(because), &json!("refuse")), "{explained}");
    assert_eq!((&load["tenant"], &load["class"]), (&json!("t40"), &json!("sheddable")), "{explained}");
    let asked = r#"{"namespace":"api","class":"critical","attributes":{"tenant":"t40"},"peek":true}"#;
    let explained = world.post("/v1/explain", asked).await.json();
    let because = explained["load"]["because"].as_str().unwrap();
    assert!(because.ends_with("the cursor of its namespace at 183: not shed"), "{explained}");
    assert_eq!(explained["would"], "admit", "{explained}");
}

const T40: &str = "key=customer=t40";

#[tokio::test]
async fn issue_39_a_check_whose_customer_is_no_tenant_is_said_to_have_none_and_explained_so() {
    let daemon = Daemon::start().await;
    let body = json!({"namespace": "api", "resource": "app", "class": "sheddable",
        "attributes": {"customer": "t40"}});
    assert_eq!(daemon.check(&body).await.status, 200);
    for _ in 0..2 {
        let refused = daemon.check(&body).await;
        assert_eq!((refused.status, scope_of(&refused)), (503, json!({"class": "sheddable"})));
    }
    let top = daemon.get(&format!("/v1/keys/top?namespace=api&{T40}")).await.json();
    let without = &top["without_tenant"];
    assert_eq!((&top["keys"], &without["refusals"]), (&json!([]), &json!(2)), "{top}");
    let limits =
        json!([{"limit": "in_flight", "class": "sheddable", "resource": "app", "refusals": 2, "error": 0}]);
    assert_eq!((&without["limits"], &without["error"]), (&limits, &json!(0)), "{top}");
    let because = without["because"].as_str().unwrap();
    assert!(because.contains("`request: { tenant: entry.customer }`"), "{because}");
    for (selection, refusals) in [("key=class=critical", None), ("key=class=sheddable", Some(2))] {
        let top = daemon.get(&format!("/v1/keys/top?namespace=api&{T40}&{selection}")).await.json();
        assert_eq!(top["without_tenant"]["refusals"].as_u64(), refusals, "{top}");
    }
    // The requests of a route of the proxy have that tenant.
    let refused = daemon.proxied("t40").await;
    assert_eq!(scope_of(&refused), json!({"class": "sheddable_plus", "tenant": "t40"}), "{refused:?}");
    let explain = async |door: Option<&str>| {
        let mut asked = body.clone();
        if let Some(door) = door {
            asked["door"] = json!(door);
        }
        daemon.client().await.post("/v1/explain", &asked.to_string()).await.json()["load"].clone()
    };
    for (door, tenant, shown) in [
        (Some("check"), Value::Null, Value::Null),
        (Some("proxy"), json!("t40"), json!("proxy")),
        (None, json!("t40"), json!("proxy")),
    ] {
        let load = explain(door).await;
        assert_eq!((&load["tenant"], &load["door"]), (&tenant, &shown), "{door:?} {load}");
    }
    // No route of the namespace leads to this resource.
    let mut asked = body.clone();
    asked["resource"] = json!("bare");
    let explained = daemon.client().await.post("/v1/explain", &asked.to_string()).await.json();
    assert_eq!(explained["load"]["tenant"], Value::Null, "{explained}");
}

#[tokio::test]
async fn issue_39_a_mechanism_that_has_refused_nobody_is_an_empty_list() {
    let daemon = Daemon::start().await;
    for mechanism in ["admission_cursor", "in_flight", "streams", "pace", "queue_delay", "queue", "deadline"]
    {
        let top = daemon.get(&format!("/v1/keys/top?namespace=api&limit={mechanism}&{T40}")).await;
        assert_eq!((top.status, &top.json()["keys"]), (200, &json!([])), "{mechanism} {top:?}");
    }
    let wrong = daemon.get("/v1/keys/top?namespace=api&limit=in_flght").await;
    assert!(wrong.status == 404 && wrong.body.contains("did you mean \\\"in_flight\\\"?"), "{wrong:?}");
}
