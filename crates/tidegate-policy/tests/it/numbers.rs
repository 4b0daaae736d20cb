//! The numbers of one override that does not stand in the file.

use tidegate_core::limit::Limit;
use tidegate_policy::{parse_numbers, words};

use crate::{settings, with_limit};

fn limit(algorithm: &str) -> Limit {
    settings(&with_limit(&format!("{{ name: a, key: [u], {algorithm} }}"))).namespaces[0].limits[0].clone()
}

#[test]
fn an_override_from_outside_gives_what_the_same_override_in_the_file_gives() {
    for (algorithm, numbers, expected) in [
        // A burst that is written is a length of time: 2 s.
        ("rate: 10/s, burst: 20", "rate: 30/s", "rate: 30/s, burst: 60"),
        ("rate: 10/s, burst: 20", "rate: 1000/s", "rate: 1000/s, burst: 2000"),
        ("rate: 10/s, burst: 10", "rate: 6000/m", "rate: 6000/m, burst: 100"),
        ("rate: 10/s, burst: 1", "rate: 1/m", "rate: 1/m"),
        ("rate: 3/s, burst: 1", "rate: 5/s", "rate: 5/s, burst: 1"),
        // Without a burst of its own the limit has the units of the rate.
        ("rate: 10/s", "rate: 6000/m", "rate: 6000/m"),
        ("rate: 10/s, burst: 20", "{ rate: 200/s, burst: 400 }", "rate: 200/s, burst: 400"),
        ("rate: 10/s, burst: 20", "burst: 5", "rate: 10/s, burst: 5"),
        ("rate: 10/s", "rate: 30/s", "rate: 30/s"),
        ("rate: 1/3ms, debt: 4", "burst: 7", "rate: 1/3ms, burst: 7, debt: 4"),
        ("rolling: { limit: 3, window: 90s }", "limit: 0", "rolling: { limit: 0, window: 90s }"),
        (
            "rolling: { limit: 3, window: 1m, accuracy: approximate }",
            "window: 2m",
            "rolling: { limit: 3, window: 2m, accuracy: approximate }",
        ),
        (
            "fixed: { limit: 3, window: 1m, start: first_hit }",
            "window: 2m",
            "fixed: { limit: 3, window: 2m, start: first_hit }",
        ),
        (
            "calendar: { limit: 10, unit: week, zone: America/Los_Angeles, week_start: sunday }",
            "limit: 50",
            "calendar: { limit: 50, unit: week, zone: America/Los_Angeles, week_start: sunday }",
        ),
        (
            "concurrency: { limit: 3, hold: 1s }",
            "{ limit: 9, hold: 2s }",
            "concurrency: { limit: 9, hold: 2s }",
        ),
    ] {
        let inner = numbers.trim_matches(['{', '}', ' ']);
        let in_file = limit(&format!("{algorithm}, overrides: [{{ u: x, {inner} }}]"));
        let parsed = parse_numbers(&in_file, numbers).unwrap().algorithm;
        assert_eq!(parsed, in_file.overrides[0].algorithm, "{algorithm} {numbers}");
        assert_eq!(words(&parsed), expected);
        // The words are those of a policy.
        assert_eq!(limit(expected).algorithm, parsed);
    }
}

#[test]
fn json_is_read_too() {
    let parsed =
        parse_numbers(&limit("rate: 10/s"), "{\"rate\": \"200/s\", \"burst\": 400}").unwrap().algorithm;
    assert_eq!(words(&parsed), "rate: 200/s, burst: 400");
}

#[test]
fn numbers_that_do_not_fit_say_what_to_do() {
    for (algorithm, numbers, expected) in [
        (
            "rate: 1/s",
            "limit: 5",
            "override:1:1: limit: a limit with `rate` has no `limit`; change rate, burst or debt",
        ),
        ("rate: 1/s", "{}", "override:1:1: the override changes no number; change rate, burst or debt"),
        ("rate: 1/s", "{ rat: 5/s }", "override:1:3: rat: unknown key \"rat\"; did you mean `rate`?"),
        (
            "rate: 1/s",
            "rate: 0/s",
            "override:1:7: rate: rate \"0/s\" admits nothing; use at least 1 unit, or block the key",
        ),
        (
            "rate: 1/s",
            "burst: 0",
            "override:1:8: burst: burst 0 admits nothing; use at least 1, or remove `burst` to allow one span of `rate`",
        ),
        (
            "rate: 1/d",
            "burst: 400",
            "override:1:8: burst: burst 400 takes more than 366d to refill at 1/d; lower `burst` or raise `rate`",
        ),
        (
            "calendar: { limit: 1, unit: day }",
            "{ limit: -1 }",
            "override:1:10: limit: expected a whole number, found \"-1\"; use a whole number, at least 0",
        ),
        (
            "fixed: { limit: 1, window: 1m }",
            "window: 400d",
            "override:1:9: window: window 400d is not between 1us and 366d; use a span in that range, or `calendar` for years",
        ),
        (
            "rolling: { limit: 1, window: 1m }",
            "limit: 2000000",
            "override:1:8: limit: limit 2000000 is above 1048576, the largest this window can count; count in larger units",
        ),
        (
            "rate: 1/s",
            "[1]",
            "override:1:1: expected a mapping, found a list; write `key: value` without dashes and square brackets",
        ),
        (
            "rate: 1/s",
            "rate: ${HOME}",
            "override:1:7: rate: environment variable HOME is not set; set it, or give a default: ${HOME:-value}",
        ),
    ] {
        let problems = parse_numbers(&limit(algorithm), numbers).unwrap_err();
        assert_eq!(problems.to_string(), expected, "{algorithm} {numbers}");
    }
    for text in ["", "\0", "{", "a: *b", "{ rate: { a: b } }"] {
        assert!(parse_numbers(&limit("rate: 1/s"), text).is_err(), "{text:?}");
    }
}
