//! Extensions of the peer's files, and `semantics: tidegate`.

use core::time::Duration;

use tidegate_policy::envoy::{Files, Text};

use super::{World, descriptor, domain, files, files_under, lines, problems, read, under, with_hits};

#[test]
fn under_our_semantics_a_refused_request_is_charged_nothing() {
    let text = domain(&[
        "{ key: a, rate_limit: { unit: minute, requests_per_unit: 2 } }",
        "{ key: b, rate_limit: { unit: minute, requests_per_unit: 9 } }",
        "{ key: s, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 9 } }",
    ]);
    let files = files_under("semantics: tidegate", &[&text]);
    let world = World::new();
    let all: &[&[(&str, &str)]] = &[&[("a", "")], &[("b", "")], &[("s", "")]];
    assert_eq!(
        world.hit(&files, all),
        "ok: ok 1 of 2/minute 37s; ok 8 of 9/minute 37s; ok 8 of 9/minute 37s"
    );
    // A request that is too large leaves room for smaller ones.
    assert!(world.say(&files, &[with_hits(&[("a", "")], 2)], 0).starts_with("over: over 0 of 2/minute"));
    assert_eq!(
        world.hit(&files, all),
        "ok: ok 0 of 2/minute 37s; ok 7 of 9/minute 37s; ok 7 of 9/minute 37s"
    );
    for _ in 0..3 {
        assert_eq!(
            world.hit(&files, all),
            "over: over 0 of 2/minute 37s; ok 7 of 9/minute 37s; ok 7 of 9/minute 37s"
        );
    }
}

#[test]
fn under_our_semantics_a_request_that_every_quota_refuses_is_charged_nothing() {
    let limit = |key: &str, quota: bool, many: u32| {
        format!(
            "{{ key: {key}, quota_mode: {quota}, rate_limit: {{ unit: minute, requests_per_unit: {many} }} }}"
        )
    };
    let all = [limit("a", false, 9), limit("p", true, 1), limit("q", true, 2)];
    let files =
        files_under("semantics: tidegate", &[&domain(&all.iter().map(String::as_str).collect::<Vec<_>>())]);
    let world = World::new();
    let keys: &[&[(&str, &str)]] = &[&[("a", "")], &[("p", "")], &[("q", "")]];
    assert_eq!(
        world.hit(&files, keys),
        "ok: ok 8 of 9/minute 37s; ok 0 of 1/minute 37s; ok 1 of 2/minute 37s"
    );
    assert_eq!(
        world.hit(&files, keys),
        "ok: ok 7 of 9/minute 37s; over 0 of 1/minute 37s; ok 0 of 2/minute 37s"
    );
    for _ in 0..3 {
        assert_eq!(
            world.hit(&files, keys),
            "over: ok 7 of 9/minute 37s; over 0 of 1/minute 37s; over 0 of 2/minute 37s"
        );
    }
    // And one that another limit refuses leaves the quotas alone.
    let mut world = World::new();
    let large = [with_hits(&[("a", "")], 10), descriptor(&[("p", "")])];
    assert_eq!(world.say(&files, &large, 0), "over: over 0 of 9/minute 37s; ok 1 of 1/minute 37s");
    world.now = world.now.saturating_add(Duration::from_secs(1));
    assert_eq!(world.hit(&files, &[&[("p", "")]]), "ok: ok 0 of 1/minute 36s");
}

#[test]
fn a_window_may_have_any_length() {
    let text = domain(&[
        "{ key: a, rate_limit: { window: 5m, requests_per_unit: 2 } }",
        "{ key: b, rate_limit: { window: 60s, requests_per_unit: 2 } }",
        "{ key: c, rate_limit: { window: 250ms, requests_per_unit: 2 } }",
    ]);
    assert_eq!(
        World::new().hit(&files(&text), &[&[("a", "")], &[("b", "")], &[("c", "")]]),
        "ok: ok 1 of 2/unknown 97s; ok 1 of 2/minute 37s; ok 1 of 2/unknown 1s"
    );
}

