//! `GET /v1/usage`: the columns against requests over every protocol, the routes with their grants
//! and bad input, and the series of the meter.

use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tidegate_core::RequestOutcome;
use tidegate_server::{Handle, ManualClock, from_policy};
use tidegate_test_support::TemporaryFolder;

use crate::authorization::{bearer, request as send};
use crate::claims::{Daemon, PROTOCOLS};
use crate::client::{Answer, Client, post};
use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::{START, World, loopback};

const POLICY: &str = r#"
features: [search, thumbnails]
namespaces:
  shop:
    limits: [{ name: per-account, key: [account], fixed: { limit: 20, window: 1h } }]
    request:
      tenant: entry.account
      feature: entry.part
      class: { from: entry.class }
      attempt: entry.try
  free: { limits: [] }
resources:
  press: { concurrency: 1, queue: { wait: 30s } }
  bare: { concurrency: 1 }
proxy:
  upstreams: { app: ["http://SERVER"] }
  routes:
    - upstream: app
      namespace: shop
      attributes: { account: header.x-account }
      tenant: account
      feature: '"thumbnails"'
"#;

async fn daemon() -> Daemon {
    Daemon::with(|server| POLICY.replace("SERVER", &server.to_string())).await
}

/// The numbers of some columns that are not 0, without those of `offered` and `outcomes`.
fn others(total: &Value) -> Value {
    let counted = |(name, value): (&String, &Value)| {
        let is_counted = value.as_f64().is_some_and(|number| number > 0.0) || value == true;
        (is_counted && name != "offered").then(|| (name.clone(), value.clone()))
    };
    Value::Object(total.as_object().unwrap().iter().filter_map(counted).collect())
}

/// The outcomes that are not 0. Checks that a row adds up by outcome and by class.
fn outcomes(row: &Value) -> Value {
    let total = &row["total"];
    let outcomes = total["outcomes"].as_object().unwrap();
    assert_eq!(outcomes.len(), RequestOutcome::ALL.len(), "{row}");
    let sum: u64 = outcomes.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(total["offered"], sum + total["under_way"].as_u64().unwrap(), "{row}");
    let classes = row["classes"].as_array().unwrap();
    for column in [
        "offered",
        "units",
        "refused_units",
        "repeated",
        "reported",
        "refunded",
        "settled_more",
        "settled_less",
    ] {
        let sum: u64 = classes.iter().map(|class| class["usage"][column].as_u64().unwrap()).sum();
        assert_eq!(total[column], sum, "{column} of {row}");
    }
    let counted = outcomes.iter().filter(|(_, count)| **count != 0);
    Value::Object(counted.map(|(name, count)| (name.clone(), count.clone())).collect())
}

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let rows = rows.as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}: {rows:?}"))
}

