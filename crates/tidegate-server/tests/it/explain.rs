//! `POST /v1/explain`: what each limit is to a request, of a running daemon.

use std::time::Duration;

use serde_json::{Value, json};

use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

const LIMITS: &str = "  api: { limits: [\
    { name: reads, key: [user], match: { method: [GET, HEAD] }, rate: 1/s, burst: 3 }, \
    { name: per-user, key: [user], fixed: { limit: 5, window: 1h } }, \
    { name: per-address, key: [ip], missing: group, rate: 100/s }, \
    { name: per-app, key: [app], rate: 100/s }, \
    { name: tried, key: [user], mode: shadow, fixed: { limit: 1, window: 1m } }] }\n";

const ADA: &str = r#"{"user":"ada","method":"POST","ip":"2001:db8::7"}"#;

async fn explain(daemon: &RestartableDaemon, attributes: &str, cost: u64) -> Value {
    let body = format!(r#"{{"namespace":"api","attributes":{attributes},"cost":{cost}}}"#);
    let answer = daemon.client().await.post("/v1/explain", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn every_limit_says_what_it_is_to_the_request_and_nothing_is_charged() {
    for kept in [Kept::Memory, Kept::Files] {
        let daemon = RestartableDaemon::start(kept, LIMITS, START).await;
        assert_eq!(daemon.admits(ADA, 2).await, 2);
        let url = "/v1/overrides/api/per-user?user=ada";
        let body = r#"{"numbers":{"limit":4},"expires_ms":60000,"reason":"r"}"#;
        assert_eq!(daemon.client().await.request("PUT", url, body).await.status, 200);
        let all = explain(&daemon, ADA, 3).await;
        assert_eq!(explain(&daemon, ADA, 3).await, all, "it changes nothing");
        assert_eq!((&all["would"], &all["cost"]), (&json!("refuse"), &json!(3)));
        let limits = all["limits"].as_array().unwrap();
        let names: Vec<_> = limits.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["reads", "per-user", "per-address", "per-app", "tried"]);
        let reads = json!({
            "name": "reads",
            "applies": false,
            "because": r#"method is "POST"; it wants one of "GET", "HEAD""#,
            "unmatched": { "attribute": "method", "value": "POST", "wants": r#"one of "GET", "HEAD""# },
        });
        assert_eq!(limits[0], reads);
        let per_user = &limits[1];
        assert_eq!(
            (&per_user["would"], &per_user["reason"], &per_user["retry_after_ms"]),
            (&json!("refuse"), &json!("quota_exceeded"), &json!(3_600_000)),
            "{per_user}"
        );
        assert_eq!(per_user["because"], "not enough for a cost of 3: 2 of 4 left; again in 1 h");
        let by = if kept == Kept::Files { "store" } else { "member" };
        let until = START.saturating_add(Duration::from_mins(1)).to_string();
        let counter = json!({
            "key": { "user": "ada" },
            "numbers": "fixed 4 in 1h",
            "numbers_of": "run_time",
            "overrides": { "user": "ada" },
            "until": until,
            "decided_by": by,
            "level": { "limit": 4, "used": 2, "remaining": 2, "reset_ms": 3_600_000 },
        });
        assert_eq!(per_user["counter"], counter);
        assert_eq!(limits[2]["counter"]["key"], json!({ "ip": "2001:db8::/64" }));
        assert_eq!(limits[3]["lacks"], "app");
        let tried = &limits[4];
        assert_eq!((&tried["shadow"], &tried["would"]), (&json!(true), &json!("refuse")));
        assert_eq!(explain(&daemon, ADA, 2).await["would"], "admit", "a shadow limit refuses nothing");
        assert_eq!(daemon.admits(ADA, 5).await, 2, "what was explained is what is decided");
    }
}

#[tokio::test]
async fn what_cannot_be_explained_says_why_and_get_is_not_taken() {
    let daemon = RestartableDaemon::start(Kept::Memory, LIMITS, START).await;
    for (body, status, error) in [
        (r#"{"namespace":"none"}"#, 404, "unknown_namespace"),
        (r#"{"namespace":"api","cost":0}"#, 400, "malformed_body"),
        (r#"{"namespace":"api","atributes":{}}"#, 400, "malformed_body"),
    ] {
        let answer = daemon.client().await.post("/v1/explain", body).await;
        assert_eq!((answer.status, answer.json()["error"].as_str()), (status, Some(error)), "{answer:?}");
    }
    let answer = daemon.get("/v1/explain").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
}

/// A bucket admits more at once than it holds where it may be overdrawn.
#[tokio::test]
async fn a_cost_that_is_never_admitted_is_told_the_largest_that_is_with_the_debt() {
    let limits = "  api: { limits: [{ name: per-user, key: [user], rate: 1/m, burst: 10, debt: 5 }] }\n";
    let daemon = RestartableDaemon::start(Kept::Memory, limits, START).await;
    let all = explain(&daemon, r#"{"user":"ada"}"#, 16).await;
    assert_eq!(all["limits"][0]["because"], "a cost of 16 is more than it ever admits at once, 15");
    let body = r#"{"namespace":"api","attributes":{"user":"ada"},"cost":16}"#;
    let refused = daemon.client().await.post("/v1/check", body).await.json();
    let detail = "the cost is larger than limit \"per-user\" ever admits at once, 15 units; the same request will never be admitted";
    assert_eq!(refused["detail"], detail, "{refused}");
}
