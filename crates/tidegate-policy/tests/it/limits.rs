//! Problems of limits: every kind of problem with its exact text.

use crate::{assert_files, assert_limits, check, limit_problems, problems, settings, warnings, with_limit};

#[test]
fn a_rate_that_is_none_says_what_to_do() {
    assert_limits(&[
        (
            "{ name: a, rate: 0/s }",
            &[".rate: rate \"0/s\" admits nothing; use at least 1 unit, or block the key"],
        ),
        (
            "{ name: a, rate: fast }",
            &[".rate: rate \"fast\" is not written as units/span; write for example 100/s, 5/10m or 1000/1d"],
        ),
        (
            "{ name: a, rate: 5/366d }",
            &[
                ".rate: rate \"5/366d\" has a span that is zero or longer than a year; use a span from 1ns to 365d",
            ],
        ),
        (
            "{ name: a, rate: 2000000000/s }",
            &[
                ".rate: rate \"2000000000/s\" is above 1000000000 units a second, the largest that is counted exactly; count in larger units",
            ],
        ),
        (
            "{ name: a, rate: 1/s, burst: 0 }",
            &[
                ".burst: burst 0 admits nothing; use at least 1, or remove `burst` to allow one span of `rate`",
            ],
        ),
        (
            "{ name: a, rate: 1/d, burst: 367 }",
            &[".burst: burst 367 takes more than 366d to refill at 1/d; lower `burst` or raise `rate`"],
        ),
        (
            "{ name: a, rate: 1/d, debt: 366 }",
            &[".debt: burst 367 takes more than 366d to refill at 1/d; lower `burst` or raise `rate`"],
        ),
        ("{ name: a, burst: 2 }", &[".burst: `burst` belongs to `rate`; remove it, or give a `rate`"]),
        (
            "{ name: a, debt: 2, fixed: { limit: 1, window: 1s } }",
            &[".debt: `debt` belongs to `rate`; remove it, or give a `rate`"],
        ),
    ]);
}

#[test]
fn windows_and_holds_are_spans_of_at_most_a_year() {
    assert_limits(&[
        (
            "{ name: a, fixed: { limit: 1, window: 367d } }",
            &[
                ".fixed.window: window 367d is not between 1us and 366d; use a span in that range, or `calendar` for years",
            ],
        ),
        (
            "{ name: a, rolling: { limit: 1, window: 1ns, accuracy: approximate } }",
            &[
                ".rolling.window: window 1ns is not between 1us and 366d; use a span in that range, or `calendar` for years",
            ],
        ),
        (
            "{ name: a, rolling: { limit: 1, window: 10 } }",
            &[".rolling.window: window \"10\" is not a span of time; add a unit, for example 10ms or 10s"],
        ),
        (
            "{ name: a, rolling: { limit: 1, window: soon } }",
            &[
                ".rolling.window: window \"soon\" is not a span of time; write a whole number with ns, us, ms, s, m, h, d or w, for example 10m, 1h30m or 7d",
            ],
        ),
        (
            "{ name: a, rolling: { limit: 1048577, window: 1s } }",
            &[
                ".rolling.limit: limit 1048577 is above 1048576, the largest this window can count; count in larger units",
            ],
        ),
        (
            "{ name: a, concurrency: { limit: 1, hold: 0s } }",
            &[
                ".concurrency.hold: hold 0s is not between 1us and 366d; use the longest time a request may take",
            ],
        ),
        (
            "{ name: a, rate: 1/s, on_exceed: { block: 0s } }",
            &[".on_exceed.block: block \"0s\" is not between 1us and 366d; use a span in that range"],
        ),
        (
            "{ name: a, rate: 1/s, on_exceed: { block: 367d } }",
            &[".on_exceed.block: block \"367d\" is not between 1us and 366d; use a span in that range"],
        ),
    ]);
}

#[test]
fn issue_15_an_abbreviation_of_a_zone_is_told_the_zones_it_stands_for() {
    for (zone, fix) in [
        ("PST", "use the IANA name America/Los_Angeles"),
        ("CEST", "use an IANA name: Europe/Berlin, Europe/Paris, Europe/Madrid or Europe/Rome"),
        ("IST", "use an IANA name: Asia/Kolkata, Asia/Jerusalem or Europe/Dublin"),
    ] {
        let limit = format!("{{ name: a, calendar: {{ limit: 1, unit: day, zone: {zone} }} }}");
        let expected = format!(".calendar.zone: time zone \"{zone}\" does not exist; {fix}");
        assert_eq!(limit_problems(&limit), [expected]);
    }
}