#[tokio::test]
async fn requests_of_every_protocol_are_counted_in_their_rows_with_their_outcomes() {
    let daemon = daemon().await;
    for protocol in PROTOCOLS {
        daemon.ask_of("shop", protocol, &[("account", "ada"), ("part", "search")]).await;
    }
    assert_eq!(daemon.through("GET /", "x-account: ada\r\n").await.status, 200);
    daemon.ask_of("shop", "http", &[("account", "bob"), ("class", "critical")]).await;
    daemon.ask_of("shop", "http", &[("part", "unlisted")]).await;

    let shop = daemon.usage("/shop").await;
    assert_eq!(outcomes(&shop["namespace"]), json!({ "admitted": 7 }));
    assert_eq!((&shop["tracked"], &shop["more"], &shop["by"]), (&json!(2), &json!(0), &json!("offered")));
    let names: Vec<_> = shop["tenants"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["ada", "bob"], "the largest first");
    assert_eq!(outcomes(row(&shop["tenants"], "ada")), json!({ "admitted": 5 }));
    assert_eq!(outcomes(&shop["no_tenant"]), json!({ "admitted": 1 }));
    assert_eq!(outcomes(&shop["other"]), json!({}));
    let bob = &row(&shop["tenants"], "bob")["classes"];
    assert_eq!((bob.as_array().unwrap().len(), &bob[0]["class"]), (1, &json!("critical")));

    let all = daemon.usage("").await;
    assert_eq!(
        (&all["member"], &all["since"]),
        (&json!(daemon.http().to_string()), &json!("2026-11-20T23:00:00Z"))
    );
    assert_eq!(all["total"]["offered"], 7);
    assert_eq!(outcomes(row(&all["features"], "search")), json!({ "admitted": 4 }));
    assert_eq!(outcomes(row(&all["features"], "thumbnails")), json!({ "admitted": 1 }));
    for (list, kind, count) in [("features", "none", 1), ("features", "other", 1), ("resources", "none", 7)] {
        let found = all[list].as_array().unwrap().iter().find(|row| row["row"] == kind).unwrap();
        assert_eq!((&found["total"]["offered"], found.get("name")), (&json!(count), None), "{list} {kind}");
    }
    assert!(all["metering_bytes"].as_u64().unwrap() > 0);
    for series in [
        r#"tidegate_usage_requests_total{namespace="shop",class="critical",outcome="admitted"} 1"#,
        r#"tidegate_usage_units_total{namespace="shop",class="critical"} 1"#,
        r#"tidegate_feature_requests_total{feature="search",class="sheddable_plus",outcome="admitted"} 4"#,
        r#"tidegate_feature_requests_total{feature="(other)",class="sheddable_plus",outcome="admitted"} 1"#,
        r#"tidegate_resource_requests_total{resource="(none)",class="sheddable_plus",outcome="admitted"} 6"#,
    ] {
        let (name, value) = series.rsplit_once(' ').unwrap();
        assert_eq!(daemon.series(name).await, value, "{name}");
    }
}

