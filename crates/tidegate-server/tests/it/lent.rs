//! Rates that a daemon lends by itself, as it shares its store with no other.

use core::time::Duration;

use serde_json::json;

use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

/// A rate of each user, and a quota that a store in files keeps.
const LIMITS: &str = "  api: { limits: [{ name: rate, key: [user], rate: 10/s, burst: 20 }, \
                      { name: daily, key: [user], calendar: { limit: 60, unit: day, zone: UTC } }] }\n";

const ADA: &str = r#"{"user":"ada"}"#;

const KEPT: [Kept; 2] = [Kept::Memory, Kept::Files];

/// The rest of a limit, as an explanation has it, and where it is decided.
async fn level(daemon: &RestartableDaemon, limit: &str) -> (u64, String) {
    let explained = daemon.ask("/v1/explain", ADA, "").await.json();
    let limits = explained["limits"].as_array().unwrap();
    let counter = &limits.iter().find(|one| one["name"] == limit).unwrap()["counter"];
    let decided_by = counter["decided_by"].as_str().unwrap().to_owned();
    (counter["level"]["remaining"].as_u64().unwrap(), decided_by)
}

#[tokio::test]
async fn a_rate_keeps_to_its_bound_over_the_switch_and_a_quota_loses_no_count() {
    for kept in KEPT {
        let daemon = RestartableDaemon::start(kept, LIMITS, START).await;
        assert_eq!(daemon.admits(ADA, 15).await, 15);
        let place = if kept == Kept::Files { "store" } else { "member" };
        assert_eq!(level(&daemon, "rate").await, (5, "member".to_owned()));
        assert_eq!(level(&daemon, "daily").await, (45, place.to_owned()));
        daemon.lend().await;
        assert_eq!(level(&daemon, "rate").await, (5, "lease".to_owned()));
        assert_eq!(level(&daemon, "daily").await, (45, place.to_owned()), "{kept:?}");
        assert_eq!(daemon.admits(ADA, 30).await, 5, "{kept:?}");
        assert_eq!(level(&daemon, "daily").await, (40, place.to_owned()));
        daemon.clock.advance(Duration::from_secs(1));
        let admitted = daemon.admits(ADA, 30).await;
        assert!((9..=11).contains(&admitted), "{admitted}");
    }
}

#[tokio::test]
async fn reloads_go_on_to_lend_and_a_restart_does_not() {
    for kept in KEPT {
        let mut daemon = RestartableDaemon::start(kept, LIMITS, START).await;
        daemon.lend().await;
        assert_eq!(daemon.admits(ADA, 15).await, 15);
        let more = LIMITS.replace("burst: 20", "burst: 30");
        assert_eq!(daemon.reload(&more).await, None);
        assert_eq!(level(&daemon, "rate").await, (15, "lease".to_owned()));
        assert_eq!(daemon.admits(ADA, 40).await, 15);
        daemon.restart().await;
        let (_, decided_by) = level(&daemon, "rate").await;
        assert_eq!(decided_by, "member");
        // The rate is as new, as it is after each restart; the quota is not where it has a store.
        let left = if kept == Kept::Files { 30 } else { 60 };
        assert_eq!(level(&daemon, "daily").await.0, left, "{kept:?}");
    }
}

#[tokio::test]
async fn a_namespace_is_lent_once_and_only_if_there_is_one() {
    let daemon = RestartableDaemon::start(Kept::Memory, LIMITS, START).await;
    let answer = daemon.get("/v1/leases").await;
    assert_eq!(answer.status, 404, "nothing is leased: {}", answer.body);
    assert!(!daemon.get("/metrics").await.body.contains("tidegate_leases"));
    daemon.lend().await;
    let version = daemon.policy_in_force().await["version"].clone();
    daemon.lend().await;
    assert_eq!(daemon.policy_in_force().await["version"], version);
    let unknown = daemon.try_lend("other").await.unwrap_err();
    assert_eq!(unknown, "namespace \"other\" does not exist; use one of the policy's, or add it");
}

#[tokio::test]
async fn the_list_of_leases_and_the_metrics_show_a_daemon_that_lends_by_itself() {
    let daemon = RestartableDaemon::start(Kept::Files, LIMITS, START).await;
    daemon.lend().await;
    for _ in 0..40 {
        daemon.check(ADA).await;
        daemon.clock.advance(Duration::from_millis(25));
    }
    let leases = daemon.get("/v1/leases").await.json();
    let member = &leases["members"][0];
    assert_eq!((&leases["is_alone"], &leases["count"]), (&json!(true), &json!(1)), "{leases}");
    assert_eq!((&member["id"], &member["keys"]), (&leases["member"], &json!(1)));
    assert_eq!(member["leased"], json!({"api/rate": "rate: 10/s, burst: 20"}), "{leases}");
    let metrics = daemon.get("/metrics").await.body;
    assert!(metrics.contains("\ntidegate_leases 1\n"), "{metrics}");
    assert!(metrics.contains("\ntidegate_lease_asks_unanswered_total 0\n"), "{metrics}");
    assert!(!metrics.contains("\ntidegate_members "), "{metrics}");
}

#[tokio::test]
async fn the_acts_of_operators_go_on_to_work() {
    for kept in KEPT {
        let daemon = RestartableDaemon::start(kept, LIMITS, START).await;
        daemon.lend().await;
        let left = async || level(&daemon, "rate").await.0;
        assert_eq!(daemon.ask("/v1/report", ADA, r#","cost":12"#).await.status, 200);
        assert_eq!(left().await, 8, "{kept:?}: report");
        for _ in 0..2 {
            let refund = daemon.ask("/v1/refund", ADA, r#","cost":4,"refund_key":"order-1""#).await;
            assert_eq!(refund.status, 200, "{}", refund.body);
        }
        assert_eq!(left().await, 12, "{kept:?}: refund");
        assert_eq!(level(&daemon, "daily").await.0, 52, "{kept:?}: of the quota as well");
        let numbers = r#"{"numbers":{"rate":"20/s","burst":40},"reason":"a test"}"#;
        let set = daemon.client().await.request("PUT", "/v1/overrides/api/rate?user=ada", numbers).await;
        assert_eq!(set.status, 200, "{}", set.body);
        assert_eq!(left().await, 32, "{kept:?}: override");
        let block = daemon.ask("/v1/block", ADA, r#","limit":"rate","for_ms":60000"#).await;
        assert_eq!((block.status, daemon.check(ADA).await.0), (200, 429), "{}", block.body);
        let reset = daemon.ask("/v1/reset", ADA, r#","limit":"rate""#).await;
        assert_eq!((reset.status, reset.body.as_str()), (200, r#"{"counters":1}"#));
        assert_eq!((left().await, daemon.check(ADA).await.0), (40, 200), "{kept:?}: reset");
        let removed = daemon.client().await.request("DELETE", "/v1/overrides/api/rate?user=ada", "").await;
        assert_eq!((removed.status, left().await), (200, 19), "{kept:?}: without the override");
    }
}
