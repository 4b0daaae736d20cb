//! Which files are taken, and what is said of the others.

use tidegate_policy::PROBLEMS_MAX;
use tidegate_policy::envoy::{Files, Text, Unit, is_such_a_file};

use super::{World, domain, files, files_under, lines, problems, read, under};

/// A file as the peer's users write it.
const FILE: &str = "
domain: mongo_cps
descriptors:
  - key: database
    value: users
    rate_limit:
      unit: second
      requests_per_unit: 500
  - key: database
    value: default
    rate_limit: { name: default, unit: SECOND, requests_per_unit: 500, replaces: [{ name: other }] }
    shadow_mode: true
    detailed_metric: true
  - key: message_type
    value: marketing*
    share_threshold: true
    value_to_metric: true
    quota_mode: yes
    metadata: { service_with_quota: { name: a, weight: 1.5, tags: [x, 1] } }
    descriptors:
      - key: to_number
        rate_limit: { unit: day, requests_per_unit: 5 }
      - key: internal
        rate_limit: { unlimited: true }
  - key: white_list
";

#[test]
fn a_file_of_the_peer_is_read_as_it_is() {
    let read = read(FILE).unwrap();
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    assert_eq!(read.files.domains().collect::<Vec<_>>(), ["mongo_cps"]);
    assert_eq!(read.files.count(), 4);
    assert!(is_such_a_file(FILE.as_bytes()));
    assert!(!is_such_a_file(b"namespaces: {}") && !is_such_a_file(b"- domain: d") && !is_such_a_file(b": ["));
}

#[test]
fn every_problem_of_a_file_is_told_at_once_with_its_place_and_what_to_do() {
    let text = "domain: ''
descriptors:
  - value: x
    rate_limit: { unit: fortnight, requests_per_unit: 1.5 }
  - key: a
    ratelimit: { unit: minute }
    shadow_mode: perhaps
  - key: b
    rate_limit: { unit: day, unlimited: true, replaces: [{ name: '' }] }
  - key: b
    share_threshold: true
";
    assert_eq!(
        problems(text),
        [
            "1:9: domain: the domain is empty; name the domain that Envoy's filter names",
            "3:5: descriptors[0].key: the key is empty; name the key of the descriptor's entry",
            "4:25: descriptors[0].rate_limit.unit: unknown unit \"fortnight\"; use second, minute, hour, day, week, month or year",
            "4:55: descriptors[0].rate_limit.requests_per_unit: 1.5 is not a whole number; use a whole number, or quote it where text is meant",
            "6:5: descriptors[1].ratelimit: unknown key \"ratelimit\"; did you mean `rate_limit`?",
            "7:18: descriptors[1].shadow_mode: expected true or false, found \"perhaps\"; write true or false",
            "9:25: descriptors[2].rate_limit.unit: a limit that is unlimited has a unit; remove `unit`, or `unlimited`",
            "9:58: descriptors[2].rate_limit.replaces[0]: the name to take the place of is empty; add `name:`, or remove the entry",
            "10:5: descriptors[3]: duplicate descriptor \"b\"; first defined at line 8; merge the two, or remove one",
            "11:22: descriptors[3].share_threshold: share_threshold is for values with a `*`, whose counters it makes one; put a `*` into the value, or remove it",
        ]
    );
}

#[test]
fn a_domain_is_required_and_stands_in_one_file_unless_files_are_merged() {
    let empty = Files::read(&[Text { name: "e.yaml", bytes: b"" }], under("")).unwrap_err();
    assert_eq!(empty.to_string(), "e.yaml:1:1: the file is empty; start with `domain:`");
    assert_eq!(
        problems("descriptors: []"),
        ["1:1: domain: `domain` is missing; add `domain:`, the name that Envoy's filter names"]
    );
    let (one, two) = (domain(&["{ key: a }"]), domain(&["{ key: b }"]));
    let texts =
        [("a.yaml", &one), ("b.yaml", &two)].map(|(name, text)| Text { name, bytes: text.as_bytes() });
    assert_eq!(
        Files::read(&texts, under("")).unwrap_err().to_string(),
        "b.yaml:1:9: domain: duplicate domain \"d\": another file defines it too; put both into one file, or set `merge_domains: true` under `envoy_ratelimit:`"
    );
    assert!(Files::read(&texts, under("merge_domains: true")).is_ok());
}

