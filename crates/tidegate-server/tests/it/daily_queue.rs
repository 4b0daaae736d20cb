//! The example `examples/daily-queue`: ten calls a day for each stream of an account, by the
//! account's zone.

use std::time::Duration;

use tidegate_core::Timestamp;

use crate::restartable_daemon::{Kept, RestartableDaemon};

const POLICY: &str = include_str!("../../../../examples/daily-queue/policy.yaml");

/// The namespaces of the example, under the name that the tests ask.
fn namespaces() -> String {
    let (_, namespaces) = POLICY.split_once("namespaces:\n").unwrap();
    namespaces.replacen("resharding:", "api:", 1)
}

fn of(account: &str, stream: &str) -> String {
    format!(r#"{{"account":"{account}","stream":"{stream}"}}"#)
}

/// 2026-03-07 in Los Angeles, the day before its clocks go forward, at eight in the morning.
const MORNING: Timestamp = Timestamp::from_secs(1_772_899_200);

#[tokio::test]
async fn ten_calls_a_day_for_each_stream_with_a_restart_in_the_middle_and_a_short_night() {
    let mut daemon = RestartableDaemon::start(Kept::Files, &namespaces(), MORNING).await;
    let orders = of("3333", "orders");
    assert_eq!(daemon.admits(&orders, 6).await, 6);
    daemon.restart().await;
    assert_eq!(daemon.admits(&orders, 6).await, 4, "ten in all");
    assert_eq!(daemon.admits(&of("3333", "clicks"), 12).await, 10, "another stream has its own");
    let refused = daemon.ask("/v1/check", &orders, "").await;
    let json = refused.json();
    assert_eq!((refused.status, json["reason"].as_str()), (429, Some("quota_exceeded")), "{json}");
    // Midnight of the eighth is 08:00Z, sixteen hours on.
    assert_eq!(refused.header("retry-after"), Some("57600"), "{json}");
    let midnight = MORNING.saturating_add(Duration::from_hours(16));
    daemon.clock.set(midnight.saturating_sub(Duration::from_millis(1)));
    assert_eq!(daemon.admits(&orders, 1).await, 0, "a millisecond before midnight");
    daemon.clock.set(midnight);
    assert_eq!(daemon.admits(&orders, 12).await, 10, "a new day");
    // That day has 23 hours.
    assert_eq!(daemon.ask("/v1/check", &orders, "").await.header("retry-after"), Some("82800"));
    daemon.restart_at(midnight.saturating_add(Duration::from_hours(23))).await;
    assert_eq!(daemon.admits(&orders, 12).await, 10, "and the next");
}

#[tokio::test]
async fn a_queue_that_was_filled_over_two_days_admits_ten_on_the_second_and_no_more() {
    let daemon = RestartableDaemon::start(Kept::Files, &namespaces(), MORNING).await;
    let orders = of("3333", "orders");
    // Nine before midnight and one after: who compares only the oldest entry's day admits nine more
    // than ten.
    assert_eq!(daemon.admits(&orders, 9).await, 9);
    daemon.clock.set(MORNING.saturating_add(Duration::from_hours(17)));
    assert_eq!(daemon.admits(&orders, 30).await, 10);
}

#[tokio::test]
async fn customers_have_their_own_numbers_by_the_policy_and_by_hand() {
    let mut daemon = RestartableDaemon::start(Kept::Files, &namespaces(), MORNING).await;
    assert_eq!(daemon.admits(&of("1111", "orders"), 60).await, 50);
    assert_eq!(daemon.admits(&of("2222", "clicks"), 60).await, 2);
    assert_eq!(daemon.admits(&of("2222", "orders"), 60).await, 10);
    let url = "/v1/overrides/api/daily?account=2222";
    let set = daemon.client().await.request("PUT", url, r#"{"numbers":{"limit":20},"reason":"paid"}"#).await;
    assert_eq!(set.status, 200, "{set:?}");
    daemon.restart().await;
    assert_eq!(daemon.admits(&of("2222", "orders"), 60).await, 10, "twenty in all");
    assert_eq!(
        daemon.admits(&of("2222", "clicks"), 60).await,
        18,
        "what is set by hand wins over the policy"
    );
    let without = daemon.ask("/v1/check", r#"{"account":"3333"}"#, "").await;
    assert_eq!(without.status, 400, "a call that does not say whose it is, is not free: {without:?}");
}
