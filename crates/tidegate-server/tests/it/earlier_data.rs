//! Data directories that earlier versions wrote. How each was made is said beside it.

use std::path::Path;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_test_support::TemporaryFolder;

use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

/// 2026-11-22T14:03:04Z, when everything in the directory has just been charged.
const CHARGED: Timestamp = START.saturating_add(Duration::from_secs(140_584));

const LIMITS: &str = "  api: { limits: [\
     { name: daily, key: [user], calendar: { limit: 100, unit: day, zone: UTC } }, \
     { name: hourly, key: [user], fixed: { limit: 50, window: 1h } }, \
     { name: slow, key: [user], rate: 40/h, burst: 40 }, \
     { name: sliding, key: [user], rolling: { limit: 60, window: 2h } } ] }\n";

/// A folder with a copy of a data directory, where a daemon looks for its own.
fn copy_of(name: &str) -> TemporaryFolder {
    let folder = TemporaryFolder::new();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    for file in ["counters.redb", "lock"] {
        std::fs::copy(fixture.join(file), data.join(file)).unwrap();
    }
    folder
}

#[tokio::test]
async fn data_of_an_earlier_version_is_read() {
    let daemon = RestartableDaemon::start_in(copy_of("data-cd97d24"), Kept::Files, LIMITS, CHARGED).await;
    let left = async |user: &str| -> Vec<u64> {
        let attributes = format!(r#"{{"user":"{user}"}}"#);
        let peek = daemon.ask("/v1/check", &attributes, r#","peek":true"#).await.json();
        let limits = peek["limits"].as_array().unwrap().iter();
        limits.map(|one| one["remaining"].as_u64().unwrap()).collect()
    };
    assert_eq!(left("ada").await, [75, 25, 15, 35]);
    assert_eq!(left("bob").await, [97, 47, 37, 57]);
    assert_eq!(left("carol").await, [480, 30, 20, 40], "with her override");
    assert_eq!(left("nobody").await, [100, 50, 40, 60]);
    let refund = r#","cost":2,"refund_key":"order-1815""#;
    let refunded = daemon.ask("/v1/refund", r#"{"user":"ada"}"#, refund).await.json();
    assert_eq!(refunded["refund"], "already_applied");
    let settle = r#"{"permit":"0018fe86f06ce23d758c901eb7894345","cost":4}"#;
    assert_eq!(daemon.post("/v1/settle", settle).await.status, 200);
    assert_eq!(left("ada").await, [81, 31, 21, 41], "six of the ten reserved units came back");
    let blocked = daemon.ask("/v1/check", r#"{"user":"eve"}"#, "").await.json();
    assert_eq!(blocked["reason"], "blocked");
}

const LIMITS_OF_FIVE: &str = "  api: { limits: [\
     { name: daily, key: [user], calendar: { limit: 5, unit: day, zone: Europe/Berlin } }, \
     { name: hourly, key: [user], fixed: { limit: 5, window: 1h } }, \
     { name: first-hit, key: [user], fixed: { limit: 5, window: 1h, start: first_hit } }, \
     { name: slow, key: [user], rate: 5/h, burst: 5 }, \
     { name: sliding, key: [user], rolling: { limit: 5, window: 2h } }, \
     { name: approximate, key: [user], rolling: { limit: 5, window: 2h, accuracy: approximate } } ] }\n";

/// 2026-11-27T14:46:10Z: four years before what is in the directory was charged.
const FOUR_YEARS_BEFORE: Timestamp = Timestamp::from_secs(1_795_790_770);

/// Before, `daily` told to come back in 1461 d, and `slow` another 4 d at each restart.
#[tokio::test]
async fn data_of_a_clock_that_was_ahead_locks_nobody_for_long() {
    let folder = copy_of("data-d9d498ac-ahead");
    let mut daemon =
        RestartableDaemon::start_in(folder, Kept::Files, LIMITS_OF_FIVE, FOUR_YEARS_BEFORE).await;
    let hours = |name: &str| match name {
        "daily" => 48,
        "sliding" | "approximate" => 4,
        _ => 2,
    };
    let mut told: Vec<(String, u64)> = Vec::new();
    for restart in 0..4_u64 {
        let now_ms = FOUR_YEARS_BEFORE.as_secs() * 1000 + restart * 60_000;
        let mut waits = Vec::new();
        for user in ["ada", "bob"] {
            let attributes = format!(r#"{{"user":"{user}"}}"#);
            // Refused by all of which anything is used, and so charged to none.
            let refusal = daemon.ask("/v1/check", &attributes, r#","cost":5"#).await.json();
            for one in refusal["violated"].as_array().unwrap() {
                let (name, wait) = (one["name"].as_str().unwrap(), one["retry_after_ms"].as_u64().unwrap());
                assert!(restart > 0 || wait <= hours(name) * 3_600_000, "{user}: {one}");
                waits.push((format!("{user} {name}"), now_ms + wait));
            }
        }
        waits.sort();
        if restart == 0 {
            assert_eq!(waits.len(), 12, "six limits of ada, and of bob: {waits:?}");
            told = waits;
        } else {
            for ((name, wait), (known, before)) in waits.iter().zip(&told) {
                assert!(name == known && wait.abs_diff(*before) <= 1000, "{name}: {wait}, told {before}");
            }
        }
        let next = FOUR_YEARS_BEFORE.saturating_add(Duration::from_secs((restart + 1) * 60));
        daemon.restart_at(next).await;
    }
    // A refund key is there for an hour, and not for years.
    let refund = r#","cost":1,"refund_key":"order-1815""#;
    let refunded = daemon.ask("/v1/refund", r#"{"user":"dan"}"#, refund).await.json();
    assert_eq!(refunded["refund"], "already_applied");
    daemon.restart_at(FOUR_YEARS_BEFORE.saturating_add(Duration::from_mins(61))).await;
    let refunded = daemon.ask("/v1/refund", r#"{"user":"dan"}"#, refund).await.json();
    assert_eq!(refunded["refund"], "applied");
}
