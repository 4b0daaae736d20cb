//! Warnings about valid settings that are probably mistakes.

use crate::{warnings, with_limit};

const ESCAPE: &str = "t.yaml:1:20: namespaces.api: a caller that leaves attributes out escapes every limit of namespace \
                      \"api\"; use `missing: group` or `missing: refuse` on one of them, or add a limit without `key` and `match`";

#[test]
fn a_namespace_whose_every_limit_can_be_escaped_is_warned_about() {
    for (limits, escapes) in [
        ("{ name: a, key: [u], rate: 1/s }", true),
        ("{ name: a, match: { m: GET }, rate: 1/s }", true),
        ("{ name: a, match: { m: { present: true } }, rate: 1/s }", true),
        ("{ name: a, key: [u], missing: group, match: { m: GET }, rate: 1/s }", true),
        ("{ name: a, key: [u], rate: 1/s }, { name: b, mode: shadow, rate: 1/s }", true),
        ("{ name: a, rate: 1/s }", false),
        ("{ name: a, key: [u], missing: group, rate: 1/s }", false),
        ("{ name: a, key: [u], missing: refuse, rate: 1/s }", false),
        ("{ name: a, key: [u], rate: 1/s }, { name: b, rate: 1/s }", false),
        ("{ name: a, match: { m: { not: internal } }, rate: 1/s }", false),
        ("{ name: a, match: { m: { present: false } }, rate: 1/s }", false),
    ] {
        let expected: &[&str] = if escapes { &[ESCAPE] } else { &[] };
        assert_eq!(warnings(&with_limit(limits)), expected, "{limits}");
    }
}

#[test]
fn what_does_nothing_is_warned_about() {
    for (limits, expected) in [
        (
            "{ name: a, mode: shadow, rate: 1/s }",
            "t.yaml:1:20: namespaces.api: every limit of namespace \"api\" is a shadow, so nothing is refused; use `mode: enforce` on those that are to refuse",
        ),
        (
            "{ name: a, rate: 1/s }, { name: b, key: [u], match: { u: { present: false } }, rate: 1/s }",
            "t.yaml:1:89: namespaces.api.limits[1].match.u: limit \"b\" never applies: it is for requests without \"u\" and skips requests without it; take the attribute out of `key`, or use `missing: group`",
        ),
        (
            "{ name: a, rate: 1/s }, { name: b, match: { u: { present: false, exact: x } }, rate: 1/s }",
            "t.yaml:1:79: namespaces.api.limits[1].match.u: limit \"b\" never applies: \"u\" is to be missing and to have a value; remove one of the two",
        ),
        (
            "{ name: a, fixed: { limit: 0, window: 1s } }",
            "t.yaml:1:59: namespaces.api.limits[0].fixed.limit: limit \"a\" refuses every request that it applies to; use at least 1, unless that is meant",
        ),
        (
            "{ name: a, rate: 1/s, on_store_failure: allow }",
            "t.yaml:1:72: namespaces.api.limits[0].on_store_failure: `on_store_failure` has no effect, because no store decides the limit; remove it, or use `consistency: exact`",
        ),
        (
            "",
            "t.yaml:1:20: namespaces.api: namespace \"api\" has no limits, so it admits everything; add some under `limits:`",
        ),
    ] {
        assert_eq!(warnings(&with_limit(limits)), [expected], "{limits}");
    }
    assert_eq!(
        warnings("log: { level: info }"),
        [
            "t.yaml:1:1: namespaces: there is no namespace, so every check is answered 404; add one under `namespaces:`"
        ]
    );
    // `CL.THROTTLE` needs none.
    assert_eq!(warnings("listen: { resp: 127.0.0.1:6380 }"), [""; 0]);
}

#[test]
fn issue_15_a_pattern_that_is_written_as_plain_text_is_warned_about() {
    for (value, fix) in [
        ("/v1/*", Some("write { glob: \"/v1/*\" }")),
        ("^/x.*", Some("write { glob: \"/x*\" }")),
        ("^/(a|b)", Some("write { regex: '^/(a|b)' }")),
        ("/v1/check", None),
        ("*/*", None),
        ("a*", None),
    ] {
        let limit =
            format!("{{ name: all, rate: 1/s }}, {{ name: a, match: {{ x: '{value}' }}, rate: 1/s }}");
        let said = warnings(&with_limit(&limit));
        let expected = fix.map(|fix| {
            format!("t.yaml:1:81: namespaces.api.limits[1].match.x: \"{value}\" is compared as plain text, and not as a pattern; {fix}")
        });
        assert_eq!(said, Vec::from_iter(expected), "{value}");
    }
}

#[test]
fn issue_15_an_abbreviation_of_a_zone_that_ignores_daylight_saving_is_warned_about() {
    let limit =
        |zone: &str| with_limit(&format!("{{ name: a, calendar: {{ limit: 1, unit: day, zone: {zone} }} }}"));
    assert_eq!(
        warnings(&limit("EST")),
        [
            "t.yaml:1:82: namespaces.api.limits[0].calendar.zone: zone \"EST\" is UTC-5 all year, without daylight-saving time; use America/New_York for the clocks of a city, or America/Panama if a fixed offset is meant"
        ]
    );
    for zone in ["UTC", "GMT", "CET", "America/New_York"] {
        assert_eq!(warnings(&limit(zone)), Vec::<String>::new(), "{zone}");
    }
}

#[test]
fn metrics_that_nobody_can_reach_are_warned_about() {
    let file = |listen: &str| format!("{}\nlisten: {{ {listen} }}", with_limit("{ name: a, rate: 1/s }"));
    assert_eq!(
        warnings(&file("http: { address: 0.0.0.0:80, insecure: true }")),
        [
            "t.yaml:2:17: listen.http: metrics and the routes of operators are served nowhere, because http is not on loopback; add `admin: 127.0.0.1:8082` under `listen:`"
        ]
    );
    for listen in [
        "http: 127.0.0.1:80",
        "http: unix:/run/t.sock",
        "http: { address: 0.0.0.0:80, insecure: true }, admin: 127.0.0.1:81",
    ] {
        assert_eq!(warnings(&file(listen)), Vec::<String>::new(), "{listen}");
    }
}

#[test]
fn tables_that_several_daemons_count_apart_are_warned_about() {
    let file = |table: &str, store: &str| {
        format!(
            "namespaces: {{ shop: {{ tables: [{{ name: orders, {table} }}] }} }}\nnodes: [{{ name: n, units: 100000 }}]\n{store}"
        )
    };
    let redis = "store: { kind: redis, urls: ['redis://127.0.0.1'] }";
    let provisioned = "provisioned: { read: 10, write: 10 }";
    assert_eq!(
        warnings(&file(&format!("{provisioned}, mode: adaptive"), redis)),
        [
            "t.yaml:1:92: namespaces.shop.tables[0].mode: each daemon on the shared store admits all of this table with `mode: adaptive`; use `mode: global`, which leases the table, or one daemon"
        ]
    );
    assert_eq!(warnings(&file("on_demand: {}", redis)), [""; 0]);
    assert_eq!(warnings(&file(&format!("{provisioned}, mode: global"), redis)), [""; 0]);
    for mode in ["static", "burst", "adaptive", "global"] {
        assert_eq!(warnings(&file(&format!("{provisioned}, mode: {mode}"), "")), [""; 0], "{mode}");
    }
}