#[test]
fn a_zone_that_does_not_exist_is_told_the_nearest_one() {
    let zone = |zone: &str| format!("{{ name: a, calendar: {{ limit: 1, unit: day, zone: {zone} }} }}");
    for (given, fix) in [
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("America/Los Angeles", "did you mean America/Los_Angeles?"),
        ("Nowhere/Atall", "use an IANA name such as Europe/Berlin or UTC"),
    ] {
        let expected = format!(".calendar.zone: time zone \"{given}\" does not exist; {fix}");
        assert_eq!(limit_problems(&zone(given)), [expected]);
    }
    assert_limits(&[(
        "{ name: a, calendar: { limit: 1, unit: day, week_start: sunday } }",
        &[".calendar.week_start: `week_start` belongs to `unit: week`; remove it, or count by week"],
    )]);
}

#[test]
fn a_limit_has_one_algorithm_and_a_name_of_its_own() {
    assert_limits(&[
        (
            "{ name: a }",
            &[
                "limit \"a\" has no algorithm; add one of `rate`, `rolling`, `fixed`, `calendar` and `concurrency`",
            ],
        ),
        (
            "{ name: a, rate: 1/s, fixed: { limit: 1, window: 1s }, concurrency: { limit: 1, hold: 1s } }",
            &[
                ".fixed: `fixed` stands beside `rate`, and a limit has one algorithm; keep one, and make the other a limit of its own",
                ".concurrency: `concurrency` stands beside `rate`, and a limit has one algorithm; keep one, and make the other a limit of its own",
            ],
        ),
        ("{ name: \"\", rate: 1/s }", &[".name: the name of the limit is empty; give it one"]),
        (
            "{ name: \"a\\nb\", rate: 1/s }",
            &[".name: the name of the limit, \"a\\nb\", contains control characters; remove them"],
        ),
        (
            "{ name: a, was: a, rate: 1/s }",
            &[
                ".was: `was` is the name the limit still has, \"a\"; remove `was`, or give the name it had before",
            ],
        ),
    ]);
    assert_files(&[
        (
            "namespaces: { api: { limits: [ { name: a, rate: 1/s }, { name: a, rate: 2/s } ] } }",
            &[
                "t.yaml:1:64: namespaces.api.limits[1].name: duplicate limit name \"a\"; first defined at line 1; rename one of them",
            ],
        ),
        (
            "namespaces: { api: { limits: [ { name: a, rate: 1/s }, { name: b, was: a, rate: 2/s } ] } }",
            &[
                "t.yaml:1:72: namespaces.api.limits[1].was: `was` is the name of another limit, \"a\"; remove `was`, or give that limit, if it was renamed too, its own `was`",
            ],
        ),
        (
            "namespaces: { \"\": { limits: [ { name: a, rate: 1/s } ] } }",
            &["t.yaml:1:15: namespaces.\"\": the name of the namespace is empty; give it one"],
        ),
    ]);
    let long = "x".repeat(129);
    let said = limit_problems(&format!("{{ name: {long}, rate: 1/s }}"));
    assert_eq!(
        said,
        [format!(".name: the name of the limit, \"{}…\", has 129 bytes; use at most 128", "x".repeat(80))]
    );
}