#[test]
fn merged_domains_are_one_and_a_key_in_both_is_still_an_error() {
    let limit = |key: &str, many| {
        domain(&[&format!("{{ key: {key}, rate_limit: {{ unit: minute, requests_per_unit: {many} }} }}")])
    };
    let merged = files_under("merge_domains: true", &[&limit("a", 1), &limit("b", 2)]);
    let world = World::new();
    assert_eq!(
        world.hit(&merged, &[&[("a", "x")], &[("b", "x")]]),
        "ok: ok 0 of 1/minute 37s; ok 1 of 2/minute 37s"
    );
    let (one, two) = (limit("a", 1), limit("a", 2));
    let texts =
        [("a.yaml", &one), ("b.yaml", &two)].map(|(name, text)| Text { name, bytes: text.as_bytes() });
    assert_eq!(
        Files::read(&texts, under("merge_domains: true")).unwrap_err().to_string(),
        "b.yaml:3:5: descriptors[0]: duplicate descriptor \"a\"; first defined at descriptors[0] of a.yaml; merge the two, or remove one"
    );
}

#[test]
fn an_unknown_key_anywhere_rejects_the_file_except_inside_metadata() {
    for text in [
        "domain: d\nfoo: 1",
        "domain: d\ndescriptors: [{ key: a, foo: 1 }]",
        "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, foo: 1 } }]",
        "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, replaces: [{ name: x, foo: 1 }] } }]",
        // Where a key means nothing, what stands under it is looked through all the same.
        "domain: d\nrate_limit: { foo: 1 }",
        "domain: d\nreplaces: [{ foo: 1 }]",
        "domain: d\n1: 2",
    ] {
        let said = problems(text);
        assert!(said.len() == 1 && said[0].contains("unknown key"), "{text}: {said:?}");
    }
    files("domain: d\ndescriptors: [{ key: a, metadata: { foo: { bar: [1, [2.5]] } } }]");
    files("domain: d\nmetadata: { foo: 1 }");
}

#[test]
fn one_list_of_keys_holds_at_every_depth_and_a_key_without_effect_is_warned_of() {
    let read = read("domain: d\nunit: day\ndescriptors: [{ key: a, requests_per_unit: 5 }]").unwrap();
    assert_eq!(
        lines(&read.warnings),
        [
            "2:7: unit: unit has no effect here; remove it, or use one of domain or descriptors",
            "3:44: descriptors[0].requests_per_unit: requests_per_unit has no effect here; remove it, or use one of key, value, rate_limit, rate_limits, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold or metadata",
        ]
    );
}

#[test]
fn a_value_of_a_wrong_kind_rejects_the_file() {
    for (text, hint) in [
        ("[]", "the file is a mapping, found a list"),
        ("domain: { a: b }", "expected text, found a mapping"),
        ("domain: [d]", "expected text, found a list"),
        ("domain: 1.5", "1.5 is not a whole number"),
        ("domain: 99999999999999999999", "out of range"),
        ("domain: d\ndescriptors: { key: a }", "expected a list, found a mapping"),
        ("domain: d\ndescriptors: 5", "expected a list, found \"5\""),
        ("domain: d\ndescriptors: [a]", "a descriptor is a mapping, found \"a\""),
        ("domain: d\ndescriptors: [[{ key: a }]]", "a descriptor is a mapping, found a list"),
        ("domain: d\ndescriptors: [~]", "a descriptor is a mapping"),
        ("domain: d\ndescriptors: [{ key: }]", "the key is empty"),
        ("domain: d\ndescriptors: [{ key: a, value: 0.5 }]", "or quote it where text is meant"),
        ("domain: d\ndescriptors: [{ key: a, rate_limit: 5 }]", "a limit is a mapping"),
        ("domain: d\ndescriptors: [{ key: a, shadow_mode: 1 }]", "expected true or false"),
        ("domain: d\ndescriptors: [{ key: a, shadow_mode: 'true' }]", "write true or false without quotes"),
        ("domain: d\ndescriptors: [{ key: a, quota_mode: [] }]", "expected true or false, found a list"),
        (
            "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: -1 } }]",
            "use 0 to 4294967295",
        ),
        (
            "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 4294967296 } }]",
            "out of range",
        ),
        (
            "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: '5' } }]",
            "remove the quotes",
        ),
        (
            "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, replaces: [x] } }]",
            "an entry of replaces is a mapping",
        ),
        ("domain: d\ndescriptors: [{ key: a, rate_limit: {} }]", "the limit has no unit"),
        ("domain: !x d", "the tag !x has no meaning here"),
        ("domain: d\n---\ndomain: e", "a second YAML document"),
    ] {
        let said = problems(text);
        assert!(said.iter().any(|line| line.contains(hint)), "{text}: {said:?}");
    }
}

