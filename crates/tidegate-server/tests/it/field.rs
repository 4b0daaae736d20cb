//! Public reports about other limiters, asked of this one: docs/internals/field.md has the table.

use std::time::Duration;

use tidegate_core::Timestamp;

use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

const ADA: &str = r#"{"user":"ada"}"#;
const WAYS: [Kept; 2] = [Kept::Memory, Kept::Files];

/// A daemon with one limit of the namespace `api`, counted by user.
async fn daemon_with(kept: Kept, limit: &str) -> RestartableDaemon {
    let namespaces = format!("  api: {{ limits: [{{ name: one, key: [user], {limit} }}] }}\n");
    RestartableDaemon::start(kept, &namespaces, START).await
}

/// The seconds of `Retry-After` in a refusal of one unit, and the milliseconds of its body.
async fn refused(daemon: &RestartableDaemon) -> (u64, u64) {
    let answer = daemon.ask("/v1/check", ADA, "").await;
    assert_eq!(answer.status, 429, "{}", answer.shown());
    let seconds = answer.header("retry-after").map(|text| text.parse().unwrap());
    (seconds.unwrap(), answer.json()["retry_after_ms"].as_u64().unwrap())
}

#[tokio::test]
async fn a_wait_below_a_second_is_not_told_as_zero() {
    for kept in WAYS {
        let daemon = daemon_with(kept, "rate: 5/s, burst: 1").await;
        assert_eq!(daemon.check(ADA).await.0, 200);
        assert_eq!(refused(&daemon).await, (1, 200), "{kept:?}");
    }
}

#[tokio::test]
async fn a_caller_that_waits_as_long_as_told_is_admitted_by_every_algorithm() {
    for kept in WAYS {
        for limit in [
            "rate: 3/10s, burst: 2",
            "fixed: { limit: 2, window: 7s }",
            "fixed: { limit: 2, window: 7s, start: first_hit }",
            "rolling: { limit: 2, window: 7s }",
            "rolling: { limit: 2, window: 7s, accuracy: approximate }",
            "calendar: { limit: 2, unit: minute }",
        ] {
            let daemon = daemon_with(kept, limit).await;
            // So that no window begins at a whole second.
            daemon.clock.advance(Duration::from_millis(1_300));
            for _ in 0..4 {
                assert!(daemon.admits(ADA, 3).await <= 2, "{kept:?} {limit}");
                let (seconds, millis) = refused(&daemon).await;
                assert!(seconds * 1_000 >= millis, "{kept:?} {limit}: {seconds} s for {millis} ms");
                daemon.clock.advance(Duration::from_millis(millis));
                assert_eq!(daemon.check(ADA).await.0, 200, "{kept:?} {limit}: after {millis} ms");
            }
        }
    }
}

