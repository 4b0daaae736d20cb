//! The history of a resource, as operators see it.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_test_support::eventually_some;

use super::Daemon;
use crate::authorization::{CHECKOUT, bearer, request as send};

const POLICY: &str = "
namespaces: { shop: { limits: [] }, blog: { limits: [] } }
resources: { app: { concurrency: 2 } }
signals: [{ name: lag, source: push, target: 1000, ttl: 60m, resource: app, smoothing: 0s }]
";

const HISTORY: &str = "/v1/resources/app/history";

impl Daemon {
    /// Moves the clock second by second until there are so many samples.
    async fn history(&self, samples: usize) -> Value {
        eventually_some("samples of the resource", async || {
            self.clock.advance(Duration::from_secs(1));
            let history = self.get(HISTORY).await.json();
            (history["samples"].as_array()?.len() >= samples).then_some(history)
        })
        .await
    }
}

#[tokio::test]
async fn a_resource_has_a_sample_of_ten_seconds_with_its_pressure_and_thresholds() {
    let daemon = Daemon::start(POLICY).await;
    let taken = send(&mut daemon.client().await, "PUT /v1/signals/lag", "", r#"{"value":800}"#).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let history = daemon.history(2).await;
    assert_eq!((&history["resource"], &history["by"]), (&json!("app"), &json!("feature")));
    assert_eq!((&history["dropped"], &history["gaps"]), (&json!(0), &json!([])));
    let [before, after] = &history["samples"].as_array().unwrap()[..2] else { panic!("{history}") };
    assert_eq!(before["until"], after["from"], "{history}");
    assert_eq!(history["complete_since"], before["from"]);
    assert_eq!((&after["soft"], &after["hard"]), (&json!(0.7), &json!(0.9)));
    assert_eq!(after["divided_by"], "nothing");
    assert!((after["pressure"].as_f64().unwrap() - 0.8).abs() < 0.01, "{after}");
    assert_eq!(after["areas"][0]["name"], "unattributed");
    assert_eq!(after["areas"][0]["height"], after["pressure"]);
    for by in ["feature", "class", "namespace"] {
        assert_eq!(daemon.get(&format!("{HISTORY}?by={by}")).await.json()["by"], by);
    }
    let since = before["until"].as_str().unwrap();
    let later = daemon.get(&format!("{HISTORY}?since={since}")).await.json();
    assert_eq!(later["samples"][0]["from"], json!(since));
}

#[tokio::test]
async fn what_is_asked_wrongly_is_answered_with_what_to_ask() {
    let daemon = Daemon::start(POLICY).await;
    for (target, status, hint) in [
        (format!("{HISTORY}?by=tenant"), 400, "by \\\"tenant\\\" is not feature, class or namespace"),
        (format!("{HISTORY}?since=yesterday"), 400, "write it as 2026-11-20T20:40:00Z"),
        (format!("{HISTORY}?hours=1"), 400, "takes by, since"),
        ("/v1/resources/none/history".to_owned(), 400, "use one of app"),
        ("/v1/resources/%ff/history".to_owned(), 400, "not UTF-8"),
    ] {
        let answer = daemon.get(&target).await;
        assert_eq!(answer.status, status, "{target}: {answer:?}");
        assert!(answer.body.contains(hint), "{target}: {answer:?}");
    }
    let off = Daemon::start(&format!("{POLICY}metering: {{ history: off }}")).await;
    let answer = off.get(HISTORY).await;
    assert!(answer.status == 400 && answer.body.contains("history: 16MiB"), "{answer:?}");
}

#[tokio::test]
async fn a_history_takes_the_verb_inspect_in_all_namespaces() {
    let viewers = "viewers-token-0123456789";
    let grants = format!(
        "{POLICY}authorization:
  - {{ name: checkout, token: {CHECKOUT}, namespaces: [shop], verbs: [check, inspect] }}
  - {{ name: viewers, token: {viewers}, namespaces: ['*'], verbs: [inspect] }}
"
    );
    let daemon = Daemon::start(&grants).await;
    for (token, status) in [(CHECKOUT, 403), (viewers, 200)] {
        let line = format!("GET {HISTORY}");
        let answer = send(&mut daemon.client().await, &line, &bearer(token), "").await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    assert_eq!(daemon.get(HISTORY).await.status, 401);
}
