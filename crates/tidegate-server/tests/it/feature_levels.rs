//! The levels of features through every protocol: what an admitted request is told, what a refused
//! one is told, and what the upstream of the proxy sees.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tidegate_core::{Class, Retry};
use tidegate_engine::{Engine, FeaturePinning, Progress, Request};
use tidegate_server::{Clock, Handle, ManualClock, Server, from_policy};
use tidegate_tower::{AdmitLayer, FeatureLevel, extract};
use tidegate_wire::envoy::{Code, RateLimitResponse, RateLimitUnit, metadata};
use tokio::net::TcpStream;
use tower::{Layer, ServiceExt, service_fn};

use crate::authorization::{bearer, request as send};
use crate::client::{Answer, Client};
use crate::grpc::{Envoy, descriptor, request, under};
use crate::proxy::upstream::{Seen, well};
use crate::resp;
use crate::world::{START, memory_store};

const POLICY: &str = r#"
store: { kind: memory }
listen: { http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }
features:
  - { name: thumbnails, resource: app, class: sheddable, levels: LEVELS }
  - { name: previews, resource: app, class: sheddable, mode: shadow, levels: LEVELS }
  - { name: "a%b/c", resource: app, class: sheddable, levels: LEVELS }
  - counted
namespaces:
  shop: { limits: [{ name: all, rate: 100000/s }] }
resources: { app: { concurrency: 1000 }, other: { concurrency: 1000 } }
proxy:
  upstreams: { app: ["http://SERVER"], other: ["http://SERVER"] }
  routes:
    - { match: { path: /other }, upstream: other, namespace: shop, feature: header.x-feature }
    - { upstream: app, namespace: shop, feature: header.x-feature }
"#;

/// The levels of each feature, best first.
const LEVELS: &str = "[{ name: full, cost: 1 }, { name: 480p, cost: 0.3 }, { name: off, cost: 0 }]";

/// The ways to ask: the protocols of a daemon, and a layer of tower over the same engine.
pub(crate) const DOORS: [&str; 11] = [
    "check",
    "reserve",
    "authorize",
    "rls",
    "rls of two",
    "rls override",
    "rls override of two",
    "json",
    "resp",
    "proxy",
    "tower",
];

pub(crate) struct Daemon {
    pub(crate) handle: Handle,
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Arc<ManualClock>,
    /// The requests that the server behind the proxy has received.
    upstream: Seen,
}

/// The feature and the level of an answer, by the means of its protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) is_admitted: bool,
    /// The header `tidegate-feature` of the answer, where the protocol has headers.
    header: Option<String>,
    /// The feature and its level in the body, in metadata, or for the code that serves.
    members: Option<(String, String)>,
    /// The reason of a refusal.
    pub(crate) reason: Option<String>,
    /// The wait of a refusal, in seconds rounded up.
    retry_seconds: Option<u64>,
}

impl Daemon {
    async fn start(rest: &str) -> Self {
        let (server, upstream) = well().await;
        let text = POLICY.replace("SERVER", &server.to_string());
        Self { upstream, ..Self::with_policy(&format!("{text}{rest}")).await }
    }

    /// A daemon of this policy, in which `LEVELS` stands for the levels of a feature.
    pub(crate) async fn with_policy(text: &str) -> Self {
        let text = text.replace("LEVELS", LEVELS);
        let checked = tidegate_policy::parse("policy.yaml", &text, &|_| None);
        let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.bounds.drain_grace = Duration::ZERO;
        let clock = Arc::new(ManualClock::new(START));
        let engine = Arc::new(from_policy::engine(&policy, [1, 2, 3, 4], START).unwrap());
        let (store, time) = (memory_store(&clock), Arc::clone(&clock) as Arc<dyn Clock>);
        let handle = Server::start(config, Arc::clone(&engine), store, time).await.unwrap();
        Self { handle, engine, clock, upstream: Seen::default() }
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.handle.http().unwrap().tcp().unwrap()
    }

