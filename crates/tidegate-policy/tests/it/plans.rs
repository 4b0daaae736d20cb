//! Plans, cost tables, time zones and outcomes of a namespace, and the costs of routes.

use tidegate_core::Matcher;
use tidegate_core::limit::Outcome;
use tidegate_policy::grammar::ValueSource;

use crate::{assert_files, limit_problems, problems, settings, warnings, with_limit};

const PLANS: &str = "
namespaces:
  api:
    plans:
      attribute: tier
      assigned: { account: { acme: pro, globex: enterprise } }
      default: free
      numbers:
        free: { requests: { rate: 5/s }, daily: { limit: 100 } }
        pro: { requests: { rate: 50/s, burst: 100 } }
        enterprise: { requests: { rate: 500/s }, daily: unlimited }
    limits:
      - { name: requests, key: [account], missing: group, rate: 1/s, burst: 3 }
      - { name: daily, key: [account], calendar: { limit: 10, unit: day, zone: Europe/Berlin, zone_from: zone } }
    costs:
      - { match: { path: { prefix: /search } }, cost: 3 }
";

#[test]
fn plans_and_costs_are_read_as_they_are_written() {
    let policy = settings(PLANS);
    let namespace = policy.namespace("api").unwrap();
    let plans = namespace.plans.as_ref().unwrap();
    assert_eq!(
        (plans.names.as_slice(), plans.attribute.as_str()),
        (&["enterprise", "free", "pro"].map(str::to_owned)[..], "tier")
    );
    assert_eq!(plans.default.as_deref(), Some("free"));
    let assigned: Vec<_> = plans
        .assigned
        .iter()
        .map(|one| (one.attribute.as_str(), one.value.as_str(), one.plan.as_str()))
        .collect();
    assert_eq!(assigned, [("account", "acme", "pro"), ("account", "globex", "enterprise")]);
    let numbers = |limit: usize| -> Vec<(String, Option<String>)> {
        let plans = namespace.limits[limit].plans.iter();
        plans.map(|one| (one.plan.clone(), one.algorithm.as_ref().map(tidegate_policy::words))).collect()
    };
    let of = |plan: &str, words: Option<&str>| (plan.to_owned(), words.map(str::to_owned));
    assert_eq!(
        numbers(0),
        [
            of("enterprise", Some("rate: 500/s, burst: 1500")),
            // The burst that is left out is that of the limit.
            of("free", Some("rate: 5/s, burst: 15")),
            of("pro", Some("rate: 50/s, burst: 100")),
        ]
    );
    assert_eq!(
        numbers(1),
        [
            of("enterprise", None),
            of("free", Some("calendar: { limit: 100, unit: day, zone: Europe/Berlin }"))
        ]
    );
    assert_eq!(namespace.limits[1].zone_from.as_deref(), Some("zone"));
    let row = &namespace.costs[0];
    assert_eq!((row.cost.units(), row.matches[0].attribute.as_str()), (3, "path"));
    assert!(row.matches[0].matcher.matches(Some("/search/x")));
    let attributes: Vec<_> = namespace.attributes().collect();
    assert_eq!(attributes, ["account", "account", "zone", "tier", "account", "account", "path"]);
    assert_eq!(warnings(PLANS), Vec::<String>::new());
}

#[test]
fn a_plan_that_does_not_fit_says_what_to_write() {
    let with = |from: &str, to: &str| {
        assert!(PLANS.contains(from), "{from}");
        problems(&PLANS.replace(from, to))
    };
    for (from, to, expected) in [
        (
            "default: free",
            "default: fre",
            "namespaces.api.plans.default: there is no plan \"fre\" under `numbers`; did you mean free?",
        ),
        (
            "acme: pro",
            "acme: gold",
            "namespaces.api.plans.assigned.account.acme: there is no plan \"gold\" under `numbers`; use enterprise, free or pro",
        ),
        (
            "daily: unlimited",
            "dayly: unlimited",
            "namespaces.api.plans.numbers.enterprise.dayly: plan \"enterprise\" has numbers of \"dayly\", which is no limit here; did you mean daily?",
        ),
        (
            "daily: unlimited",
            "daily: unlimitd",
            "namespaces.api.plans.numbers.enterprise.daily: \"unlimitd\" is not the numbers of a limit; did you mean unlimited?",
        ),
        (
            "daily: unlimited",
            "daily: 10",
            "namespaces.api.plans.numbers.enterprise.daily: \"10\" is not the numbers of a limit; write `unlimited`, or a mapping such as { rate: 50/s }",
        ),
        (
            "rate: 50/s,",
            "rate: 0/s,",
            "namespaces.api.plans.numbers.pro.requests.rate: rate \"0/s\" admits nothing; use at least 1 unit, or block the key",
        ),
        (
            "daily: { limit: 100 }",
            "daily: { rate: 1/s }",
            "namespaces.api.plans.numbers.free.daily.rate: a limit with `calendar` has no `rate`; change limit",
        ),
        (
            "daily: { limit: 100 }",
            "daily: { limit: 1, zone: UTC }",
            "namespaces.api.plans.numbers.free.daily.zone: a plan does not change the time zone; remove it; set it for a key in `overrides`, or for a request with `zone_from`",
        ),
        (
            "attribute: tier",
            "attribut: tier",
            "namespaces.api.plans.attribut: unknown key \"attribut\"; did you mean `attribute`?",
        ),
        (
            "cost: 3",
            "cost: 0",
            "namespaces.api.costs[0].cost: 0 is out of range; use a whole number, at least 1",
        ),
        (
            "prefix: /search",
            "prefx: /search",
            "namespaces.api.costs[0].match.path.prefx: unknown key \"prefx\"; did you mean `prefix`?",
        ),
    ] {
        let said = with(from, to);
        let (_, said) = said[0].split_once(": ").unwrap();
        assert_eq!(said, expected, "{to}");
    }
    assert_files(&[(
        "namespaces: { api: { plans: { numbers: {} }, limits: [ { name: a, rate: 1/s } ] } }",
        &["t.yaml:1:40: namespaces.api.plans.numbers: there is no plan; use 1 to 256"],
    )]);
}

