//! The same service as JSON over HTTP, and the dump of the files it may answer by.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::limit::Consistency;
use tidegate_engine::NamespaceConfig;
use tidegate_policy::envoy::Settings;
use tidegate_server::{ListenerRole, ManualClock};
use tidegate_test_support::TemporaryFolder;
use tidegate_wire::envoy::json;

use super::files::{SHOP, folder, world as shop};
use super::{Envoy, app, config, user, weighing, world};
use crate::authorization::{CHECKOUT, Guarded, OPS};
use crate::client::{Answer, Client};
use crate::store::Silent;
use crate::world::{START, World, api, fixed, loopback};

/// A question for one entry in a domain.
fn question(domain: &str, key: &str, value: &str) -> String {
    format!(r#"{{"domain":"{domain}","descriptors":[{{"entries":[{{"key":"{key}","value":"{value}"}}]}}]}}"#)
}

/// The same, with more in its descriptor.
fn with(rest: &str, question: &str) -> String {
    question.replacen("\"entries\"", &format!("{rest},\"entries\""), 1)
}

/// Sends one request, with a token if there is one.
async fn ask(address: SocketAddr, line: &str, token: Option<&str>, body: &str) -> Answer {
    let mut client = Client::connect(address).await;
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let length = body.len();
    client.send(format!("{line} HTTP/1.1\r\nhost: t\r\n{token}content-length: {length}\r\n\r\n{body}")).await;
    client.answer().await.expect("an answer")
}

#[tokio::test]
async fn a_request_in_json_is_answered_as_the_same_message_over_grpc() {
    let (over_grpc, over_http) = (world().await, world().await);
    let mut envoy = Envoy::of(&over_grpc).await;
    let body = r#"{"domain":"api","descriptors":[
        {"entries":[{"key":"user","value":"ada"}]},
        {"entries":[{"key":"app","value":"x"}],"hits_addend":"1"}]}"#;
    for round in 0..6 {
        let mut expected = Vec::new();
        json::write(&envoy.ask(&[user("ada"), weighing(1, app("x"))]).await, &mut expected);
        let answer = over_http.post("/json", body).await;
        let status = if round < 3 { 200 } else { 429 };
        assert_eq!((answer.status, answer.header("content-type")), (status, Some("application/json")));
        assert_eq!(answer.body, String::from_utf8(expected).unwrap(), "{round}");
    }
    assert_eq!(Envoy::of(&over_http).await.left(&[weighing(0, app("x"))]).await, [(true, 0)], "one counter");
}

