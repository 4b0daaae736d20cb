//! The bounds of Envoy's rate limit quota service, and what is said of limits that no Envoy can
//! hold.

use core::time::Duration;

use tidegate_policy::policy::rlqs::Rlqs;

use super::{assert_files, check, settings, warnings};

fn policy(rlqs: &str) -> String {
    with_limits("{ name: all, rate: 20/s }", rlqs)
}

fn with_limits(limits: &str, rlqs: &str) -> String {
    format!(
        "rlqs: {{ {rlqs} }}\nlisten: {{ grpc: 127.0.0.1:8081 }}\nnamespaces: {{ api: {{ limits: [ {limits} ] }}, batch: {{ limits: [ {{ name: day, fixed: {{ limit: 1, window: 1d }} }} ] }} }}"
    )
}

/// The warnings about limits, without the common parts of each line.
fn said(limits: &str) -> Vec<String> {
    let all = warnings(&with_limits(limits, "namespaces: [api]"));
    let shortened = |line: &String| {
        let (at, rest) = line.split_once(": no Envoy").unwrap_or((line, ""));
        let (_, at) = at.split_once(": ").unwrap_or(("", at));
        format!("{at}:{rest}")
    };
    all.iter().map(shortened).collect()
}

#[test]
fn without_the_section_and_with_an_empty_one_the_bounds_are_the_defaults() {
    for text in [policy(""), policy("").replace("rlqs: {  }\n", "")] {
        let rlqs = settings(&text).rlqs;
        assert_eq!(rlqs, Rlqs::default());
        assert_eq!((rlqs.ttl, rlqs.holders, rlqs.buckets), (Duration::from_secs(10), 256, 1000));
        assert_eq!(warnings(&text), [""; 0], "every namespace is served, and none is checked");
    }
    let rlqs = settings(&policy("ttl: 1m, holders: 1, buckets: 7, namespaces: [batch, api]")).rlqs;
    assert_eq!((rlqs.ttl, rlqs.holders, rlqs.buckets), (Duration::from_mins(1), 1, 7));
    assert_eq!(rlqs.namespaces, ["batch", "api"]);
    assert_eq!(settings(&policy("ttl: 11000ms")).rlqs.ttl, Duration::from_secs(11));
}

#[test]
fn numbers_out_of_bounds_and_unknown_namespaces_are_told() {
    let range = "is out of range; use whole seconds from 10s to 60s";
    for ttl in ["4s", "61s", "5500ms", "10000000001ns"] {
        assert_files(&[(
            &policy(&format!("ttl: {ttl}")),
            &[&format!("t.yaml:1:14: rlqs.ttl: ttl \"{ttl}\" {range}")],
        )]);
    }
    assert_files(&[
        (
            &policy("ttl: 10"),
            &["t.yaml:1:14: rlqs.ttl: ttl \"10\" is not a span of time; add a unit, for example 10ms or 10s"],
        ),
        (
            &policy("holders: 0"),
            &["t.yaml:1:18: rlqs.holders: 0 is out of range; use a whole number from 1 to 256"],
        ),
        (
            &policy("holders: 257"),
            &["t.yaml:1:18: rlqs.holders: 257 is out of range; use a whole number from 1 to 256"],
        ),
        (
            &policy("buckets: 1001"),
            &["t.yaml:1:18: rlqs.buckets: 1001 is out of range; use a whole number from 1 to 1000"],
        ),
        (
            &policy("namespaces: [apy, zebra, api, api]"),
            &[
                "t.yaml:1:22: rlqs.namespaces[0]: namespace \"apy\" is not under `namespaces:`; did you mean api?",
                "t.yaml:1:27: rlqs.namespaces[1]: namespace \"zebra\" is not under `namespaces:`; add it there, or name one that is",
                "t.yaml:1:39: rlqs.namespaces[3]: namespace \"api\" is listed twice; remove one of them",
            ],
        ),
        (
            &policy("reporting: 5s"),
            &[
                "t.yaml:1:9: rlqs.reporting: unknown key \"reporting\"; use one of buckets, holders, namespaces or ttl",
            ],
        ),
    ]);
}