#[test]
fn what_is_of_no_effect_is_warned_of() {
    for (text, expected) in [
        (
            "namespaces: { api: { plans: { numbers: { free: {} } }, limits: [ { name: a, rate: 1/s } ] } }",
            "t.yaml:1:40: namespaces.api.plans.numbers: no plan changes a number, so plans have no effect; give the plans numbers of limits",
        ),
        (
            "namespaces: { api: { costs: [ { cost: 2 }, { match: { a: b }, cost: 3 } ], limits: [ { name: a, rate: 9/s } ] } }",
            "t.yaml:1:44: namespaces.api.costs[1]: costs[0] takes every request, so this row is of no effect; move the row without `match` to the end",
        ),
        (
            "namespaces: { api: { costs: [ { match: { a: b }, cost: 30 } ], limits: [ { name: a, rate: 9/s } ] } }",
            "t.yaml:1:56: namespaces.api.costs[0].cost: limit \"a\" never admits a request of this cost, 30: it admits at most 9 units at once; lower the cost, or raise the limit",
        ),
    ] {
        assert_eq!(warnings(text), [expected], "{text}");
    }
    // A plan that admits it is enough.
    let text = "namespaces: { api: { costs: [ { match: { a: b }, cost: 30 } ], plans: { numbers: { pro: { a: { rate: 90/s } } } }, limits: [ { name: a, rate: 9/s } ] } }";
    assert_eq!(warnings(text), Vec::<String>::new());
}

#[test]
fn outcomes_are_words_statuses_or_classes() {
    let limit = "{ name: a, rate: 9/s, refund_on: [failed, 5xx, 404] }";
    let policy = settings(&with_limit(limit));
    let refund_on = &policy.namespaces[0].limits[0].refund_on;
    assert!(refund_on.contains(Outcome::Failed, None) && refund_on.contains(Outcome::Succeeded, Some(404)));
    for (limit, expected) in [
        (
            "{ name: a, rate: 9/s, refund_on: [faild] }",
            "refund_on[0]: \"faild\" is no outcome; did you mean failed?",
        ),
        (
            "{ name: a, rate: 9/s, refund_on: [cancelled] }",
            "refund_on[0]: \"cancelled\" is no outcome; leave it out: cancelled work is never charged",
        ),
        (
            "{ name: a, rate: 9/s, refund_on: [abandoned] }",
            "refund_on[0]: \"abandoned\" is no outcome; leave it out: abandoned work gets its charge back by the status alone",
        ),
        (
            "{ name: a, rate: 9/s, refund_on: [600] }",
            "refund_on[0]: \"600\" is no outcome; use succeeded, failed, a status such as 404, or a class such as 5xx",
        ),
    ] {
        let said = limit_problems(limit);
        assert!(said[0].ends_with(expected), "{said:?}");
    }
}

#[test]
fn the_zone_of_an_override_is_a_number_unless_the_key_has_such_an_attribute() {
    let daily = |key: &str, overrides: &str| {
        format!(
            "{{ name: a, key: [{key}], missing: group, calendar: {{ limit: 5, unit: day, zone_from: tz }}, overrides: [{overrides}] }}"
        )
    };
    let policy = settings(&with_limit(&daily("account", "{ account: \"1\", zone: Asia/Tokyo }")));
    let one = &policy.namespaces[0].limits[0].overrides[0];
    assert_eq!((one.algorithm.civil_zone(), one.fixes_zone, one.when.len()), (Some("Asia/Tokyo"), true, 1));
    let policy = settings(&with_limit(&daily("zone", "{ zone: eu-1, limit: 9 }")));
    let one = &policy.namespaces[0].limits[0].overrides[0];
    assert_eq!((one.algorithm.civil_zone(), one.fixes_zone, one.algorithm.limit()), (Some("UTC"), false, 9));
    let said = limit_problems(&daily("account", "{ account: \"1\", zone: Asia/Tokio }"));
    assert!(said[0].contains("Asia/Tokio") && said[0].contains("did you mean Asia/Tokyo?"), "{said:?}");
    let said =
        limit_problems("{ name: a, key: [account], rate: 1/s, overrides: [{ account: \"1\", zone: UTC }] }");
    assert!(said[1].contains("attribute \"zone\" is not in the `key` of the limit"), "{said:?}");
    let said = limit_problems("{ name: a, rate: 1/s, zone_from: tz }");
    assert!(said[0].contains("unknown key \"zone_from\""), "{said:?}");
}

