//! Everything that can be asked besides a check.

use std::time::Duration;

use tidegate_server::ListenerRole;

use crate::world::{World, api, loopback};

const USER: &str = r#""namespace":"api","attributes":{"user":"ada"}"#;

#[tokio::test]
async fn a_peek_says_what_a_check_would_and_changes_nothing() {
    let world = World::api().await;
    let peek = format!(r#"{{{USER},"peek":true,"cost":3}}"#);
    for _ in 0..5 {
        let answer = world.post("/v1/check", &peek).await;
        assert_eq!((answer.status, answer.json()["remaining"].as_u64()), (200, Some(3)), "{answer:?}");
    }
    assert_eq!(world.post("/v1/check", &format!("{{{USER}}}")).await.status, 200);
    let refused = world.post("/v1/check", &peek).await;
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (429, Some("rate_exceeded")));
}

#[tokio::test]
async fn a_report_is_charged_whether_or_not_there_is_room() {
    let world = World::api().await;
    let answer = world.post("/v1/report", &format!(r#"{{{USER},"cost":5}}"#)).await;
    assert_eq!((answer.status, answer.json()["remaining"].as_u64()), (200, Some(0)), "{answer:?}");
    assert_eq!(answer.header("ratelimit"), Some(r#""per-user";r=0;t=5"#));
    let refused = world.check(r#"{"user":"ada"}"#).await.json();
    assert_eq!(refused["retry_after_ms"], 3000, "two units of debt and one for the request: {refused}");
}

#[tokio::test]
async fn a_refund_is_applied_once_for_each_key() {
    let world = World::api().await;
    for _ in 0..3 {
        world.check(r#"{"user":"ada"}"#).await;
    }
    let refund = |key: &str| format!(r#"{{{USER},"cost":1,"refund_key":"{key}"}}"#);
    let first = world.post("/v1/refund", &refund("order-1")).await;
    assert_eq!((first.status, first.body.as_str()), (200, r#"{"refund":"applied"}"#));
    let again = world.post("/v1/refund", &refund("order-1")).await;
    assert_eq!((again.status, again.body.as_str()), (200, r#"{"refund":"already_applied"}"#));
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.status, 200);
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.status, 429, "one unit was given back, not two");
}

#[tokio::test]
async fn a_reservation_is_settled_with_its_true_cost_and_only_once() {
    let world = World::api().await;
    let reserved = world.post("/v1/reserve", &format!(r#"{{{USER},"cost":3}}"#)).await;
    let permit = reserved.json()["permit"].as_str().unwrap().to_owned();
    assert_eq!((reserved.status, reserved.json()["remaining"].as_u64()), (200, Some(0)));
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.status, 429);
    let settle = format!(r#"{{"permit":"{permit}","cost":1}}"#);
    let settled = world.post("/v1/settle", &settle).await;
    assert_eq!((settled.status, settled.body.as_str()), (200, r#"{"permit":"settled"}"#));
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.json()["remaining"], 1, "two units came back");
    let twice = world.post("/v1/settle", &settle).await;
    assert_eq!((twice.status, twice.json()["error"].as_str()), (404, Some("unknown_permit")));
}

#[tokio::test]
async fn a_reservation_that_is_cancelled_gives_everything_back() {
    let world = World::api().await;
    let reserved = world.post("/v1/reserve", &format!(r#"{{{USER},"cost":3}}"#)).await;
    let permit = reserved.json()["permit"].as_str().unwrap().to_owned();
    let body = format!(r#"{{"permit":"{permit}","outcome":"cancelled"}}"#);
    assert_eq!(world.post("/v1/settle", &body).await.status, 200);
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.json()["remaining"], 2);
}

#[tokio::test]
async fn an_unsettled_reservation_expires() {
    let world = World::api().await;
    let reserved = world.post("/v1/reserve", &format!(r#"{{{USER},"expires_ms":5000}}"#)).await;
    let permit = reserved.json()["permit"].as_str().unwrap().to_owned();
    world.clock.advance(Duration::from_secs(5));
    let late = world.post("/v1/settle", &format!(r#"{{"permit":"{permit}"}}"#)).await;
    assert_eq!((late.status, late.json()["error"].as_str()), (404, Some("unknown_permit")));
}

#[tokio::test]
async fn a_place_among_the_parallel_ones_is_free_again_when_released_or_expired() {
    let world = World::api().await;
    let tenant = r#"{"tenant":"acme"}"#;
    let first = world.check(tenant).await.json()["permit"].as_str().unwrap().to_owned();
    assert_eq!(world.check(tenant).await.status, 200);
    let refused = world.check(tenant).await;
    let json = refused.json();
    assert_eq!((refused.status, json["reason"].as_str()), (429, Some("concurrency_exceeded")), "{json}");
    assert_eq!(refused.header("ratelimit-policy"), Some(r#""parallel";q=2;qu="concurrent-requests""#));
    let release = format!(r#"{{"permit":"{first}"}}"#);
    assert_eq!(world.post("/v1/release", &release).await.status, 200);
    assert_eq!(world.post("/v1/release", &release).await.status, 404);
    assert_eq!(world.check(tenant).await.status, 200);
    assert_eq!(world.check(tenant).await.status, 429);
    world.clock.advance(Duration::from_secs(30));
    assert_eq!(world.check(tenant).await.status, 200, "both permits have expired");
}

#[tokio::test]
async fn only_permits_that_must_be_given_back_are_handed_out() {
    let world = World::api().await;
    assert!(world.check(r#"{"user":"ada"}"#).await.json().get("permit").is_none());
    let permit = world.check(r#"{"tenant":"acme"}"#).await.json()["permit"].as_str().unwrap().to_owned();
    assert_eq!(permit.len(), 32);
}

#[tokio::test]
async fn when_no_more_permits_are_kept_the_request_is_undone_and_says_so() {
    let world = World::api().await;
    for index in 0..8 {
        assert_eq!(world.check(&format!(r#"{{"tenant":"t{index}"}}"#)).await.status, 200);
    }
    let ninth = world.check(r#"{"tenant":"t9","account":"a"}"#).await;
    assert_eq!((ninth.status, ninth.json()["error"].as_str()), (503, Some("too_many_kept")));
    assert_eq!(ninth.header("retry-after"), Some("1"));
    let left = world.check(r#"{"account":"a"}"#).await.json();
    assert_eq!(left["remaining"], 9, "the ninth was given back: {left}");
}

#[tokio::test]
async fn a_reset_forgets_what_is_used_of_one_limit_or_of_all() {
    let world = World::api().await;
    for _ in 0..3 {
        world.check(r#"{"user":"ada","app":"shop"}"#).await;
    }
    let both = r#""namespace":"api","attributes":{"user":"ada","app":"shop"}"#;
    let one = world.post("/v1/reset", &format!(r#"{{{both},"limit":"per-user"}}"#)).await;
    assert_eq!((one.status, one.body.as_str()), (200, r#"{"counters":1}"#));
    let after = world.check(r#"{"user":"ada","app":"shop"}"#).await.json();
    assert_eq!((&after["limits"][0]["remaining"], &after["limits"][1]["remaining"]), (&2.into(), &1.into()));
    assert_eq!(world.post("/v1/reset", &format!("{{{both}}}")).await.body, r#"{"counters":2}"#);
    let unknown = world.post("/v1/reset", &format!(r#"{{{both},"limit":"nope"}}"#)).await;
    assert_eq!((unknown.status, unknown.json()["error"].as_str()), (404, Some("unknown_limit")));
}

#[tokio::test]
async fn a_blocked_key_is_refused_until_then_and_a_block_can_be_lifted() {
    let world = World::api().await;
    let block = |ms: u64| format!(r#"{{{USER},"limit":"per-user","for_ms":{ms}}}"#);
    let blocked = world.post("/v1/block", &block(60_000)).await;
    assert_eq!((blocked.status, blocked.body.as_str()), (200, r#"{"blocked_until":"2026-11-20T23:01:00Z"}"#));
    let refused = world.check(r#"{"user":"ada"}"#).await;
    assert_eq!(
        (refused.json()["reason"].as_str(), refused.header("retry-after")),
        (Some("blocked"), Some("60"))
    );
    assert_eq!(world.check(r#"{"user":"bob"}"#).await.status, 200);
    assert_eq!(world.post("/v1/block", &block(0)).await.body, "{}");
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.status, 200);
    let unknown = world.post("/v1/block", &format!(r#"{{{USER},"limit":"nope","for_ms":1}}"#)).await;
    assert_eq!((unknown.status, unknown.json()["error"].as_str()), (404, Some("unknown_limit")));
}

#[tokio::test]
async fn operators_see_limits_and_the_most_refused_keys() {
    let world = World::api().await;
    for _ in 0..5 {
        world.check(r#"{"user":"ada"}"#).await;
    }
    let mut client = world.client().await;
    let limits = client.get("/v1/limits").await.json();
    assert_eq!(limits["namespaces"][0]["name"], "api");
    assert_eq!(
        limits["namespaces"][0]["limits"][0],
        serde_json::json!({"name": "per-user", "key": ["user"], "matches": [], "conditions": [], "limit": 3,
            "allowance": "1/s, at most 3 at once", "window_ms": 3000, "mode": "enforce", "missing": "skip", "status": 429,
            "overrides": 0})
    );
    assert_eq!(client.get("/v1/limits?namespace=api").await.status, 200);
    assert_eq!(client.get("/v1/limits?namespace=nope").await.status, 404);
    let misspelt = client.get("/v1/limits?namespaces=api").await;
    assert_eq!((misspelt.status, misspelt.json()["field"].as_str()), (400, Some("namespaces")));
    assert_eq!(
        client.get("/v1/keys/top").await.json(),
        serde_json::json!({"window_ms": 60_000, "since": "2026-11-20T23:00:00Z", "refusals": 2,
            "uncounted_max": 0, "more": 0, "keys": [
            {"namespace": "api", "limit": "per-user", "key": "user=ada", "refusals": 2, "error": 0,
                "reasons": [{"reason": "rate_exceeded", "refusals": 2, "error": 0}], "rate_per_s": 2.0,
                "last_seen": "2026-11-20T23:00:00Z", "last_seen_ms": 0}]})
    );
    assert_eq!(client.get("/healthz").await.body, r#"{"status":"ok"}"#);
    assert_eq!(client.get("/readyz").await.body, r#"{"status":"ok"}"#);
    let openapi = client.get("/openapi.json").await.json();
    assert!(openapi["paths"]["/v1/check"]["post"].is_object());
}

#[tokio::test]
async fn an_admin_listener_of_its_own_takes_the_operators_routes_with_it() {
    let mut config = loopback();
    config.listen(ListenerRole::Admin, "127.0.0.1:0".parse().unwrap());
    let world = World::with([api()], config).await;
    let admin = world.handle.admin().unwrap().tcp().unwrap();
    assert_ne!(admin, world.address());
    let mut operators = crate::client::Client::connect(admin).await;
    let mut callers = world.client().await;
    assert_eq!(operators.get("/metrics").await.status, 200);
    let wrong_listener = callers.get("/metrics").await;
    assert_eq!(wrong_listener.status, 404);
    assert!(wrong_listener.json()["fix"].as_str().unwrap().contains("listen.admin"), "{wrong_listener:?}");
    assert_eq!(operators.post("/v1/check", r#"{"namespace":"api"}"#).await.status, 404);
    assert_eq!((callers.get("/healthz").await.status, operators.get("/healthz").await.status), (200, 200));
}
