//! The memory of requests that wait.

use serde_json::json;

use super::Daemon;
use crate::client::{Client, post};

const NARROW: &str = "
namespaces:
  shop: { limits: [] }
  blog: { limits: [] }
resources:
  app: { concurrency: 1, queue: { requests: 1000, bytes: 128KiB, wait: 60s } }
";

#[tokio::test]
async fn issue_39_a_waiting_check_counts_its_connection_and_its_copy_and_not_its_head_and_body() {
    let daemon = Daemon::start(NARROW).await;
    let held = daemon.post("/v1/check", &json!({"namespace": "shop", "resource": "app"})).await;
    assert_eq!(held.status, 200);
    let spaces = " ".repeat(20_000);
    let body = format!(r#"{{"namespace":"shop","resource":"app","wait_ms":60000{spaces}}}"#);
    let ask = async || -> Client {
        let mut client = daemon.client().await;
        client.send(post("/v1/check", &body)).await;
        client
    };
    // Three connections of 40 KiB fit, whose bodies are dropped; with the bodies it would be two.
    let mut waiting = Vec::new();
    for count in 1..=3 {
        waiting.push(ask().await);
        daemon.until_waiting(count).await;
    }
    let refused = ask().await.answer().await.unwrap();
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (503, Some("queue_full")), "{refused:?}");
    daemon.post("/v1/release", &json!({"permit": held.json()["permit"]})).await;
    for mut one in waiting {
        let admitted = one.answer().await.unwrap();
        assert_eq!(admitted.status, 200, "{admitted:?}");
        daemon.post("/v1/release", &json!({"permit": admitted.json()["permit"]})).await;
    }
}
