//! A resource in shadow mode: every door admits at once, and every view says what it would do.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_engine::Event;
use tidegate_server::Clock as _;
use tidegate_test_support::eventually_some;

use crate::client::Client;
use crate::doors::{DOORS, Daemon};
use crate::proxy::log::listen;
use crate::proxy::upstream::well;

/// One place, which nobody finds free, and no queue; or the same with a queue.
const POLICY: &str = r#"
store: { kind: memory }
listen: { http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }
namespaces:
  shop: { limits: [{ name: all, rate: 100000/s }] }
resources: { app: { concurrency: 1, RESOURCE } }
proxy:
  upstreams: { app: ["http://SERVER"] }
  routes: [{ upstream: app, namespace: shop }]
"#;

async fn daemon(resource: &str) -> Daemon {
    let (server, _) = well().await;
    Daemon::with_policy(&POLICY.replace("SERVER", &server.to_string()).replace("RESOURCE", resource)).await
}

impl Daemon {
    fn close_cursor(&self) {
        let until = self.clock.now().saturating_add(Duration::from_hours(1));
        let pin = Event::Pin { resource: Some("app"), level: Some(512), until };
        self.engine.event(pin, self.clock.now()).unwrap();
    }

    async fn get(&self, path: &str) -> String {
        let answer = Client::connect(self.http()).await.get(path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    async fn resource(&self) -> Value {
        serde_json::from_str(&self.get("/v1/resources/app").await).unwrap()
    }

    /// The lines of a metric of the resource that are not 0, without its name.
    async fn metric(&self, name: &str) -> Vec<String> {
        let text = self.get("/metrics").await;
        let lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let lines = lines.filter(|line| line.contains("resource=\"app\"") && !line.ends_with(" 0"));
        lines.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn every_door_admits_at_once_whatever_the_cursor_says() {
    let daemon = daemon("mode: shadow").await;
    daemon.close_cursor();
    for door in DOORS {
        let told = daemon.ask_feature(door, None, Some("app")).await;
        assert!(told.is_admitted, "{door}: {told:?}");
    }
    let count = daemon.metric("tidegate_resource_would_refuse_total").await;
    let [count] = count.as_slice() else { panic!("{count:?}") };
    assert!(count.contains("class=\"sheddable_plus\",mechanism=\"admission_cursor\""), "{count}");
    // A call with two descriptors is one request at the resource.
    assert!(count.ends_with(&format!(" {}", DOORS.len())), "{count}");
    let outcomes = daemon.metric("tidegate_resource_outcomes_total").await;
    assert_eq!(outcomes, [format!("{{resource=\"app\",outcome=\"admitted\"}} {}", DOORS.len())]);
    // Enforced, each of them is refused.
    let enforced = self::daemon("mode: enforce").await;
    enforced.close_cursor();
    for door in DOORS {
        let told = enforced.ask_feature(door, None, Some("app")).await;
        assert!(!told.is_admitted && told.reason.as_deref() == Some("overload_shed"), "{door}: {told:?}");
    }
}

#[tokio::test]
async fn views_say_what_it_would_do_and_a_patient_request_waits_for_nothing() {
    let daemon = daemon("mode: shadow, queue: { requests: 2, wait: 60s }").await;
    let (log, _guard) = listen("tidegate::overload=info");
    let patient = json!({ "namespace": "shop", "resource": "app", "wait_ms": 60_000 });
    let mut permits = Vec::new();
    for _ in 0..5 {
        // Under a clock that stands still, one that waited would wait for ever.
        let answer = daemon.post("/v1/check", &patient).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        permits.push(answer.json()["permit"].as_str().unwrap().to_owned());
    }
    let resource = daemon.resource().await;
    assert_eq!(resource["shadow"], true, "{resource}");
    assert_eq!((&resource["in_flight"], &resource["queued"]), (&json!(1), &json!(2)), "{resource}");
    let count = daemon.metric("tidegate_resource_would_refuse_total").await;
    assert!(count[0].contains("mechanism=\"queue_full\"") && count[0].ends_with(" 2"), "{count:?}");

    // As the proxy would ask, it would wait; as a check without `wait_ms`, it would be refused.
    for (door, waits) in [("proxy", true), ("check", false)] {
        let question = json!({ "namespace": "shop", "resource": "app", "door": door });
        let explained = daemon.post("/v1/explain", &question).await.json();
        assert_eq!(
            (&explained["would"], &explained["planes"]),
            (&json!("admit"), &Value::Null),
            "{explained}"
        );
        let load = &explained["load"];
        assert_eq!((&load["shadow"], load["wait_max_ms"].is_u64()), (&json!(true), waits), "{explained}");
        let reason = &explained["rehearsed"][0]["reason"];
        assert_eq!(reason.as_str(), (!waits).then_some("overload_shed"), "{explained}");
    }
    let peek = json!({ "namespace": "shop", "resource": "app", "peek": true });
    assert_eq!(daemon.post("/v1/check", &peek).await.status, 200);

    // The log has a line after ten seconds, and none for ten seconds without a refusal.
    daemon.clock.advance(Duration::from_secs(11));
    let line = eventually_some("a line about the rehearsal", async || log.lines().first().cloned()).await;
    assert_eq!((&line["fields"]["resource"], &line["fields"]["count"]), (&json!("app"), &json!(2)), "{line}");
    assert_eq!(line["fields"]["by"], "2 sheddable_plus by queue_full", "{line}");
    for permit in permits {
        let released = daemon.post("/v1/release", &json!({ "permit": permit })).await;
        assert_eq!(released.status, 200, "{released:?}");
    }
    daemon.clock.advance(Duration::from_mins(2));
    eventually_some("no place in use", async || {
        let resource = daemon.resource().await;
        (resource["in_flight"] == 0 && resource["queued"] == 0).then_some(())
    })
    .await;
    assert_eq!(log.lines().len(), 1, "{:?}", log.lines());
}
