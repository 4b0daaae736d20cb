//! The levels of features as operators see them, and the pins that operators set: answers, errors,
//! audit lines, metrics, marks in the history, restarts and a store that does not answer.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_test_support::{TemporaryFolder, eventually, eventually_some};

use crate::authorization::{CHECKOUT, OPS, bearer, request as send};
use crate::client::Answer;
use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

/// Text below `namespaces:`, with the sections after it.
const POLICY: &str = "  shop: { limits: [] }
resources: { app: { concurrency: 20, levels: { brownout: 0.85, margin: 0.05, settle: 2s } }, other: { concurrency: 5 } }
features:
  - search
  - { name: thumbnails, resource: app, class: sheddable, on_disable: cancel, grace: 3s,
      levels: [{ name: full, cost: 1 }, { name: 480p, cost: 0.3 }, { name: off, cost: 0 }] }
  - { name: ranking, resource: other, scope: class, mode: shadow,
      levels: [{ name: full, cost: 1 }, { name: plain, cost: 0.5 }] }
";

const PIN: &str = "/v1/features/thumbnails/pin";

async fn start() -> RestartableDaemon {
    RestartableDaemon::start(Kept::Memory, POLICY, START).await
}

impl RestartableDaemon {
    async fn put(&self, path: &str, body: &Value) -> Answer {
        self.client().await.request("PUT", path, &body.to_string()).await
    }

    async fn delete(&self, path: &str, body: &str) -> Answer {
        self.client().await.request("DELETE", path, body).await
    }

    async fn thumbnails(&self) -> Value {
        self.get("/v1/features/thumbnails").await.json()
    }

    /// The value of a series.
    async fn sample(&self, series: &str) -> Option<f64> {
        let page = self.get("/metrics").await.body;
        page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }
}