    pub(crate) fn pin(&self, feature: &str, level: &str) {
        let (feature, level) = (feature.to_owned(), level.to_owned());
        let now = self.clock.now();
        let until = now.saturating_add(Duration::from_hours(240));
        let pin = FeaturePinning { feature, level, until, by: None, reason: None };
        self.engine.pin_feature(pin, now).unwrap();
    }

    /// Lets time pass, so that requests whose end is not reported find room.
    fn rest(&self) {
        self.clock.advance(Duration::from_secs(1));
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Client::connect(self.http()).await.post(path, &body.to_string()).await
    }

    /// Asks at a door for a feature, with these other words.
    pub(crate) async fn ask(&self, door: &str, feature: Option<&str>, resource: Option<&str>) -> Told {
        let words: Vec<(&str, &str)> = [("user", Some("ada")), ("feature", feature), ("resource", resource)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        match door {
            "check" | "reserve" => {
                let body = json!({ "namespace": "shop", "feature": feature, "resource": resource });
                Told::from_http(&self.post(&format!("/v1/{door}"), &body).await)
            }
            "authorize" => {
                let word = |(name, value): &(&str, &str)| {
                    format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
                };
                let words: String = words.iter().map(word).collect();
                let target = format!("/v1/authorize?namespace=shop{words}");
                let answer = Client::connect(self.http()).await.get(&target).await;
                let reason = answer.header("x-tidegate-reason").map(str::to_owned);
                Told { reason, ..Told::from_head(&answer) }
            }
            "rls" | "rls of two" | "rls override" | "rls override of two" => {
                let own = |asked| under(100_000, RateLimitUnit::Second, asked);
                let (asked, other) = (descriptor(&words), descriptor(&[("user", "ada")]));
                let asked = match door {
                    "rls" => vec![asked],
                    "rls of two" => vec![asked, other],
                    "rls override" => vec![own(asked)],
                    _ => vec![own(other), own(asked)],
                };
                let address = self.handle.grpc().unwrap().tcp().unwrap();
                let answer = Envoy::at(address).await.call(request("shop", &asked)).await.unwrap();
                Told::from_envoy(&answer)
            }
            "json" => {
                let entry = |(key, value): &(&str, &str)| json!({ "key": key, "value": value });
                let entries: Vec<Value> = words.iter().map(entry).collect();
                let body = json!({ "domain": "shop", "descriptors": [{ "entries": entries }] });
                Told::from_envoy_json(&self.post("/json", &body).await)
            }
            "resp" => {
                let address = self.handle.resp().unwrap().tcp().unwrap();
                let mut client = resp::Client::over(TcpStream::connect(address).await.unwrap());
                let words = words.iter().flat_map(|(name, value)| [*name, *value]);
                let words: Vec<&str> = ["TG.CHECK", "shop"].into_iter().chain(words).collect();
                Told::from_resp(&client.ask_for(&words).await)
            }
            "proxy" => {
                let target = if resource == Some("other") { "/other" } else { "/" };
                let header = feature.map_or(String::new(), |name| format!("x-feature: {name}\r\n"));
                Told::from_http(&self.through(target, &header).await)
            }
            _ => self.through_tower(feature, resource.unwrap_or("app")).await,
        }
    }

    async fn through(&self, target: &str, headers: &str) -> Answer {
        let mut client = Client::connect(self.handle.proxy().unwrap().tcp().unwrap()).await;
        client.send(format!("GET {target} HTTP/1.1\r\nhost: a\r\n{headers}\r\n")).await;
        client.answer().await.expect("an answer")
    }

    /// The header `tidegate-feature` of the last request that the upstream received.
    fn seen_upstream(&self) -> Option<String> {
        let seen = self.upstream.lock().unwrap();
        let lines = seen.last().expect("a request").lines().map(str::to_owned);
        let mut values = lines.filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.replace('_', "-").eq_ignore_ascii_case("tidegate-feature").then(|| value.to_owned())
        });
        let value = values.next();
        assert_eq!(values.next(), None, "{seen:?}");
        value
    }

    async fn through_tower(&self, feature: Option<&str>, resource: &str) -> Told {
        let layer = AdmitLayer::new(Arc::clone(&self.engine), "shop").unwrap();
        let layer = layer.resource(resource).unwrap().feature(extract::header("x-feature"));
        let layer = layer.clock(Arc::clone(&self.clock) as Arc<dyn Clock>);
        // The service answers with the level that it finds.
        let service = layer.layer(service_fn(async |request: http::Request<()>| {
            let level = request.extensions().get::<FeatureLevel>();
            let members =
                level.map(|level| json!({ "feature": level.feature(), "feature_level": level.name() }));
            let body = members.unwrap_or_else(|| json!({})).to_string();
            Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(body))))
        }));
        let mut request = http::Request::builder();
        if let Some(name) = feature {
            request = request.header("x-feature", name);
        }
        let (head, body) = service.oneshot(request.body(()).unwrap()).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let headers = head.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let body = String::from_utf8(body.to_vec()).unwrap();
        Told::from_http(&Answer { status: head.status.as_u16(), headers: headers.collect(), body })
    }

    /// The wait that the engine says for a refused request, in seconds rounded up.
    fn retry_seconds(&self, feature: &str) -> u64 {
        let request = Request::new("shop", ()).feature(feature).resource("app");
        let now = self.clock.now();
        let Ok(Progress::Done(peek)) = self.engine.peek(&request, now) else { panic!("no store is asked") };
        let Retry::At(at) = peek.refusal.expect("it is off").retry() else { panic!("an instant is known") };
        at.saturating_since(now).as_millis().div_ceil(1000) as u64
    }
}

