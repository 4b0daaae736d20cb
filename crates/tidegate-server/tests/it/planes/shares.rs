//! The shares of namespaces at a resource, over reloads.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Daemon;
use crate::client::{Client, post};

/// The time that each request keeps its place.
const WORK: Duration = Duration::from_millis(10);

/// Requests of each namespace that wait, and how many of both are served.
const WAITING: usize = 24;
const SERVED: usize = 24;

/// One place, whose queue sheds nothing, with these shares.
fn policy(shares: &str) -> String {
    format!(
        "
namespaces: {{ shop: {{ limits: [] }}, blog: {{ limits: [] }} }}
resources:
  app:
    concurrency: 1
    queue: {{ requests: 1000, wait: 1h, delay_target: {{ sheddable_plus: off }} }}
    shares: {{ {shares} }}
"
    )
}

/// How many requests of `shop` and of `blog` are served while more of both wait.
async fn served(daemon: &Daemon) -> [usize; 2] {
    let body = |namespace| json!({"namespace": namespace, "resource": "app", "wait_ms": 60_000});
    let first = daemon.post("/v1/check", &body("shop")).await.json();
    let mut permit = first["permit"].clone();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut callers = JoinSet::new();
    for index in 0..2 * WAITING {
        let (sender, namespace) = (sender.clone(), ["shop", "blog"][index % 2]);
        let request = post("/v1/check", &body(namespace).to_string());
        let address = daemon.handle.http().unwrap().tcp().unwrap();
        callers.spawn(async move {
            let mut client = Client::connect(address).await;
            client.send(request).await;
            if let Some(answer) = client.answer().await {
                let _ = sender.send((index % 2, answer.json()["permit"].clone()));
            }
        });
        daemon.until_waiting(index + 1).await;
    }
    let mut served = [0, 0];
    for _ in 0..SERVED {
        daemon.clock.advance(WORK);
        assert_eq!(daemon.post("/v1/settle", &json!({ "permit": permit })).await.status, 200);
        let (namespace, next) = receiver.recv().await.unwrap();
        served[namespace] += 1;
        permit = next;
    }
    callers.shutdown().await;
    daemon.until_waiting(0).await;
    assert_eq!(daemon.post("/v1/settle", &json!({ "permit": permit })).await.status, 200);
    served
}

#[tokio::test]
async fn issue_39_a_reload_changes_the_shares_of_the_namespaces_that_are_served() {
    let daemon = Daemon::start(&policy("shop: 1")).await;
    let equal = served(&daemon).await;
    assert!(equal.iter().all(|each| (11..=13).contains(each)), "{equal:?}");
    assert_eq!(daemon.reload(&policy("shop: 3, blog: 1")).await, None);
    let [shop, blog] = served(&daemon).await;
    assert!((17..=19).contains(&shop), "three quarters of 24: {shop}, {blog}");
    assert_eq!(daemon.reload(&policy("shop: 1, blog: 3")).await, None);
    let [shop, blog] = served(&daemon).await;
    assert!((17..=19).contains(&blog), "three quarters of 24: {shop}, {blog}");
    assert_eq!(daemon.reload(&policy("")).await, None);
    let equal = served(&daemon).await;
    assert!(equal.iter().all(|each| (11..=13).contains(each)), "{equal:?}");
}