#[test]
fn keys_and_overrides_name_attributes_once_and_of_the_key() {
    assert_limits(&[
        ("{ name: a, rate: 1/s, key: [u, u] }", &[".key[1]: duplicate attribute \"u\" in `key`; remove one"]),
        (
            "{ name: a, rate: 1/s, key: [u, { attribute: u }] }",
            &[".key[1].attribute: duplicate attribute \"u\" in `key`; remove one"],
        ),
        (
            "{ name: a, rate: 1/s, key: [\"\"] }",
            &[".key[0]: the name of the attribute is empty; give it one"],
        ),
        (
            "{ name: a, rate: 1/s, key: [{ attribute: ip, ipv6_prefix: 129 }] }",
            &[".key[0].ipv6_prefix: 129 is out of range; use a whole number from 0 to 128"],
        ),
        (
            "{ name: a, rate: 1/s, key: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] }",
            &[".key: 17 attributes in one key; use at most 16"],
        ),
        (
            "{ name: a, rate: 1/s, key: [account], overrides: [{ acount: x, rate: 2/s }] }",
            &[
                ".overrides[0].acount: attribute \"acount\" is not in the `key` of the limit; did you mean `account`?",
            ],
        ),
        (
            "{ name: a, rate: 1/s, key: [account], overrides: [{ account: x, brust: 2 }] }",
            &[
                ".overrides[0]: the override changes no number; change rate, burst or debt",
                ".overrides[0].brust: attribute \"brust\" is not in the `key` of the limit; did you mean `burst`?",
            ],
        ),
        (
            "{ name: a, rate: 1/s, overrides: [{ user: x, rate: 2/s }] }",
            &[
                ".overrides[0].user: attribute \"user\" is not in the `key` of the limit; add it to `key`, or remove the override",
            ],
        ),
        (
            "{ name: a, rate: 1/s, key: [u], overrides: [{ rate: 2/s }] }",
            &[
                ".overrides[0]: the override names no attribute; add one of `key` with its value, for example u: \"1234\"",
            ],
        ),
        (
            "{ name: a, rate: 1/s, overrides: [{ rate: 2/s }] }",
            &[
                ".overrides[0]: the override names no attribute; a limit without `key` has one counter, which cannot be overridden; remove the override",
            ],
        ),
        (
            "{ name: a, rate: 1/s, key: [u], overrides: [{ u: x }] }",
            &[".overrides[0]: the override changes no number; change rate, burst or debt"],
        ),
        (
            "{ name: a, calendar: { limit: 1, unit: day }, key: [u], overrides: [{ u: x, rate: 2/s }] }",
            &[".overrides[0].rate: a limit with `calendar` has no `rate`; change limit or zone"],
        ),
        (
            "{ name: a, rate: 1/s, key: [u], overrides: [{ u: x, rate: 0/s }, { u: x, burst: 0 }] }",
            &[
                ".overrides[0].rate: rate \"0/s\" admits nothing; use at least 1 unit, or block the key",
                ".overrides[1]: duplicate override for the same attributes and values; remove one",
                ".overrides[1].burst: burst 0 admits nothing; use at least 1, or remove `burst` to allow one span of `rate`",
            ],
        ),
        (
            "{ name: a, fixed: { limit: 1, window: 1s }, key: [u], overrides: [{ u: x, window: 400d }] }",
            &[
                ".overrides[0].window: window 400d is not between 1us and 366d; use a span in that range, or `calendar` for years",
            ],
        ),
    ]);
}

#[test]
fn matchers_that_cannot_be_made_say_why() {
    let said =
        |matcher: &str| limit_problems(&format!("{{ name: a, rate: 1/s, match: {{ x: {matcher} }} }}"));
    for (matcher, expected) in [
        ("[]", ".match.x: an empty list matches nothing; list the values that match"),
        ("{ one_of: [] }", ".match.x.one_of: an empty list matches nothing; list the values that match"),
        ("{ cidr: [] }", ".match.x.cidr: an empty list matches nothing; list the networks that match"),
        ("{}", ".match.x: an empty form matches everything; say what the value must look like, or remove it"),
        (
            "{ regex: \"a(\" }",
            ".match.x.regex: regex \"a(\": unclosed group; correct it, or put \\ before a character that is meant as it stands",
        ),
        (
            "{ glob: \"[\" }",
            ".match.x.glob: glob \"[\": [ is not closed; add ], or write \\[ for the character",
        ),
        (
            "{ cidr: 10.0.0.0/33 }",
            ".match.x.cidr: invalid network \"10.0.0.0/33\"; write for example 10.0.0.0/8, 2001:db8::/32 or a single address",
        ),
        (
            "{ cidr: [10.0.0.0/8, 10.0.0.1/8] }",
            ".match.x.cidr[1]: network \"10.0.0.1/8\" has bits set behind its prefix; write 10.0.0.0/8, or the address without a prefix",
        ),
        (
            "{ not: { not: { glob: \"[\" } } }",
            ".match.x.not.not.glob: glob \"[\": [ is not closed; add ], or write \\[ for the character",
        ),
        ("{ prefx: a }", ".match.x.prefx: unknown key \"prefx\"; did you mean `prefix`?"),
    ] {
        assert_eq!(said(matcher), [expected], "{matcher}");
    }
}