impl Told {
    fn from_head(answer: &Answer) -> Self {
        Self {
            is_admitted: answer.status == 200,
            header: answer.header("tidegate-feature").map(str::to_owned),
            members: None,
            reason: None,
            retry_seconds: answer.header("retry-after").map(|seconds| seconds.parse().unwrap()),
        }
    }

    fn from_http(answer: &Answer) -> Self {
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        assert!([200, 503].contains(&answer.status), "{answer:?}");
        let reason = body["reason"].as_str().map(str::to_owned);
        Self { members: members_of(&body), reason, ..Self::from_head(answer) }
    }

    fn from_envoy(answer: &RateLimitResponse) -> Self {
        let header = |name: &str| {
            let found = answer.response_headers_to_add.iter().find(|header| header.key == name);
            found.map(|header| header.value.clone())
        };
        let fields = answer.dynamic_metadata.as_ref().map(metadata::json).unwrap_or_default();
        Self {
            is_admitted: answer.overall_code() == Code::Ok,
            header: header("tidegate-feature"),
            members: members_of(&fields),
            reason: fields["reason"].as_str().map(str::to_owned),
            retry_seconds: header("retry-after").map(|seconds| seconds.parse().unwrap()),
        }
    }

    fn from_envoy_json(answer: &Answer) -> Self {
        let body = answer.json();
        let header = |name: &str| {
            let headers = body["responseHeadersToAdd"].as_array()?;
            let found = headers.iter().find(|header| header["key"] == name)?;
            Some(found["value"].as_str().unwrap().to_owned())
        };
        let fields = &body["dynamicMetadata"];
        Self {
            is_admitted: answer.status == 200,
            header: header("tidegate-feature"),
            members: members_of(fields),
            reason: fields["reason"].as_str().map(str::to_owned),
            retry_seconds: header("retry-after").map(|seconds| seconds.parse().unwrap()),
        }
    }

