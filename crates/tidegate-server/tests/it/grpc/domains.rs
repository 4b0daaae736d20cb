//! Domains of envoyproxy/ratelimit's files over HTTP, and what logs, metrics and `explain` say of
//! their decisions.

use serde_json::{Value, json};
use tidegate_policy::envoy::{Semantics, Settings};
use tidegate_test_support::TemporaryFolder;
use tidegate_wire::envoy::RateLimitUnit;

use super::files::world;
use super::{Envoy, descriptor, lefts, request, under};
use crate::world::World;

/// A tree in the manner of the peer's documents.
const MESSAGING: &str = "
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: to_number
    rate_limit: { unit: day, requests_per_unit: 100 }
  - key: beta
    shadow_mode: true
    rate_limit: { unit: minute, requests_per_unit: 1 }
";

const MARKETING: &str = "messaging.message_type_marketing.to_number";
const NUMBER: &str = r#"{"message_type":"marketing","to_number":"2061234567"}"#;

fn folder() -> TemporaryFolder {
    let folder = TemporaryFolder::new();
    std::fs::write(folder.path().join("messaging.yaml"), MESSAGING).unwrap();
    folder
}

/// Under `shadow: true` every rule only says what it would refuse; decisions still count under
/// their rule.
#[tokio::test]
async fn where_all_rules_are_in_shadow_mode_they_are_listed_so_and_admissions_name_their_rule() {
    let folder = folder();
    let mut shadowed = Settings::default();
    shadowed.shadow = true;
    let world = world(&folder, shadowed).await;
    let mut envoy = Envoy::of(&world).await;
    let number = descriptor(&[("to_number", "1")]);
    for _ in 0..2 {
        assert!(!lefts(&envoy.call(request("messaging", std::slice::from_ref(&number))).await.unwrap())[0].0);
    }
    assert_eq!(check(&world, r#"{"to_number":"1"}"#, "").await.0, 200);
    let limits = world.client().await.get("/v1/limits").await.json();
    let modes = limits["domains"][0]["rules"].as_array().unwrap().iter().map(|rule| &rule["mode"]);
    assert_eq!(modes.collect::<Vec<_>>(), ["shadow"; 3], "{limits}");
    let page = world.client().await.get("/metrics").await.body;
    for (protocol, count) in [("rls", 2), ("http", 1)] {
        let line = format!(
            r#"tidegate_decisions_total{{namespace="messaging",limit="messaging.to_number",decision="admit",reason="",protocol="{protocol}"}} {count}"#
        );
        assert!(page.lines().any(|one| one == line), "{line}\n{page}");
    }
}

/// envoyproxy/ratelimit sends no `Retry-After`; the setting `headers.retry_after` adds it.
#[tokio::test]
async fn refusals_carry_retry_after_through_envoy_where_that_is_asked_for() {
    for (semantics, retry_after) in
        [(Semantics::Strict, false), (Semantics::Strict, true), (Semantics::Tidegate, true)]
    {
        let folder = folder();
        let mut with_header = settings(semantics);
        with_header.headers.retry_after = retry_after;
        let world = world(&folder, with_header).await;
        let mut envoy = Envoy::of(&world).await;
        let marketing = descriptor(&[("message_type", "marketing"), ("to_number", "1")]);
        let number = descriptor(&[("to_number", "1")]);
        for used in 1..=6 {
            let answer =
                envoy.call(request("messaging", &[marketing.clone(), number.clone()])).await.unwrap();
            let headers: Vec<_> = answer
                .response_headers_to_add
                .iter()
                .map(|one| (one.key.as_str(), one.value.as_str()))
                .collect();
            let expected: &[_] = if used > 5 && retry_after { &[("Retry-After", "60")] } else { &[] };
            assert_eq!(headers, expected, "{semantics:?}, {used} used");
        }
        let mut never = request("messaging", std::slice::from_ref(&number));
        never.hits_addend = 1000;
        let answer = envoy.call(never).await.unwrap();
        assert!(answer.response_headers_to_add.is_empty(), "coming back is of no use: {answer:?}");
    }
}

async fn check(world: &World, attributes: &str, rest: &str) -> (u16, Value) {
    let body = format!(r#"{{"namespace":"messaging","attributes":{attributes}{rest}}}"#);
    let answer = world.post("/v1/check", &body).await;
    (answer.status, answer.json())
}

fn settings(semantics: Semantics) -> Settings {
    let mut settings = Settings::default();
    settings.semantics = semantics;
    settings
}

const BOTH: [Semantics; 2] = [Semantics::Strict, Semantics::Tidegate];

#[tokio::test]
async fn attributes_are_the_descriptors_of_every_path_they_lead_along_with_one_count_for_all_protocols() {
    for semantics in BOTH {
        let folder = folder();
        let world = world(&folder, settings(semantics)).await;
        let mut envoy = Envoy::of(&world).await;
        let marketing = descriptor(&[("message_type", "marketing"), ("to_number", "2061234567")]);
        let number = descriptor(&[("to_number", "2061234567")]);
        let answer = envoy.call(request("messaging", &[marketing.clone(), number.clone()])).await.unwrap();
        assert_eq!(lefts(&answer), [(false, 4), (false, 99)]);
        let (status, answer) = check(&world, NUMBER, "").await;
        assert_eq!((status, &answer["remaining"]), (200, &json!(3)), "{answer}");
        let left =
            answer["limits"].as_array().unwrap().iter().map(|limit| (&limit["name"], &limit["remaining"]));
        let left: Vec<_> =
            left.map(|(name, left)| (name.as_str().unwrap(), left.as_u64().unwrap())).collect();
        assert_eq!(left, [(MARKETING, 3), ("messaging.to_number", 98)]);
        let (_, peek) = check(&world, NUMBER, r#","peek":true"#).await;
        assert_eq!(peek["remaining"], 3, "a look charges nothing: {peek}");
        let url = "/v1/authorize?namespace=messaging&message_type=marketing&to_number=2061234567";
        let mut client = world.client().await;
        assert_eq!(client.get(url).await.header("ratelimit").unwrap().split(';').nth(1), Some("r=2"));
        for _ in 0..2 {
            assert_eq!(client.get(url).await.status, 200);
        }
        let refused = client.get(url).await;
        assert_eq!((refused.status, refused.header("x-tidegate-limit")), (429, Some(MARKETING)));
        let (status, refused) = check(&world, NUMBER, "").await;
        assert_eq!(
            (status, &refused["reason"], &refused["limit"]),
            (429, &json!("rate_exceeded"), &json!(MARKETING))
        );
        assert_eq!(refused["scope"], json!({"message_type": "marketing", "to_number": "2061234567"}));
        assert_eq!(refused["retry_after_ms"], 60_000, "{refused}");
        let (_, peek) = check(&world, NUMBER, r#","peek":true"#).await;
        assert_eq!(
            (&peek["decision"], &peek["retry_after_ms"]),
            (&json!("refuse"), &json!(60_000)),
            "{peek}"
        );
        let answer = envoy.call(request("messaging", &[marketing, number])).await.unwrap();
        assert!(lefts(&answer)[0].0, "{answer:?}");
        // Without the number no path leads to a limit.
        let (status, free) = check(&world, r#"{"message_type":"marketing"}"#, "").await;
        assert_eq!((status, free), (200, json!({"decision": "admit", "limits": []})));
    }
}

#[tokio::test]
async fn decisions_by_files_are_counted_and_found_as_those_by_a_policy() {
    for semantics in BOTH {
        let folder = folder();
        let world = world(&folder, settings(semantics)).await;
        let mut envoy = Envoy::of(&world).await;
        let marketing = descriptor(&[("message_type", "marketing"), ("to_number", "2061234567")]);
        for _ in 0..7 {
            envoy.call(request("messaging", std::slice::from_ref(&marketing))).await.unwrap();
        }
        for _ in 0..2 {
            check(&world, r#"{"beta":"x"}"#, "").await;
        }
        let mut client = world.client().await;
        let page = client.get("/metrics").await.body;
        let of = |limit: &str, rest: &str| format!(r#"{{namespace="messaging",limit="{limit}"{rest}"#);
        for line in [
            of(MARKETING, r#",decision="admit",reason="",protocol="rls"} 5"#),
            of(MARKETING, r#",decision="refuse",reason="rate_exceeded",protocol="rls"} 2"#),
        ] {
            let line = format!("tidegate_decisions_total{line}");
            assert!(page.lines().any(|one| one == line), "{line}\n{page}");
        }
        let shadow = format!("tidegate_shadow_refusals_total{}", of("messaging.beta", "} 1"));
        assert!(page.lines().any(|one| one == shadow), "{shadow}\n{page}");
        let top = client.get("/v1/keys/top").await.json();
        let first = &top["keys"][0];
        assert_eq!((&first["namespace"], &first["limit"]), (&json!("messaging"), &json!(MARKETING)), "{top}");
        assert_eq!(
            (&first["key"], &first["refusals"]),
            (&json!("message_type=marketing, to_number=2061234567"), &json!(2))
        );
        let body = format!(r#"{{"namespace":"messaging","attributes":{NUMBER}}}"#);
        let explained = world.post("/v1/explain", &body).await.json();
        assert_eq!(explained["would"], "refuse", "{explained}");
        let limits = explained["limits"].as_array().unwrap();
        let rule = limits.iter().find(|limit| limit["name"] == MARKETING).unwrap();
        assert_eq!(
            (&rule["applies"], &rule["would"], &rule["reason"]),
            (&json!(true), &json!("refuse"), &json!("rate_exceeded"))
        );
        assert_eq!(rule["counter"]["level"]["remaining"], 0, "{rule}");
        let beta = limits.iter().find(|limit| limit["name"] == "messaging.beta").unwrap();
        assert_eq!(beta["applies"], false, "{beta}");
    }
}

#[tokio::test]
async fn a_limit_that_comes_with_its_descriptor_is_counted_as_an_override_whether_or_not_it_admits() {
    let folder = folder();
    let world = world(&folder, Settings::default()).await;
    let mut envoy = Envoy::of(&world).await;
    for domain in ["messaging", "api"] {
        let own = under(2, RateLimitUnit::Minute, descriptor(&[("own", "x")]));
        for _ in 0..3 {
            envoy.call(request(domain, std::slice::from_ref(&own))).await.unwrap();
        }
        let page = world.client().await.get("/metrics").await.body;
        for rest in
            [r#"decision="admit",reason="",protocol="rls"} 2"#, r#"reason="rate_exceeded",protocol="rls"} 1"#]
        {
            let labels = format!(r#"namespace="{domain}",limit="override","#);
            assert!(
                page.lines().any(|line| line.contains(&labels) && line.ends_with(rest)),
                "{labels} {rest}\n{page}"
            );
        }
    }
}

#[tokio::test]
async fn rules_are_listed_and_explained_with_the_numbers_that_count() {
    let folder = TemporaryFolder::new();
    let file = "
domain: messaging
descriptors:
  - key: bucket
    rate_limit: { unit: second, requests_per_unit: 10, algorithm: rate, burst: 3 }
  - key: window
    value: small
    rate_limit: { unit: day, requests_per_unit: 5 }
  - key: free
    rate_limit: { unlimited: true }
  - key: path
    value: /api/*
    descriptors: [{ key: verb, rate_limit: { unit: day, requests_per_unit: 5 } }]
";
    std::fs::write(folder.path().join("messaging.yaml"), file).unwrap();
    let world = world(&folder, settings(Semantics::Tidegate)).await;
    let mut client = world.client().await;
    for path in ["/v1/limits", "/v1/limits?namespace=messaging"] {
        let limits = client.get(path).await.json();
        let rules = limits["domains"][0]["rules"].as_array().unwrap();
        assert_eq!(rules.len(), 4, "{limits}");
        assert_eq!(rules[1]["name"], "messaging.window_small", "{limits}");
        assert_eq!(rules[1]["entries"], json!([["window", "small"]]));
        assert!(rules[0]["limits"][0].as_str().unwrap().contains("burst 3"), "{limits}");
        assert_eq!(rules[2]["limits"], json!([]));
    }
    assert_eq!(client.get("/v1/limits?namespace=message").await.status, 404);
    assert_eq!(client.get("/v1/keys/top?namespace=messaging&limit=nope").await.status, 404);
    let (_, first) = check(&world, r#"{"bucket":"a"}"#, "").await;
    assert_eq!((&first["limits"][0]["limit"], &first["remaining"]), (&json!(3), &json!(2)), "{first}");
    // A refused request leaves the units that were there, and reports how many.
    assert_eq!(check(&world, r#"{"window":"small"}"#, r#","cost":4"#).await.0, 200);
    let (status, refused) = check(&world, r#"{"window":"small"}"#, r#","cost":2"#).await;
    assert_eq!((status, &refused["remaining"]), (429, &json!(1)), "{refused}");
    let body = r#"{"namespace":"messaging","attributes":{"window":"big","free":"x","path":"/api/a"}}"#;
    let explained = world.post("/v1/explain", body).await.json();
    let because = |at: usize| explained["limits"][at]["because"].as_str().unwrap().to_owned();
    assert_eq!(because(0), "the request has no bucket; it wants any value");
    assert_eq!(because(1), "window is \"big\"; it wants \"small\"");
    assert_eq!(because(2), "it is unlimited, so it counts nothing");
    assert_eq!(because(3), "the request has no verb; it wants any value", "the path fits its pattern");
    // A request that no rule speaks of is a decision, too.
    assert_eq!(check(&world, r#"{"nothing":"x"}"#, "").await.0, 200);
    let page = client.get("/metrics").await.body;
    let line = r#"tidegate_decisions_total{namespace="messaging",limit="",decision="admit",reason="",protocol="http"} 1"#;
    assert!(page.lines().any(|one| one == line), "{page}");
}

#[tokio::test]
async fn what_files_do_not_serve_says_so() {
    let folder = folder();
    let world = world(&folder, Settings::default()).await;
    let body = r#"{"namespace":"messaging","attributes":{"to_number":"1"},"expires_ms":1000}"#;
    let answer = world.post("/v1/reserve", body).await;
    let fault = answer.json();
    assert_eq!((answer.status, &fault["error"]), (400, &json!("not_available")), "{fault}");
    assert!(fault["detail"].as_str().unwrap().contains("\"messaging\" is a domain"), "{fault}");
    for (route, rest) in [
        ("/v1/report", ""),
        ("/v1/refund", r#","refund_key":"r""#),
        ("/v1/block", r#","limit":"x","for_ms":1"#),
    ] {
        let body = format!(r#"{{"namespace":"messaging","attributes":{{"to_number":"1"}}{rest}}}"#);
        let answer = world.post(route, &body).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]),
            (400, &json!("not_available")),
            "{route} {answer:?}"
        );
    }
    let resp = world.handle.resp().unwrap().tcp().unwrap();
    let mut redis = crate::resp::Client::over(tokio::net::TcpStream::connect(resp).await.unwrap());
    let error = redis.ask("TG.CHECK messaging to_number 1").await;
    assert!(error.contains("\"messaging\" is a domain of `envoy_ratelimit` files"), "{error}");
    let access = r#","access":{"table":"orders","key":"k","kind":"read","size":1}"#;
    let (status, fault) = check(&world, NUMBER, access).await;
    assert_eq!((status, &fault["error"]), (400, &json!("unknown_table")), "{fault}");
}

#[tokio::test]
async fn a_reset_forgets_what_a_domain_has_counted_of_one_rule_or_of_all() {
    let folder = folder();
    let world = world(&folder, Settings::default()).await;
    let reset = async |rest: &str| {
        let body = format!(r#"{{"namespace":"messaging","attributes":{NUMBER}{rest}}}"#);
        let answer = world.post("/v1/reset", &body).await;
        (answer.status, answer.json())
    };
    let left = async |attributes: &str| {
        let (_, answer) = check(&world, attributes, r#","peek":true"#).await;
        let limits = answer["limits"].as_array().unwrap().iter();
        limits.map(|one| one["remaining"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    for _ in 0..5 {
        assert_eq!(check(&world, NUMBER, "").await.0, 200);
    }
    assert_eq!(check(&world, NUMBER, "").await.0, 429);
    // Of another number nothing is forgotten.
    let other = r#"{"to_number":"1"}"#;
    check(&world, other, "").await;
    assert_eq!(reset(&format!(r#","limit":"{MARKETING}""#)).await, (200, json!({"counters": 1})));
    // As for Envoy, a request that one rule refuses is charged to the others.
    assert_eq!(left(NUMBER).await, [5, 94]);
    assert_eq!(reset("").await, (200, json!({"counters": 1})));
    assert_eq!((left(NUMBER).await, left(other).await), (vec![5, 100], vec![99]));
    let (status, fault) = reset(r#","limit":"per-user""#).await;
    assert_eq!((status, &fault["error"]), (404, &json!("unknown_limit")), "{fault}");
    assert!(fault["detail"].as_str().unwrap().contains("no rule \"per-user\""), "{fault}");
}

#[tokio::test]
async fn a_broken_file_is_a_failed_reload_until_it_is_mended() {
    let folder = folder();
    let world = world(&folder, Settings::default()).await;
    let mut client = world.client().await;
    let path = folder.path().join("messaging.yaml");
    std::fs::write(&path, "domain: messaging\ndescriptors: [{ key: x, rate_limit: { unit: fortnight } }]\n")
        .unwrap();
    world.handle.look_at_files();
    let page = client.get("/metrics").await.body;
    assert!(page.contains("tidegate_policy_last_reload_successful 0"), "{page}");
    assert!(page.contains("tidegate_policy_reload_failures_total 1"), "{page}");
    let limits = client.get("/v1/limits").await.json();
    let problems = limits["policy"]["last_error"]["problems"].as_str().unwrap_or_default();
    assert!(problems.contains("fortnight") && problems.contains("messaging.yaml"), "{limits}");
    assert_eq!(check(&world, NUMBER, "").await.0, 200, "the files in force stay");
    std::fs::write(&path, MESSAGING.replace("requests_per_unit: 5", "requests_per_unit: 1")).unwrap();
    world.handle.look_at_files();
    let page = client.get("/metrics").await.body;
    assert!(page.contains("tidegate_policy_last_reload_successful 1"), "{page}");
    assert_eq!(client.get("/v1/limits").await.json()["policy"]["last_error"], Value::Null);
    assert_eq!(check(&world, NUMBER, "").await.0, 429, "what was used stays used");
}
