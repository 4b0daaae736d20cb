//! A restart forgets nothing that was answered, whatever the clock did meanwhile.

use std::time::Duration;

use tidegate_core::Timestamp;

use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

const ADA: &str = r#"{"user":"ada"}"#;

fn later(seconds: u64) -> Timestamp {
    START.saturating_add(Duration::from_secs(seconds))
}

#[tokio::test]
async fn quotas_of_every_kind_blocks_refunds_and_reservations_are_there_after_a_restart() {
    let namespaces = "  api: { limits: [\
         { name: hourly, key: [user], fixed: { limit: 100, window: 1h } }, \
         { name: daily, key: [user], calendar: { limit: 100, unit: day, zone: Asia/Tokyo } }, \
         { name: sliding, key: [user], rolling: { limit: 100, window: 2h } }, \
         { name: slow, key: [user], rate: 100/h, burst: 100 }, \
         { name: quick, key: [app], rate: 1000/s } ] }\n";
    let mut daemon = RestartableDaemon::start(Kept::Files, namespaces, START).await;
    assert_eq!(daemon.admits(ADA, 30).await, 30);
    let refund = r#","cost":5,"refund_key":"order-1""#;
    assert_eq!(daemon.ask("/v1/refund", ADA, refund).await.json()["refund"], "applied");
    let reserved = daemon.ask("/v1/reserve", ADA, r#","cost":10,"expires_ms":3600000"#).await.json();
    let permit = reserved["permit"].as_str().unwrap().to_owned();
    for (attributes, limit) in [(r#"{"user":"eve"}"#, "hourly"), (r#"{"app":"x"}"#, "quick")] {
        let block =
            daemon.ask("/v1/block", attributes, &format!(r#","limit":"{limit}","for_ms":600000"#)).await;
        assert_eq!(block.status, 200, "{block:?}");
    }
    daemon.restart().await;
    let peek = daemon.ask("/v1/check", ADA, r#","peek":true"#).await.json();
    let left: Vec<_> =
        peek["limits"].as_array().unwrap().iter().map(|one| one["remaining"].as_u64()).collect();
    assert_eq!(left, vec![Some(65); 4], "{peek}");
    assert_eq!(daemon.ask("/v1/refund", ADA, refund).await.json()["refund"], "already_applied");
    for blocked in [r#"{"user":"eve"}"#, r#"{"app":"x"}"#] {
        assert_eq!(daemon.ask("/v1/check", blocked, "").await.json()["reason"], "blocked", "{blocked}");
    }
    let settle = format!(r#"{{"permit":"{permit}","cost":3}}"#);
    assert_eq!(daemon.post("/v1/settle", &settle).await.status, 200);
    daemon.restart().await;
    assert_eq!(daemon.post("/v1/settle", &settle).await.status, 404, "it was settled before the restart");
    let peek = daemon.ask("/v1/check", ADA, r#","peek":true"#).await.json();
    assert_eq!(peek["remaining"], 72, "seven of ten came back, once: {peek}");
    let restarted = later(600);
    daemon.restart_at(restarted).await;
    for blocked in [r#"{"user":"eve"}"#, r#"{"app":"x"}"#] {
        assert_eq!(daemon.check(blocked).await.0, 200, "{blocked}: the block is over");
    }
}

#[tokio::test]
async fn a_clock_that_stepped_back_before_a_restart_locks_nobody_for_more_than_two_windows() {
    const HOUR: u64 = 3600;
    // How long is to be waited after an hour, a day and 400 days back. START is the first instant
    // of an hour and an hour before midnight. Up to one window ahead all stays as it is, and a
    // bucket up to where the next unit would take a drain; the rest is brought back to now.
    for (limit, expected) in [
        ("fixed: { limit: 3, window: 1h }", [2 * HOUR, HOUR, HOUR]),
        ("calendar: { limit: 3, unit: day, zone: UTC }", [2 * HOUR, 25 * HOUR, HOUR]),
        ("rolling: { limit: 3, window: 1h }", [2 * HOUR, HOUR, HOUR]),
        ("rate: 3/h, burst: 3", [1200, 1200, 1200]),
    ] {
        let namespaces = format!("  api: {{ limits: [{{ name: quota, key: [user], {limit} }}] }}\n");
        let mut daemon = RestartableDaemon::start(Kept::Files, &namespaces, START).await;
        assert_eq!(daemon.admits(ADA, 5).await, 3);
        for (hours, expected) in [1, 24, 24 * 400].into_iter().zip(expected) {
            daemon.restart_at(START.saturating_sub(Duration::from_secs(hours * 3600))).await;
            let refused = daemon.ask("/v1/check", ADA, "").await;
            assert_eq!(refused.status, 429, "{limit}: {hours} h back");
            let wait = refused.json()["retry_after_ms"].as_u64().unwrap() / 1000;
            assert_eq!(wait, expected, "{limit}: {hours} h back");
        }
    }
}

#[tokio::test]
async fn a_block_of_a_clock_that_was_ahead_lasts_as_long_as_its_limit_says_or_the_operator_said() {
    let namespaces = "  api: { limits: [\
         { name: hourly, key: [user], fixed: { limit: 1, window: 1s }, consistency: exact, on_exceed: { block: 10m } } ] }\n";
    for days in [1, 40, 4 * 366] {
        let ahead = later(days * 86_400);
        let mut daemon = RestartableDaemon::start(Kept::Files, namespaces, ahead).await;
        daemon.admits(ADA, 2).await;
        let eve = r#"{"user":"eve"}"#;
        let block = daemon.ask("/v1/block", eve, r#","limit":"hourly","for_ms":7200000"#).await;
        assert_eq!(block.status, 200, "{block:?}");
        // The wait that is told is the wait that is kept, over restarts.
        for (at, ada, operator) in [(0, 600, 7200), (60, 540, 7140), (599, 1, 6601)] {
            daemon.restart_at(later(at)).await;
            for (user, expected) in [(ADA, ada), (eve, operator)] {
                let refused = daemon.ask("/v1/check", user, "").await.json();
                let seen = (refused["reason"].as_str(), refused["retry_after_ms"].as_u64());
                assert_eq!(
                    seen,
                    (Some("blocked"), Some(expected * 1000)),
                    "{user}, {days} days back, {at} s"
                );
            }
        }
        daemon.restart_at(later(600)).await;
        assert_eq!(daemon.check(ADA).await.0, 200, "{days} days back");
    }
}

#[tokio::test]
async fn a_clock_that_stepped_ahead_grants_one_burst_or_window_and_no_more() {
    for limit in [
        "fixed: { limit: 3, window: 1h }",
        "calendar: { limit: 3, unit: day, zone: UTC }",
        "rolling: { limit: 3, window: 1h }",
        "rate: 3/h, burst: 3",
    ] {
        let namespaces = format!("  api: {{ limits: [{{ name: quota, key: [user], {limit} }}] }}\n");
        let mut daemon = RestartableDaemon::start(Kept::Files, &namespaces, START).await;
        assert_eq!(daemon.admits(ADA, 5).await, 3);
        daemon.restart_at(later(10 * 365 * 86_400)).await;
        assert_eq!(daemon.admits(ADA, 5).await, 3, "{limit}: ten years ahead");
        // And back where it was: what was used in the future counts, at most for one window.
        daemon.restart_at(later(10)).await;
        assert_eq!(daemon.admits(ADA, 5).await, 0, "{limit}: back again");
    }
}
