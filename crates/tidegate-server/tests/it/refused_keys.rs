//! `GET /v1/keys/top`: which keys were refused most within a window.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{World, api, fixed, loopback};
use tidegate_engine::NamespaceConfig;

async fn top(world: &World, query: &str) -> Value {
    let answer = world.client().await.get(&format!("/v1/keys/top{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    answer.json()
}

/// Limit, key and refusals of each listed key.
async fn listed(world: &World, query: &str) -> Vec<String> {
    let top = top(world, query).await;
    let keys = top["keys"].as_array().unwrap();
    let words = |key: &Value| {
        let [namespace, limit, text] = ["namespace", "limit", "key"].map(|name| key[name].as_str().unwrap());
        format!("{namespace} {limit} {text} {}", key["refusals"])
    };
    keys.iter().map(words).collect()
}

#[tokio::test]
async fn a_window_slides_and_filters_select_namespace_limit_reason_and_key() {
    let shop = NamespaceConfig::new("shop", [fixed("per-user", 1, Duration::from_hours(1)).key(["user"])]);
    let world = World::with([api(), shop], loopback()).await;
    for _ in 0..5 {
        world.check(r#"{"user":"ada"}"#).await;
    }
    world.clock.advance(Duration::from_secs(70));
    for _ in 0..8 {
        world.check(r#"{"app":"x","user":"bob"}"#).await;
    }
    for _ in 0..2 {
        world.post("/v1/check", r#"{"namespace":"shop","attributes":{"user":"ada"}}"#).await;
    }
    world.clock.advance(Duration::from_secs(10));
    let minute = ["api per-user user=bob 5", "shop per-user user=ada 1"];
    assert_eq!(listed(&world, "").await, minute);
    assert_eq!(listed(&world, "?window=1m").await, minute);
    let hour = ["api per-user user=bob 5", "api per-user user=ada 2", "shop per-user user=ada 1"];
    assert_eq!(listed(&world, "?window=1h").await, hour);
    assert_eq!(listed(&world, "?window=1h&n=1").await, hour[..1]);
    assert_eq!(listed(&world, "?window=1h&namespace=shop").await, hour[2..]);
    assert_eq!(listed(&world, "?window=1h&reason=quota_exceeded").await, hour[2..]);
    assert_eq!(listed(&world, "?window=1h&key=user%3Dada").await, hour[1..]);
    assert_eq!(listed(&world, "?window=1h&key=user=ada&key=app=x").await, [""; 0]);
    assert_eq!(listed(&world, "?window=1h&namespace=api&limit=parallel").await, [""; 0]);
    let answer = top(&world, "?namespace=api").await;
    let bob = &answer["keys"][0];
    assert_eq!(bob["reasons"], json!([{"reason": "rate_exceeded", "refusals": 5, "error": 0}]));
    assert_eq!((&bob["last_seen_ms"], &bob["rate_per_s"]), (&json!(10_000), &json!(0.083)));
    assert_eq!(
        (&answer["refusals"], &answer["more"], &answer["uncounted_max"]),
        (&json!(5), &json!(0), &json!(0))
    );
    assert_eq!(top(&world, "?window=1h&n=1").await["more"], 2);
}

#[tokio::test]
async fn a_parameter_that_is_not_taken_is_named_with_its_value_and_what_is() {
    let world = World::api().await;
    let mut client = world.client().await;
    for (query, field, value, fix) in [
        ("namespaces=api", "namespaces", "namespaces", "takes namespace, limit, reason, by, window, n, key"),
        ("window=1x", "window", "1x", "30s, 5m or 1h"),
        ("window=2h", "window", "2h", "30s, 5m or 1h"),
        ("window=60", "window", "60", "30s, 5m or 1h"),
        ("reason=throttled", "reason", "throttled", "rate_exceeded, quota_exceeded"),
        ("reason=busy", "reason", "busy", "rate_exceeded, quota_exceeded"),
        ("n=0", "n", "0", "without n it is 20"),
        ("n=1001", "n", "1001", "without n it is 20"),
        ("key=ada", "key", "ada", "key=user=ada"),
        ("n=1&n=2", "n", "n", "once"),
    ] {
        let answer = client.get(&format!("/v1/keys/top?{query}")).await;
        let body = answer.json();
        assert_eq!((answer.status, body["error"].as_str()), (400, Some("malformed_query")), "{query}");
        assert_eq!(body["field"].as_str(), Some(field), "{query}");
        assert!(body["detail"].as_str().unwrap().contains(&format!("\"{value}\"")), "{query}: {body}");
        assert!(body["fix"].as_str().unwrap().contains(fix), "{query}: {body}");
    }
    for (query, error) in
        [("namespace=apj", "unknown_namespace"), ("namespace=api&limit=per-usr", "unknown_limit")]
    {
        let answer = client.get(&format!("/v1/keys/top?{query}")).await;
        assert_eq!((answer.status, answer.json()["error"].as_str()), (404, Some(error)), "{query}");
    }
    assert_eq!(client.get("/v1/keys/top?namespace=api&limit=per-user").await.status, 200);
}