#[test]
fn scalars_are_what_the_peers_reader_takes_them_for() {
    // Numbers and words that could mean something else are text where text is meant.
    let text = domain(&[
        "{ key: a, value: 0x10, rate_limit: { unit: MiNuTe, requests_per_unit: 0x10, name: 7 } }",
        "{ key: yes, value: on, rate_limit: { unit: minute, requests_per_unit: 1_000 }, shadow_mode: off }",
        "{ key: b, value: ~, rate_limit: { unit: minute, requests_per_unit: 010 } }",
        "{ key: c, value: '', rate_limit: ~, descriptors: ~, shadow_mode: ~ }",
    ]);
    let world = World::new();
    assert_eq!(
        world.hit(&files(&text), &[&[("a", "0x10")], &[("yes", "on")], &[("b", "z")], &[("c", "z")]]),
        "ok: ok 15 of 16/minute 7 37s; ok 999 of 1000/minute 37s; ok 7 of 8/minute 37s; ok"
    );
}

#[test]
fn merge_keys_and_aliases_are_followed_and_a_duplicate_key_has_its_last_value() {
    let text = "
domain: d
descriptors:
  - key: a
    rate_limit: &limit { unit: minute, requests_per_unit: 5 }
  - key: b
    rate_limit: { <<: *limit, requests_per_unit: 7 }
  - key: c
    rate_limit: { requests_per_unit: 9, <<: [*limit, { name: n, unit: day }] }
  - key: x
    key: e
    rate_limit: *limit
";
    let read = read(text).unwrap();
    let world = World::new();
    assert_eq!(
        world.hit(&read.files, &[&[("b", "")], &[("c", "")], &[("e", "")], &[("x", "")]]),
        "ok: ok 6 of 7/minute 37s; ok 8 of 9/minute n 37s; ok 4 of 5/minute 37s; ok"
    );
    assert_eq!(
        lines(&read.warnings),
        ["10:10: descriptors[3].key: duplicate key \"key\"; the last one counts; keep one of them"]
    );
    assert!(problems("domain: d\n<<: 5")[0].contains("a merge key (\"<<\") without a mapping"));
}

#[test]
fn a_unit_is_one_of_seven_in_any_case() {
    for unit in Unit::ALL {
        for name in [unit.name().to_owned(), unit.name().to_uppercase()] {
            files(&domain(&[&format!("{{ key: a, rate_limit: {{ unit: {name}, requests_per_unit: 1 }} }}")]));
        }
        assert_eq!(Unit::from_number(unit.number()), Some(unit));
    }
    assert_eq!(Unit::Week.number(), 7);
    assert_eq!(Unit::from_number(0), None);
    for name in ["", "unknown", "seconds", "decade"] {
        let text =
            domain(&[&format!("{{ key: a, rate_limit: {{ unit: '{name}', requests_per_unit: 1 }} }}")]);
        assert!(problems(&text)[0].contains("unit"), "{name}");
    }
}

#[test]
fn a_limit_without_a_number_lets_nothing_through() {
    let files = files(&domain(&[
        "{ key: a, rate_limit: { unit: minute } }",
        "{ key: b, rate_limit: { unit: minute, requests_per_unit: 0 } }",
    ]));
    assert_eq!(
        World::new().hit(&files, &[&[("a", "")], &[("b", "")]]),
        "over: over 0 of 0/minute 37s; over 0 of 0/minute 37s"
    );
}