    /// The reply is a list of names and values.
    fn from_resp(reply: &str) -> Self {
        let parts: Vec<&str> = reply.trim_matches(['[', ']', '{', '}']).split(", ").collect();
        let value = |name: &str| {
            let at = parts.iter().position(|part| *part == name)?;
            Some(parts[at + 1].to_owned())
        };
        let millis = value("retry_after_ms").map(|millis| millis.parse::<u64>().unwrap());
        Self {
            is_admitted: value("decision").as_deref() == Some("admit"),
            header: None,
            members: value("feature").zip(value("feature_level")),
            reason: value("reason"),
            retry_seconds: millis.map(|millis| millis.div_ceil(1000)),
        }
    }

    /// The words that a door is to tell of a feature at this level.
    fn expected(door: &str, told: Option<(&str, &str)>, retry_seconds: Option<u64>) -> Self {
        let has_headers = door != "resp";
        // The body of the proxy is that of the upstream; a subrequest of a gateway has none.
        let has_members = match door {
            "authorize" => false,
            "proxy" => retry_seconds.is_some(),
            _ => true,
        };
        let header = told.filter(|_| has_headers).map(|(name, level)| format!("{name}={level}"));
        let members = told.filter(|_| has_members).map(|(name, level)| (name.to_owned(), level.to_owned()));
        let reason = retry_seconds.map(|_| "feature_disabled".to_owned());
        Self { is_admitted: retry_seconds.is_none(), header, members, reason, retry_seconds }
    }
}

/// The feature and the level among the members of an object.
fn members_of(object: &Value) -> Option<(String, String)> {
    let text = |name: &str| object[name].as_str().map(str::to_owned);
    assert_eq!(text("feature").is_some(), text("feature_level").is_some(), "{object}");
    text("feature").zip(text("feature_level"))
}

