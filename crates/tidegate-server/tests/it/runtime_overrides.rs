//! Other numbers for one customer while running: at once, listed, written down, and over a restart.

use std::time::Duration;

use crate::client::Answer;
use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

const ADA: &str = r#"{"user":"ada"}"#;
const URL: &str = "/v1/overrides/api/per-user?user=ada";
const LIMIT: &str = "  api: { limits: [{ name: per-user, key: [user], fixed: { limit: 2, window: 1h }, overrides: [{ user: bob, limit: 3 }] }] }\n";

async fn put(daemon: &RestartableDaemon, url: &str, body: &str) -> Answer {
    daemon.client().await.request("PUT", url, body).await
}

async fn delete(daemon: &RestartableDaemon, url: &str, body: &str) -> Answer {
    daemon.client().await.request("DELETE", url, body).await
}

#[tokio::test]
async fn an_override_counts_at_once_keeps_what_was_used_and_is_taken_away_again() {
    for kept in [Kept::Memory, Kept::Files] {
        let daemon = RestartableDaemon::start(kept, LIMIT, START).await;
        assert_eq!(daemon.admits(ADA, 5).await, 2);
        let set = put(&daemon, URL, r#"{"numbers":{"limit":5},"reason":"ticket 1","by":"grace"}"#).await;
        assert_eq!((set.status, set.json()["state"].as_str()), (200, Some("active")), "{set:?}");
        assert_eq!(daemon.admits(ADA, 5).await, 3, "{kept:?}: the difference");
        let limits = daemon.get("/v1/limits").await.json();
        assert_eq!(limits["overrides"][0]["when"]["user"], "ada", "{limits}");
        let gone = delete(&daemon, URL, r#"{"reason":"done"}"#).await;
        assert_eq!(gone.status, 200, "{gone:?}");
        assert_eq!(daemon.check(ADA).await.0, 429);
        assert_eq!(delete(&daemon, URL, "").await.status, 404, "it is gone");
        let history = daemon.get("/v1/overrides").await.json()["history"].clone();
        let told: Vec<_> =
            history.as_array().unwrap().iter().map(|one| one["change"].as_str().unwrap()).collect();
        assert_eq!(told, ["removed", "set"]);
        assert_eq!(
            (history[1]["by"].as_str(), history[1]["reason"].as_str()),
            (Some("grace"), Some("ticket 1"))
        );
        assert!(history[0]["before"].as_str().unwrap().contains('5'), "{history}");
    }
}

#[tokio::test]
async fn an_override_wins_over_the_policy_expires_to_the_instant_and_outlives_restarts() {
    let mut daemon = RestartableDaemon::start(Kept::Files, LIMIT, START).await;
    let bob = r#"{"user":"bob"}"#;
    assert_eq!(daemon.check(bob).await, (200, Some(2)), "the policy's own override");
    let url = "/v1/overrides/api/per-user?user=bob";
    let set = put(&daemon, url, r#"{"numbers":{"limit":10},"expires_ms":60000,"reason":"sale"}"#).await;
    assert_eq!(set.status, 200, "{set:?}");
    assert_eq!(daemon.check(bob).await, (200, Some(8)));
    daemon.restart().await;
    assert_eq!(daemon.check(bob).await, (200, Some(7)), "after a restart");
    daemon.clock.advance(Duration::from_millis(59_999));
    assert_eq!(daemon.check(bob).await, (200, Some(6)));
    daemon.clock.advance(Duration::from_millis(1));
    assert_eq!(daemon.check(bob).await, (429, Some(0)), "four of three are used");
    let history = daemon.get("/v1/overrides").await.json()["history"].clone();
    assert_eq!(history[0]["reason"], "sale", "what was written down is still there: {history}");
    assert_eq!(daemon.get("/v1/overrides?namespace=api").await.json()["history"], history);
    for (query, status) in [("namespace=none", 404), ("limit=per-user", 400)] {
        let answer = daemon.get(&format!("/v1/overrides?{query}")).await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
    }
}

#[tokio::test]
async fn an_override_whose_limit_a_reload_removed_is_dormant_until_the_limit_is_back() {
    let mut daemon = RestartableDaemon::start(Kept::Files, LIMIT, START).await;
    put(&daemon, URL, r#"{"numbers":{"limit":5},"reason":"ticket 1"}"#).await;
    assert_eq!(daemon.reload("  api: { limits: [{ name: other, key: [user], rate: 100/s }] }\n").await, None);
    let listed = daemon.get("/v1/overrides").await.json()["overrides"][0].clone();
    assert_eq!(listed["state"], "dormant", "{listed}");
    assert!(listed["why"].as_str().unwrap().contains("per-user"), "{listed}");
    daemon.restart().await;
    assert_eq!(daemon.get("/v1/overrides").await.json()["overrides"][0]["state"], "dormant");
    assert_eq!(daemon.reload(LIMIT).await, None);
    assert_eq!(daemon.check(ADA).await, (200, Some(4)), "it applies again");
}

#[tokio::test]
async fn what_is_no_override_is_told_what_is_wrong_and_changes_nothing() {
    let daemon = RestartableDaemon::start(Kept::Files, LIMIT, START).await;
    let good = r#"{"numbers":{"limit":5},"reason":"r"}"#;
    for (url, body, status, hint) in [
        ("/v1/overrides/api/none?user=ada", good, 404, "no limit"),
        ("/v1/overrides/none/per-user?user=ada", good, 404, "does not exist"),
        ("/v1/overrides/api/per-user?app=x", good, 400, "app"),
        ("/v1/overrides/api/per-user", good, 400, "not for all"),
        ("/v1/overrides/api", good, 400, "no namespace and limit"),
        ("/v1/overrides", good, 405, "use GET, HEAD"),
        ("/v1/overrides/api/per-user/more?user=ada", good, 404, "/v1/overrides/{namespace}/{limit}"),
        ("/v1/overrides/api/%ff?user=ada", good, 400, "segment limit"),
        (URL, r#"{"numbers":{"limit":-1},"reason":"r"}"#, 400, "limit"),
        (URL, r#"{"numbers":{"rate":"5/s"},"reason":"r"}"#, 400, "rate"),
        (URL, r#"{"numbers":{},"reason":"r"}"#, 400, "numbers"),
        (URL, r#"{"numbers":{"limit":5}}"#, 400, "reason"),
        (URL, r#"{"numbers":{"limit":5},"reason":""}"#, 400, "reason"),
        (URL, r#"{"numbers":{"limit":5},"reason":"r","expires_ms":0}"#, 400, "expires_ms"),
        (URL, r#"{"number":{"limit":5},"reason":"r"}"#, 400, "number"),
    ] {
        let answer = put(&daemon, url, body).await;
        assert_eq!(answer.status, status, "{url} {body}: {answer:?}");
        assert!(answer.body.contains(hint), "{url} {body}: {}", answer.body);
    }
    let one = daemon.get(URL).await;
    assert_eq!((one.status, one.header("allow")), (405, Some("PUT, DELETE")), "{one:?}");
    let listed = daemon.get("/v1/overrides").await.json();
    assert_eq!(listed, serde_json::json!({"overrides": [], "history": []}));
    assert_eq!(daemon.admits(ADA, 5).await, 2);
}
