//! How many members are assumed before the store that they share has answered once.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tidegate_server::{ManualClock, from_policy};

use crate::client::Client;
use crate::world::START;

#[tokio::test]
async fn a_store_that_has_not_answered_yet_is_shared_by_the_members_of_the_policy() {
    // A port that was free a moment ago: nothing answers there.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (members, expected) in [("", 40), (", members: 4", 10)] {
        let text = format!(
            "listen: {{ http: 127.0.0.1:0 }}
store: {{ kind: redis, urls: [\"redis://{nobody}\"]{members} }}
namespaces: {{ api: {{ limits: [{{ name: all, rate: 40/m, burst: 40, consistency: local, share: auto }}] }} }}
resources:
  app: {{ concurrency: 9, share: auto }}
  found: {{ concurrency: {{ max: 9, initial: 9 }}, share: auto, queue: {{ requests: 100 }} }}
"
        );
        let policy = tidegate_policy::parse("policy.yaml", &text, &|_| None).unwrap().policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.bounds.drain_grace = Duration::ZERO;
        let clock = Arc::new(ManualClock::new(START));
        let handle = from_policy::serve_on(&policy, text.as_bytes(), config, clock).await.unwrap();
        let mut client = Client::connect(handle.http().unwrap().tcp().unwrap()).await;
        let mut admitted = 0;
        while client.post("/v1/check", r#"{"namespace":"api","attributes":{}}"#).await.status == 200 {
            admitted += 1;
            assert!(admitted <= 40, "a whole limit is the most");
        }
        assert_eq!(admitted, expected, "{members}");
        let resources = client.get("/v1/resources").await.json();
        let places = |at: usize| resources["resources"][at]["in_flight_max"].as_u64().unwrap();
        assert_eq!(places(0), if members.is_empty() { 9 } else { 2 }, "{members}");
        assert_eq!((&resources["resources"][1]["concurrency"], places(1)), (&"vegas".into(), 9), "{members}");
        handle.shutdown().await;
    }
}
