//! Deferral tickets as requests show them through every protocol. None of these is a ticket, so
//! each request is decided as one without.

use serde_json::json;

use crate::claims::{Daemon, PROTOCOLS};
use crate::client::Client;

/// A daemon whose resource defers, so that tickets mean something.
async fn daemon() -> Daemon {
    Daemon::with(|server| {
        format!(
            "
namespaces:
  shop: {{ limits: [{{ name: all, rate: 1000/s }}], request: {{ ticket: entry.slip }} }}
  plain: {{ limits: [{{ name: all, rate: 1000/s }}] }}
resources:
  app: {{ concurrency: 8, defer: {{ classes: [sheddable], operation: header.x-operation }} }}
proxy:
  upstreams: {{ app: [\"http://{server}\"] }}
  routes: [{{ upstream: app, namespace: shop }}]
"
        )
    })
    .await
}

/// Texts that are no tickets: one of the usual form, the longest one, one that is too long, and
/// nothing.
fn texts() -> [String; 4] {
    ["c2VjcmV0-_".to_owned(), "x".repeat(256), "x".repeat(257), String::new()]
}

#[tokio::test]
async fn no_request_is_malformed_by_its_ticket_and_no_line_of_the_log_shows_it() {
    let daemon = daemon().await;
    for ticket in texts() {
        for protocol in PROTOCOLS {
            for (namespace, entry) in [("shop", "slip"), ("plain", "ticket")] {
                let words = [("user", "ada"), ("resource", "app"), (entry, &*ticket)];
                let answer = daemon.ask_of(namespace, protocol, &words).await;
                let is_admitted = answer.contains("admit") || answer.contains("200") || answer.contains("Ok");
                assert!(is_admitted, "{protocol}: {answer}");
            }
        }
        let header = format!("tidegate-ticket: {ticket}\r\nx-operation: export\r\n");
        assert_eq!(daemon.through("GET /", &header).await.status, 200, "{ticket}");
    }
    let twice = "tidegate-ticket: a\r\ntidegate-ticket: b\r\n";
    assert_eq!(daemon.through("GET /", twice).await.status, 200);
    // As any attribute that a policy names the operation by.
    let operations = "x-operation: a\r\nx-operation: b\r\n";
    assert_eq!(daemon.through("GET /", operations).await.status, 400);
    let lines = daemon.lines().await;
    assert!(lines.iter().filter(|line| line["attributes"]["user"] == "ada").count() >= 32, "{lines:?}");
    for line in lines {
        let text = line.to_string();
        assert!(!text.contains("c2VjcmV0") && !text.contains("xxxx"), "{text}");
    }
}

#[tokio::test]
async fn a_body_and_the_header_of_the_api_show_tickets_and_only_a_text_is_one() {
    let daemon = daemon().await;
    let mut client = Client::connect(daemon.http()).await;
    for ticket in texts() {
        for route in ["/v1/check", "/v1/reserve", "/v1/explain"] {
            let body = json!({"namespace": "plain", "ticket": ticket}).to_string();
            let answer = client.post(route, &body).await;
            assert_eq!(answer.status, 200, "{route}: {answer:?}");
        }
    }
    for (wrong, is_taken) in
        [(json!(7), false), (json!(["t"]), false), (json!({}), false), (json!(null), true)]
    {
        for route in ["/v1/check", "/v1/reserve", "/v1/explain"] {
            let body = json!({"namespace": "plain", "ticket": wrong}).to_string();
            let answer = client.post(route, &body).await;
            assert_eq!(answer.status, if is_taken { 200 } else { 400 }, "{route} {wrong}: {answer:?}");
        }
    }
    let answer = client.get("/v1/authorize?namespace=plain&ticket=c2VjcmV0").await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
