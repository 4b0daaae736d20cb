//! The decision table through HTTP.

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::NamespaceConfig;
use tidegate_server::Clock;

use crate::client::post;
use crate::world::{World, bucket, fixed, loopback};

#[tokio::test]
async fn waiting_exactly_as_told_is_enough_and_one_millisecond_less_is_not() {
    let world = World::api().await;
    let user = r#"{"user":"ada"}"#;
    for left in [2, 1, 0] {
        let answer = world.check(user).await;
        assert_eq!((answer.status, answer.json()["remaining"].as_u64()), (200, Some(left)), "{answer:?}");
    }
    let refused = world.check(user).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    let wait = refused.json()["retry_after_ms"].as_u64().unwrap();
    assert_eq!(wait, 1000);
    world.clock.advance(Duration::from_millis(wait - 1));
    assert_eq!(world.check(user).await.status, 429);
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.check(user).await.status, 200);
}

#[tokio::test]
async fn a_refusal_by_one_limit_charges_none() {
    let world = World::api().await;
    for _ in 0..3 {
        assert_eq!(world.check(r#"{"user":"ada"}"#).await.status, 200);
    }
    for _ in 0..10 {
        let refused = world.check(r#"{"user":"ada","app":"shop"}"#).await;
        assert_eq!((refused.status, refused.json()["limit"].as_str()), (429, Some("per-user")));
    }
    let other = world.check(r#"{"user":"bob","app":"shop"}"#).await.json();
    let left = other["limits"].as_array().unwrap().iter().find(|limit| limit["name"] == "per-app").unwrap();
    assert_eq!(left["remaining"], 4, "only this request was charged: {other}");
}

#[tokio::test]
async fn the_limit_that_binds_longest_is_named_and_all_violated_ones_are_listed() {
    let world = World::api().await;
    for _ in 0..3 {
        world.check(r#"{"user":"ada","app":"shop"}"#).await;
    }
    for _ in 0..2 {
        world.check(r#"{"user":"bob","app":"shop"}"#).await;
    }
    let refused = world.check(r#"{"user":"ada","app":"shop"}"#).await.json();
    assert_eq!(refused["limit"], "per-app");
    assert_eq!(refused["violated-policies"], serde_json::json!(["per-app", "per-user"]));
    assert_eq!(refused["scope"], serde_json::json!({"app": "shop"}));
}

#[tokio::test]
async fn a_cost_larger_than_the_limit_is_refused_for_good() {
    let world = World::api().await;
    for cost in ["4", "18446744073709551615"] {
        let body = format!(r#"{{"namespace":"api","attributes":{{"user":"ada"}},"cost":{cost}}}"#);
        let refused = world.post("/v1/check", &body).await;
        let json = refused.json();
        assert_eq!((refused.status, json["reason"].as_str()), (429, Some("cost_exceeds_limit")), "{json}");
        assert_eq!((json["retry"].as_str(), refused.header("retry-after")), (Some("never"), None));
    }
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.json()["remaining"], 2, "nothing was charged");
}

#[tokio::test]
async fn attributes_that_collide_when_joined_are_different_keys() {
    let namespace = NamespaceConfig::new("api", [bucket("pair", 1, 1).key(["one", "two"])]);
    let world = World::with([namespace], loopback()).await;
    for attributes in
        [r#"{"one":"a","two":"b_c"}"#, r#"{"one":"a_b","two":"c"}"#, r#"{"one":"","two":"a_b_c"}"#]
    {
        assert_eq!(world.check(attributes).await.status, 200, "{attributes}");
        assert_eq!(world.check(attributes).await.status, 429, "{attributes}");
    }
}

#[tokio::test]
async fn a_clock_that_steps_admits_no_more_than_one_burst() {
    let world = World::api().await;
    let admitted = async || {
        let mut admitted = 0;
        while world.check(r#"{"user":"ada"}"#).await.status == 200 {
            admitted += 1;
        }
        admitted
    };
    assert_eq!(admitted().await, 3);
    let now = world.clock.now();
    world.clock.set(now.saturating_sub(Duration::from_hours(1)));
    assert_eq!(admitted().await, 0, "an hour back");
    world.clock.set(now.saturating_add(Duration::from_hours(24 * 3652)));
    assert_eq!(admitted().await, 3, "ten years ahead");
    world.clock.set(now);
    assert_eq!(admitted().await, 0, "and back again");
}

#[tokio::test]
async fn a_request_that_no_limit_matches_goes_ahead_without_fields() {
    let world = World::api().await;
    let answer = world.check("{}").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"decision":"admit","limits":[]}"#));
    assert_eq!((answer.header("ratelimit"), answer.header("ratelimit-policy")), (None, None));
}

#[tokio::test]
async fn a_shadow_limit_refuses_nothing_and_is_named() {
    let namespace = NamespaceConfig::new(
        "api",
        [
            bucket("trial", 1, 1).key(["user"]).shadow(),
            fixed("real", 9, Duration::from_mins(1)).key(["user"]),
        ],
    );
    let world = World::with([namespace], loopback()).await;
    let user = r#"{"user":"ada"}"#;
    assert!(world.check(user).await.json().get("shadow").is_none());
    let second = world.check(user).await;
    assert_eq!(second.status, 200);
    assert_eq!(second.json()["shadow"], serde_json::json!(["trial"]));
    // Callers are told of the limits they have to heed, and of no others.
    assert_eq!(second.header("ratelimit"), Some(r#""real";r=7;t=60"#));
    assert_eq!(second.json()["remaining"], 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_over_many_connections_admits_exactly_what_the_limit_has() {
    let namespace = NamespaceConfig::new(
        "api",
        [fixed("burst", 500, Duration::from_mins(1)).key(["user"]), bucket("second", 1, 700).key(["user"])],
    );
    let world = Arc::new(World::with([namespace], loopback()).await);
    let request = post("/v1/check", r#"{"namespace":"api","attributes":{"user":"ada"}}"#);
    let mut connections = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (world, request) = (Arc::clone(&world), request.clone());
        connections.spawn(async move {
            let mut client = world.client().await;
            let mut admitted = 0;
            for _ in 0..10 {
                // Pipelined: ten requests in one segment.
                client.send(request.repeat(10)).await;
                for _ in 0..10 {
                    let status = client.answer().await.unwrap().status;
                    assert!(status == 200 || status == 429, "{status}");
                    admitted += usize::from(status == 200);
                }
            }
            admitted
        });
    }
    let admitted: usize = connections.join_all().await.into_iter().sum();
    assert_eq!(admitted, 500);
}
