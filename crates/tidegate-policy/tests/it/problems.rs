//! Problems of configurations outside of limits: every kind with its exact text.

use crate::{assert_files, assert_limits, check, limit_problems, problems, with_limit};

#[test]
fn everything_wrong_with_a_file_is_said_at_once_where_it_stands() {
    let text = include_str!("many_problems.yaml");
    let said = problems(text);
    let expected: Vec<&str> = include_str!("many_problems.txt").lines().collect();
    assert_eq!(said, expected);
    // The fixture marks each line that has a problem, so that positions are checked against the eye
    // of its author.
    let marked: Vec<usize> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains("# wrong"))
        .map(|(index, _)| index + 1)
        .collect();
    let mut lines: Vec<usize> =
        said.iter().map(|line| line.split(':').nth(1).unwrap().parse().unwrap()).collect();
    lines.dedup();
    assert_eq!(lines, marked);
    assert!(said.len() >= 15);
}

#[test]
fn an_unknown_key_is_told_the_nearest_one() {
    assert_files(&[
        ("namespace: {}", &["t.yaml:1:1: namespace: unknown key \"namespace\"; did you mean `namespaces`?"]),
        (
            "zebra: 1",
            &[
                "t.yaml:1:1: zebra: unknown key \"zebra\"; use one of accounts, authorization, authorize, envoy_ratelimit, features, http, listen, log, memory, metering, namespaces, nodes, proxy, resources, rlqs, signals or store",
            ],
        ),
        (
            "memory: { when-full: admit }",
            &["t.yaml:1:11: memory.when-full: unknown key \"when-full\"; did you mean `when_full`?"],
        ),
        (
            "namespaces: { a: { <<: 1 } }",
            &[
                "t.yaml:1:20: namespaces.a.\"<<\": merge keys (\"<<\") are not part of YAML 1.2; use the alias for a whole value, or write the entries out",
            ],
        ),
    ]);
    assert_limits(&[
        ("{ name: a, rat: 1/s }", &[".rat: unknown key \"rat\"; did you mean `rate`?"]),
        ("{ nam: a, rate: 1/s }", &[".nam: unknown key \"nam\"; did you mean `name`?"]),
        (
            "{ name: a, fixed: { limit: 1, windw: 1s } }",
            &[".fixed.windw: unknown key \"windw\"; did you mean `window`?"],
        ),
    ]);
}

#[test]
fn what_is_designed_but_not_here_yet_is_not_taken_for_a_misspelling() {
    assert_files(&[
        (
            "listen: { http: { address: 127.0.0.1:1, tls: { cert: \"\" } } }",
            &[
                "t.yaml:1:46: listen.http.tls.key: `key` is missing; add `key:`, its private key",
                "t.yaml:1:54: listen.http.tls.cert: \"\" is not the path of a file; write a path of 1 to 4096 bytes",
            ],
        ),
        (
            "store: { kind: dynamodb }",
            &[
                "t.yaml:1:16: store.kind: \"dynamodb\" is not available in this version; use memory, embedded or redis",
            ],
        ),
    ]);
}

