//! Data directories that earlier versions wrote. How each was made is said beside it.

use std::path::Path;
use std::time::Duration;

use tidegate_core::Timestamp;

use crate::restartable_daemon::{Folder, Kept, RestartableDaemon};
use crate::world::START;

/// 2026-11-22T14:03:04Z, when everything in the directory has just been charged.
const CHARGED: Timestamp = START.saturating_add(Duration::from_secs(140_584));

const LIMITS: &str = "  api: { limits: [\
     { name: daily, key: [user], calendar: { limit: 100, unit: day, zone: UTC } }, \
     { name: hourly, key: [user], fixed: { limit: 50, window: 1h } }, \
     { name: slow, key: [user], rate: 40/h, burst: 40 }, \
     { name: sliding, key: [user], rolling: { limit: 60, window: 2h } } ] }\n";

/// A folder with a copy of a data directory, where a daemon looks for its own.
fn copy_of(name: &str) -> Folder {
    let folder = Folder::new();
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
