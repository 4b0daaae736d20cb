//! Plans and cost tables: one answer at every protocol, in `explain`, and over changes while
//! running.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::grpc::{self, Envoy, descriptor};
use crate::proxy::get;
use crate::proxy::upstream::well;
use crate::resp;
use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

/// A namespace with plans and a cost table. `acme` is assigned to `pro`; other accounts have the
/// plan that they name, or `free`.
const NAMESPACE: &str = "  api:
    plans:
      assigned: { account: { acme: pro } }
      default: free
      numbers:
        free: { units: { limit: 10 } }
        pro: { units: { limit: 100 } }
        staff: { units: unlimited }
    costs:
      - { match: { operation: export }, cost: 7 }
      - { match: { operation: [list, search] }, cost: 2 }
    limits:
      - { name: units, key: [account], fixed: { limit: 5, window: 1h } }
";

/// The protocols, each with a listener of its own or a form of its own.
const PROTOCOLS: [&str; 8] =
    ["check", "report", "reserve", "authorize", "envoy-grpc", "envoy-json", "resp", "proxy"];

/// The namespace with a listener for each protocol.
async fn everywhere(namespace: &str) -> RestartableDaemon {
    let (server, _) = well().await;
    let listeners = format!(
        "listen: {{ grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
proxy:
  upstreams: {{ app: [http://{server}] }}
  routes:
    - {{ upstream: app, namespace: api, attributes: {{ account: header.x-account, operation: header.x-operation,
        plan: header.x-plan }} }}
"
    );
    RestartableDaemon::start(Kept::Memory, &format!("{namespace}{listeners}"), START).await
}

fn json_of(attributes: &[(&str, &str)]) -> String {
    json!(attributes.iter().copied().collect::<BTreeMap<_, _>>()).to_string()
}

/// Whether a request with these attributes, and a cost if one is given, is admitted by a protocol.
async fn is_admitted(
    daemon: &RestartableDaemon,
    protocol: &str,
    attributes: &[(&str, &str)],
    cost: Option<u64>,
) -> bool {
    let rest = cost.map(|cost| format!(",\"cost\":{cost}")).unwrap_or_default();
    match protocol {
        "check" | "reserve" | "report" => {
            let path = format!("/v1/{protocol}");
            let answer = daemon.ask(&path, &json_of(attributes), &rest).await;
            answer.status == 200
        }
        "authorize" => {
            let pairs = attributes.iter().map(|(name, value)| format!("&{name}={value}"));
            let cost = cost.map(|cost| format!("&cost={cost}")).unwrap_or_default();
            let target = format!("/v1/authorize?namespace=api{}{cost}", pairs.collect::<String>());
            daemon.get(&target).await.status == 200
        }
        "envoy-grpc" => {
            let mut request = grpc::request("api", &[descriptor(attributes)]);
            request.hits_addend = cost.unwrap_or(0).try_into().unwrap();
            let answer = Envoy::at(daemon.grpc()).await.call(request).await.unwrap();
            answer.overall_code() == tidegate_wire::envoy::Code::Ok
        }
        "envoy-json" => {
            let entries = attributes.iter().map(|(key, value)| json!({"key": key, "value": value}));
            let descriptor = json!({"entries": entries.collect::<Vec<_>>()});
            let mut body = json!({"domain": "api", "descriptors": [descriptor]});
            if let Some(cost) = cost {
                body["hits_addend"] = cost.into();
            }
            daemon.post("/json", &body.to_string()).await.status == 200
        }
        "resp" => {
            let pairs = attributes.iter().map(|(name, value)| format!(" {name} {value}"));
            let cost = cost.map(|cost| format!(" COST {cost}")).unwrap_or_default();
            let words = format!("TG.CHECK api{cost}{}", pairs.collect::<String>());
            let mut client = resp::Client::connect(daemon.resp()).await;
            let reply = client.ask(&words).await;
            assert!(!reply.starts_with('-'), "{words}: {reply}");
            reply.starts_with("[decision, admit")
        }
        "proxy" => {
            assert_eq!(cost, None, "a route has its cost from the policy");
            let headers = attributes.iter().map(|(name, value)| format!("x-{name}: {value}\r\n"));
            let mut client = Client::connect(daemon.proxy()).await;
            client.send(get("/", &headers.collect::<String>())).await;
            client.answer().await.unwrap().status == 200
        }
        other => panic!("no protocol {other}"),
    }
}

async fn explain(daemon: &RestartableDaemon, attributes: &[(&str, &str)]) -> Value {
    let answer = daemon.ask("/v1/explain", &json_of(attributes), "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The units that the first limit has counted of a key.
async fn used(daemon: &RestartableDaemon, attributes: &[(&str, &str)]) -> u64 {
    explain(daemon, attributes).await["limits"][0]["counter"]["level"]["used"].as_u64().unwrap()
}

#[tokio::test]
async fn a_request_that_says_no_cost_costs_what_the_table_says_at_every_protocol() {
    let daemon = everywhere(NAMESPACE).await;
    for protocol in PROTOCOLS {
        for (operation, cost) in [("export", 7), ("search", 2), ("list", 2), ("read", 1)] {
            let account = format!("{protocol}-{operation}");
            let attributes = [("account", account.as_str()), ("operation", operation)];
            assert!(is_admitted(&daemon, protocol, &attributes, None).await, "{account}");
            assert_eq!(used(&daemon, &attributes).await, cost, "{account}");
        }
        if protocol != "proxy" {
            let account = format!("{protocol}-own");
            let attributes = [("account", account.as_str()), ("operation", "export")];
            assert!(is_admitted(&daemon, protocol, &attributes, Some(3)).await, "{account}");
            assert_eq!(used(&daemon, &attributes).await, 3, "{account}: a cost of its own wins");
        }
    }
}

#[tokio::test]
async fn each_plan_has_its_numbers_at_every_protocol() {
    let daemon = everywhere(NAMESPACE).await;
    for protocol in PROTOCOLS.into_iter().filter(|protocol| *protocol != "report") {
        // An unknown name of a plan is the default plan, so that nobody gains by inventing one.
        for (plan, admitted) in [(None, 10), (Some("free"), 10), (Some("gold"), 10), (Some("pro"), 100)] {
            let account = format!("{protocol}-{}", plan.unwrap_or("none"));
            let mut attributes = vec![("account", account.as_str())];
            attributes.extend(plan.map(|plan| ("plan", plan)));
            for number in 0..admitted {
                assert!(is_admitted(&daemon, protocol, &attributes, None).await, "{account}: {number}");
            }
            assert!(!is_admitted(&daemon, protocol, &attributes, None).await, "{account}");
        }
        let staff = [("account", "staff"), ("plan", "staff")];
        for _ in 0..101 {
            assert!(is_admitted(&daemon, protocol, &staff, None).await, "{protocol}: unlimited");
        }
    }
    let assigned = [("account", "acme"), ("plan", "free")];
    let mut admitted = 0;
    while is_admitted(&daemon, PROTOCOLS[admitted % 8], &assigned, None).await {
        admitted += 1;
    }
    assert!(admitted >= 100, "an assignment counts before the attribute: {admitted}");
}

#[tokio::test]
async fn explain_names_the_plan_its_origin_and_the_row_of_the_cost() {
    let daemon = everywhere(NAMESPACE).await;
    let plan_of = async |attributes: &[(&str, &str)]| {
        let explained = explain(&daemon, attributes).await;
        let limit = &explained["limits"][0];
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let plan = &limit["plan"];
        let numbers = text(&limit["counter"]["numbers"]);
        format!(
            "{} by {} {}={}: {numbers}",
            text(&plan["name"]),
            text(&plan["found_by"]),
            text(&plan["attribute"]),
            text(&plan["value"])
        )
    };
    assert_eq!(plan_of(&[("account", "acme")]).await, "pro by assigned account=acme: fixed 100 in 1h");
    assert_eq!(
        plan_of(&[("account", "a"), ("plan", "pro")]).await,
        "pro by attribute plan=pro: fixed 100 in 1h"
    );
    assert_eq!(
        plan_of(&[("account", "a"), ("plan", "gold")]).await,
        "free by default -=gold: fixed 10 in 1h"
    );
    let whole = explain(&daemon, &[("account", "a"), ("plan", "gold")]).await;
    assert_eq!(whole["plan"], json!({"name": "free", "found_by": "default", "value": "gold"}), "{whole}");
    let unlimited = explain(&daemon, &[("account", "a"), ("plan", "staff")]).await;
    assert_eq!(
        (unlimited["would"].as_str(), unlimited["limits"][0]["because"].as_str()),
        (Some("admit"), Some("plan staff is unlimited"))
    );
    let priced = explain(&daemon, &[("account", "a"), ("operation", "search")]).await;
    assert_eq!((priced["cost"].as_u64(), priced["cost_row"].as_u64()), (Some(2), Some(1)), "{priced}");
    let plain = explain(&daemon, &[("account", "a"), ("operation", "read")]).await;
    assert_eq!((plain["cost"].as_u64(), plain.get("cost_row")), (Some(1), None), "{plain}");
}

#[tokio::test]
async fn explain_says_that_a_name_is_no_plan_where_there_is_no_default() {
    let namespace = NAMESPACE.replace("      default: free\n", "");
    let daemon = RestartableDaemon::start(Kept::Memory, &namespace, START).await;
    let explained = explain(&daemon, &[("account", "a"), ("plan", "gold")]).await;
    assert_eq!((explained["unknown_plan"].as_str(), explained.get("plan")), (Some("gold"), None));
    assert_eq!(explained["limits"][0]["counter"]["numbers"], "fixed 5 in 1h", "{explained}");
    let without = explain(&daemon, &[("account", "a")]).await;
    assert_eq!((without.get("unknown_plan"), without.get("plan")), (None, None), "{without}");
}

#[tokio::test]
async fn usage_is_kept_when_a_customer_is_upgraded_by_a_reload_or_by_an_attribute() {
    for kept in [Kept::Memory, Kept::Files] {
        let before = RestartableDaemon::start(kept, NAMESPACE, START).await;
        let (bob, bob_pro) = (r#"{"account":"bob"}"#, r#"{"account":"bob","plan":"pro"}"#);
        assert_eq!(before.admits(bob, 20).await, 10);
        assert_eq!(before.check(bob_pro).await, (200, Some(89)), "{kept:?}: by the attribute");
        assert_eq!(before.check(bob).await.0, 429, "{kept:?}: and down again");
        let upgraded = NAMESPACE.replace("acme: pro", "acme: pro, bob: pro");
        assert_eq!(before.reload(&upgraded).await, None);
        assert_eq!(before.check(bob).await, (200, Some(88)), "{kept:?}: by an assignment");
        let larger = upgraded.replace("limit: 100", "limit: 200").replace("cost: 7", "cost: 9");
        assert_eq!(before.reload(&larger).await, None);
        assert_eq!(before.check(bob).await, (200, Some(187)), "{kept:?}: by larger numbers of the plan");
        let export = r#"{"account":"bob","operation":"export"}"#;
        assert_eq!(before.check(export).await, (200, Some(178)), "{kept:?}: by the new cost");
        let mut daemon = before;
        daemon.restart().await;
        let left = if kept == Kept::Files { 177 } else { 199 };
        assert_eq!(daemon.check(bob).await, (200, Some(left)), "{kept:?}: after a restart");
    }
}

async fn put_override(daemon: &RestartableDaemon, query: &str, numbers: &str) -> Answer {
    let body = format!(r#"{{"numbers":{numbers},"reason":"ticket 1"}}"#);
    daemon.client().await.request("PUT", &format!("/v1/overrides/api/{query}"), &body).await
}

#[tokio::test]
async fn an_override_at_run_time_wins_over_a_plan_and_over_unlimited() {
    let daemon = RestartableDaemon::start(Kept::Memory, NAMESPACE, START).await;
    for (account, plan, before) in [("eve", "pro", 100), ("sam", "staff", 200)] {
        let attributes = format!(r#"{{"account":"{account}","plan":"{plan}"}}"#);
        let set = put_override(&daemon, &format!("units?account={account}"), r#"{"limit":2}"#).await;
        assert_eq!(set.status, 200, "{set:?}");
        assert_eq!(daemon.admits(&attributes, 5).await, 2, "{plan}");
        let explained = explain(&daemon, &[("account", account), ("plan", plan)]).await;
        assert_eq!(explained["limits"][0]["counter"]["numbers_of"], "run_time", "{explained}");
        let url = format!("/v1/overrides/api/units?account={account}");
        assert_eq!(daemon.client().await.request("DELETE", &url, r#"{"reason":"-"}"#).await.status, 200);
        assert!(daemon.admits(&attributes, before).await >= before - 2, "{plan}: as before");
    }
}

/// A quota of a day in the zone of the request, otherwise in Tokyo.
const ZONES: &str = "  api:
    limits:
      - { name: daily, key: [account],
          calendar: { limit: 3, unit: day, zone: Asia/Tokyo, zone_from: tz } }
";

#[tokio::test]
async fn a_day_ends_at_midnight_of_the_zone_that_the_request_names() {
    // 23:00 UTC: midnight is in 1 h in UTC, in 16 h in Tokyo (08:00 there) and in 9 h in Los
    // Angeles (15:00 there).
    for (tz, hours) in [
        (Some("UTC"), 1),
        (None, 16),
        (Some("Mars/Olympus"), 16),
        (Some("America/Los_Angeles"), 9),
        (Some("Asia/Tokyo"), 16),
    ] {
        let daemon = RestartableDaemon::start(Kept::Files, ZONES, START).await;
        let tz = tz.map(|tz| format!(r#","tz":"{tz}""#)).unwrap_or_default();
        let attributes = format!(r#"{{"account":"a"{tz}}}"#);
        assert_eq!(daemon.admits(&attributes, 5).await, 3, "{attributes}");
        let refused = daemon.ask("/v1/check", &attributes, "").await;
        assert_eq!(refused.json()["retry_after_ms"], hours * 3_600_000, "{attributes}");
        daemon.clock.advance(Duration::from_millis(hours * 3_600_000 - 1));
        assert_eq!(daemon.check(&attributes).await.0, 429, "{attributes}");
        daemon.clock.advance(Duration::from_millis(1));
        assert_eq!(daemon.admits(&attributes, 5).await, 3, "{attributes}");
    }
}

#[tokio::test]
async fn an_override_with_a_zone_fixes_it_and_shows_in_explain() {
    let mut daemon = RestartableDaemon::start(Kept::Files, ZONES, START).await;
    let tokyo = r#"{"account":"a","tz":"Asia/Tokyo"}"#;
    let set = put_override(&daemon, "daily?account=a", r#"{"limit":4,"zone":"UTC"}"#).await;
    assert_eq!(set.status, 200, "{set:?}");
    assert_eq!(daemon.admits(tokyo, 6).await, 4);
    let refused = daemon.ask("/v1/check", tokyo, "").await;
    assert_eq!(refused.json()["retry_after_ms"], 3_600_000, "midnight in UTC");
    daemon.restart().await;
    let explained = explain(&daemon, &[("account", "a"), ("tz", "Asia/Tokyo")]).await;
    let counter = &explained["limits"][0]["counter"];
    assert_eq!(counter["zone"], json!({"attribute": "tz", "value": "Asia/Tokyo", "zone_of": "override"}));
    assert_eq!(counter["level"]["used"], 4, "{counter}");
    let wrong = put_override(&daemon, "daily?account=a", r#"{"zone":"Moon/Tycho"}"#).await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
    assert!(wrong.body.contains("Moon/Tycho"), "{wrong:?}");
}

/// Two failures in 15 minutes block a user for an hour. Units of successes come back.
const LOGIN: &str = "  api:
    limits:
      - { name: failures, key: [user], fixed: { limit: 2, window: 15m, start: first_hit },
          refund_on: [succeeded, 304], on_exceed: { block: 1h } }
";

#[tokio::test]
async fn a_report_that_leaves_nothing_starts_the_block() {
    for kept in [Kept::Memory, Kept::Files] {
        let daemon = RestartableDaemon::start(kept, LOGIN, START).await;
        let ada = r#"{"user":"ada"}"#;
        assert_eq!(daemon.ask("/v1/report", ada, "").await.status, 200);
        let free = explain(&daemon, &[("user", "ada")]).await;
        assert_eq!(free["would"], "admit", "{kept:?}: one failure is no block");
        assert_eq!(daemon.ask("/v1/report", ada, "").await.status, 200);
        let listed = daemon.get("/v1/blocks").await.json()["blocks"].clone();
        assert_eq!(listed[0]["key"]["user"], "ada", "{kept:?}: {listed}");
        daemon.clock.advance(Duration::from_mins(15));
        let refused = daemon.ask("/v1/check", ada, "").await;
        let body = refused.json();
        assert_eq!(
            (refused.status, body["reason"].as_str(), body["retry_after_ms"].as_u64()),
            (429, Some("blocked"), Some(45 * 60_000)),
            "{kept:?}: the window has ended, the block has not"
        );
        // Another report does not prolong it.
        assert_eq!(daemon.ask("/v1/report", ada, "").await.status, 200);
        daemon.clock.advance(Duration::from_mins(45));
        assert_eq!(daemon.check(ada).await.0, 200, "{kept:?}: the block has ended");
        assert_eq!(daemon.check(r#"{"user":"bob"}"#).await.0, 200, "{kept:?}: others are not blocked");
    }
}

#[tokio::test]
async fn a_charge_stays_where_no_end_of_the_work_is_told() {
    let daemon = everywhere(LOGIN).await;
    for protocol in ["check", "reserve", "authorize", "envoy-grpc", "envoy-json", "resp"] {
        let user = [("user", protocol)];
        for admitted in [true, true, false] {
            assert_eq!(is_admitted(&daemon, protocol, &user, None).await, admitted, "{protocol}");
        }
    }
}

async fn reserve_and_settle(daemon: &RestartableDaemon, settle: &str) -> Answer {
    let reserved = daemon.ask("/v1/reserve", r#"{"user":"ada"}"#, "").await.json();
    let permit = reserved["permit"].as_str().unwrap_or_else(|| panic!("{reserved}"));
    daemon.post("/v1/settle", &format!(r#"{{"permit":"{permit}"{settle}}}"#)).await
}

#[tokio::test]
async fn a_charge_comes_back_on_the_outcomes_and_statuses_of_the_limit_and_stays_on_others() {
    for kept in [Kept::Memory, Kept::Files] {
        for (settle, charged) in [
            ("", 0),
            (r#","outcome":"succeeded""#, 0),
            (r#","outcome":"succeeded","status":500"#, 0),
            (r#","outcome":"failed""#, 1),
            (r#","outcome":"failed","status":304"#, 0),
            (r#","outcome":"failed","status":401"#, 1),
            (r#","outcome":"abandoned""#, 1),
            (r#","outcome":"abandoned","status":304"#, 0),
            (r#","outcome":"cancelled""#, 0),
        ] {
            let daemon = RestartableDaemon::start(kept, LOGIN, START).await;
            let settled = reserve_and_settle(&daemon, settle).await;
            assert_eq!(settled.status, 200, "{settle}: {settled:?}");
            assert_eq!(used(&daemon, &[("user", "ada")]).await, charged, "{kept:?} {settle}");
        }
    }
}

#[tokio::test]
async fn an_end_of_work_that_cannot_be_is_refused_and_leaves_the_permit() {
    let daemon = RestartableDaemon::start(Kept::Memory, LOGIN, START).await;
    let reserved = daemon.ask("/v1/reserve", r#"{"user":"ada"}"#, "").await.json();
    let permit = reserved["permit"].as_str().unwrap();
    for wrong in [
        r#""outcome":"lost""#,
        r#""status":99"#,
        r#""status":600"#,
        r#""status":"200""#,
        r#""outcome":"cancelled","cost":1"#,
        r#""cost":-1"#,
    ] {
        let answer = daemon.post("/v1/settle", &format!(r#"{{"permit":"{permit}",{wrong}}}"#)).await;
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
    }
    assert_eq!(used(&daemon, &[("user", "ada")]).await, 1);
    let settled = daemon.post("/v1/settle", &format!(r#"{{"permit":"{permit}"}}"#)).await;
    assert_eq!(settled.status, 200, "{settled:?}");
    assert_eq!(used(&daemon, &[("user", "ada")]).await, 0);
}