#[test]
fn a_wrong_type_says_what_was_expected() {
    assert_limits(&[
        ("text", &["expected a mapping, found \"text\"; write { name: .. }"]),
        ("[]", &["expected a mapping, found a list; write `key: value` without dashes and square brackets"]),
        (
            "{ name: a, rate: [1] }",
            &[".rate: expected text, found a list; remove the dashes or square brackets and keep one value"],
        ),
        (
            "{ name: a, rate: { x: 1 } }",
            &[
                ".rate: expected text, found a mapping; keep one value, and quote it if it contains `: ` or braces",
            ],
        ),
        ("{ name: a, rate: 1/s, key: user }", &[".key: expected a list, found \"user\"; write [user]"]),
        (
            "{ name: a, rate: 1/s, key: { user: x } }",
            &[".key: expected a list, found a mapping; put a dash before each entry of the list"],
        ),
        (
            "{ name: a, rate: 1/s, burst: many }",
            &[".burst: expected a whole number, found \"many\"; use a whole number, at least 0"],
        ),
        (
            "{ name: a, rate: 1/s, burst: 1.5 }",
            &[".burst: expected a whole number, found \"1.5\"; use a whole number, at least 0"],
        ),
        (
            "{ name: a, rate: 1/s, burst: -1 }",
            &[".burst: expected a whole number, found \"-1\"; use a whole number, at least 0"],
        ),
        (
            "{ name: a, rate: 1/s, burst: \"10\" }",
            &[".burst: expected a whole number, found the text \"10\"; remove the quotes"],
        ),
        (
            "{ name: a, rate: 1/s, burst: 99999999999999999999 }",
            &[".burst: 99999999999999999999 is out of range; use a whole number, at least 0"],
        ),
        (
            "{ name: a, rate: 1/s, status: 200 }",
            &[".status: 200 is out of range; use a whole number from 400 to 599"],
        ),
        (
            "{ name: a, rate: 1/s, mode: Enforce }",
            &[
                ".mode: \"Enforce\" is not a value of this key; did you mean enforce? It is one of enforce or shadow",
            ],
        ),
        (
            "{ name: a, rate: 1/s, mode: off }",
            &[".mode: \"off\" is not a value of this key; use enforce or shadow"],
        ),
        ("{ name: a, rate: }", &[".rate: there is no value; give one, or remove the key"]),
        ("{ name: ~, rate: 1/s }", &[".name: there is no value; give one, or remove the key"]),
        ("{ name: a, rate: !rate 1/s }", &[".rate: the tag !rate has no meaning here; remove the tag"]),
        ("{ rate: 1/s }", &[".name: `name` is missing; add `name:`, the name in answers, logs and metrics"]),
        (
            "{ name: a, rolling: { limit: 1 } }",
            &[".rolling.window: `window` is missing; add `window:`, the length of the window, 1us to 366d"],
        ),
        (
            "{ name: a, rate: 1/s, match: { a: { present: yes } } }",
            &[".match.a.present: expected true or false, found \"yes\"; write true"],
        ),
        (
            "{ name: a, rate: 1/s, match: { a: { present: \"false\" } } }",
            &[".match.a.present: expected true or false, found \"false\"; write false without quotes"],
        ),
    ]);
    assert_files(&[
        (
            "- a",
            &[
                "t.yaml:1:1: expected a mapping, found a list; write `key: value` without dashes and square brackets",
            ],
        ),
        (
            "just words",
            &["t.yaml:1:1: expected a mapping, found \"just words\"; write `key: value` entries under it"],
        ),
        (
            "namespaces:\n",
            &[
                "t.yaml:1:11: namespaces: there is no value; add a namespace below it, or write `namespaces: {}` for none",
            ],
        ),
    ]);
}

#[test]
fn a_duplicate_key_is_a_problem_and_the_first_one_is_checked() {
    assert_files(&[(
        "namespaces:\n  api:\n    limits:\n      - name: a\n        rate: 0/s\n        rate: 1/s\n",
        &[
            "t.yaml:6:9: namespaces.api.limits[0].rate: duplicate key \"rate\"; first defined at line 5; keep one of them",
        ],
    )]);
}

#[test]
fn a_listener_beyond_loopback_must_say_that_it_is_insecure() {
    assert_files(&[
        (
            "listen: { http: 0.0.0.0:80 }",
            &[
                "t.yaml:1:17: listen.http: 0.0.0.0:80 is reachable from other machines, and callers are not authenticated; listen on 127.0.0.1, write `authorization:`, set tls.client_ca, or write { address: \"0.0.0.0:80\", insecure: true } where a network or a proxy guards it",
            ],
        ),
        (
            "listen: { admin: { address: \"[::]:80\", insecure: false } }",
            &[
                "t.yaml:1:29: listen.admin.address: [::]:80 is reachable from other machines, and callers are not authenticated; listen on 127.0.0.1, write `authorization:`, set tls.client_ca, or write { address: \"[::]:80\", insecure: true } where a network or a proxy guards it",
            ],
        ),
        (
            "listen: { http: \":80\" }",
            &[
                "t.yaml:1:17: listen.http: \":80\" is not an address with a port; write 127.0.0.1:80, or 0.0.0.0:80 for all",
            ],
        ),
        (
            "listen: { http: localhost:80 }",
            &["t.yaml:1:17: listen.http: \"localhost:80\" is not an address with a port; write 127.0.0.1:80"],
        ),
        (
            "listen: { http: 80 }",
            &["t.yaml:1:17: listen.http: \"80\" is not an address with a port; write 127.0.0.1:80"],
        ),
        ("store: redis", &["t.yaml:1:8: store: expected a mapping, found \"redis\"; write { kind: redis }"]),
        (
            "store: here",
            &["t.yaml:1:8: store: expected a mapping, found \"here\"; write `key: value` entries under it"],
        ),
        (
            "listen: { http: 127.0.0.1:99999 }",
            &[
                "t.yaml:1:17: listen.http: port 99999 of \"127.0.0.1:99999\" is out of range; use a port up to 65535; with 0 the system chooses a free one",
            ],
        ),
        (
            "listen: { http: 10.0.0.1 }",
            &[
                "t.yaml:1:17: listen.http: \"10.0.0.1\" is not an address with a port; add a port: 10.0.0.1:8080",
            ],
        ),
        (
            "listen: { http: \"::1\" }",
            &["t.yaml:1:17: listen.http: \"::1\" is not an address with a port; add a port: \"[::1]:8080\""],
        ),
        (
            "listen: { http: example.com:http }",
            &[
                "t.yaml:1:17: listen.http: \"example.com:http\" is not an address with a port; write an IP address and a port, for example 127.0.0.1:8080 or \"[::1]:8080\"",
            ],
        ),
        (
            "listen: { http: \"unix:\" }",
            &[
                "t.yaml:1:17: listen.http: \"unix:\" is not the path of a Unix socket; write unix: and a path of 1 to 103 bytes",
            ],
        ),
        (
            "listen: { admin: unix:/run/a.sock }",
            &[
                "t.yaml:1:18: listen.admin: a Unix socket is only available for http, proxy, grpc and resp; use an address with a port, for example 127.0.0.1:8082",
            ],
        ),
    ]);
    assert_eq!(
        problems("listen: { http: 127.0.0.1:80, admin: 127.0.0.1:80 }"),
        [
            "t.yaml:1:38: listen.admin: admin listens on 127.0.0.1:80 as http does; use another port, or remove `admin` to serve it on the http listener"
        ]
    );
    assert_eq!(
        problems("listen: { admin: 127.0.0.1:8080 }"),
        [
            "t.yaml:1:18: listen.admin: admin listens on 127.0.0.1:8080 as http does; use another port, or remove `admin` to serve it on the http listener"
        ]
    );
}

