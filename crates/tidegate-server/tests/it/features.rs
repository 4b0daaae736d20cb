//! The feature of a request through every protocol. The decision log shows the one that the engine
//! was asked with.

use serde_json::{Value, json};

use crate::claims::{Daemon, PROTOCOLS};
use crate::client::{Client, post};
use crate::grpc::{Envoy, descriptor, request};

const POLICY: &str = r#"
features: [thumbnails, search]
namespaces:
  shop:
    limits:
      - { name: all, rate: 1000/s }
      - { name: orders, match: { feature: orders }, fixed: { limit: 1, window: 1h } }
  named: { limits: [{ name: all, rate: 1000/s }], request: { feature: entry.part } }
  fixed: { limits: [{ name: all, rate: 1000/s }], request: { feature: '"search"' } }
resources: { press: { concurrency: 1, queue: { wait: 30s } } }
authorize: { headers: { x-feature: feature, x-part: part } }
proxy:
  upstreams: { app: ["http://SERVER"] }
  routes:
    - { match: { path: /named/* }, upstream: app, namespace: shop, feature: '"thumbnails"' }
    - { match: { path: /header }, upstream: app, namespace: shop, feature: header.x-feature }
    - { match: { path: /query }, upstream: app, namespace: shop, feature: query.feature }
    - { match: { path: /none }, upstream: app, namespace: shop, attributes: { feature: header.x-feature } }
    - { upstream: app, namespace: shop, feature: path.0 }
"#;

async fn daemon() -> Daemon {
    Daemon::with(|server| POLICY.replace("SERVER", &server.to_string())).await
}

/// Stops it; the protocol and the feature of each decision, in their order.
async fn features(daemon: Daemon) -> Vec<(String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let lines = daemon.lines().await;
    lines.iter().map(|line| (text(&line["protocol"]).unwrap(), text(&line["feature"]))).collect()
}

fn row(protocol: &str, feature: Option<&str>) -> (String, Option<String>) {
    (protocol.to_owned(), feature.map(str::to_owned))
}

fn is_admitted(answer: &str) -> bool {
    answer.starts_with("200") || answer.contains("admit") || answer.contains("code: Ok")
}

#[tokio::test]
async fn the_engine_is_asked_with_the_feature_that_a_request_names_at_every_protocol() {
    let daemon = daemon().await;
    let long = "x".repeat(200);
    let mut expected = Vec::new();
    for protocol in PROTOCOLS {
        for name in ["thumbnails", "search", "not listed", "a\tb\u{1b}[2J", "f\u{fc}r", "", &long] {
            let answer = daemon.ask_of("shop", protocol, &[("feature", name)]).await;
            assert!(is_admitted(&answer), "{protocol} {name:?}: {answer}");
            expected.push(row(protocol, Some(name)));
        }
        for (namespace, words, feature) in [
            ("shop", &[("part", "search")][..], None),
            ("named", &[("part", "search"), ("feature", "thumbnails")], Some("search")),
            ("named", &[("feature", "thumbnails")], None),
            ("fixed", &[("feature", "thumbnails")], Some("search")),
        ] {
            let answer = daemon.ask_of(namespace, protocol, words).await;
            assert!(is_admitted(&answer), "{protocol} {words:?}: {answer}");
            expected.push(row(protocol, feature));
        }
    }
    assert_eq!(features(daemon).await, expected);
}

#[tokio::test]
async fn a_body_names_a_feature_that_wins_over_the_entry_and_a_gateway_names_it_by_a_header() {
    let daemon = daemon().await;
    let mut client = Client::connect(daemon.http()).await;
    let mut expected = Vec::new();
    // Neither empty nor 2 KB long nor made of control characters is a feature refused.
    let long = "x".repeat(2048);
    for name in ["search", "not listed", "", "a\n\u{0}b", &long] {
        for route in ["/v1/check", "/v1/reserve"] {
            let body =
                json!({ "namespace": "shop", "attributes": { "feature": "thumbnails" }, "feature": name });
            let answer = client.post(route, &body.to_string()).await;
            assert_eq!(answer.status, 200, "{route} {name:?}: {}", answer.body);
            let shown = if name == long { format!("{}…", &long[..256]) } else { name.to_owned() };
            expected.push(row("http", Some(&shown)));
        }
        let body = json!({ "namespace": "shop", "feature": name });
        let answer = client.post("/v1/explain", &body.to_string()).await;
        assert_eq!(answer.status, 200, "{name:?}: {}", answer.body);
    }
    // Without a member it is the entry; `null` is no member.
    for (feature, shown) in [(json!(null), "thumbnails"), (json!("search"), "search")] {
        let body =
            json!({ "namespace": "shop", "attributes": { "feature": "thumbnails" }, "feature": feature });
        assert_eq!(client.post("/v1/check", &body.to_string()).await.status, 200);
        expected.push(row("http", Some(shown)));
    }
    for route in ["/v1/check", "/v1/reserve", "/v1/explain"] {
        for feature in [json!(7), json!(["search"]), json!({ "name": "search" })] {
            let body = json!({ "namespace": "shop", "feature": feature }).to_string();
            let answer = client.post(route, &body).await;
            assert!(answer.status == 400 && answer.body.contains("feature"), "{route}: {answer:?}");
        }
    }
    let head = "GET /v1/authorize?namespace=shop&feature=thumbnails HTTP/1.1\r\nhost: a\r\nx-feature: search\r\n\r\n";
    client.send(head).await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    expected.push(row("authorize", Some("search")));
    assert_eq!(features(daemon).await, expected);
}

#[tokio::test]
async fn each_descriptor_of_a_call_has_a_feature_of_its_own() {
    let daemon = daemon().await;
    let mut envoy = Envoy::at(daemon.grpc()).await;
    let one = |feature| descriptor(&[("feature", feature), ("user", "ada")]);
    let call = request("shop", &[one("thumbnails"), one("search"), descriptor(&[("user", "ada")])]);
    envoy.call(call).await.unwrap();
    let expected = [Some("thumbnails"), Some("search"), None].map(|feature| row("rls", feature));
    assert_eq!(features(daemon).await, expected);
}

#[tokio::test]
async fn a_route_says_where_the_feature_of_its_requests_is_found() {
    let daemon = daemon().await;
    let long = "x".repeat(2048);
    let shown = format!("{}…", &long[..256]);
    let mut expected = Vec::new();
    for (target, header, feature) in [
        ("/named/7", "", Some("thumbnails")),
        ("/header", "x-feature: search\r\n", Some("search")),
        ("/header", "x-feature: not listed\r\n", Some("not listed")),
        ("/header", "x-feature: \r\n", Some("")),
        ("/header", &format!("x-feature: {long}\r\n"), Some(&*shown)),
        ("/header", "", None),
        ("/query?feature=sea%0arch", "", Some("sea\nrch")),
        ("/none", "x-feature: search\r\n", None),
        ("/search/42", "x-feature: thumbnails\r\n", Some("search")),
        (&format!("/{long}/42"), "", Some(&*shown)),
    ] {
        let answer = daemon.through(&format!("GET {target}"), header).await;
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        expected.push(row("proxy", feature));
    }
    // A duplicate source is rejected, as for every other claim.
    for (target, headers) in [
        ("/header", "x-feature: search\r\nx-feature: thumbnails\r\n"),
        ("/header", "x-feature: \u{fc}\r\n"),
        ("/query?feature=search&feature=thumbnails", ""),
        ("/query?feature=%ff", ""),
    ] {
        let answer = daemon.through(&format!("GET {target}"), headers).await;
        let is_named = answer.body.contains("header.x-feature") || answer.body.contains("query.feature");
        let is_text = headers.contains('\u{fc}');
        assert!(is_text == (answer.status == 200) && (is_text || is_named), "{target}: {answer:?}");
        if is_text {
            expected.push(row("proxy", Some("\u{fc}")));
        }
    }
    assert_eq!(features(daemon).await, expected);
}

/// An attribute that is the feature is an attribute like others.
#[tokio::test]
async fn limits_see_the_attribute_that_names_the_feature() {
    let daemon = daemon().await;
    for protocol in PROTOCOLS {
        let answer = daemon.ask_of("shop", protocol, &[("feature", "orders")]).await;
        assert_eq!(is_admitted(&answer), protocol == PROTOCOLS[0], "{protocol}: {answer}");
    }
    let lines = daemon.lines().await;
    let refused: Vec<_> = lines.iter().map(|line| (&line["limit"], &line["feature"])).skip(1).collect();
    assert_eq!(refused, [(&json!("orders"), &json!("orders")); 3]);
}

/// A value that is too long for an attribute is refused as before; the feature refuses nothing.
#[tokio::test]
async fn an_entry_of_2_kb_is_refused_where_attributes_are_bounded() {
    let daemon = daemon().await;
    let long = "x".repeat(2048);
    for protocol in PROTOCOLS {
        let of = async |name| is_admitted(&daemon.ask_of("shop", protocol, &[(name, &long)]).await);
        assert_eq!(of("feature").await, of("other").await, "{protocol}");
    }
}

#[tokio::test]
async fn a_request_that_waits_keeps_its_feature() {
    let daemon = daemon().await;
    let mut client = Client::connect(daemon.http()).await;
    let body = r#"{"namespace":"shop","resource":"press","feature":"search","wait_ms":60000}"#;
    let first = client.post("/v1/check", body).await.json();
    client.send(post("/v1/check", body)).await;
    daemon.until_waiting(1).await;
    let release = json!({ "permit": first["permit"] }).to_string();
    let released = Client::connect(daemon.http()).await.post("/v1/release", &release).await;
    assert_eq!(released.status, 200, "{}", released.body);
    assert_eq!(client.answer().await.unwrap().status, 200);
    assert_eq!(features(daemon).await, [Some("search"); 2].map(|feature| row("http", feature)));
}