#[test]
fn a_consistency_is_refused_unless_the_algorithm_has_it_and_this_version_does() {
    const ALGORITHMS: [(&str, &str, bool); 6] = [
        ("rate", "rate: 1/s", true),
        ("fixed", "fixed: { limit: 1, window: 1s }", true),
        ("calendar", "calendar: { limit: 1, unit: day }", true),
        ("rolling", "rolling: { limit: 1, window: 1s }", false),
        ("rolling", "rolling: { limit: 1, window: 1s, accuracy: approximate }", false),
        ("concurrency", "concurrency: { limit: 1, hold: 1s }", false),
    ];
    for (name, algorithm, has_all) in ALGORITHMS {
        for consistency in ["local", "exact", "leased", "broadcast", "observed", "auto"] {
            let limit = format!("{{ name: a, {algorithm}, consistency: {consistency} }}");
            let expected = match consistency {
                "local" | "exact" => None,
                "leased" if has_all => None,
                "leased" => {
                    Some(format!(".consistency: `{name}` has no consistency \"leased\"; use local or exact"))
                }
                _ => Some(format!(
                    ".consistency: \"{consistency}\" is not available in this version; use local, exact or leased"
                )),
            };
            let Some(expected) = expected else {
                assert!(check(&with_limit(&limit)).is_ok(), "{limit}");
                continue;
            };
            assert_eq!(limit_problems(&limit), [expected.as_str()]);
            // Nor is it said twice where members share a store.
            let shared = "store: { kind: redis, urls: [\"redis://127.0.0.1:6379\"] }\n";
            let problems = check(&format!("{shared}{}", with_limit(&limit))).unwrap_err().problems.len();
            assert_eq!(problems, 1, "{limit}");
        }
    }
    assert_limits(&[
        (
            "{ name: a, rate: 1/s, consistency: eventual }",
            &[".consistency: \"eventual\" is not a value of this key; use local, exact or leased"],
        ),
        (
            "{ name: a, rate: 1/s, share: auto }",
            &[
                ".share: share \"auto\" needs a store that the members share, to know how many there are; use `store: { kind: redis }`, or write 1/n for n members",
            ],
        ),
        (
            "{ name: a, rate: 1/s, share: 2/3 }",
            &[
                ".share: share \"2/3\" is not written as 1/n; write for example 1/3, with at most 10000 members, or auto",
            ],
        ),
        (
            "{ name: a, rate: 1/s, share: 1/0 }",
            &[
                ".share: share \"1/0\" is not written as 1/n; write for example 1/3, with at most 10000 members, or auto",
            ],
        ),
        (
            "{ name: a, rate: 1/s, share: 1/2, consistency: exact }",
            &[".share: `share` belongs to `consistency: local`; remove one of the two"],
        ),
        (
            "{ name: a, fixed: { limit: 3, window: 1s }, share: 1/4 }",
            &[".fixed.limit: share 1/4 of limit 3 leaves nothing; raise it to at least 4"],
        ),
        (
            "{ name: a, rate: 10/s, burst: 3, share: 1/4 }",
            &[".burst: share 1/4 of burst 3 leaves nothing; raise it to at least 4"],
        ),
        (
            "{ name: a, rate: 1/300d, share: 1/4 }",
            &[".rate: share 1/4 of rate 1/300d is less than one unit in 365d; raise the rate, or the share"],
        ),
    ]);
}

#[test]
fn more_limits_or_attributes_than_a_namespace_holds_are_a_problem() {
    use std::fmt::Write as _;
    let mut limits = String::new();
    for index in 0..1025 {
        write!(limits, "{{ name: l{index}, rate: 1/s }}, ").unwrap();
    }
    assert_eq!(
        problems(&with_limit(&limits)),
        [
            "t.yaml:1:30: namespaces.api.limits: 1025 limits in one namespace; use at most 1024, or split the namespace"
        ]
    );
    let mut limits = String::new();
    for index in 0..257 {
        write!(limits, "{{ name: l{index}, key: [a{index}], rate: 1/s }}, ").unwrap();
    }
    assert_eq!(
        problems(&with_limit(&limits)),
        [
            "t.yaml:1:30: namespaces.api.limits: the limits of the namespace look at 257 attributes; use at most 256"
        ]
    );
}

