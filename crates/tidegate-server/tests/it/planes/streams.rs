//! Streams of a policy: what operators see of them, the parts of namespaces, and reloads.

use serde_json::json;

use super::Daemon;
use crate::client::{Answer, Client};
use crate::proxy::get;
use crate::proxy::upstream::serve;

/// A daemon in which `shop` and `blog` have streams of one resource.
async fn daemon(resource: &str) -> Daemon {
    let server = serve(|mut connection| async move {
        if connection.until(b"\r\n\r\n").await.is_some() {
            connection.send("HTTP/1.1 200 OK\r\n\r\nsome").await;
            connection.until(b"never").await;
        }
    })
    .await;
    let route = |namespace: &str| {
        format!(
            "{{ match: {{ path: /{namespace} }}, upstream: app, namespace: {namespace}, hold: first_byte }}"
        )
    };
    let head = format!(
        "store: {{ kind: memory }}
listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
namespaces: {{ shop: {{ limits: [] }}, blog: {{ limits: [] }} }}
proxy:
  upstreams: {{ app: ['http://{server}'] }}
  routes: [{}, {}]
",
        route("shop"),
        route("blog")
    );
    Daemon::headed(head, &policy(resource)).await
}

fn policy(resource: &str) -> String {
    format!("resources: {{ app: {{ concurrency: 1, {resource} }} }}\n")
}

impl Daemon {
    async fn ask_stream(&self, namespace: &str) -> Client {
        let mut client = Client::connect(self.handle.proxy().unwrap().tcp().unwrap()).await;
        client.send(get(&format!("/{namespace}"), "")).await;
        client
    }

    /// A stream that is open.
    async fn open(&self, namespace: &str) -> Client {
        let mut client = self.ask_stream(namespace).await;
        client.has_received("some").await;
        client
    }

    /// The refusal of a stream.
    async fn refused(&self, namespace: &str) -> Answer {
        let answer = self.ask_stream(namespace).await.answer().await.expect("a whole answer");
        assert_eq!((answer.status, &answer.json()["limit"]), (503, &json!("streams")), "{answer:?}");
        answer
    }
}

#[tokio::test]
async fn issue_39_each_namespace_has_its_part_of_the_streams_and_operators_see_them() {
    let daemon = daemon("streams: 4").await;
    let shown = async || daemon.get("/v1/resources/app").await.json()["streams"].clone();
    assert_eq!(shown().await, json!({"open": 0, "max": 4, "refused": 0}));
    let mut open = vec![daemon.open("shop").await, daemon.open("shop").await];
    let refused = daemon.refused("shop").await;
    assert!(refused.body.contains("all 2 streams are open"), "{refused:?}");
    open.extend([daemon.open("blog").await, daemon.open("blog").await]);
    daemon.refused("blog").await;
    assert_eq!(shown().await, json!({"open": 4, "max": 4, "refused": 2}));
    for (series, value) in [("", "4"), ("_max", "4"), ("_refused_total", "2")] {
        let series = format!("tidegate_resource_streams{series}{{resource=\"app\"}}");
        assert_eq!(daemon.series(&series).await, value, "{series}");
    }
    let resource = daemon.get("/v1/resources/app").await.json();
    assert_eq!((&resource["in_flight"], &resource["pressure"]), (&json!(0), &json!(0.0)), "{resource}");
}

#[tokio::test]
async fn issue_39_a_reload_changes_the_streams_and_their_parts() {
    let daemon = daemon("streams: 2").await;
    let _open = daemon.open("shop").await;
    daemon.refused("shop").await;
    assert_eq!(daemon.reload(&policy("streams: 8, shares: { shop: 3 }")).await, None);
    let mut more = Vec::new();
    for _ in 0..5 {
        more.push(daemon.open("shop").await);
    }
    let refused = daemon.refused("shop").await;
    assert!(refused.body.contains("all 6 streams are open"), "{refused:?}");
    assert_eq!(daemon.reload(&policy("streams: 1")).await, None);
    daemon.refused("shop").await;
    let streams = daemon.get("/v1/resources/app").await.json()["streams"].clone();
    assert_eq!((&streams["open"], &streams["max"]), (&json!(6), &json!(1)), "those that are open stay");
}
