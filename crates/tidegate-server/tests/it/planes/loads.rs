//! The load of resources as operators and callers see it, and the signals that are pushed.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Daemon;
use crate::authorization::{CHECKOUT, OPS, bearer, request as send};
use crate::client::{Answer, Client};
use crate::grpc::{Envoy, descriptor, request};
use crate::proxy::log::listen;

const LOADED: &str = "
namespaces:
  shop: { limits: [] }
  blog: { limits: [{ name: per-user, key: [user], rate: 1/m, burst: 1 }] }
resources:
  app: { concurrency: 2, show_load: true, queue: { requests: 10, wait: { sheddable_plus: 30s } } }
  bare: { concurrency: 1 }
signals:
  - { name: lag, source: push, target: 1000, unit: messages, ttl: 10s, resource: app, smoothing: 0s }
  - { name: heat, source: push, target: 80 }
  - { name: busy, source: in_flight, target: 1, resource: bare }
";

impl Daemon {
    async fn push(&self, signal: &str, body: &str) -> Answer {
        send(&mut self.client().await, &format!("PUT /v1/signals/{signal}"), "", body).await
    }

    async fn resource(&self, name: &str) -> Value {
        let answer = self.get(&format!("/v1/resources/{name}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Advances the clock by ticks of the overload plane, each of which happens.
    async fn tick(&self, ticks: u32) {
        for _ in 0..ticks {
            self.clock.advance(Duration::from_millis(100));
            // A decision ticks the plane that is due.
            self.get("/v1/authorize?namespace=shop").await;
        }
    }
}

/// The token of a caller that may look and not send.
const VIEWERS: &str = "viewers-token-0123456789";

/// The headers of a resource without load.
const OPEN: (Option<&str>, Option<&str>) = (Some("normal"), Some("0;class=sheddable;cohort=0"));

#[tokio::test]
async fn the_resources_of_the_policy_are_listed_with_their_queues_and_signals() {
    let daemon = Daemon::start(LOADED).await;
    let all = daemon.get("/v1/resources").await.json();
    let names: Vec<_> = all["resources"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, [json!("app"), json!("bare")]);
    for _ in 0..2 {
        daemon.post("/v1/check", &json!({"namespace": "shop", "resource": "app"})).await;
    }
    let body = r#"{"namespace":"shop","resource":"app","wait_ms":60000}"#;
    let mut stream = TcpStream::connect(daemon.handle.http().unwrap().tcp().unwrap()).await.unwrap();
    stream.write_all(crate::client::post("/v1/check", body).as_bytes()).await.unwrap();
    daemon.until_waiting(1).await;
    let app = daemon.resource("app").await;
    assert_eq!((&app["in_flight"], &app["in_flight_max"], &app["queued"]), (&json!(2), &json!(2), &json!(1)));
    assert_eq!((&app["level"], &app["concurrency"]), (&json!("normal"), &json!("fixed")));
    let cursor = &app["cursor"];
    assert_eq!(
        [&cursor["position"], &cursor["class"], &cursor["cohort"]],
        [&json!(0), &json!("sheddable"), &json!(0)]
    );
    assert!(cursor["cohorts_change"].as_str().unwrap().ends_with(":00:00Z"), "{cursor}");
    let classes = app["classes"].as_array().unwrap();
    assert_eq!(classes[0]["class"], "critical_plus", "the most important first");
    assert_eq!((&classes[2]["offered"], &classes[2]["admitted"]), (&json!(3), &json!(2)));
    assert_eq!(classes[2]["queued"], 1);
    let signals: Vec<_> = app["signals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].clone(), one["source"].clone()))
        .collect();
    let expected = [("heat", "push"), ("in_flight", "in_flight"), ("lag", "push")];
    assert_eq!(signals, expected.map(|(name, source)| (json!(name), json!(source))));
    assert_eq!(app["signals"][2]["is_stale"], true, "no value yet");
    let queued = r#"tidegate_resource_queued{resource="app",class="sheddable_plus"}"#;
    assert_eq!(daemon.series(queued).await, "1");
    assert_eq!(daemon.series(r#"tidegate_signal_stale{signal="lag",resource="app"}"#).await, "1.0");
    drop(stream);
    daemon.until_waiting(0).await;
    let departures = r#"tidegate_resource_queue_departures_total{resource="app",class="sheddable_plus",departure="cancelled"}"#;
    assert_eq!(daemon.series(departures).await, "1");
    for (name, fix) in [("nowhere", "use one of app, bare"), ("bar", "did you mean \"bare\"?")] {
        let answer = daemon.get(&format!("/v1/resources/{name}")).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.json()["fix"].as_str().unwrap().contains(fix), "{answer:?}");
    }
}

#[tokio::test]
async fn the_last_ten_seconds_of_a_resource_agree_with_what_its_callers_counted() {
    let daemon = Daemon::start(LOADED).await;
    daemon.tick(1).await;
    let unused = daemon.resource("bare").await;
    assert_eq!(unused["recent"]["classes"], json!([]), "nobody has asked yet: {unused}");
    assert_eq!(unused["recent"]["offered_load"], Value::Null);
    let check = json!({"namespace": "shop", "resource": "bare", "class": "critical"});
    let admitted = daemon.post("/v1/check", &check).await;
    assert_eq!(admitted.status, 200, "{admitted:?}");
    // Ten requests a second, which find the only place taken.
    for _ in 0..200 {
        daemon.tick(1).await;
        assert_eq!(daemon.post("/v1/check", &check).await.status, 503);
    }
    let bare = daemon.resource("bare").await;
    let recent = &bare["recent"];
    assert!((10_000..=11_100).contains(&recent["span_ms"].as_u64().unwrap()), "{recent}");
    let near = |value: &Value, expected: f64| {
        let found = value.as_f64().unwrap();
        assert!((found - expected).abs() <= expected * 0.02, "{found} beside {expected} in {recent}");
    };
    for rates in [&recent["all"], &recent["classes"][0]["rates"], &recent["namespaces"][0]["rates"]] {
        near(&rates["offered"], 10.0);
        // The cursor sheds requests that do not wait before they ask for the place.
        let shed = ["in_flight", "admission_cursor"].map(|by| rates["shed"][by].as_f64().unwrap());
        near(&json!(shed[0] + shed[1]), 10.0);
        assert!(shed[0] > 0.0 && shed[1] > 0.0, "{recent}");
        for none in ["admitted", "expired", "cancelled", "denied", "disabled", "served"] {
            assert_eq!(rates[none], 0.0, "{none} in {recent}");
        }
    }
    assert_eq!(recent["classes"][0]["class"], "critical");
    assert_eq!(
        (recent["classes"].as_array().unwrap().len(), &recent["namespaces"][0]["namespace"]),
        (1, &json!("shop"))
    );
    let text = daemon.get("/v1/resources").await.json();
    assert_eq!(text["resources"][1]["recent"]["classes"][0]["class"], "critical");
}

#[tokio::test]
async fn a_pushed_pressure_raises_the_level_without_shedding_and_is_stale_after_its_ttl() {
    let daemon = Daemon::start(LOADED).await;
    daemon.tick(1).await;
    let taken = daemon.push("lag", r#"{"value":950,"ttl_ms":2000}"#).await;
    assert_eq!((taken.status, &taken.json()["resources"]), (200, &json!(["app"])), "{taken:?}");
    daemon.tick(5).await;
    let app = daemon.resource("app").await;
    assert_eq!((&app["level"], &app["binding_signal"]), (&json!("hard"), &json!("lag")), "{app}");
    assert_eq!(daemon.series(r#"tidegate_resource_level{resource="app"}"#).await, "3");
    assert_eq!(daemon.resource("bare").await["level"], "normal");
    // Far beyond its target it sheds nothing: not even the least important request.
    daemon.push("lag", r#"{"value":1e300,"ttl_ms":2000}"#).await;
    daemon.tick(10).await;
    let app = daemon.resource("app").await;
    assert_eq!((&app["level"], &app["cursor"]["position"]), (&json!("hard"), &json!(0)), "{app}");
    let least = json!({"namespace": "shop", "resource": "app", "class": "sheddable"});
    assert_eq!(daemon.post("/v1/check", &least).await.status, 200);
    daemon.tick(11).await;
    let app = daemon.resource("app").await;
    assert_eq!((&app["signals"][2]["is_stale"], &app["signals"][2]["pressure"]), (&json!(true), &json!(0.0)));
    daemon.tick(60).await;
    assert_eq!(daemon.resource("app").await["level"], "normal");
}

#[tokio::test]
async fn values_that_no_signal_can_have_are_answered_clearly_and_change_nothing() {
    let daemon = Daemon::start(LOADED).await;
    for (signal, body, status, hint) in [
        ("lag", r#"{"value":-1}"#, 400, "is not a number of 0 or more"),
        ("lag", r#"{"value":1e999}"#, 400, "number out of range"),
        ("lag", r#"{"value":NaN}"#, 400, "malformed_body"),
        ("lag", r#"{"value":"12"}"#, 400, "invalid type"),
        ("lag", r#"{"ttl_ms":1000}"#, 400, "value"),
        ("lag", r#"{"value":1,"target":2}"#, 400, "target"),
        ("lag", r#"{"value":1,"ttl_ms":0}"#, 400, "ttl_ms 0 is out of range"),
        ("lag", r#"{"value":1,"ttl_ms":99}"#, 400, "use 100 to 3600000"),
        ("lag", r#"{"value":1,"ttl_ms":3600001}"#, 400, "ttl_ms 3600001 is out of range"),
        ("lag", "", 400, "the body is empty"),
        ("lags", r#"{"value":1}"#, 404, "push one of: heat, lag"),
        ("busy", r#"{"value":1}"#, 404, "has the source in_flight"),
        ("in_flight", r#"{"value":1}"#, 404, "push one of: heat, lag"),
        ("%ff", r#"{"value":1}"#, 400, "not UTF-8"),
    ] {
        let answer = daemon.push(signal, body).await;
        assert_eq!(answer.status, status, "{signal} {body}: {answer:?}");
        assert!(answer.body.contains(hint), "{signal} {body}: {answer:?}");
    }
    let long = daemon.push(&"n".repeat(2048), r#"{"value":1}"#).await;
    assert!(long.status == 404 && long.body.len() < 1024, "{long:?}");
    assert_eq!(daemon.resource("app").await["signals"][2].get("value"), None);
    for value in ["0", "0.0", "1e15"] {
        let answer = daemon.push("lag", &format!(r#"{{"value":{value},"ttl_ms":3600000}}"#)).await;
        assert_eq!(answer.status, 200, "{value}: {answer:?}");
    }
    assert_eq!(daemon.push("heat", r#"{"value":8}"#).await.json()["resources"], json!(["app", "bare"]));
}

#[tokio::test]
async fn a_signal_takes_its_own_verb_in_all_namespaces_and_a_look_takes_inspect() {
    let grants = format!(
        "{LOADED}authorization:
  - {{ name: checkout, token: {CHECKOUT}, namespaces: [shop], verbs: [check, signal, inspect] }}
  - {{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [signal] }}
  - {{ name: viewers, token: viewers-token-0123456789, namespaces: ['*'], verbs: [inspect, change] }}
"
    );
    let daemon = Daemon::start(&grants).await;
    for (token, line, body, status) in [
        (CHECKOUT, "PUT /v1/signals/lag", r#"{"value":1}"#, 403),
        (OPS, "PUT /v1/signals/lag", r#"{"value":1}"#, 200),
        (VIEWERS, "PUT /v1/signals/lag", r#"{"value":1}"#, 403),
        // A stranger does not learn which signals there are.
        (CHECKOUT, "PUT /v1/signals/none", r#"{"value":1}"#, 403),
        (CHECKOUT, "GET /v1/resources", "", 403),
        (OPS, "GET /v1/resources", "", 403),
        (VIEWERS, "GET /v1/resources", "", 200),
    ] {
        let answer = send(&mut daemon.client().await, line, &bearer(token), body).await;
        assert_eq!(answer.status, status, "{token} {line}: {answer:?}");
    }
    let nobody = send(&mut daemon.client().await, "PUT /v1/signals/lag", "", r#"{"value":1}"#).await;
    assert_eq!(nobody.status, 401, "{nobody:?}");
}

/// The headers of the load of an answer.
fn load(answer: &Answer) -> (Option<&str>, Option<&str>) {
    (answer.header("tidegate-level"), answer.header("tidegate-cursor"))
}

#[tokio::test]
async fn answers_about_a_resource_that_shows_its_load_carry_it_at_every_door() {
    let daemon = Daemon::start(LOADED).await;
    let app = json!({"namespace": "shop", "resource": "app"});
    assert_eq!(load(&daemon.post("/v1/check", &app).await), OPEN);
    assert_eq!(load(&daemon.get("/v1/authorize?namespace=shop&resource=app").await), OPEN);
    let mut envoy = Envoy::at(daemon.handle.grpc().unwrap().tcp().unwrap()).await;
    let answer = envoy.call(request("shop", &[descriptor(&[("resource", "app")])])).await.unwrap();
    let headers: Vec<_> = answer
        .response_headers_to_add
        .iter()
        .filter(|header| header.key.starts_with("tidegate-"))
        .map(|header| (header.key.as_str(), header.value.as_str()))
        .collect();
    assert_eq!(headers, [("tidegate-level", "normal"), ("tidegate-cursor", "0;class=sheddable;cohort=0")]);
    let address = daemon.handle.proxy().unwrap().tcp().unwrap();
    let proxied = |user: &'static str| async move {
        let mut client = Client::connect(address).await;
        client.send(format!("GET / HTTP/1.1\r\nhost: t\r\nx-user: {user}\r\n\r\n")).await;
        client.answer().await.unwrap()
    };
    let (admitted, refused) = (proxied("ada").await, proxied("ada").await);
    assert_eq!((admitted.status, load(&admitted)), (200, OPEN), "{admitted:?}");
    assert_eq!((refused.status, load(&refused)), (429, OPEN), "{refused:?}");

    // Refusals by the resource carry it too, and the level as it is then.
    daemon.tick(1).await;
    daemon.push("lag", r#"{"value":950}"#).await;
    daemon.tick(5).await;
    assert_eq!(daemon.post("/v1/check", &app).await.status, 200);
    let refused = daemon.post("/v1/check", &app).await;
    assert_eq!((refused.status, load(&refused).0), (503, Some("hard")), "{refused:?}");
    let reserved = daemon
        .post("/v1/reserve", &json!({"namespace": "shop", "resource": "app", "expires_ms": 1000}))
        .await;
    assert_eq!((reserved.status, load(&reserved).0), (503, Some("hard")), "{reserved:?}");
    // Others say nothing.
    for body in [json!({"namespace": "shop", "resource": "bare"}), json!({"namespace": "shop"})] {
        assert_eq!(load(&daemon.post("/v1/check", &body).await), (None, None), "{body}");
    }
}

#[tokio::test]
async fn advice_about_places_stands_in_the_answer_the_metrics_and_once_an_hour_in_the_log() {
    let (log, _guard) = listen("tidegate::overload=warn");
    let policy = "
namespaces: { shop: { limits: [] }, blog: { limits: [] } }
resources: { app: { concurrency: 1 } }
";
    let daemon = Daemon::start(policy).await;
    let none = r#"tidegate_resource_advised_places{resource="app"}"#;
    // Three of four requests find the place taken, which each one keeps for 400 ms.
    let request = json!({"namespace": "shop", "resource": "app"});
    for second in 0..80 {
        let held = daemon.post("/v1/reserve", &request).await.json();
        for _ in 0..3 {
            assert_eq!(daemon.post("/v1/check", &request).await.status, 503);
        }
        daemon.tick(4).await;
        let settled = daemon.post("/v1/settle", &json!({ "permit": held["permit"] })).await;
        assert_eq!(settled.status, 200, "{held} {settled:?}");
        daemon.tick(6).await;
        if second == 10 {
            assert_eq!(daemon.series(none).await, "0", "half a minute is not known yet");
            assert_eq!(daemon.resource("app").await["advice"], Value::Null);
        }
    }
    let advice = &daemon.resource("app").await["advice"];
    assert_eq!((&advice["kind"], &advice["suggested"]), (&json!("too_low"), &json!(2)), "{advice}");
    let text = advice["text"].as_str().unwrap();
    assert!(text.starts_with("1 place may be too few: a request takes 400 ms"), "{text}");
    assert!(text.ends_with("try `concurrency: auto` or 2."), "{text}");
    assert_eq!(daemon.series(none).await, "2");
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let fields = &lines[0]["fields"];
    assert_eq!((&fields["resource"], &fields["advice"]), (&json!("app"), &json!("too_low")), "{fields}");
    // Refusals for want of these places say nothing of others.
    assert_eq!(daemon.reload(&policy.replace("concurrency: 1", "concurrency: 2")).await, None);
    daemon.tick(30).await;
    assert_eq!((daemon.series(none).await.as_str(), log.lines().len()), ("0", 1));
}