#[test]
fn sizes_times_and_counts_stay_in_their_bounds() {
    assert_files(&[
        (
            "memory: { keys: 4KiB }",
            &["t.yaml:1:17: memory.keys: keys \"4KiB\" is too small; use a size from 1MiB to 1TiB"],
        ),
        (
            "memory: { keys: 2TiB }",
            &["t.yaml:1:17: memory.keys: keys \"2TiB\" is too large; use a size from 1MiB to 1TiB"],
        ),
        (
            "memory: { keys: 256MB }",
            &[
                "t.yaml:1:17: memory.keys: keys \"256MB\" is not a size; write a whole number with B, KiB, MiB, GiB or TiB, for example 256MiB",
            ],
        ),
        (
            "metering: { history: 63KiB }",
            &["t.yaml:1:22: metering.history: history \"63KiB\" is too small; use a size from 64KiB to 1TiB"],
        ),
        (
            "metering: { history: on }",
            &[
                "t.yaml:1:22: metering.history: history \"on\" is not a size; write a whole number with B, KiB, MiB, GiB or TiB, for example 256MiB",
            ],
        ),
        (
            "metering: { tenants: 1000001 }",
            &["t.yaml:1:22: metering.tenants: 1000001 is out of range; use a whole number from 0 to 1000000"],
        ),
        (
            "http: { bounds: { body: 1GiB } }",
            &["t.yaml:1:25: http.bounds.body: body \"1GiB\" is too large; use a size from 1KiB to 64MiB"],
        ),
        (
            "http: { bounds: { headers: 1KiB } }",
            &[
                "t.yaml:1:28: http.bounds.headers: headers \"1KiB\" is too small; use a size from 8KiB to 1MiB",
            ],
        ),
        (
            "http: { bounds: { attribute: 1B } }",
            &[
                "t.yaml:1:30: http.bounds.attribute: attribute \"1B\" is too small; use a size from 16B to 64KiB",
            ],
        ),
        (
            "http: { bounds: { attributes: 65 } }",
            &["t.yaml:1:31: http.bounds.attributes: 65 is out of range; use a whole number from 1 to 64"],
        ),
        (
            "http: { bounds: { connections: 0 } }",
            &[
                "t.yaml:1:32: http.bounds.connections: 0 is out of range; use a whole number from 1 to 1000000",
            ],
        ),
        (
            "http: { bounds: { request_timeout: 1ms } }",
            &[
                "t.yaml:1:36: http.bounds.request_timeout: request_timeout \"1ms\" is out of range; use a span from 10ms to 1h",
            ],
        ),
        (
            "http: { bounds: { drain_timeout: 2h } }",
            &[
                "t.yaml:1:34: http.bounds.drain_timeout: drain_timeout \"2h\" is out of range; use a span from 0s to 1h",
            ],
        ),
        ("log: { refusals: 0/s }", &["t.yaml:1:18: log.refusals: \"0/s\" writes no line; write off"]),
        (
            "log: { refusals: all }",
            &[
                "t.yaml:1:18: log.refusals: rate \"all\" is not written as units/span; write for example 100/s, 5/10m or 1000/1d",
            ],
        ),
    ]);
}

