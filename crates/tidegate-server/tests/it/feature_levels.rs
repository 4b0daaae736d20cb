//! The levels of features through every protocol: what an admitted request is told, what a refused
//! one is told, and what the upstream of the proxy sees.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::{Class, Retry};
use tidegate_engine::{FeaturePinning, Progress, Request};
use tidegate_server::Clock as _;

use crate::authorization::{bearer, request as send};
use crate::client::Client;
use crate::doors::{DOORS, Daemon, DoorAnswer, DoorRequest};
use crate::grpc::{Envoy, descriptor, request};

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

/// The feature and the level of an answer, by the means of its protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FeatureAnswer {
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
    /// A daemon of these features, before a server.
    async fn with_features(rest: &str) -> Self {
        Self::before_server(&format!("{POLICY}{rest}").replace("LEVELS", LEVELS)).await
    }

    /// A daemon of this policy, in which `LEVELS` stands for the levels of a feature.
    pub(crate) async fn with_levels(text: &str) -> Self {
        Self::with_policy(&text.replace("LEVELS", LEVELS)).await
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

    /// Asks at a door for a feature, with these other words.
    pub(crate) async fn ask_feature(
        &self,
        door: &str,
        feature: Option<&str>,
        resource: Option<&str>,
    ) -> FeatureAnswer {
        let words = [("user", Some("ada")), ("feature", feature), ("resource", resource)];
        let asked = DoorRequest {
            body: json!({ "namespace": "shop", "feature": feature, "resource": resource }),
            words: words.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            resource: resource.unwrap_or("app"),
            path: if resource == Some("other") { "/other" } else { "/" },
            headers: feature.map(|name| ("x-feature", name)).into_iter().collect(),
        };
        FeatureAnswer::new(self.ask_door(door, &asked).await)
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

    /// The wait that the engine says for a refused request, in seconds rounded up.
    fn retry_seconds(&self, feature: &str) -> u64 {
        let request = Request::new("shop", ()).feature(feature).resource("app");
        let now = self.clock.now();
        let Ok(Progress::Done(peek)) = self.engine.peek(&request, now) else { panic!("no store is asked") };
        let Retry::At(at) = peek.refusal.expect("it is off").retry() else { panic!("an instant is known") };
        at.saturating_since(now).as_millis().div_ceil(1000) as u64
    }
}

impl FeatureAnswer {
    fn new(answer: DoorAnswer) -> Self {
        assert!(answer.status.is_none_or(|status| [200, 503].contains(&status)), "{answer:?}");
        let member = |name| answer.member(name).map(str::to_owned);
        assert_eq!(member("feature").is_some(), member("feature_level").is_some(), "{answer:?}");
        Self {
            is_admitted: answer.is_admitted,
            header: answer.header("tidegate-feature").map(str::to_owned),
            members: member("feature").zip(member("feature_level")),
            reason: answer.reason,
            retry_seconds: answer.retry_seconds,
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
    let daemon = Daemon::with_features("").await;
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
                let answered = daemon.ask_feature(door, feature, None).await;
                assert_eq!(
                    answered,
                    FeatureAnswer::expected(door, told, retry),
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
    let daemon = Daemon::with_features("").await;
    daemon.pin("thumbnails", "off");
    for door in DOORS {
        daemon.rest();
        let retry = Some(daemon.retry_seconds("thumbnails"));
        let off = FeatureAnswer::expected(door, Some(("thumbnails", "off")), retry);
        assert_eq!(daemon.ask_feature(door, Some("thumbnails"), Some("app")).await, off, "{door}");
        let untold = FeatureAnswer::expected(door, None, None);
        assert_eq!(daemon.ask_feature(door, Some("thumbnails"), Some("other")).await, untold, "{door}");
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
    let daemon = Daemon::with_features(grants).await;
    daemon.pin("thumbnails", "480p");
    let offered = || {
        let stats = daemon.engine.resource_stats(daemon.clock.now());
        stats.filter(|stats| stats.name == Some("app")).map(|stats| stats.offered).sum::<u64>()
    };
    for (token, told) in [("0123456789abcdef", None), ("fedcba9876543210", Some(("thumbnails", "480p")))] {
        let (before, body) = (offered(), r#"{"namespace":"shop","feature":"thumbnails"}"#);
        let mut client = Client::connect(daemon.http()).await;
        let answer = send(&mut client, "POST /v1/check", &bearer(token), body).await;
        assert_eq!(
            FeatureAnswer::new(DoorAnswer::from_http(&answer)),
            FeatureAnswer::expected("check", told, None),
            "{token}"
        );
        assert_eq!(offered() - before, u64::from(told.is_some()), "{token}");
    }
}

#[tokio::test]
async fn a_peek_and_an_explanation_show_levels_in_shadow_mode_too() {
    let daemon = Daemon::with_features("").await;
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
    let daemon = Daemon::with_features("").await;
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
    let daemon = Daemon::with_features("").await;
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
    assert_eq!(
        FeatureAnswer::new(DoorAnswer::from_http(&answer)),
        FeatureAnswer::expected("check", None, None)
    );
}

#[tokio::test]
async fn a_name_that_a_header_cannot_hold_is_percent_encoded_there_and_whole_elsewhere() {
    let daemon = Daemon::with_features("").await;
    let name = "a%b/c";
    for (door, members) in [("check", true), ("authorize", false), ("rls", true), ("tower", true)] {
        daemon.rest();
        let told = daemon.ask_feature(door, Some(name), None).await;
        assert_eq!(told.header.as_deref(), Some("a%25b/c=full"), "{door}");
        assert_eq!(told.members.map(|(name, _)| name), members.then(|| name.to_owned()), "{door}");
    }
}

#[tokio::test]
async fn a_call_with_several_features_lists_all_and_is_refused_if_one_is_off() {
    let daemon = Daemon::with_features("").await;
    let mut envoy = Envoy::at(daemon.handle.grpc().unwrap().tcp().unwrap()).await;
    let one = |feature| descriptor(&[("feature", feature)]);
    let asked = [one("a%b/c"), one("thumbnails"), one("counted"), one("thumbnails")];
    let told =
        FeatureAnswer::new(DoorAnswer::from_envoy(&envoy.call(request("shop", &asked)).await.unwrap()));
    assert_eq!(told.header.as_deref(), Some("a%25b/c=full, thumbnails=full"));
    // Of several the first one.
    assert_eq!(told.members, Some(("a%b/c".to_owned(), "full".to_owned())));
    daemon.pin("thumbnails", "off");
    daemon.rest();
    let told =
        FeatureAnswer::new(DoorAnswer::from_envoy(&envoy.call(request("shop", &asked)).await.unwrap()));
    assert_eq!((told.is_admitted, told.header.as_deref()), (false, Some("thumbnails=off")));
    assert_eq!(told.members, Some(("thumbnails".to_owned(), "off".to_owned())));
}