#[tokio::test]
async fn every_column_counts_what_its_operation_does() {
    let daemon = daemon().await;
    let mut client = Client::connect(daemon.http()).await;
    let mut ask = async |route: &str, more: Value| {
        let mut body = json!({ "namespace": "shop", "attributes": { "account": "ada" } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.post(route, &body.to_string()).await
    };
    // Refused and tried again.
    assert_ne!(ask("/v1/check", json!({ "cost": 21 })).await.status, 200);
    let again = json!({ "cost": 21, "attributes": { "account": "ada", "try": "1" } });
    assert_ne!(ask("/v1/check", again).await.status, 200);
    // Settled for more, and for less, after 1.5 s in flight each.
    for (cost, settled) in [(4, 6), (4, 1)] {
        let permit =
            ask("/v1/reserve", json!({ "cost": cost, "expires_ms": 60_000 })).await.json()["permit"].clone();
        daemon.advance(Duration::from_millis(1500));
        let body = json!({ "permit": permit, "cost": settled }).to_string();
        let answer = Client::connect(daemon.http()).await.post("/v1/settle", &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(ask("/v1/report", json!({ "cost": 3 })).await.status, 200);
    let refund = json!({ "cost": 2, "refund_key": "r" });
    for _ in 0..2 {
        assert_eq!(ask("/v1/refund", refund.clone()).await.status, 200, "the second time it does nothing");
    }
    // Neither is a request that is offered.
    assert_eq!(ask("/v1/check", json!({ "peek": true })).await.status, 200);
    assert_eq!(ask("/v1/explain", json!({})).await.status, 200);

    let ada = daemon.usage("/shop/ada").await;
    let ada = &ada["tenant"];
    assert_eq!(outcomes(ada), json!({ "admitted": 2, "denied": 2 }));
    assert_eq!(
        others(&ada["total"]),
        json!({ "repeated": 1, "units": 8, "refused_units": 42, "true_units": 7, "place_time_seconds": 3.0, "reported": 3, "refunded": 2,
            "settled_more": 2, "settled_less": 3 })
    );
    let shop = daemon.usage("/shop").await;
    assert_eq!(shop["namespace"]["total"], ada["total"], "the only tenant is all of the namespace");
}

#[tokio::test]
async fn a_request_that_waits_is_under_way_and_its_wait_counts_once_it_is_decided() {
    let daemon = daemon().await;
    let body = |resource: &str, wait: u64| {
        let account = json!({ "account": "ada" });
        json!({ "namespace": "shop", "attributes": account, "resource": resource, "wait_ms": wait })
            .to_string()
    };
    let mut client = Client::connect(daemon.http()).await;
    let first = client.post("/v1/check", &body("press", 0)).await.json();
    client.send(post("/v1/check", &body("press", 60_000))).await;
    daemon.until_waiting(1).await;
    let waiting = daemon.usage("/shop/ada").await["tenant"].clone();
    assert_eq!(outcomes(&waiting), json!({ "admitted": 1 }));
    assert_eq!(waiting["total"]["under_way"], 1);
    daemon.advance(Duration::from_millis(250));
    let release = json!({ "permit": first["permit"] }).to_string();
    assert_eq!(Client::connect(daemon.http()).await.post("/v1/release", &release).await.status, 200);
    assert_eq!(client.answer().await.unwrap().status, 200);
    // Without a place and without a queue it is shed.
    for status in [200, 503] {
        assert_eq!(client.post("/v1/check", &body("bare", 0)).await.status, status);
    }
    let ada = daemon.usage("/shop/ada").await["tenant"].clone();
    assert_eq!(outcomes(&ada), json!({ "admitted": 3, "shed": 1 }));
    assert_eq!(
        others(&ada["total"]),
        json!({ "units": 3, "refused_units": 1, "true_units": 1, "place_time_seconds": 0.25, "wait_seconds": 0.25 })
    );
    let all = daemon.usage("").await;
    assert_eq!(outcomes(row(&all["resources"], "press")), json!({ "admitted": 2 }));
    assert_eq!(outcomes(row(&all["resources"], "bare")), json!({ "admitted": 1, "shed": 1 }));
    let wait = r#"tidegate_resource_wait_seconds_total{resource="press",class="sheddable_plus"}"#;
    assert_eq!(daemon.series(wait).await, "0.25");
}

/// A daemon of its own policy.
async fn start(text: &str) -> Handle {
    let checked = tidegate_policy::parse("policy.yaml", text, &|_| None);
    let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
    let mut config = from_policy::server_config(&policy).unwrap();
    config.bounds.drain_grace = Duration::ZERO;
    // As the proxy, which takes a tenant from a header of any length.
    config.bounds.attribute_bytes = 4 << 10;
    let clock = Arc::new(ManualClock::new(START));
    from_policy::serve_on(&policy, text.as_bytes(), config, clock).await.unwrap()
}

async fn connect(handle: &Handle) -> Client {
    Client::connect(handle.http().unwrap().tcp().unwrap()).await
}

const ONE: &str = "store: { kind: memory }\nlisten: { http: 127.0.0.1:0 }\n";
const API: &str =
    "namespaces: { api: { limits: [], request: { tenant: entry.account } }, web: { limits: [] } }\n";

async fn check(client: &mut Client, tenant: &str) {
    let body = json!({ "namespace": "api", "attributes": { "account": tenant } }).to_string();
    let answer = client.post("/v1/check", &body).await;
    assert_eq!(answer.status, 200, "{tenant:?}: {answer:?}");
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[tokio::test]
async fn a_tenant_is_found_by_its_name_however_it_is_written() {
    let handle = start(&format!("{ONE}{API}")).await;
    let mut client = connect(&handle).await;
    let long = "x".repeat(2048);
    for name in ["ada", "a/b", "a b?c#d%e&f", "", "a\u{1b}[2J\n\u{0}", "f\u{fc}r", "..", &long] {
        check(&mut client, name).await;
        let answer = client.get(&format!("/v1/usage/api/{}", encoded(name))).await;
        assert_eq!(answer.status, 200, "{name:?}: {answer:?}");
        let tenant = &answer.json()["tenant"];
        let (shown, cut) = if name == long { (&long[..128], json!(true)) } else { (name, Value::Null) };
        assert_eq!((&tenant["name"], &tenant["is_cut"]), (&json!(shown), &cut));
        assert_eq!(tenant["total"]["offered"], 1, "{name:?}");
    }
    // Another name of 2 KB that begins alike is another tenant.
    check(&mut client, &format!("{}y", &long[..2047])).await;
    let api = client.get("/v1/usage/api?n=100").await.json();
    assert_eq!((&api["tracked"], api["tenants"].as_array().unwrap().len()), (&json!(9), 9));
    for (path, status, error, fix) in [
        ("/api/nobody", 404, "unknown_tenant", "`other`"),
        ("/apo", 404, "unknown_namespace", "api"),
        ("/apo/ada", 404, "unknown_namespace", "api"),
        ("/api/%ff", 400, "malformed_query", "%XX"),
        ("/api?by=offers", 400, "malformed_query", "use one of offered, units, refused_units, place_time"),
        ("/api?n=0", 400, "malformed_query", "without n it is 10"),
        ("/api?n=1001", 400, "malformed_query", "without n it is 10"),
        ("?n=x", 400, "malformed_query", "without n it is 10"),
        ("/api?tenant=ada", 400, "malformed_query", "n, by"),
        ("/api/ada?n=1", 400, "malformed_query", "takes no parameters"),
        ("/api/ada/more", 404, "unknown_route", ""),
    ] {
        let answer = client.get(&format!("/v1/usage{path}")).await;
        let body = answer.json();
        assert_eq!((answer.status, body["error"].as_str()), (status, Some(error)), "{path}: {answer:?}");
        assert!(answer.body.contains(fix), "{path}: {answer:?}");
    }
    handle.shutdown().await;
}

#[tokio::test]
async fn the_largest_rows_by_any_column_are_listed_and_the_others_counted() {
    let handle = start(&format!("{ONE}{API}")).await;
    let mut client = connect(&handle).await;
    for (tenant, requests, cost) in [("few-large", 1, 50), ("many-small", 3, 1), ("middle", 2, 5)] {
        for _ in 0..requests {
            let account = json!({ "account": tenant });
            let body = json!({ "namespace": "api", "attributes": account, "cost": cost }).to_string();
            assert_eq!(client.post("/v1/check", &body).await.status, 200);
        }
    }
    let mut names = async |query: &str| {
        let body = client.get(&format!("/v1/usage/api{query}")).await.json();
        let rows = body["tenants"].as_array().unwrap();
        let names: Vec<String> = rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
        (names.join(" "), body["more"].as_u64().unwrap(), body["tracked"].as_u64().unwrap())
    };
    assert_eq!(names("").await, ("many-small middle few-large".to_owned(), 0, 3));
    assert_eq!(names("?by=units").await, ("few-large middle many-small".to_owned(), 0, 3));
    assert_eq!(names("?by=admitted&n=2").await, ("many-small middle".to_owned(), 1, 3));
    assert_eq!(
        names("?by=denied&n=1").await,
        ("few-large".to_owned(), 2, 3),
        "by name where numbers are equal"
    );
    handle.shutdown().await;
}

#[tokio::test]
async fn refused_units_and_time_in_flight_sort_rows_and_every_list_counts_the_rows_that_it_leaves_out() {
    let daemon = daemon().await;
    let mut client = Connected::new(&daemon).await;
    client.ask("shop", json!({ "cost": 9, "attributes": { "account": "ada", "part": "search" } })).await;
    client.ask("shop", json!({ "cost": 21, "attributes": { "account": "bob" } })).await;
    let held = json!({ "resource": "bare", "attributes": { "account": "carl", "class": "critical_plus" } });
    let permit = client.ask("shop", held).await["permit"].clone();
    client.ask("free", json!({ "cost": 3 })).await;
    daemon.advance(Duration::from_millis(1500));
    client.post("/v1/release", &json!({ "permit": permit })).await;
    for (by, largest) in [("units", "ada"), ("refused_units", "bob"), ("place_time", "carl")] {
        let shop = daemon.usage(&format!("/shop?n=1&by={by}")).await;
        assert_eq!((&shop["tenants"][0]["name"], &shop["more"]), (&json!(largest), &json!(2)), "{by}");
    }
    let carl = daemon.usage("/shop/carl").await["tenant"].clone();
    assert_eq!(outcomes(&carl), json!({ "admitted": 1 }));
    assert_eq!(carl["classes"][0]["class"], "critical_plus");

    let (all, first) = (daemon.usage("?n=100").await, daemon.usage("?n=1&by=units").await);
    for list in ["namespaces", "features", "resources"] {
        let [rows, one] = [&all, &first].map(|body| body[list].as_array().unwrap());
        assert_eq!((one.len(), &all[format!("more_{list}")]), (1, &json!(0)), "{list}");
        assert_eq!(first[format!("more_{list}")], rows.len() - 1, "{list}");
        for column in ["offered", "units", "refused_units", "place_time_seconds"] {
            let sum: f64 = rows.iter().map(|row| row["total"][column].as_f64().unwrap()).sum();
            assert!((all["total"][column].as_f64().unwrap() - sum).abs() < 1e-9, "{column} of {list}: {all}");
        }
    }
    assert_eq!(all["total"], first["total"], "the total is that of all rows, listed or not");
    assert_eq!((&all["total"]["offered"], &all["total"]["units"]), (&json!(4), &json!(13)));
}

#[tokio::test]
async fn a_settlement_of_2_to_the_63_units_saturates_and_marks_its_own_row_alone() {
    let daemon = daemon().await;
    let mut client = Connected::new(&daemon).await;
    for (account, cost) in [("ada", 1_u64 << 63), ("ada", 1 << 63), ("bob", 2)] {
        let body = json!({ "resource": "press", "attributes": { "tenant": account } });
        let permit = client.ask("free", body).await["permit"].clone();
        client.post("/v1/settle", &json!({ "permit": permit, "cost": cost })).await;
    }
    let total = async |path: &str| daemon.usage(path).await["tenant"]["total"].clone();
    let (ada, bob) = (total("/free/ada").await, total("/free/bob").await);
    assert_eq!((&ada["true_units"], &ada["saturated"]), (&json!(u64::MAX), &json!(true)));
    assert_eq!((&bob["true_units"], bob["saturated"] == true), (&json!(2), false));
}

/// A caller of the routes of requests.
struct Connected(Client);

impl Connected {
    async fn new(daemon: &Daemon) -> Self {
        Self(Client::connect(daemon.http()).await)
    }

    /// The answer to a check of a namespace, whatever it is.
    async fn ask(&mut self, namespace: &str, mut body: Value) -> Value {
        body["namespace"] = namespace.into();
        self.0.post("/v1/check", &body.to_string()).await.json()
    }

    async fn post(&mut self, route: &str, body: &Value) {
        let answer = self.0.post(route, &body.to_string()).await;
        assert_eq!(answer.status, 200, "{route} {body}: {answer:?}");
    }
}

#[tokio::test]
async fn without_tenants_to_track_all_of_them_are_other_and_namespaces_count_as_before() {
    let handle = start(&format!("metering: {{ tenants: 0 }}\n{ONE}{API}")).await;
    let mut client = connect(&handle).await;
    check(&mut client, "ada").await;
    let api = client.get("/v1/usage/api").await.json();
    assert_eq!((&api["tracked"], &api["tenants"]), (&json!(0), &json!([])));
    assert_eq!(
        (outcomes(&api["namespace"]), outcomes(&api["other"])),
        (json!({ "admitted": 1 }), json!({ "admitted": 1 }))
    );
    assert_eq!(client.get("/v1/usage/api/ada").await.json()["error"], "unknown_tenant");
    handle.shutdown().await;
}

#[tokio::test]
async fn one_namespace_with_many_names_leaves_the_page_bounded_and_the_other_namespace_as_it_was() {
    let handle = start(
        &format!("metering: {{ tenants: 4 }}\n{ONE}{API}")
            .replace("web: { limits: [] }", "web: { limits: [], request: { tenant: entry.account } }"),
    )
    .await;
    let mut client = connect(&handle).await;
    let web = json!({ "namespace": "web", "attributes": { "account": "quiet" } }).to_string();
    assert_eq!(client.post("/v1/check", &web).await.status, 200);
    for index in 0..50 {
        check(&mut client, &format!("t{index}")).await;
    }
    let api = client.get("/v1/usage/api?n=1000").await.json();
    assert_eq!(outcomes(&api["namespace"]), json!({ "admitted": 50 }));
    let tracked = api["tracked"].as_u64().unwrap();
    assert!(tracked <= 4, "{api}");
    assert_eq!(api["other"]["total"]["offered"], 50 - tracked, "{api}");
    assert_eq!(client.get("/v1/usage/web/quiet").await.json()["tenant"]["total"]["offered"], 1);
    handle.shutdown().await;
}

#[tokio::test]
async fn a_namespace_is_shown_to_callers_that_may_inspect_it_and_all_of_them_to_those_that_may_everywhere() {
    let (of_api, of_all, checks) =
        ("api-inspector-0123456", "inspector-of-all-0123", "checks-api-0123456789");
    let handle = start(&format!(
        "authorization:
  - {{ name: of-api, token: {of_api}, namespaces: [api], verbs: [inspect] }}
  - {{ name: of-all, token: {of_all}, namespaces: ['*'], verbs: [inspect] }}
  - {{ name: checks, token: {checks}, namespaces: [api], verbs: [check] }}
{ONE}{API}"
    ))
    .await;
    let mut client = connect(&handle).await;
    for (path, expected) in [
        ("", [403, 200, 403]),
        ("/api", [200, 200, 403]),
        ("/web", [403, 200, 403]),
        ("/api/ada", [404, 404, 403]),
        ("/api/", [404, 404, 403]),
        ("/web/ada", [403, 404, 403]),
        // A caller that may not look is not told whether there is such a namespace.
        ("/none", [403, 404, 403]),
    ] {
        for (token, status) in [of_api, of_all, checks].into_iter().zip(expected) {
            let line = format!("GET /v1/usage{path}");
            let answer: Answer = send(&mut client, &line, &bearer(token), "").await;
            assert_eq!(answer.status, status, "{token} {path}: {answer:?}");
        }
        let line = format!("GET /v1/usage{path}");
        assert_eq!(send(&mut client, &line, "", "").await.status, 401, "{path}");
    }
    handle.shutdown().await;
}

#[tokio::test]
async fn domains_of_envoys_files_are_namespaces() {
    let folder = TemporaryFolder::new();
    std::fs::create_dir(folder.path().join("files")).unwrap();
    let domain =
        "domain: mail\ndescriptors: [{ key: kind, rate_limit: { unit: hour, requests_per_unit: 2 } }]\n";
    std::fs::write(folder.path().join("files/mail.yaml"), domain).unwrap();
    for semantics in ["", ", semantics: tidegate", ", semantics: strict"] {
        let path = folder.path().display();
        let files = format!("envoy_ratelimit: {{ path: \"{path}/files\"{semantics} }}\n");
        let handle = start(&format!("{files}{ONE}{API}")).await;
        let mut client = connect(&handle).await;
        let call = |value: &str, more: &str| {
            let entries = format!(r#"{{"entries":[{{"key":"kind","value":"{value}"}}]{more}}}"#);
            format!(r#"{{"domain":"mail","descriptors":[{entries}]}}"#)
        };
        for status in [200, 200, 429] {
            assert_eq!(client.post("/json", &call("a", "")).await.status, status);
        }
        // One call with two descriptors, of which one is over: two requests, both denied.
        let both = r#"{"domain":"mail","descriptors":[
            {"entries":[{"key":"kind","value":"a"}]},{"entries":[{"key":"kind","value":"b"}]}]}"#;
        assert_eq!(client.post("/json", both).await.status, 429);
        // The other ways in are offered, too; looks are not.
        let body = r#"{"namespace":"mail","attributes":{"kind":"c"},"cost":2}"#;
        for path in ["/v1/check", "/v1/explain"] {
            assert_eq!(client.post(path, body).await.status, 200, "{path}");
        }
        let without_rule = r#"{"namespace":"mail","attributes":{"other":"c"}}"#;
        assert_eq!(client.post("/v1/check", without_rule).await.status, 200);
        let peek = r#"{"namespace":"mail","attributes":{"kind":"d"},"peek":true}"#;
        assert_eq!(client.post("/v1/check", peek).await.status, 200);
        let giving_back = call("a", r#","hitsAddend":"1","isNegativeHits":true"#);
        assert_eq!(client.post("/json", &giving_back).await.status, 200);
        let mail = client.get("/v1/usage/mail").await.json();
        let total = &mail["namespace"]["total"];
        assert_eq!(
            outcomes(&mail["namespace"]),
            json!({ "admitted": 4, "denied": 3 }),
            "{semantics}: {mail}"
        );
        let units = [&total["offered"], &total["units"], &total["reported"], &total["refunded"]];
        assert_eq!(units.map(Value::as_u64), [7, 5, 0, 1].map(Some), "{semantics}: {mail}");
        handle.shutdown().await;
    }
}

#[tokio::test]
async fn a_reload_brings_features_and_a_namespace_that_comes_back_goes_on_in_its_row() {
    let api = "  api: { limits: [], request: { tenant: entry.account, feature: entry.part } }\n";
    let daemon = RestartableDaemon::start(Kept::Memory, api, START).await;
    let check = async || daemon.check(r#"{"account":"ada","part":"search"}"#).await.0;
    let usage = async |path: &str| daemon.get(&format!("/v1/usage{path}")).await.json();
    assert_eq!(check().await, 200);
    assert_eq!(daemon.reload(&format!("{api}features: [search]\n")).await, None);
    assert_eq!(check().await, 200);
    let features = usage("").await["features"].clone();
    assert_eq!(outcomes(row(&features, "search")), json!({ "admitted": 1 }), "{features}");
    assert_eq!(daemon.reload("  web: { limits: [] }\n").await, None);
    assert_eq!(check().await, 404);
    let gone = usage("/api").await;
    assert_eq!(outcomes(&gone["namespace"]), json!({ "admitted": 2 }), "{gone}");
    assert_eq!(daemon.reload(api).await, None);
    assert_eq!(check().await, 200);
    let back = usage("/api/ada").await;
    assert_eq!(outcomes(&back["tenant"]), json!({ "admitted": 3 }), "{back}");
    // The feature is not listed any more; its row stays as it was.
    let all = usage("").await;
    assert_eq!(outcomes(row(&all["features"], "search")), json!({ "admitted": 1 }), "{all}");
}

#[tokio::test]
async fn a_daemon_without_a_meter_says_so() {
    let world = World::with([crate::world::api()], loopback()).await;
    for path in ["", "/api", "/api/ada"] {
        let answer = world.client().await.get(&format!("/v1/usage{path}")).await;
        assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some("not_available")), "{path}");
    }
}