#[tokio::test]
async fn the_features_with_levels_are_listed_with_all_that_their_level_comes_from() {
    let daemon = start().await;
    let list = daemon.get("/v1/features").await.json();
    let names: Vec<_> = list["features"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, [&json!("ranking"), &json!("thumbnails")], "not those without levels: {list}");
    let member = &list["member"];
    assert!(member.as_str().is_some_and(|member| !member.is_empty()), "{list}");
    let thumbnails = json!({
        "name": "thumbnails", "member": member, "resource": "app", "class": "sheddable", "scope": "global",
        "mode": "enforce", "on_disable": "cancel", "grace_ms": 3000, "levels": ["full", "480p", "off"],
        "level": "full", "level_index": 0, "reason": "best", "detail": "the best level", "footprint": 0.0,
        "room": list["features"][1]["room"], "threshold": 0.85, "margin": 0.05, "settle_ms": 2000,
        "in_flight": 0, "transitions": 0,
    });
    assert_eq!(list["features"][1], thumbnails);
    assert_eq!(daemon.thumbnails().await, thumbnails);
    let ranking = &list["features"][0];
    assert_eq!((&ranking["mode"], &ranking["on_disable"]), (&json!("shadow"), &json!("finish")));
    let levels = ["critical_plus", "critical", "sheddable_plus", "sheddable"];
    let levels: Vec<_> = levels.iter().map(|class| json!({ "class": class, "level": "full" })).collect();
    assert_eq!(ranking["class_levels"], json!(levels));
    let of_other = daemon.get("/v1/features?resource=other").await.json();
    assert_eq!((of_other["features"].as_array().unwrap().len(), &of_other["features"][0]), (1, ranking));
    for (path, status, hint) in [
        ("/v1/features?resource=none", 400, "use one of app, other"),
        ("/v1/features?name=x", 400, "takes resource"),
        ("/v1/features/thumbnail", 404, "did you mean \\\"thumbnails\\\"?"),
        ("/v1/features/search", 400, "has no levels"),
        ("/v1/features/thumbnails?x=1", 400, "is not known"),
        ("/v1/features/%ff", 400, "not UTF-8"),
    ] {
        let answer = daemon.get(path).await;
        assert!(answer.status == status && answer.body.contains(hint), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn a_policy_without_features_has_an_empty_list_and_says_where_to_add_one() {
    let daemon = RestartableDaemon::start(Kept::Memory, "  shop: { limits: [] }\n", START).await;
    assert_eq!(daemon.get("/v1/features").await.json()["features"], json!([]));
    let answer = daemon.put(PIN, &json!({ "level": "off", "expires_ms": 1000 })).await;
    assert!(answer.status == 404 && answer.body.contains("under `features:`"), "{answer:?}");
    assert!(!daemon.get("/metrics").await.body.contains("tidegate_feature_level"));
}

#[tokio::test]
async fn a_pin_holds_a_level_until_its_end_to_the_tick() {
    let daemon = start().await;
    let body = json!({ "level": "480p", "expires_ms": 60_000, "by": "grace", "reason": "incident 7" });
    let pinned = daemon.put(PIN, &body).await;
    assert_eq!(pinned.status, 200, "{pinned:?}");
    let pinned = pinned.json();
    let pin =
        json!({ "level": "480p", "until": "2026-11-20T23:01:00Z", "by": "grace", "reason": "incident 7" });
    assert_eq!((&pinned["level"], &pinned["level_index"]), (&json!("480p"), &json!(1)));
    assert_eq!((&pinned["reason"], &pinned["pin"]), (&json!("pinned"), &pin));
    assert_eq!(pinned["detail"], "pinned at 480p until 2026-11-20T23:01:00Z by grace: incident 7");
    assert_eq!(pinned["since"], "2026-11-20T23:00:00Z");
    assert_eq!(daemon.thumbnails().await, pinned);
    // The same pin again is the same pin; another one takes its place.
    assert_eq!(daemon.put(PIN, &body).await.json()["transitions"], 1);
    let until = json!({ "level": "off", "until": "2026-11-20T23:00:30Z" });
    let off = daemon.put(PIN, &until).await.json();
    assert_eq!((&off["level"], &off["pin"]), (&json!("off"), &until));
    daemon.clock.advance(Duration::from_secs(29));
    assert_eq!(daemon.thumbnails().await["reason"], "pinned");
    daemon.clock.advance(Duration::from_secs(1));
    eventually("the pin is over", async || daemon.thumbnails().await.get("pin").is_none()).await;
    assert_eq!(daemon.delete(PIN, "").await.status, 200, "nothing is left to end");
}

#[tokio::test]
async fn an_unpinned_feature_follows_the_load_again() {
    let daemon = start().await;
    daemon.put(PIN, &json!({ "level": "off", "expires_ms": 60_000 })).await;
    let body = r#"{"by":"grace","reason":"it is over"}"#;
    let answer = daemon.delete(PIN, body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let unpinned = answer.json();
    assert!(unpinned.get("pin").is_none() && unpinned["reason"] != "pinned", "{unpinned}");
    for (path, body, status, hint) in [
        ("/v1/features/thumbnail/pin", "", 404, "did you mean \\\"thumbnails\\\"?"),
        (PIN, r#"{"why":"x"}"#, 400, "why"),
        (PIN, r#"{"by":1}"#, 400, "by"),
    ] {
        let answer = daemon.delete(path, body).await;
        assert!(answer.status == status && answer.body.contains(hint), "{path} {body}: {answer:?}");
    }
    let long = json!({ "by": "x".repeat(257) }).to_string();
    assert_eq!(daemon.delete(PIN, &long).await.status, 400);
}

#[tokio::test]
async fn a_pin_that_cannot_be_set_says_why_and_changes_nothing() {
    let daemon = start().await;
    let before = daemon.thumbnails().await;
    let long = "x".repeat(257);
    for (path, body, status, hint) in [
        (PIN, json!({ "level": "off" }), 400, "send \\\"expires_ms\\\""),
        (PIN, json!({ "level": "off", "expires_ms": 0 }), 400, "expires_ms 0 is not 1 to 2592000000"),
        (PIN, json!({ "level": "off", "expires_ms": 2_592_000_001_u64 }), 400, "30 days"),
        (PIN, json!({ "level": "off", "expires_ms": u64::MAX }), 400, "30 days"),
        (PIN, json!({ "level": "off", "expires_ms": -1 }), 400, "expires_ms"),
        (PIN, json!({ "level": "off", "expires_ms": 1, "until": "2026-11-20T23:01:00Z" }), 400, "two ends"),
        (PIN, json!({ "level": "off", "until": "2026-11-20T23:00:00Z" }), 400, "use an instant to come"),
        (PIN, json!({ "level": "off", "until": "1926-11-20T23:00:00Z" }), 400, "use an instant to come"),
        (PIN, json!({ "level": "off", "until": "2026-12-20T23:00:01Z" }), 400, "more than 30 days"),
        (PIN, json!({ "level": "off", "until": "tomorrow" }), 400, "is not an instant of RFC 3339"),
        (PIN, json!({ "level": "240p", "expires_ms": 1000 }), 400, "use one of: full, 480p, off"),
        (PIN, json!({ "expires_ms": 1000 }), 400, "level"),
        (PIN, json!({ "level": "off", "expires_ms": 1000, "by": long }), 400, "`by` of a pin has 257 bytes"),
        (PIN, json!({ "level": "off", "expires_ms": 1000, "reason": long }), 400, "use at most 256"),
        (PIN, json!({ "level": "off", "expires_ms": 1000, "for": "10m" }), 400, "for"),
        ("/v1/features/thumbnail/pin", json!({ "level": "off", "expires_ms": 1000 }), 404, "did you mean"),
        ("/v1/features/xyz/pin", json!({ "level": "off", "expires_ms": 1 }), 404, "ranking, thumbnails"),
        ("/v1/features/search/pin", json!({ "level": "off", "expires_ms": 1000 }), 400, "has no levels"),
        (PIN, json!("off"), 400, "object"),
        (PIN, json!({ "level": "x".repeat(1 << 20), "expires_ms": 1000 }), 413, "body_too_large"),
    ] {
        let answer = daemon.put(path, &body).await;
        let shown: String = body.to_string().chars().take(100).collect();
        assert!(answer.status == status && answer.body.contains(hint), "{path} {shown}: {answer:?}");
    }
    let mut client = daemon.client().await;
    let answer = client.request("PUT", PIN, "").await;
    assert!(answer.status == 400 && answer.body.contains("the body is empty"), "{answer:?}");
    assert_eq!(client.post(PIN, "{}").await.status, 405);
    assert_eq!(daemon.thumbnails().await, before);
}

#[tokio::test]
async fn a_pin_outlives_a_restart_and_a_reload_and_one_that_ended_does_not_come_back() {
    let mut daemon = RestartableDaemon::start(Kept::Files, POLICY, START).await;
    let body = json!({ "level": "off", "expires_ms": 600_000, "by": "grace", "reason": "incident 7" });
    assert_eq!(daemon.put(PIN, &body).await.status, 200);
    let ranking = json!({ "level": "plain", "expires_ms": 600_000 });
    assert_eq!(daemon.put("/v1/features/ranking/pin", &ranking).await.status, 200);
    assert_eq!(daemon.delete("/v1/features/ranking/pin", "").await.status, 200);
    let pin = daemon.thumbnails().await["pin"].clone();
    daemon.restart().await;
    let after = daemon.thumbnails().await;
    assert_eq!((&after["level"], &after["pin"]), (&json!("off"), &pin), "{after}");
    let ranking = daemon.get("/v1/features/ranking").await.json();
    assert!(ranking.get("pin").is_none() && ranking["level"] == "full", "{ranking}");
    // The feature is gone for one policy, and its pin waits for it.
    assert_eq!(daemon.reload("  shop: { limits: [] }\n").await, None);
    assert_eq!(daemon.get("/v1/features/thumbnails").await.status, 404);
    assert_eq!(daemon.reload(POLICY).await, None);
    let after = daemon.thumbnails().await;
    assert_eq!((&after["level"], &after["pin"]), (&json!("off"), &pin), "{after}");
    daemon.restart_at(START.saturating_add(Duration::from_mins(10))).await;
    let after = daemon.thumbnails().await;
    assert!(after.get("pin").is_none() && after["level"] == "full", "{after}");
}

#[tokio::test]
async fn a_store_that_does_not_answer_leaves_the_level_as_it_is() {
    // A port that was free a moment ago: nothing answers there.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = TemporaryFolder::new();
    let rest = format!("{POLICY}store: {{ kind: redis, urls: ['redis://{nobody}'], deadline: 50ms }}\n");
    let daemon = RestartableDaemon::start_in(folder, Kept::Unnamed, &rest, START).await;
    let before = daemon.thumbnails().await;
    let body = json!({ "level": "off", "expires_ms": 600_000 });
    for answer in [daemon.put(PIN, &body).await, daemon.delete(PIN, "").await] {
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.body.contains("store_unavailable"), "{answer:?}");
        assert!(answer.body.contains("nothing is changed"), "{answer:?}");
    }
    assert_eq!(daemon.thumbnails().await, before);
}

#[tokio::test]
async fn pins_take_the_verb_feature_in_all_namespaces_and_views_take_inspect() {
    const PINNERS: &str = "pinners-have-a-long-token";
    let grants = format!(
        "{POLICY}authorization:
  - {{ name: checkout, token: {CHECKOUT}, namespaces: [shop], verbs: [check, inspect, change, feature] }}
  - {{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [inspect, change, signal] }}
  - {{ name: pinners, token: {PINNERS}, namespaces: ['*'], verbs: [feature] }}
"
    );
    let daemon = RestartableDaemon::start(Kept::Memory, &grants, START).await;
    let status = async |line: &str, token: &str, body: &str| {
        send(&mut daemon.client().await, line, &bearer(token), body).await.status
    };
    let body = r#"{"level":"off","expires_ms":60000}"#;
    for (token, look, pin) in [(CHECKOUT, 403, 403), (OPS, 200, 403), (PINNERS, 403, 200)] {
        for path in ["/v1/features", "/v1/features/thumbnails"] {
            assert_eq!(status(&format!("GET {path}"), token, "").await, look, "{path} {token}");
        }
        assert_eq!(status(&format!("PUT {PIN}"), token, body).await, pin, "{token}");
        assert_eq!(status(&format!("DELETE {PIN}"), token, "").await, pin, "{token}");
        // A caller without the verb learns nothing of names.
        let unknown = status("PUT /v1/features/none/pin", token, body).await;
        assert_eq!(unknown, if pin == 403 { 403 } else { 404 }, "{token}");
    }
    assert_eq!(daemon.get("/v1/features").await.status, 401);
    assert_eq!(daemon.put(PIN, &json!({ "level": "off", "expires_ms": 1 })).await.status, 401);
}

#[tokio::test]
async fn changes_are_in_the_audit_log_the_feature_log_and_the_metrics() {
    let (log, _guard) = crate::proxy::log::listen("tidegate::audit=info,tidegate::feature=debug");
    let grants = format!(
        "{POLICY}authorization: [{{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [inspect, feature] }}]\n"
    );
    let daemon = RestartableDaemon::start(Kept::Memory, &grants, START).await;
    let ops = bearer(OPS);
    let ask = async |line: &str, body: &str| send(&mut daemon.client().await, line, &ops, body).await;
    let put = format!("PUT {PIN}");
    let pinned = ask(&put, r#"{"level":"480p","expires_ms":60000,"by":"grace","reason":"incident 7"}"#).await;
    assert_eq!(pinned.status, 200, "{pinned:?}");
    assert_eq!(ask(&put, r#"{"level":"off","expires_ms":60000}"#).await.status, 200);
    assert_eq!(ask(&format!("DELETE {PIN}"), r#"{"by":"ada","reason":"over"}"#).await.status, 200);
    let ranking = r#"{"level":"plain","expires_ms":2000}"#;
    assert_eq!(ask("PUT /v1/features/ranking/pin", ranking).await.status, 200);
    daemon.clock.advance(Duration::from_secs(2));
    let of = |target: &str| -> Vec<Value> {
        let lines = log.lines().into_iter().filter(|line| line["target"] == target);
        lines.map(|line| line["fields"].clone()).collect()
    };
    eventually("the lines are written", async || of("tidegate::feature").len() >= 9).await;
    let end = |second: u32| format!("until 2026-11-20T23:0{}:{:02}Z", second / 60, second % 60);
    let message = "the pin of a feature was changed";
    let audit = of("tidegate::audit");
    assert_eq!(
        audit,
        [
            json!({ "message": message, "change": "pinned", "feature": "thumbnails",
                "after": format!("480p {}", end(60)), "reason": "incident 7", "by": "grace",
                "grant": "operators" }),
            json!({ "message": message, "change": "pinned", "feature": "thumbnails",
                "before": format!("480p {}", end(60)), "after": format!("off {}", end(60)),
                "grant": "operators" }),
            json!({ "message": message, "change": "unpinned", "feature": "thumbnails",
                "before": format!("off {}", end(60)), "reason": "over", "by": "ada",
                "grant": "operators" }),
            json!({ "message": message, "change": "pinned", "feature": "ranking",
                "after": format!("plain {}", end(2)), "grant": "operators" }),
        ]
    );
    let lines = of("tidegate::feature");
    let pinned = |feature: &str, level: &str, second| {
        json!({ "message": "a feature is pinned", "feature": feature, "level": level,
            "until": end(second).replace("until ", "") })
    };
    let changed = |from: &str, to: &str| {
        json!({ "message": "the level of a feature has changed", "feature": "thumbnails",
            "resource": "app", "from": from, "to": to, "reason": "pin" })
    };
    let ended = |feature: &str, level: &str, expired: bool| {
        json!({ "message": "the pin of a feature has ended; its level follows the load again",
            "feature": feature, "level": level, "expired": expired })
    };
    let expected = [
        pinned("thumbnails", "480p", 60),
        changed("full", "480p"),
        pinned("thumbnails", "off", 60),
        changed("480p", "off"),
        json!({ "message": "the work of a feature that was switched off has ended",
            "feature": "thumbnails", "after": "0 ms" }),
        ended("thumbnails", "off", false),
        pinned("ranking", "plain", 2),
        json!({ "message": "the level of a feature has changed", "feature": "ranking",
            "resource": "other", "from": "full", "to": "plain", "reason": "pin", "shadow": true }),
        ended("ranking", "plain", true),
    ];
    assert_eq!(lines[..expected.len()], expected);
    let page = ask("GET /metrics", "").await.body;
    for series in [
        "tidegate_feature_transitions_total{feature=\"ranking\",direction=\"down\"} 1",
        "tidegate_feature_transitions_total{feature=\"thumbnails\",direction=\"down\"} 2",
        "tidegate_feature_in_flight{feature=\"thumbnails\"} 0",
        "tidegate_feature_footprint_ratio{feature=\"thumbnails\"} 0",
        "tidegate_feature_released_seconds{feature=\"thumbnails\"} 0",
    ] {
        assert!(page.contains(series), "{series}: {page}");
    }
}

#[tokio::test]
async fn the_level_is_a_metric_that_a_reload_forgets_with_its_feature() {
    let daemon = start().await;
    let level = "tidegate_feature_level{feature=\"thumbnails\"}";
    let down = "tidegate_feature_transitions_total{feature=\"thumbnails\",direction=\"down\"}";
    assert_eq!((daemon.sample(level).await, daemon.sample(down).await), (Some(0.0), Some(0.0)));
    daemon.put(PIN, &json!({ "level": "off", "expires_ms": 60_000 })).await;
    assert_eq!(daemon.sample(level).await, Some(2.0));
    eventually("the change is counted", async || {
        daemon.clock.advance(Duration::from_millis(100));
        daemon.sample(down).await == Some(1.0)
    })
    .await;
    assert_eq!(daemon.reload("  shop: { limits: [] }\n").await, None);
    assert_eq!(daemon.sample(level).await, None);
}

#[tokio::test]
async fn a_change_of_a_level_is_a_mark_in_the_history_of_its_resource() {
    let daemon = start().await;
    let history =
        async |resource: &str| daemon.get(&format!("/v1/resources/{resource}/history")).await.json();
    eventually("a resource is observed", async || {
        daemon.clock.advance(Duration::from_secs(1));
        !history("app").await["samples"].as_array().unwrap().is_empty()
    })
    .await;
    daemon.put(PIN, &json!({ "level": "off", "expires_ms": 60_000 })).await;
    daemon.put(PIN, &json!({ "level": "full", "expires_ms": 60_000 })).await;
    daemon.put("/v1/features/ranking/pin", &json!({ "level": "plain", "expires_ms": 60_000 })).await;
    let marks = eventually_some("the marks", async || {
        daemon.clock.advance(Duration::from_millis(100));
        let marks = [history("app").await, history("other").await].map(|one| one["marks"].clone());
        (marks[0].as_array()?.len() + marks[1].as_array()?.len() >= 3).then_some(marks)
    })
    .await;
    let at = &marks[0][0]["at"];
    let mark = |at: &Value, feature: &str, level: &str, is_worse: bool| json!({ "at": at, "feature": feature, "level": level, "is_worse": is_worse });
    assert_eq!(marks[0], json!([mark(at, "thumbnails", "off", true), mark(at, "thumbnails", "full", false)]));
    let mut shadow = mark(at, "ranking", "plain", true);
    shadow["is_shadow"] = json!(true);
    assert_eq!(marks[1], json!([shadow]));
    // The picture's thresholds are those of the policy.
    let soft = history("app").await["samples"][0]["soft"].clone();
    assert_eq!(soft, json!(0.7));
    let late = daemon.get("/v1/resources/app/history?since=2027-01-01T00:00:00Z").await.json();
    assert_eq!(late["marks"], json!([]));
}