#[test]
fn a_limit_may_be_a_bucket_a_rolling_window_or_one_of_the_calendar() {
    let text = domain(&[
        "{ key: rate, rate_limit: { algorithm: rate, unit: minute, requests_per_unit: 6, burst: 2 } }",
        "{ key: rolling, rate_limit: { algorithm: rolling, window: 10s, requests_per_unit: 2 } }",
        "{ key: week, rate_limit: { algorithm: calendar, unit: week, requests_per_unit: 2 } }",
        "{ key: fixed, rate_limit: { algorithm: fixed, unit: minute, requests_per_unit: 2 } }",
    ]);
    let (files, mut world) = (files(&text), World::new());
    let hits: &[&[(&str, &str)]] = &[&[("rate", "")], &[("rolling", "")], &[("week", "")], &[("fixed", "")]];
    // 2023-11-14 is a Tuesday: the week of the calendar ends on Sunday at midnight.
    let week = 5 * 86_400 + 3600 + 46 * 60 + 37;
    assert_eq!(
        world.hit(&files, hits),
        format!(
            "ok: ok 1 of 6/minute 10s; ok 1 of 2/unknown 10s; ok 1 of 2/week {week}s; ok 1 of 2/minute 37s"
        )
    );
    world.hit(&files, hits);
    let refused = world.hit(&files, &hits[..2]);
    assert!(refused.starts_with("over: over 0 of 6/minute "), "{refused}");
    // The bucket fills by one every ten seconds; the window gives back what is ten seconds old.
    world.now = world.now.saturating_add(Duration::from_secs(40));
    let later = world.hit(&files, &hits[..2]);
    assert!(later.starts_with("ok: ok "), "{later}");
}

#[test]
fn several_limits_on_one_descriptor_are_told_as_the_tightest() {
    let text = domain(&[
        "{ key: a, rate_limits: [{ name: short, unit: minute, requests_per_unit: 2 }, { name: long, unit: hour, requests_per_unit: 3 }] }",
    ]);
    for semantics in ["strict", "tidegate"] {
        let files = files_under(&format!("semantics: {semantics}"), &[&text]);
        let mut world = World::new();
        let hit = |world: &World| world.hit(&files, &[&[("a", "")]]);
        assert_eq!(hit(&world), "ok: ok 1 of 2/minute short 37s");
        assert_eq!(hit(&world), "ok: ok 0 of 2/minute short 37s");
        assert_eq!(hit(&world), "over: over 0 of 2/minute short 37s");
        world.now = world.now.saturating_add(Duration::from_mins(1));
        let next = if semantics == "strict" {
            // The refused hit used up the hour.
            "over: over 0 of 3/hour long 2737s"
        } else {
            "ok: ok 0 of 3/hour long 2737s"
        };
        assert_eq!(hit(&world), next, "{semantics}");
        // Where both are over, the one that is so for longer is told.
        world.say(&files, &[with_hits(&[("a", "")], 5)], 0);
        assert_eq!(hit(&world), "over: over 0 of 3/hour long 2737s");
    }
}

#[test]
fn limits_that_count_otherwise_have_counters_of_their_own() {
    let of = |limit: &str| files(&domain(&[&format!("{{ key: a, rate_limit: {{ {limit} }} }}")]));
    let world = World::new();
    for limit in [
        "unit: minute, requests_per_unit: 5",
        "window: 2m, requests_per_unit: 5",
        "algorithm: rate, unit: minute, requests_per_unit: 5",
        "algorithm: rate, unit: hour, requests_per_unit: 5",
        "algorithm: rolling, unit: minute, requests_per_unit: 5",
        "algorithm: calendar, unit: minute, requests_per_unit: 5",
    ] {
        let said = world.hit(&of(limit), &[&[("a", "")]]);
        assert!(said.starts_with("ok: ok 4 of 5/"), "{limit}: {said}");
    }
}