/// The decision table: doors, features, levels, modes and pins.
#[tokio::test]
async fn every_door_tells_the_level_of_a_feature_that_has_levels_and_follows_them() {
    let daemon = Daemon::start("").await;
    // Without a pin, all features have their best level.
    for level in [None, Some("full"), Some("480p"), Some("off"), Some("full")] {
        for feature in ["thumbnails", "previews"] {
            if let Some(level) = level {
                daemon.pin(feature, level);
            }
        }
        let is_off = level == Some("off");
        let thumbnails = Some(("thumbnails", level.unwrap_or("full")));
        for (feature, told) in [
            (Some("thumbnails"), thumbnails),
            // It only shows its level.
            (Some("previews"), None),
            (Some("counted"), None),
            (Some("nobody knows it"), None),
            (None, None),
        ] {
            for door in DOORS {
                daemon.rest();
                let retry = told.filter(|_| is_off).map(|(name, _)| daemon.retry_seconds(name));
                let answered = daemon.ask(door, feature, None).await;
                assert_eq!(
                    answered,
                    Told::expected(door, told, retry),
                    "{door}, {feature:?} at {level:?}: {answered:?}"
                );
                if door == "proxy" && retry.is_none() {
                    let header = told.map(|(name, level)| format!("{name}={level}"));
                    assert_eq!(daemon.seen_upstream(), header, "{feature:?} at {level:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_feature_has_a_level_only_where_its_resource_serves_the_request() {
    let daemon = Daemon::start("").await;
    daemon.pin("thumbnails", "off");
    for door in DOORS {
        daemon.rest();
        let retry = Some(daemon.retry_seconds("thumbnails"));
        let off = Told::expected(door, Some(("thumbnails", "off")), retry);
        assert_eq!(daemon.ask(door, Some("thumbnails"), Some("app")).await, off, "{door}");
        let untold = Told::expected(door, None, None);
        assert_eq!(daemon.ask(door, Some("thumbnails"), Some("other")).await, untold, "{door}");
    }
}

/// The demand for a feature moves the level of all its callers, so a name alone is not enough.
#[tokio::test]
async fn a_caller_that_may_take_no_place_has_no_level_and_is_no_demand() {
    let grants = "
authorization:
  - { name: low, token: 0123456789abcdef, namespaces: [shop], verbs: [check] }
  - { name: high, token: fedcba9876543210, namespaces: [shop], verbs: [check, place] }
";
    let daemon = Daemon::start(grants).await;
    daemon.pin("thumbnails", "480p");
    let offered = || {
        let stats = daemon.engine.resource_stats(daemon.clock.now());
        stats.filter(|stats| stats.name == Some("app")).map(|stats| stats.offered).sum::<u64>()
    };
    for (token, told) in [("0123456789abcdef", None), ("fedcba9876543210", Some(("thumbnails", "480p")))] {
        let (before, body) = (offered(), r#"{"namespace":"shop","feature":"thumbnails"}"#);
        let mut client = Client::connect(daemon.http()).await;
        let answer = send(&mut client, "POST /v1/check", &bearer(token), body).await;
        assert_eq!(Told::from_http(&answer), Told::expected("check", told, None), "{token}");
        assert_eq!(offered() - before, u64::from(told.is_some()), "{token}");
    }
}

#[tokio::test]
async fn a_peek_and_an_explanation_show_levels_in_shadow_mode_too() {
    let daemon = Daemon::start("").await;
    for level in ["full", "480p", "off"] {
        daemon.pin("thumbnails", level);
        daemon.pin("previews", level);
        for (feature, is_shadow) in [("thumbnails", false), ("previews", true)] {
            let peek = json!({ "namespace": "shop", "feature": feature, "peek": true });
            let peek = daemon.post("/v1/check", &peek).await;
            let is_refused = level == "off" && !is_shadow;
            assert_eq!(peek.status, if is_refused { 503 } else { 200 }, "{peek:?}");
            let body = peek.json();
            assert_eq!(members_of(&body), Some((feature.to_owned(), level.to_owned())), "{peek:?}");
            assert_eq!(body["feature_shadow"].as_bool(), is_shadow.then_some(true), "{peek:?}");
            assert_eq!(peek.header("tidegate-feature").is_some(), !is_shadow, "{peek:?}");

            let explained = json!({ "namespace": "shop", "feature": feature });
            let explained = daemon.post("/v1/explain", &explained).await.json();
            let shown = &explained["load"]["feature"];
            assert_eq!((&shown["name"], &shown["level"]), (&json!(feature), &json!(level)), "{shown}");
            assert_eq!(shown["class"], Class::Sheddable.as_str(), "{shown}");
            assert_eq!(shown["is_off"].as_bool(), (level == "off").then_some(true), "{shown}");
            assert_eq!(shown["shadow"].as_bool(), is_shadow.then_some(true), "{shown}");
            assert_eq!(shown["retry_after_ms"].is_u64(), level == "off", "{shown}");
            assert_eq!(explained["would"], if is_refused { "refuse" } else { "admit" }, "{explained}");
            if is_refused {
                let plane = &explained["planes"][0];
                assert_eq!(
                    (&plane["reason"], &plane["feature"]),
                    (&json!("feature_disabled"), &json!(feature))
                );
                let because = plane["because"].as_str().unwrap();
                assert!(
                    because.starts_with("feature \"thumbnails\" of resource \"app\" is off; come back in "),
                    "{because}"
                );
            }
        }
    }
    let counted = daemon.post("/v1/explain", &json!({ "namespace": "shop", "feature": "counted" })).await;
    assert_eq!(counted.json()["load"]["feature"], Value::Null);
}

#[tokio::test]
async fn a_feature_that_is_off_has_the_answer_of_an_overload_refusal_and_names_itself() {
    let daemon = Daemon::start("").await;
    daemon.pin("thumbnails", "off");
    let body = json!({ "namespace": "shop", "feature": "thumbnails" });
    let answer = daemon.post("/v1/check", &body).await;
    assert_eq!(answer.status, 503);
    // Not before its pin ends, in ten days.
    assert_eq!(answer.header("retry-after"), Some("864000"));
    assert_eq!(answer.header("x-tidegate-reason"), Some("feature_disabled"));
    assert_eq!(answer.header("x-tidegate-limit"), Some("thumbnails"));
    // No quota of the caller was used up.
    assert_eq!((answer.header("ratelimit"), answer.header("ratelimit-policy")), (None, None));
    let body = answer.json();
    for (member, value) in [
        ("type", "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"),
        ("reason", "feature_disabled"),
        ("plane", "overload"),
        ("limit", "thumbnails"),
        ("retry", "at"),
        ("feature", "thumbnails"),
        ("feature_level", "off"),
    ] {
        assert_eq!(body[member], value, "{member}");
    }
    assert_eq!(body["retry_after_ms"].as_u64().unwrap().div_ceil(1000), daemon.retry_seconds("thumbnails"));
    assert!(
        body["detail"].as_str().unwrap().contains("feature \"thumbnails\" of resource \"app\" is off"),
        "{body}"
    );
}

#[tokio::test]
async fn the_header_of_a_client_never_reaches_the_upstream_and_is_no_input() {
    let daemon = Daemon::start("").await;
    daemon.pin("thumbnails", "480p");
    for forged in ["tidegate-feature: thumbnails=full\r\n", "Tidegate_Feature: thumbnails=full\r\n"] {
        for (feature, told) in [("", None), ("x-feature: thumbnails\r\n", Some("thumbnails=480p"))] {
            for twice in [1, 2] {
                let headers = format!("{feature}{}", forged.repeat(twice));
                let answer = daemon.through("/", &headers).await;
                assert_eq!(answer.header("tidegate-feature"), told, "{headers}");
                assert_eq!(daemon.seen_upstream().as_deref(), told, "{headers}");
            }
        }
    }
    let mut client = Client::connect(daemon.http()).await;
    let body = r#"{"namespace":"shop"}"#;
    let answer = send(&mut client, "POST /v1/check", "tidegate-feature: thumbnails=full\r\n", body).await;
    assert_eq!(Told::from_http(&answer), Told::expected("check", None, None));
}

#[tokio::test]
async fn a_name_that_a_header_cannot_hold_is_percent_encoded_there_and_whole_elsewhere() {
    let daemon = Daemon::start("").await;
    let name = "a%b/c";
    for (door, members) in [("check", true), ("authorize", false), ("rls", true), ("tower", true)] {
        daemon.rest();
        let told = daemon.ask(door, Some(name), None).await;
        assert_eq!(told.header.as_deref(), Some("a%25b/c=full"), "{door}");
        assert_eq!(told.members.map(|(name, _)| name), members.then(|| name.to_owned()), "{door}");
    }
}

#[tokio::test]
async fn a_call_with_several_features_lists_all_and_is_refused_if_one_is_off() {
    let daemon = Daemon::start("").await;
    let mut envoy = Envoy::at(daemon.handle.grpc().unwrap().tcp().unwrap()).await;
    let one = |feature| descriptor(&[("feature", feature)]);
    let asked = [one("a%b/c"), one("thumbnails"), one("counted"), one("thumbnails")];
    let told = Told::from_envoy(&envoy.call(request("shop", &asked)).await.unwrap());
    assert_eq!(told.header.as_deref(), Some("a%25b/c=full, thumbnails=full"));
    // Of several the first one.
    assert_eq!(told.members, Some(("a%b/c".to_owned(), "full".to_owned())));
    daemon.pin("thumbnails", "off");
    daemon.rest();
    let told = Told::from_envoy(&envoy.call(request("shop", &asked)).await.unwrap());
    assert_eq!((told.is_admitted, told.header.as_deref()), (false, Some("thumbnails=off")));
    assert_eq!(told.members, Some(("thumbnails".to_owned(), "off".to_owned())));
}
