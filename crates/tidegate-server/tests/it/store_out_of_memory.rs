//! A shared store that is out of memory: what callers are told, and what decides instead.

use std::sync::Arc;
use std::time::Duration;

use tidegate_server::{ManualClock, from_policy};
use tidegate_test_support::{RedisServer, skip};

use crate::client::Client;
use crate::world::START;

#[tokio::test]
async fn a_store_out_of_memory_is_unavailable_and_not_a_full_table() {
    let name = "a_store_out_of_memory_is_unavailable_and_not_a_full_table";
    let Some(server) = RedisServer::start(&["--maxmemory", "1"]) else { return skip(name) };
    let port = server.port();
    let text = format!(
        "listen: {{ http: 127.0.0.1:0 }}
store: {{ kind: redis, urls: [\"redis://127.0.0.1:{port}\"], deadline: 5s }}
namespaces:
  quotas: {{ limits: [{{ name: daily, fixed: {{ limit: 100, window: 24h }}, consistency: exact }}] }}
  rates: {{ limits: [{{ name: rate, rate: 10/m, burst: 10, consistency: exact }}] }}
"
    );
    let policy = tidegate_policy::parse("policy.yaml", &text, &|_| None).unwrap().policy;
    let mut config = from_policy::server_config(&policy).unwrap();
    config.bounds.drain_grace = Duration::ZERO;
    let clock = Arc::new(ManualClock::new(START));
    let handle = from_policy::serve_on(&policy, text.as_bytes(), config, clock).await.unwrap();
    let mut client = Client::connect(handle.http().unwrap().tcp().unwrap()).await;
    for _ in 0..3 {
        let refused = client.post("/v1/check", r#"{"namespace":"quotas","attributes":{}}"#).await;
        let text = refused.body.clone();
        assert!(refused.status == 503 && text.contains("\"reason\":\"store_unavailable\""), "{text}");
    }
    // This member decides alone, by its share of the limit.
    for expected in [200, 200, 200] {
        let answer = client.post("/v1/check", r#"{"namespace":"rates","attributes":{}}"#).await;
        assert_eq!(answer.status, expected, "{}", answer.body);
    }
    handle.shutdown().await;
}