#[tokio::test]
async fn a_cost_above_the_limit_is_never_admitted_and_charges_nothing() {
    for kept in WAYS {
        for limit in [
            "rolling: { limit: 10, window: 1m }",
            "rate: 10/m, burst: 10",
            "fixed: { limit: 10, window: 1m }",
        ] {
            let daemon = daemon_with(kept, limit).await;
            assert_eq!(daemon.ask("/v1/check", ADA, r#","cost":5"#).await.status, 200);
            for cost in [11, 100, u64::MAX] {
                let answer = daemon.ask("/v1/check", ADA, &format!(r#","cost":{cost}"#)).await;
                let body = answer.json();
                assert_eq!((answer.status, &body["reason"]), (429, &"cost_exceeds_limit".into()), "{limit}");
                assert_eq!(
                    (answer.header("retry-after"), &body["retry"]),
                    (None, &"never".into()),
                    "{limit}"
                );
            }
            assert_eq!(daemon.ask("/v1/check", ADA, r#","cost":5"#).await.status, 200, "{kept:?} {limit}");
            assert_eq!(daemon.check(ADA).await.0, 429, "{kept:?} {limit}");
        }
    }
}

#[tokio::test]
async fn a_key_that_was_idle_for_decades_has_its_burst_and_no_more() {
    for kept in WAYS {
        for limit in ["rate: 1000000/s, burst: 4", "rate: 1/d, burst: 4", "rolling: { limit: 4, window: 1d }"]
        {
            let mut daemon = daemon_with(kept, limit).await;
            assert_eq!(daemon.admits(ADA, 4).await, 4, "{kept:?} {limit}");
            let later = START.saturating_add(Duration::from_hours(50 * 366 * 24));
            match kept {
                Kept::Files => daemon.restart_at(later).await,
                _ => daemon.clock.set(later),
            }
            assert_eq!(daemon.admits(ADA, 6).await, 4, "{kept:?} {limit}");
        }
    }
}

#[tokio::test]
async fn a_burst_of_nothing_is_refused_where_it_is_written() {
    let text = "namespaces: { api: { limits: [{ name: one, rate: 1/s, burst: 0 }] } }\n";
    let problems = tidegate_policy::parse("policy.yaml", text, &|_| None).unwrap_err().to_string();
    assert!(problems.contains("namespaces.api.limits[0].burst"), "{problems}");
}

#[tokio::test]
async fn a_key_above_a_limit_that_was_lowered_is_told_a_wait_that_is_kept() {
    for kept in WAYS {
        let daemon = daemon_with(kept, "rolling: { limit: 10, window: 1m }").await;
        for _ in 0..8 {
            assert_eq!(daemon.check(ADA).await.0, 200);
            daemon.clock.advance(Duration::from_secs(1));
        }
        let namespaces =
            "  api: { limits: [{ name: one, key: [user], rolling: { limit: 3, window: 1m } }] }\n";
        assert_eq!(daemon.reload(namespaces).await, None);
        let (seconds, millis) = refused(&daemon).await;
        // Six of the eight must leave the window first; the sixth was admitted five seconds after
        // the first, which was eight seconds ago.
        assert_eq!((seconds, millis), (57, 57_000), "{kept:?}");
        daemon.clock.advance(Duration::from_millis(millis - 1));
        assert_eq!(daemon.check(ADA).await.0, 429, "{kept:?}");
        daemon.clock.advance(Duration::from_millis(1));
        assert_eq!(daemon.check(ADA).await.0, 200, "{kept:?}");
    }
}

#[tokio::test]
async fn the_border_of_a_window_does_not_double_a_rolling_limit() {
    for kept in WAYS {
        let daemon = daemon_with(kept, "rolling: { limit: 6, window: 1s }").await;
        daemon.clock.advance(Duration::from_millis(990));
        assert_eq!(daemon.admits(ADA, 12).await, 6, "{kept:?}");
        for _ in 0..9 {
            daemon.clock.advance(Duration::from_millis(100));
            assert_eq!(daemon.admits(ADA, 12).await, 0, "{kept:?}");
        }
        daemon.clock.advance(Duration::from_millis(100));
        assert_eq!(daemon.admits(ADA, 12).await, 6, "{kept:?}");
    }
}

#[tokio::test]
async fn addresses_of_one_network_share_a_counter() {
    for kept in WAYS {
        let namespaces =
            "  api: { limits: [{ name: one, key: [client_ip], fixed: { limit: 3, window: 1h } }] }\n";
        let daemon = RestartableDaemon::start(kept, namespaces, START).await;
        let from = |address: &str| format!(r#"{{"client_ip":"{address}"}}"#);
        let mut admitted = 0;
        for host in 1..=9 {
            admitted += daemon.admits(&from(&format!("2001:db8:0:1::{host:x}")), 1).await;
        }
        assert_eq!(admitted, 3, "{kept:?}: one /64");
        assert_eq!(daemon.admits(&from("2001:db8:0:2::1"), 1).await, 1, "{kept:?}: another");
        for host in 1..=4 {
            assert_eq!(
                daemon.admits(&from(&format!("192.0.2.{host}")), 1).await,
                1,
                "{kept:?}: IPv4 is scarce"
            );
        }
    }
}

#[tokio::test]
async fn a_month_ends_with_the_month() {
    // 2028-02-10T12:00:00Z, of a leap year.
    let now = Timestamp::from_secs(1_833_796_800);
    for kept in WAYS {
        let namespaces =
            "  api: { limits: [{ name: one, key: [user], calendar: { limit: 1, unit: month } }] }\n";
        let daemon = RestartableDaemon::start(kept, namespaces, now).await;
        let answer = daemon.ask("/v1/check", ADA, "").await.json();
        assert_eq!(answer["limits"][0]["window_end"], "2028-03-01 00:00 UTC", "{kept:?}: {answer}");
        let (seconds, _) = refused(&daemon).await;
        daemon.clock.advance(Duration::from_secs(seconds - 1));
        assert_eq!(daemon.check(ADA).await.0, 429, "{kept:?}");
        daemon.clock.advance(Duration::from_secs(1));
        assert_eq!(daemon.check(ADA).await.0, 200, "{kept:?}");
    }
}