#[test]
fn any_error_in_any_file_rejects_all_of_them() {
    let good = domain(&["{ key: a }"]);
    let texts =
        [Text { name: "a.yaml", bytes: good.as_bytes() }, Text { name: "b.yaml", bytes: b"domain: \xff" }];
    assert_eq!(
        Files::read(&texts, under("")).unwrap_err().to_string(),
        "b.yaml:1:9: the file is not UTF-8 text; save it as UTF-8"
    );
    let many = "{ foo: 1 }".to_owned() + &", { foo: 1 }".repeat(500);
    let text = format!("domain: d\ndescriptors: [{many}]");
    let problems = read(&text).unwrap_err();
    assert!(problems.truncated && problems.problems.len() == PROBLEMS_MAX);
}

#[test]
fn every_environment_variable_of_the_peer_is_a_key_of_the_policy() {
    let settings = "semantics: strict, shadow: true, quota_mode: true, near_limit_ratio: 0.5, dynamic_metadata: true, \
         headers: { enabled: true, limit: X-L, remaining: X-R, reset: X-S }, merge_domains: true, \
         stop_increment_when_over_limit: true";
    let read = under(settings);
    assert!(read.shadow && read.quota_mode && read.dynamic_metadata && read.merge_domains);
    assert!(read.stop_increment_when_over_limit && read.headers.enabled);
    assert!((read.near_limit_ratio - 0.5).abs() < f32::EPSILON);
    assert_eq!([&*read.headers.limit, &*read.headers.remaining, &*read.headers.reset], ["X-L", "X-R", "X-S"]);
    // The peer's own names, by way of the environment.
    let text = "envoy_ratelimit: { path: '${RUNTIME_ROOT}', shadow: '${SHADOW_MODE:-false}' }";
    let env = |name: &str| match name {
        "RUNTIME_ROOT" => Some("/data".to_owned()),
        "SHADOW_MODE" => Some("true".to_owned()),
        _ => None,
    };
    let envoy = tidegate_policy::parse("t", text, &env).unwrap().policy.envoy_ratelimit.unwrap();
    assert!(envoy.path == "/data" && envoy.settings.shadow);
}

#[test]
fn settings_that_cannot_work_are_refused() {
    crate::assert_files(&[
        (
            "envoy_ratelimit: {}",
            &[
                "t.yaml:1:18: envoy_ratelimit.path: `path` is missing; add `path:`, a file, or a directory whose `.yaml` and `.yml` files are read in the order of their names, without names that begin with a dot",
            ],
        ),
        (
            "envoy_ratelimit: { path: '', near_limit_ratio: 2 }",
            &[
                "t.yaml:1:26: envoy_ratelimit.path: the path of the files is empty; give one",
                "t.yaml:1:48: envoy_ratelimit.near_limit_ratio: near_limit_ratio \"2\" is not a part of a limit; write a decimal from 0 to 1, for example 0.8",
            ],
        ),
        (
            "envoy_ratelimit: { path: a, semantics: tidegate, stop_increment_when_over_limit: true }",
            &[
                "t.yaml:1:82: envoy_ratelimit.stop_increment_when_over_limit: `semantics: tidegate` never charges what is refused; remove it, or use `semantics: strict`",
            ],
        ),
        (
            "envoy_ratelimit: { path: a, headers: { limit: 'a b' }, redis_url: x }",
            &[
                "t.yaml:1:47: envoy_ratelimit.headers.limit: \"a b\" is not the name of a header; use 1 to 128 letters, digits and dashes",
                "t.yaml:1:56: envoy_ratelimit.redis_url: unknown key \"redis_url\"; use one of dynamic_metadata, headers, merge_domains, near_limit_ratio, path, quota_mode, semantics, shadow or stop_increment_when_over_limit",
            ],
        ),
    ]);
}

#[test]
fn how_the_files_are_taken_is_taken_over_while_running() {
    let policy = |more: &str| crate::settings(&format!("envoy_ratelimit: {{ path: a{more} }}"));
    let new = policy("b, semantics: tidegate, headers: { enabled: true }");
    let changes = tidegate_policy::compare(&policy(""), &new).settings;
    let said = changes.iter().map(|one| (one.path.as_str(), one.new.as_str(), one.needs_restart));
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            ("envoy_ratelimit.path", "ab", false),
            ("envoy_ratelimit.semantics", "tidegate", false),
            ("envoy_ratelimit.headers.enabled", "true", false),
        ]
    );
}
