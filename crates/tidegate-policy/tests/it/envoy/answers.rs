//! Headers and dynamic metadata.

use serde_json::json;
use tidegate_policy::envoy::{DescriptorLimit, Files, Unit};

use super::{World, descriptor, domain, files_under, with_hits};

const ENABLED: &str = "headers: { enabled: true }";

fn limits(settings: &str) -> Files {
    let limit = |key: &str, many: u32, more: &str| {
        format!("{{ key: {key}, {more} rate_limit: {{ unit: minute, requests_per_unit: {many} }} }}")
    };
    let all = [
        limit("five", 5, ""),
        limit("nine", 9, ""),
        limit("over", 0, ""),
        limit("over_too", 0, "value: x,"),
        limit("quota", 0, "quota_mode: true,"),
        limit("shadow", 0, "shadow_mode: true,"),
        "{ key: free, rate_limit: { unlimited: true } }".to_owned(),
    ];
    files_under(settings, &[&domain(&all.iter().map(String::as_str).collect::<Vec<_>>())])
}

fn headers(files: &Files, keys: &[&str]) -> String {
    let descriptors: Vec<_> = keys.iter().map(|key| descriptor(&[(*key, "x")])).collect();
    let answer = World::new().ask(files, &descriptors, 0);
    let headers = answer.headers.iter().map(|(name, value)| format!("{name}: {value}"));
    headers.collect::<Vec<_>>().join(", ")
}

#[test]
fn headers_are_off_unless_they_are_asked_for_and_have_the_names_that_are_given() {
    assert_eq!(headers(&limits(""), &["five"]), "");
    assert_eq!(
        headers(&limits(ENABLED), &["five"]),
        "RateLimit-Limit: 5, RateLimit-Remaining: 4, RateLimit-Reset: 37"
    );
    let named = limits("headers: { enabled: true, limit: x-limit, remaining: x-left, reset: x-reset }");
    assert_eq!(headers(&named, &["five"]), "x-limit: 5, x-left: 4, x-reset: 37");
}

#[test]
fn headers_tell_of_the_descriptor_with_the_least_left_or_the_last_that_is_over() {
    let files = limits(ENABLED);
    let told = |keys: &[&str]| headers(&files, keys).split(", RateLimit-Reset").next().unwrap().to_owned();
    for (keys, limit, left) in [
        (&["nine", "five"][..], 5, 4),
        (&["none", "nine", "free"], 9, 8),
        (&["over", "five"], 0, 0),
        (&["shadow", "nine"], 0, 0),
        (&["five", "quota"], 0, 0),
    ] {
        assert_eq!(told(keys), format!("RateLimit-Limit: {limit}, RateLimit-Remaining: {left}"), "{keys:?}");
    }
    assert_eq!(headers(&files, &["none", "free"]), "");
    // Of two that are over the last is told.
    let text = domain(&[
        "{ key: a, rate_limit: { unit: minute, requests_per_unit: 0 } }",
        "{ key: b, rate_limit: { unit: hour, requests_per_unit: 0 } }",
        "{ key: q, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 0 } }",
    ]);
    let files = files_under(ENABLED, &[&text]);
    assert!(headers(&files, &["a", "b", "q"]).ends_with("Reset: 2797"));
    assert!(headers(&files, &["q", "b", "a"]).ends_with("Reset: 37"));
}

#[test]
fn dynamic_metadata_has_the_descriptors_and_the_merged_metadata_of_what_has_passed() {
    let text = domain(&[
        "{ key: a, value_to_metric: true, metadata: { name: one, service: { x: 1, y: 2.5 }, list: [1] }, rate_limit: { unit: minute, requests_per_unit: 5 } }",
        "{ key: b, metadata: { name: two, service: { x: 9, z: { deep: true } }, list: [2], more: ~ }, rate_limit: { unit: minute, requests_per_unit: 5 } }",
        "{ key: c, metadata: { never: told }, rate_limit: { unit: minute, requests_per_unit: 0 } }",
        "{ key: s, shadow_mode: true, metadata: { shadow: told }, rate_limit: { unit: minute, requests_per_unit: 0 } }",
    ]);
    let mut own = descriptor(&[("o", "1"), ("p", "")]);
    own.limit = Some(DescriptorLimit { requests_per_unit: 3, unit: Unit::Month });
    let descriptors = [
        with_hits(&[("a", "1")], 2),
        descriptor(&[("b", "")]),
        descriptor(&[("c", "")]),
        descriptor(&[("s", "")]),
        own,
    ];
    let files = files_under("dynamic_metadata: true", &[&text]);
    assert_eq!(
        World::new().ask(&files, &descriptors, 4).dynamic_metadata.unwrap(),
        json!({
            "domain": "d",
            "descriptors": [
                { "entries": ["a=1"], "hitsAddend": 2 },
                { "entries": ["b="] },
                { "entries": ["c="] },
                { "entries": ["s="] },
                { "entries": ["o=1", "p="], "limit": "requests_per_unit:3 unit:MONTH" },
            ],
            "hitsAddend": 4,
            "metadata": {
                "name": "one",
                "service": { "x": 1, "y": 2.5, "z": { "deep": true } },
                "list": [1],
                "more": null,
                "shadow": "told",
            },
        })
    );
    let bare = World::new().ask(&files, &descriptors[4..], 0).dynamic_metadata.unwrap();
    assert!(bare.get("metadata").is_none() && bare.get("hitsAddend").is_none());
    assert_eq!(World::new().ask(&files_under("", &[&text]), &descriptors, 0).dynamic_metadata, None);
}

#[test]
fn the_dump_has_a_line_for_every_limit() {
    let text = domain(&[
        "{ key: a, value: x, shadow_mode: true, rate_limit: { unit: week, requests_per_unit: 5 } }",
        "{ key: b, descriptors: [{ key: c, rate_limit: { unlimited: true } }] }",
        "{ key: e, rate_limits: [{ unit: day, requests_per_unit: 1 }, { window: 5m, requests_per_unit: 2 }] }",
    ]);
    assert_eq!(
        files_under("", &[&text]).dump(),
        "d.a_x: unit=WEEK requests_per_unit=5, shadow_mode: true\n\
         d.b.c: unit=UNKNOWN requests_per_unit=0, shadow_mode: false\n\
         d.e: unit=DAY requests_per_unit=1, shadow_mode: false\n\
         d.e: unit=UNKNOWN requests_per_unit=2, shadow_mode: false\n"
    );
}