#[test]
fn authorize_names_headers_attributes_and_a_namespace_that_exist() {
    let with = |authorize: &str| format!("namespaces: {{ api: {{ limits: [] }} }}\nauthorize: {authorize}");
    for (authorize, expected) in [
        (
            "{ namespace: apo }",
            "t.yaml:2:25: authorize.namespace: namespace \"apo\" is not under `namespaces:`; did you mean api?",
        ),
        (
            "{ namespace: other }",
            "t.yaml:2:25: authorize.namespace: namespace \"other\" is not under `namespaces:`; add it there, or name one that is",
        ),
        (
            "{ headers: { \"x y\": user } }",
            "t.yaml:2:25: authorize.headers.\"x y\": \"x y\" is not the name of a header; use letters, digits and dashes, for example x-api-key",
        ),
        (
            "{ headers: { x-user: u, X-User: v } }",
            "t.yaml:2:25: authorize.headers.x-user: duplicate header \"x-user\" (names ignore case); keep one of them",
        ),
        (
            "{ headers: { x-a: u, x-b: u } }",
            "t.yaml:2:38: authorize.headers.x-b: attribute \"u\" is already set by header \"x-a\"; keep one of the headers, or use another attribute",
        ),
        (
            "{ headers: { x-a: \"\" } }",
            "t.yaml:2:30: authorize.headers.x-a: the name of the attribute is empty; give it one",
        ),
    ] {
        assert_eq!(problems(&with(authorize)), [expected], "{authorize}");
    }
}

#[test]
fn a_variable_that_is_not_set_is_a_problem() {
    assert_files(&[
        (
            "listen: { http: \"127.0.0.1:${NOPE}\" }",
            &[
                "t.yaml:1:17: listen.http: environment variable NOPE is not set; set it, or give a default: ${NOPE:-value}",
            ],
        ),
        (
            "log: { level: \"${LEVEL\" }",
            &[
                "t.yaml:1:15: log.level: `${` is not closed; close it with `}`, or write `$${` for the two characters themselves",
            ],
        ),
        (
            "log: { level: \"${a-b}\" }",
            &[
                "t.yaml:1:15: log.level: \"a-b\" is not the name of an environment variable; write ${NAME} or ${NAME:-default}, or `$${` for the two characters themselves",
            ],
        ),
    ]);
}

#[test]
fn what_follows_from_a_problem_is_not_reported_as_another() {
    // No "no algorithm" for a misspelt `rate`, no "missing" for a misspelt `name`, no empty name
    // either.
    assert_eq!(limit_problems("{ nam: a, rat: 1/s }").len(), 2);
    // A wrong zone is said once, not for each override too.
    let limit = "{ name: a, key: [u], calendar: { limit: 1, unit: day, zone: X }, overrides: [{ u: a, limit: 2 }, { u: b, limit: 3 }] }";
    assert_eq!(limit_problems(limit).len(), 1);
}

#[test]
fn a_file_with_very_many_problems_is_told_the_first_hundred() {
    let limits = "{ name: a, rat: 1/s }, ".repeat(5_000);
    let problems = check(&with_limit(&limits)).unwrap_err();
    assert_eq!(problems.problems.len(), tidegate_policy::PROBLEMS_MAX);
    assert!(problems.truncated);
    assert!(problems.to_string().ends_with("\nand perhaps more; fix these first"));
    // Positions are looked up in the file for those only, or this would take minutes.
    let attributes = (0..50_000).map(|index| format!("a{index}: x")).collect::<Vec<_>>().join(", ");
    let limit = format!("{{ name: a, key: [u], rate: 1/s, overrides: [{{ {attributes} }}] }}");
    assert_eq!(check(&with_limit(&limit)).unwrap_err().problems.len(), tidegate_policy::PROBLEMS_MAX);
    let limits = "{ name: a, rate: 0/s }, ".repeat(1_000);
    let problems = check(&with_limit(&limits)).unwrap_err();
    assert_eq!(problems.problems.len(), tidegate_policy::PROBLEMS_MAX);
}

#[test]
fn problems_are_data_too() {
    let problems = check("log: { level: \"${NOPE}\" }").unwrap_err();
    assert_eq!(
        serde_json::to_value(&problems).unwrap(),
        serde_json::json!({
            "problems": [{
                "file": "t.yaml",
                "path": "log.level",
                "line": 1,
                "column": 15,
                "value": "${NOPE}",
                "what": "environment variable NOPE is not set",
                "fix": "set it, or give a default: ${NOPE:-value}",
            }],
            "truncated": false,
        })
    );
}