#[test]
fn a_limit_that_no_envoy_can_hold_is_told_of_a_namespace_that_is_named() {
    let all = "{ name: all, rate: 20/s }";
    assert_eq!(said(all), [""; 0]);
    let window = "counts in a window, and an Envoy has a token bucket; use `rate`, or Envoy's RLS";
    for (limit, expected) in [
        ("rolling: { limit: 99, window: 1m }", format!("`rolling` {window}")),
        ("rolling: { limit: 99, window: 1m, accuracy: approximate }", format!("`rolling` {window}")),
        ("fixed: { limit: 99, window: 1m }", format!("`fixed` {window}")),
        ("calendar: { limit: 99, unit: minute }", format!("`calendar` {window}")),
        (
            "concurrency: { limit: 99, hold: 1m }",
            "`concurrency` needs the end of each request; use `circuit_breakers` of the cluster in Envoy, or the proxy".to_owned(),
        ),
        (
            "rate: 99/d",
            "rate 99/d is over an hour or longer, and an Envoy that stops would take its part with it; use a rate over less than an hour, or Envoy's RLS".to_owned(),
        ),
        (
            "rate: 99/s, consistency: exact",
            "`consistency: exact` asks the store at each request; use `consistency: leased`, or Envoy's RLS".to_owned(),
        ),
        (
            "rate: 1/2m, burst: 16",
            "rate 1/2m gives less than one a minute; use at least 1/m, or Envoy's RLS".to_owned(),
        ),
        ("rate: 15/s", "burst 15 is too little to share; use at least 16, or Envoy's RLS".to_owned()),
    ] {
        let limits = format!("{all}, {{ name: one, {limit} }}");
        let expected = format!("namespaces.api.limits[1]: is assigned a part of limit \"one\": {expected}");
        assert_eq!(said(&limits), [expected], "{limit}");
    }
    let text = with_limits("{ name: one, rate: 15/s }", "namespaces: [batch]");
    let [warning] = &warnings(&text)[..] else { panic!("{:?}", warnings(&text)) };
    assert!(
        warning.contains("namespaces.batch.limits[0]: no Envoy is assigned a part of limit \"day\""),
        "{warning}"
    );
}

#[test]
fn a_shadow_limit_is_not_told_and_numbers_for_some_keys_or_a_plan_are() {
    let shadow = "{ name: all, rate: 20/s }, { name: one, mode: shadow, rate: 15/s }";
    assert_eq!(said(shadow), [""; 0]);
    let some = "{ name: all, rate: 20/s }, { name: one, key: [user], missing: group, rate: 20/s, overrides: [{ user: ada, rate: 30/s }, { user: eve, rate: 3/s }] }";
    assert_eq!(
        said(some),
        [
            "namespaces.api.limits[1].overrides: is assigned a part of limit \"one\" for some keys: burst 3 is too little to share; use at least 16, or Envoy's RLS"
        ]
    );
    let plans = with_limits("{ name: one, rate: 20/s }", "namespaces: [api]").replace(
        "] }, batch",
        "], plans: { numbers: { free: { one: { rate: 2/s } }, pro: { one: unlimited } } } }, batch",
    );
    let said = warnings(&plans);
    assert!(
        said.iter().any(|line| line.contains(
            "namespaces.api.plans.numbers.free.one: no Envoy is assigned a part of limit \"one\" in this plan: burst 2 is too little"
        )),
        "{said:?}"
    );
    assert!(!said.iter().any(|line| line.contains("numbers.pro")), "{said:?}");
}

#[test]
fn bounds_without_a_listener_have_no_effect() {
    let text = policy("ttl: 20s").replace("listen: { grpc: 127.0.0.1:8081 }\n", "");
    assert_eq!(
        warnings(&text),
        [
            "t.yaml:1:7: rlqs: `rlqs` has no effect, because no listener speaks gRPC; add `grpc: 127.0.0.1:8081` under `listen:`"
        ]
    );
    assert!(check(&text).is_ok());
}