fn proxied(route: &str) -> String {
    format!(
        "listen: {{ proxy: 127.0.0.1:8000 }}
namespaces: {{ api: {{ limits: [ {{ name: a, key: [user], missing: group, rate: 100/s }}, {{ name: d, calendar: {{ limit: 9000, unit: day, zone_from: tz }} }} ], plans: {{ numbers: {{ pro: {{ a: {{ rate: 200/s }} }} }} }} }} }}
proxy:
  upstreams: {{ app: [http://a] }}
  jwt: {{ secret_file: s }}
  routes: [ {{ upstream: app, namespace: api, {route} }} ]
"
    )
}

#[test]
fn a_route_matches_headers_and_takes_costs_from_requests_and_answers() {
    let text = proxied(
        "attributes: { user: jwt.sub }, match: { headers: { X-Api-Version: \"2\", x-beta: { present: false } } },
         cost: { from: header.x-estimate, units: 7, from_response: [header.x-cost, sse.usage.total, json.usage.in + json.usage.out] }",
    );
    let route = &settings(&text).proxy.routes[0];
    let headers: Vec<_> = route.headers.iter().map(|(source, _)| source.to_string()).collect();
    assert_eq!(headers, ["header.x-api-version", "header.x-beta"]);
    assert!(route.headers[0].1.matches(Some("2")) && route.headers[1].1.matches(None));
    assert_eq!(route.cost.from, Some(ValueSource::Header("x-estimate".parse().unwrap())));
    assert_eq!(route.cost.units.map(tidegate_core::Cost::units), Some(7));
    let places: Vec<_> = route.cost.from_response.iter().map(ToString::to_string).collect();
    assert_eq!(places, ["header.x-cost", "sse.usage.total", "json.usage.in + json.usage.out"]);
    assert!(route.cost.reads_body());
    let read: Vec<_> = route.sources().map(ToString::to_string).collect();
    assert!(
        read.contains(&"header.x-beta".to_owned()) && read.contains(&"header.x-estimate".to_owned()),
        "{read:?}"
    );
    assert_eq!(warnings(&text), Vec::<String>::new());
    let _ = Matcher::exact("2");
}

#[test]
fn a_route_that_cannot_be_is_named_with_what_to_do() {
    for (route, expected) in [
        (
            "match: { headers: { \"x y\": a } }",
            "proxy.routes[0].match.headers.\"x y\": \"x y\" is not the name of a header; use letters, digits and dashes, for example x-api-key",
        ),
        (
            "match: { headers: { X-A: a, x-a: b } }",
            "duplicate header \"x-a\": names of headers have no case; keep one",
        ),
        (
            "match: { headers: { host: a } }",
            "the host is matched in its canonical spelling; write `host:` beside `headers:`",
        ),
        ("cost: { from: heder.x }", "\"heder.x\" is not a source of a value"),
        (
            "cost: { from_response: json }",
            "proxy.routes[0].cost.from_response: \"json\" is not a value of an answer",
        ),
        (
            "cost: { from_response: [x-cost, body.n] }",
            "proxy.routes[0].cost.from_response[1]: \"body.n\" is not a value of an answer: it names no part of an answer; write header.NAME, json.FIELD or sse.FIELD",
        ),
        ("cost: { from_response: [a, a, a, a, a, a, a, a, a] }", "9 places of the true cost; use at most 8"),
    ] {
        let said = problems(&proxied(route));
        assert!(said[0].contains(expected), "{route}: {said:?}");
    }
}

#[test]
fn a_client_that_may_choose_its_plan_or_its_zone_is_warned_of() {
    let said = warnings(&proxied("attributes: { user: jwt.sub, plan: header.x-plan, tz: query.tz }"));
    let expected = [
        "any client may write header.x-plan and so choose its plan; take it from a token (jwt.CLAIM), assign plans in `plans.assigned`, or name the proxies in front under `trusted:`",
        "any client may write query.tz and so choose when its window ends; take it from a token (jwt.CLAIM), or name the proxies in front under `trusted:`",
    ];
    for expected in expected {
        assert!(said.iter().any(|line| line.ends_with(expected)), "{said:?}");
    }
    assert_eq!(
        warnings(&proxied("attributes: { user: jwt.sub, plan: jwt.plan, tz: jwt.zone }")),
        Vec::<String>::new()
    );
}