#[test]
fn our_keys_are_taken_only_where_they_have_one_meaning() {
    let node = |text: &str| problems(&domain(&[&format!("{{ key: a, {text} }}")]));
    let limit = |text: &str| node(&format!("rate_limit: {{ {text} }}"));
    for (said, hint) in [
        (node("algorithm: rate"), "algorithm does not belong here; use it inside `rate_limit:`"),
        (node("window: 5m"), "window does not belong here; use it inside `rate_limit:`"),
        (limit("unit: day, rate_limits: []"), "rate_limits does not belong here; use it on a descriptor"),
        (problems("domain: d\nburst: 5"), "burst does not belong here; use it inside `rate_limit:`"),
        (limit("unit: day, window: 5m"), "unit and window stand on one limit; keep one of the two"),
        (limit("window: 5"), "window \"5\" is not a span of time; add a unit, for example 5ms or 5s"),
        (limit("window: 400d"), "is not between 1us and 366d"),
        (
            limit("algorithm: sliding, unit: day"),
            "unknown algorithm \"sliding\"; use fixed, rate, rolling or calendar",
        ),
        (limit("algorithm: roling, unit: day"), "did you mean rolling?"),
        (limit("unit: day, burst: 5"), "burst belongs to `algorithm: rate`"),
        (limit("algorithm: rate, unit: day"), "admits nothing"),
        (limit("algorithm: rate, unit: second, requests_per_unit: 5, burst: 0"), "burst 0 admits nothing"),
        (
            limit("algorithm: rolling, unit: day, requests_per_unit: 2000000"),
            "limit 2000000 is above 1048576",
        ),
        (limit("algorithm: calendar, unit: second, requests_per_unit: 1"), "a calendar has no windows of 1s"),
        (limit("algorithm: calendar, window: 5m, requests_per_unit: 1"), "a calendar has no windows of 5m"),
        (limit("unlimited: true, algorithm: rate"), "algorithm has no meaning beside unlimited"),
        (
            node("rate_limit: { unit: day }, rate_limits: [{ unit: day }]"),
            "rate_limit and rate_limits stand on one descriptor",
        ),
        (node("rate_limits: []"), "0 limits on one descriptor; list 1 to 16"),
        (node("rate_limits: [{ unlimited: true }]"), "an unlimited limit beside others"),
        (
            node("rate_limits: [{ unit: day }, { window: 24h }]"),
            "it counts over the same windows as rate_limits[0]",
        ),
    ] {
        assert!(said.iter().any(|line| line.contains(hint)), "{hint}: {said:?}");
    }
}

#[test]
fn what_differs_from_the_peer_is_told_for_each_file() {
    let text = "domain: d
descriptors:
  - key: a
    value: b_c
    rate_limit: { unit: week, requests_per_unit: 5 }
  - key: a_b
    detailed_metric: true
    rate_limit: { unit: day, requests_per_unit: 5 }
  - key: 'x*'
";
    assert_eq!(
        lines(&read(text).unwrap().differences),
        [
            "3:5: descriptors[0]: the peer also matches this with key \"a_b\" and value \"c\", which is not done here; add a descriptor of that key and value if it is meant",
            "6:5: descriptors[1]: the peer also matches this with key \"a\" and value \"b\", which is not done here; add a descriptor of that key and value if it is meant",
            "7:22: descriptors[1].detailed_metric: metrics name up to 1024 values of requests, and the others together as `other`; keep it, unless more than 1024 values are to be told apart",
            "9:10: descriptors[2].key: a `*` in a key stands for characters of the key alone, not for its value as well; put the `*` into the value where that is meant",
        ]
    );
    assert!(read("domain: d\ndescriptors: [{ key: a }]").unwrap().differences.is_empty());
}

#[test]
fn issue_15_only_differences_under_the_semantics_in_force_are_told() {
    let text = domain(&[
        "{ key: a, rate_limit: { unit: week, requests_per_unit: 5 } }",
        "{ key: b, rate_limit: { unit: day, requests_per_unit: 5 } }",
    ]);
    let texts = [Text { name: "f.yaml", bytes: text.as_bytes() }];
    let differences = |settings: &str| lines(&Files::read(&texts, under(settings)).unwrap().differences);
    assert_eq!(differences("semantics: strict"), Vec::<String>::new());
    assert_eq!(
        differences("semantics: tidegate"),
        [
            "1:9: domain: a refused hit consumes nothing, unlike in the peer; use `semantics: strict` if refused hits are to count",
            "1:9: domain: a request is charged to the limits of all its descriptors or to none, unlike in the peer; use `semantics: strict` if each limit is to count by itself",
        ]
    );
}

#[test]
fn more_than_a_second_can_count_is_warned_of() {
    let text = domain(&["{ key: a, rate_limit: { unit: second, requests_per_unit: 4294967295 } }"]);
    assert_eq!(
        lines(&read(&text).unwrap().warnings),
        [
            "3:62: descriptors[0].rate_limit.requests_per_unit: 4294967295 a second counts as 536870911; use a lower number, or `unlimited: true`"
        ]
    );
}