#[tokio::test]
async fn clients_of_the_peers_json_get_its_answers_with_any_method() {
    let folder = folder();
    let world = shop(&folder, Settings::default()).await;
    let limit = r#""currentLimit":{"name":"per-user","requestsPerUnit":3,"unit":"HOUR"}"#;
    let admitted = |left| {
        let left = if left == 0 { String::new() } else { format!(r#","limitRemaining":{left}"#) };
        format!(
            r#"{{"overallCode":"OK","statuses":[{{"code":"OK",{limit}{left},"durationUntilReset":"3600s"}}]}}"#
        )
    };
    let refused = format!(
        r#"{{"overallCode":"OVER_LIMIT","statuses":[{{"code":"OVER_LIMIT",{limit},"durationUntilReset":"3600s"}}]}}"#
    );
    let ada = question("shop", "user", "ada");
    for (method, status, body) in [
        ("POST", 200, admitted(2)),
        ("GET", 200, admitted(1)),
        ("PUT", 200, admitted(0)),
        ("WHATEVER", 429, refused.clone()),
        ("DELETE", 429, refused),
    ] {
        let answer = world.client().await.request(method, "/json", &ada).await;
        assert_eq!((answer.status, answer.body), (status, body), "{method}");
    }
    let unlimited = world.post("/json", &question("shop", "app", "x")).await.body;
    assert_eq!(unlimited, r#"{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":4294967295}]}"#);
    let unknown = world.post("/json", &question("elsewhere", "user", "ada")).await.body;
    assert_eq!(unknown, r#"{"overallCode":"OK","statuses":[{"code":"OK"}]}"#);
}

#[tokio::test]
async fn json_that_is_no_request_is_a_bad_one_and_charges_nothing() {
    let world = world().await;
    let ada = question("api", "user", "ada");
    for (body, said) in [
        (String::new(), "the body is empty"),
        ("}".to_owned(), "expected value"),
        ("[]".to_owned(), "an object"),
        ("{}".to_owned(), "domain is empty"),
        (r#"{"domain":"api"}"#.to_owned(), "descriptors is empty"),
        (with(r#""hits":2"#, &ada), "unknown field `hits`"),
        (with(r#""hitsAddend":-1"#, &ada), "from 0 to 18446744073709551615"),
        (with(r#""limit":{"unit":"UNKNOWN","requestsPerUnit":1}"#, &ada), "descriptors[0].limit.unit"),
        (with(r#""limit":{"unit":7,"requestsPerUnit":1}"#, &ada), "7, which is no unit"),
        (with(r#""limit":{"unit":"EON"}"#, &ada), "SECOND, MINUTE"),
        (question("api", "", "ada"), "descriptors[0].entries[0].key"),
    ] {
        let answer = world.post("/json", &body).await;
        let fault = answer.json();
        assert_eq!((answer.status, fault["error"].as_str()), (400, Some("malformed_body")), "{body}");
        assert!(fault.to_string().contains(said), "{body}: {fault}");
    }
    let nothing = world.client().await.get("/json").await;
    assert_eq!((nothing.status, nothing.json()["error"].as_str()), (400, Some("malformed_body")));
    let largest = format!("{ada}{}", " ".repeat((256 << 10) - ada.len()));
    let mut client = world.client().await;
    assert_eq!(client.post("/json", &format!("{largest} ")).await.status, 413);
    assert_eq!(world.post("/json", &largest).await.json()["statuses"][0]["limitRemaining"], 2);
}

#[tokio::test]
async fn what_is_given_back_is_seen_by_the_very_next_question() {
    let folder = folder();
    let world = shop(&folder, Settings::default()).await;
    let ada = question("shop", "user", "ada");
    let mut client = world.client().await;
    for status in [200, 200, 200, 429, 429] {
        assert_eq!(client.post("/json", &ada).await.status, status);
    }
    // Refused ones count here, so that five are used.
    let back = with(r#""hitsAddend":"3","isNegativeHits":true"#, &ada);
    assert_eq!(client.post("/json", &back).await.status, 200);
    for status in [200, 429] {
        assert_eq!(client.post("/json", &ada).await.status, status);
    }
}

#[tokio::test]
async fn what_a_store_does_not_take_back_is_a_fault_and_no_answer() {
    let mut config = loopback();
    config.bounds.store_timeout = Duration::from_millis(5);
    let limits = vec![fixed("app", 5, Duration::from_hours(1)).key(["app"]).consistency(Consistency::Exact)];
    let namespace = NamespaceConfig::new("api", limits);
    let world = World::asking([namespace], config, Arc::new(ManualClock::new(START)), Arc::new(Silent)).await;
    let back = with(r#""isNegativeHits":true"#, &question("api", "app", "x"));
    let answer = world.post("/json", &back).await;
    assert_eq!((answer.status, answer.json()["error"].as_str()), (503, Some("store_unavailable")));
}

#[tokio::test]
async fn who_may_ask_charge_and_give_back_in_json_is_who_may_over_grpc_and_the_dump_is_for_operators() {
    let folder = TemporaryFolder::new();
    std::fs::write(folder.path().join("shop.yaml"), SHOP).unwrap();
    let rest = format!(
        "envoy_ratelimit: {{ path: FOLDER/shop.yaml }}
authorization:
  - {{ name: checkout, token: {CHECKOUT}, namespaces: [shop], verbs: [check] }}
  - {{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [inspect] }}
"
    );
    let daemon = Guarded::start(folder, &rest).await;
    let address = daemon.handle.http().unwrap().tcp().unwrap();
    let ada = question("shop", "user", "ada");
    for (token, body, status) in [
        (None, ada.clone(), 401),
        (Some("wrong-token-0123456789"), "not even JSON".to_owned(), 401),
        (Some(CHECKOUT), ada.clone(), 200),
        (Some(CHECKOUT), with(r#""hitsAddend":0"#, &ada), 200),
        (Some(CHECKOUT), with(r#""hitsAddend":1"#, &ada), 403),
        (Some(CHECKOUT), with(r#""isNegativeHits":true"#, &ada), 403),
        (Some(CHECKOUT), question("api", "user", "ada"), 403),
        (Some(OPS), ada.clone(), 403),
    ] {
        assert_eq!(ask(address, "POST /json", token, &body).await.status, status, "{token:?}: {body}");
    }
    for (token, status) in [(None, 401), (Some(CHECKOUT), 403), (Some(OPS), 200)] {
        assert_eq!(ask(address, "GET /rlconfig", token, "").await.status, status, "{token:?}");
    }
}

#[tokio::test]
async fn operators_see_the_limits_of_the_files_as_the_peer_dumps_them() {
    let folder = folder();
    let world = shop(&folder, Settings::default()).await;
    let answer = world.client().await.get("/rlconfig").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain; charset=utf-8")));
    assert_eq!(
        answer.body,
        "shop.user: unit=HOUR requests_per_unit=3, shadow_mode: false\n\
         shop.app: unit=UNKNOWN requests_per_unit=0, shadow_mode: false\n"
    );
    assert_eq!(world.post("/rlconfig", "{}").await.status, 405);
}

#[tokio::test]
async fn without_files_there_is_no_dump_and_with_a_listener_for_operators_it_is_there() {
    let mut config = config();
    config.listen(ListenerRole::Admin, "127.0.0.1:0".parse().unwrap());
    let world = World::with([api()], config).await;
    let admin = world.handle.admin().unwrap().tcp().unwrap();
    let answer = Client::connect(admin).await.get("/rlconfig").await;
    assert_eq!((answer.status, answer.json()["error"].as_str()), (404, Some("unknown_route")));
    assert!(answer.json()["detail"].as_str().unwrap().contains("envoy_ratelimit"), "{answer:?}");
    let other_listener = world.client().await.get("/rlconfig").await;
    assert!(
        other_listener.status == 404 && other_listener.body.contains("listen.admin"),
        "{other_listener:?}"
    );
    assert_eq!(Client::connect(admin).await.post("/json", "{}").await.status, 404, "it is for callers");
}