#[test]
fn a_lease_period_is_a_span_from_4_to_60_seconds_of_a_leased_limit() {
    let shared = |limit: &str| {
        let store = "{ kind: redis, urls: [redis://127.0.0.1:1] }";
        format!("store: {store}\nnamespaces: {{ api: {{ limits: [ {{ name: x, {limit} }} ] }} }}")
    };
    for (limit, seconds) in [
        ("rate: 100/s", 5),
        ("rate: 100/s, lease_period: 4s", 4),
        ("rate: 100/s, consistency: leased, lease_period: 1m", 60),
        ("fixed: { limit: 500, window: 1m }, lease_period: 20s", 20),
    ] {
        let checked = settings(&shared(limit));
        let period = checked.namespaces[0].limits[0].lease_period;
        assert_eq!(period, core::time::Duration::from_secs(seconds), "{limit}");
        assert_eq!(warnings(&shared(limit)), [""; 0], "{limit}");
    }
    let range = "is out of range; use a span from 4s to 1m";
    for (limit, expected) in [
        ("rate: 100/s, lease_period: 3999ms", format!("lease_period \"3999ms\" {range}")),
        ("rate: 100/s, lease_period: 61s", format!("lease_period \"61s\" {range}")),
        ("rate: 100/s, lease_period: soon", "lease_period \"soon\" ".to_owned()),
        (
            "rate: 100000000/s, lease_period: 60s",
            "6000000000 units in a lease period are more than 2147483647, the most that is lent; count in larger units; use a shorter lease period"
                .to_owned(),
        ),
    ] {
        let found = problems(&shared(limit));
        let start = format!("namespaces.api.limits[0].lease_period: {expected}");
        assert!(found.len() == 1 && found[0].contains(&start), "{limit}: {found:?}");
    }
    let without_effect = "`lease_period` has no effect, because the limit is not leased; remove it, or use `consistency: leased` and a store that the members share";
    let alone = "namespaces: { api: { limits: [ { name: x, rate: 100/s, lease_period: 10s } ] } }".to_owned();
    let not_leased = ["rate: 100/s, consistency: exact", "rate: 100/s, consistency: local"];
    let not_leased = not_leased.map(|limit| shared(&format!("{limit}, lease_period: 10s")));
    for text in not_leased.into_iter().chain([alone]) {
        let told = warnings(&text);
        assert_eq!(told.iter().filter(|one| one.contains(without_effect)).count(), 1, "{text}: {told:?}");
    }
}

#[test]
fn a_limit_may_be_lent_where_no_store_is_shared_and_its_place_is_left_open() {
    let policy = |store: &str, defaults: &str, limit: &str| {
        let limits = format!("{{ defaults: {{ {defaults} }}, limits: [ {{ name: x, {limit} }} ] }}");
        settings(&format!("{store}\nnamespaces: {{ api: {limits} }}"))
    };
    let (alone, shared) = ("", "store: { kind: redis, urls: [redis://127.0.0.1:1] }");
    for (store, defaults, limit, is_lendable) in [
        (alone, "", "rate: 10/s", true),
        ("store: { kind: memory }", "", "rate: 10/s", true),
        (alone, "", "rate: 10/s, consistency: leased", true),
        (alone, "", "rate: 10/s, consistency: local", false),
        (alone, "consistency: local", "rate: 10/s", false),
        (alone, "consistency: local", "rate: 10/s, consistency: leased", true),
        (alone, "", "rate: 10/s, consistency: exact", false),
        (alone, "", "rate: 10/s, consistency: local, share: 1/2", false),
        (alone, "", "rate: 10/d", false),
        (shared, "", "rate: 10/s", false),
        (shared, "", "rate: 10/s, consistency: local", false),
    ] {
        let found = policy(store, defaults, limit).namespaces[0].limits[0].is_lendable;
        assert_eq!(found, is_lendable, "{store} {defaults} {limit}");
    }
}

#[test]
fn an_override_that_cannot_be_leased_is_a_problem_before_the_policy_is_in_force() {
    let with = |changes: &str| {
        format!(
            "store: {{ kind: redis, urls: [redis://127.0.0.1:1] }}\nnamespaces: {{ api: {{ limits: [ {{ name: x, key: [u], {changes} }} ] }} }}"
        )
    };
    let fix = "the most that is lent; count in larger units; lower it, or use `consistency: exact`";
    for (changes, units) in [
        ("rate: 1/s, overrides: [{ u: a, rate: 2/s }, { u: b, rate: 900000000/s }]", 4_500_000_000_u64),
        (
            "rate: 1/s, lease_period: 1m, overrides: [{ u: a, rate: 2/s }, { u: b, rate: 50000000/s }]",
            3_000_000_000,
        ),
    ] {
        let found = problems(&with(changes));
        let expected = format!(
            "namespaces.api.limits[0].overrides[1]: {units} units in a lease period are more than 2147483647, {fix}"
        );
        assert!(found.len() == 1 && found[0].ends_with(&expected), "{changes}: {found:?}");
    }
    let exact = with("consistency: exact, rate: 1/s, overrides: [{ u: b, rate: 900000000/s }]");
    assert_eq!(settings(&exact).namespaces[0].limits.len(), 1);
}
