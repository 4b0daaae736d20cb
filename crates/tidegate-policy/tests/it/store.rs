//! Where exact limits are kept: what may be asked for, and what is said about limits that do not
//! fit.

use core::fmt::Write as _;
use core::time::Duration;

use tidegate_core::limit::Consistency;
use tidegate_policy::policy::{Durability, Embedded, Redis, RedisTls, StoreChoice, StoreKind};

use crate::{assert_files, problems, settings, warnings};

fn embedded(text: &str) -> Embedded {
    match settings(&format!("store: {{ kind: embedded{text} }}")).store {
        StoreChoice::Named(StoreKind::Embedded(embedded)) => embedded,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_embedded_store_is_in_a_directory_and_syncs_unless_told_otherwise() {
    let plain = embedded("");
    assert_eq!((plain.path.as_str(), plain.durability), ("./tidegate-data", Durability::Sync));
    assert_eq!(plain.memory_bytes, 64 << 20);
    assert_eq!(embedded(", durability: sync"), plain);
    let given = embedded(", path: /var/lib/t, durability: interval, interval: 1m, memory: 1MiB");
    assert_eq!(given.path, "/var/lib/t");
    assert_eq!(given.durability, Durability::Interval(Duration::from_mins(1)));
    assert_eq!(given.memory_bytes, 1 << 20);
    assert_eq!(
        embedded(", durability: interval").durability,
        Durability::Interval(Duration::from_millis(100))
    );
}

/// The store that `text` leads to where no file of `envoy_ratelimit` has a quota.
fn kind(text: &str) -> StoreKind {
    let policy = settings(text);
    policy.store.kind(policy.quotas().next().is_some())
}

#[test]
fn a_policy_with_quotas_that_names_no_store_keeps_them_in_files() {
    for limit in [
        "rate: 1/h",
        "fixed: { limit: 1, window: 1h }",
        "rolling: { limit: 1, window: 1d }",
        "rolling: { limit: 1, window: 1h, accuracy: approximate }",
        "calendar: { limit: 1, unit: hour }",
        "calendar: { limit: 1, unit: year }",
        "calendar: { limit: 1, unit: day }, mode: shadow",
        "rate: 1/h, consistency: leased",
    ] {
        let text = file("", &format!("{{ name: a, {limit} }}"));
        let StoreKind::Embedded(embedded) = kind(&text) else { panic!("{limit} is kept in memory") };
        assert_eq!(embedded, self::embedded(""), "{limit}");
        assert_eq!(kind(&format!("store: {{}}\n{text}")), StoreKind::Embedded(embedded), "{limit}");
        assert_eq!(kind(&format!("store: {{ kind: memory }}\n{text}")), StoreKind::Memory, "{limit}");
        assert_eq!(warnings(&text), Vec::<String>::new(), "{limit}");
    }
}

#[test]
fn a_policy_without_a_quota_that_a_store_would_keep_is_kept_in_memory() {
    for limit in [
        "rate: 1000/59m",
        "rate: 1/s, consistency: exact",
        "fixed: { limit: 1, window: 1m }",
        "concurrency: { limit: 1, hold: 2h }",
        "rate: 1/h, consistency: local",
        "rate: 10/h, share: 1/2",
    ] {
        assert_eq!(kind(&file("", &format!("{{ name: a, {limit} }}"))), StoreKind::Memory, "{limit}");
    }
    assert_eq!(kind("log: {}"), StoreKind::Memory);
    let choice = settings("envoy_ratelimit: { path: ./limits }").store;
    assert_eq!(choice.kind(false), StoreKind::Memory);
    assert_eq!(choice.kind(true), StoreKind::Embedded(embedded("")), "its files have quotas");
}

#[test]
fn the_default_directory_is_the_first_that_systemd_has_made() {
    for (variable, expected) in [
        (None, "./tidegate-data"),
        (Some(""), "./tidegate-data"),
        (Some(":"), "./tidegate-data"),
        (Some("/var/lib/tidegate"), "/var/lib/tidegate"),
        (Some("/var/lib/a:/var/lib/b"), "/var/lib/a"),
    ] {
        let parse = |text: &str| {
            let env = |name: &str| variable.filter(|_| name == "STATE_DIRECTORY").map(str::to_owned);
            tidegate_policy::parse("t.yaml", text, &env).unwrap().policy
        };
        for store in ["", "store: { kind: embedded }\n"] {
            let policy = parse(&file(store, "{ name: a, rate: 1/h }"));
            let StoreKind::Embedded(embedded) = policy.store.kind(true) else { panic!("{store}") };
            assert_eq!(embedded.path, expected, "{variable:?}");
            let earlier = (expected != "./tidegate-data").then(|| "./tidegate-data".to_owned());
            assert_eq!(embedded.earlier_path, earlier, "{variable:?}");
        }
        let StoreKind::Embedded(named) = parse("store: { kind: embedded, path: d }").store.kind(false) else {
            panic!("it names a directory")
        };
        assert_eq!((named.path.as_str(), named.earlier_path), ("d", None), "{variable:?}");
    }
}

#[test]
fn the_members_to_assume_are_one_to_ten_thousand() {
    assert_eq!(redis("urls: [redis://h]").members, 1);
    for members in [1, 2, 10_000] {
        assert_eq!(redis(&format!("urls: [redis://h], members: {members}")).members, members);
    }
    assert_files(&[
        (
            "store: { kind: redis, urls: [redis://h], members: 0 }",
            &["t.yaml:1:51: store.members: 0 is out of range; use a whole number from 1 to 10000"],
        ),
        (
            "store: { kind: redis, urls: [redis://h], members: 10001 }",
            &["t.yaml:1:51: store.members: 10001 is out of range; use a whole number from 1 to 10000"],
        ),
        (
            "store: { kind: embedded, members: 3 }",
            &[
                "t.yaml:1:26: store.members: `members` belongs to `kind: redis`; use `kind: redis`, or remove `members`",
            ],
        ),
        (
            "store: { members: 3 }",
            &[
                "t.yaml:1:10: store.members: `members` belongs to `kind: redis`; use `kind: redis`, or remove `members`",
            ],
        ),
    ]);
}

fn redis(text: &str) -> Redis {
    match settings(&format!("store: {{ kind: redis, {text} }}")).store {
        StoreChoice::Named(StoreKind::Redis(redis)) => redis,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shared_store_is_one_server_or_a_cluster() {
    let plain = redis("urls: [redis://h:6379]");
    assert_eq!((&plain.urls[..], plain.cluster), (&["redis://h:6379".to_owned()][..], false));
    assert_eq!((plain.prefix.as_str(), plain.deadline), ("tidegate:", Duration::from_millis(50)));
    assert_eq!((plain.username, plain.password_file, plain.tls), (None, None, RedisTls::default()));
    let given = redis(
        "urls: [rediss://a:1/2, rediss://b:1], cluster: true, username: t, password_file: /p, prefix: x, deadline: 1ms, \
         tls: { ca: ca.pem, cert: c.pem, key: k.pem }",
    );
    assert!(given.cluster && given.urls.len() == 2);
    assert_eq!((given.username.as_deref(), given.password_file.as_deref()), (Some("t"), Some("/p")));
    assert_eq!((given.prefix.as_str(), given.deadline), ("x", Duration::from_millis(1)));
    assert_eq!(given.tls.ca.as_deref(), Some("ca.pem"));
    assert_eq!(given.tls.client, Some(("c.pem".to_owned(), "k.pem".to_owned())));
    assert_eq!(redis("urls: [unix:///run/redis.sock]").urls, ["unix:///run/redis.sock"]);
}

#[test]
fn a_shared_store_that_cannot_be_reached_as_it_is_written_says_what_to_do() {
    let many = vec!["redis://h"; 65].join(", ");
    for (text, expected) in [
        (
            "",
            "t.yaml:1:8: store: `kind: redis` needs `urls`; add for example `urls: [redis://127.0.0.1:6379]`",
        ),
        (
            "urls: []",
            "t.yaml:1:29: store.urls: `kind: redis` needs `urls`; add for example `urls: [redis://127.0.0.1:6379]`",
        ),
        (
            "urls: [redis://a, redis://b]",
            "t.yaml:1:29: store.urls: there are 2 addresses, and a single server has one; add `cluster: true`, or leave one address",
        ),
        (
            &format!("cluster: true, urls: [{many}]"),
            "t.yaml:1:44: store.urls: there are 65 addresses; use at most 64",
        ),
        (
            "urls: [\"127.0.0.1:6379\"]",
            "t.yaml:1:30: store.urls[0]: \"127.0.0.1:6379\" is not the address of a server; write redis://host:port, rediss://host:port with TLS, or unix:///path",
        ),
        (
            "urls: [\"http://h\"]",
            "t.yaml:1:30: store.urls[0]: \"http://h\" is not the address of a server; write redis://host:port, rediss://host:port with TLS, or unix:///path",
        ),
        (
            "urls: [\"redis://u:secret@h\"]",
            "t.yaml:1:30: store.urls[0]: an address of redis:// holds credentials, which would be shown; use `username` and `password_file`",
        ),
        (
            "cluster: true, urls: [\"unix:///run/r\"]",
            "t.yaml:1:45: store.urls[0]: the nodes of a cluster cannot be reached over a Unix socket; write redis://host:port or rediss://host:port",
        ),
        (
            "urls: [redis://h], prefix: \"{a}\"",
            "t.yaml:1:50: store.prefix: prefix \"{a}\" contains a brace, by which a cluster would place all keys; leave it out",
        ),
        (
            "urls: [redis://h], username: \"\"",
            "t.yaml:1:52: store.username: username \"\" cannot be used; write 1 to 128 bytes without control characters",
        ),
        (
            "urls: [redis://h], deadline: 11s",
            "t.yaml:1:52: store.deadline: deadline \"11s\" is out of range; use a span from 1ms to 10s",
        ),
        (
            "urls: [redis://h], tls: { cert: c }",
            "t.yaml:1:47: store.tls: there is `cert` and no `key`; give both, or none",
        ),
        (
            "urls: [redis://h], password_file: \"\"",
            "t.yaml:1:57: store.password_file: \"\" is not the path of a file; write a path of 1 to 4096 bytes",
        ),
        (
            "urls: [redis://h], path: d",
            "t.yaml:1:42: store.path: `path` belongs to `kind: embedded`; use `kind: embedded`, or remove `path`",
        ),
    ] {
        let file = format!("store: {{ kind: redis, {text} }}");
        assert_files(&[(&file, &[expected])]);
        assert!(!problems(&file).iter().any(|problem| problem.contains("secret")), "a password is not shown");
    }
    assert_files(&[(
        "store: { kind: embedded, urls: [redis://h], deadline: 1s }",
        &[
            "t.yaml:1:26: store.urls: `urls` belongs to `kind: redis`; use `kind: redis`, or remove `urls`",
            "t.yaml:1:45: store.deadline: `deadline` belongs to `kind: redis`; use `kind: redis`, or remove `deadline`",
        ],
    )]);
}

#[test]
fn a_store_that_is_none_says_what_to_do() {
    let long = "x".repeat(4097);
    assert_files(&[
        (
            "store: { kind: embeded }",
            &[
                "t.yaml:1:16: store.kind: \"embeded\" is not a value of this key; did you mean embedded? It is one of memory, embedded or redis",
            ],
        ),
        ("store: { knd: memory }", &["t.yaml:1:10: store.knd: unknown key \"knd\"; did you mean `kind`?"]),
        (
            "store: { path: d }",
            &[
                "t.yaml:1:10: store.path: `path` belongs to `kind: embedded`; use `kind: embedded`, or remove `path`",
            ],
        ),
        (
            "store: { kind: memory, durability: sync, interval: 1s, memory: 1MiB }",
            &[
                "t.yaml:1:24: store.durability: `durability` belongs to `kind: embedded`; use `kind: embedded`, or remove `durability`",
                "t.yaml:1:42: store.interval: `interval` belongs to `kind: embedded`; use `kind: embedded`, or remove `interval`",
                "t.yaml:1:56: store.memory: `memory` belongs to `kind: embedded`; use `kind: embedded`, or remove `memory`",
            ],
        ),
        (
            "store: { kind: embedded, interval: 1s }",
            &[
                "t.yaml:1:26: store.interval: `interval` belongs to `durability: interval`; use `durability: interval`, or remove `interval`",
            ],
        ),
        (
            "store: { kind: embedded, durability: always }",
            &["t.yaml:1:38: store.durability: \"always\" is not a value of this key; use sync or interval"],
        ),
        (
            "store: { kind: embedded, durability: interval, interval: 999us }",
            &["t.yaml:1:58: store.interval: interval \"999us\" is out of range; use a span from 1ms to 1m"],
        ),
        (
            "store: { kind: embedded, durability: interval, interval: 61s }",
            &["t.yaml:1:58: store.interval: interval \"61s\" is out of range; use a span from 1ms to 1m"],
        ),
        (
            "store: { kind: embedded, durability: interval, interval: 100 }",
            &[
                "t.yaml:1:58: store.interval: interval \"100\" is not a span of time; add a unit, for example 100ms or 100s",
            ],
        ),
        (
            "store: { kind: embedded, memory: 1KiB }",
            &["t.yaml:1:34: store.memory: memory \"1KiB\" is too small; use a size from 1MiB to 1TiB"],
        ),
        (
            "store: { kind: embedded, memory: 2TiB }",
            &["t.yaml:1:34: store.memory: memory \"2TiB\" is too large; use a size from 1MiB to 1TiB"],
        ),
        (
            "store: { kind: embedded, path: \"\" }",
            &["t.yaml:1:32: store.path: the path of the store is empty; give one"],
        ),
        (
            "store: { kind: embedded, path: \"a\\0b\" }",
            &[
                "t.yaml:1:32: store.path: the path of the store, \"a\\u{0}b\", contains control characters; remove them",
            ],
        ),
        (
            &format!("store: {{ kind: embedded, path: {long} }}"),
            &["t.yaml:1:32: store.path: the path of the store has 4097 bytes; use at most 4096"],
        ),
    ]);
}

const EMBEDDED: &str = "store: { kind: embedded }\n";

/// A file in which all limits but one apply to every request.
fn file(store: &str, limits: &str) -> String {
    format!("{store}namespaces: {{ api: {{ limits: [ {{ name: all, rate: 1/s }}, {limits} ] }} }}")
}

#[test]
fn a_limit_over_an_hour_or_longer_is_exact_unless_told_otherwise() {
    let consistency = |limit: &str| {
        let text = file("", &format!("{{ name: a, {limit} }}"));
        settings(&text).namespaces[0].limits[1].consistency
    };
    for (limit, expected) in [
        ("calendar: { limit: 1, unit: day }", Consistency::Exact),
        ("calendar: { limit: 1, unit: minute }", Consistency::Local),
        ("rate: 1/h", Consistency::Exact),
        ("rate: 1/59m", Consistency::Local),
        ("rolling: { limit: 1, window: 1h }", Consistency::Exact),
        ("fixed: { limit: 1, window: 1d }", Consistency::Exact),
        ("concurrency: { limit: 1, hold: 2h }", Consistency::Local),
        ("rate: 1/h, consistency: local", Consistency::Local),
        ("rate: 10/h, share: 1/2", Consistency::Local),
        ("rate: 1/s, consistency: exact", Consistency::Exact),
    ] {
        assert_eq!(consistency(limit), expected, "{limit}");
    }
}

#[test]
fn a_quota_that_a_restart_forgets_although_there_is_a_store_is_warned_about() {
    for (store, limits, expected) in [
        (
            EMBEDDED,
            "{ name: a, rate: 1/h, consistency: local }".to_owned(),
            "t.yaml:2:93: namespaces.api.limits[1].consistency: a restart forgets quota \"a\", because no store keeps it; use `consistency: exact`",
        ),
        (
            EMBEDDED,
            "{ name: a, rate: 9/h, share: 1/3 }".to_owned(),
            "t.yaml:2:87: namespaces.api.limits[1].share: a restart forgets quota \"a\", because no store keeps it; remove `share`",
        ),
    ] {
        assert_eq!(warnings(&file(store, &limits)), [expected], "{store}{limits}");
    }
    let day = "{ name: a, calendar: { limit: 1, unit: day } }";
    for store in ["", EMBEDDED, "store: { kind: memory }\n"] {
        assert_eq!(warnings(&file(store, day)), Vec::<String>::new(), "{store}");
    }
    assert_eq!(warnings(&file("", "{ name: a, rate: 1/m }")), Vec::<String>::new());
}

#[test]
fn a_request_never_asks_the_store_for_more_than_one_batch_holds() {
    let exact = |count: usize| {
        let mut limits = String::new();
        for index in 0..count {
            write!(limits, "{{ name: q{index}, rate: 1/h }}, ").unwrap();
        }
        limits
    };
    assert_eq!(settings(&file(EMBEDDED, &exact(64))).namespaces[0].limits.len(), 65);
    assert_eq!(
        problems(&file(EMBEDDED, &exact(65))),
        [
            "t.yaml:2:30: namespaces.api.limits: 65 limits of one namespace are exact; use at most 64, since a request may ask for all of them at once; make some `consistency: local`, or split the namespace"
        ]
    );
    assert_eq!(problems(&file("", &exact(65))).len(), 1, "quotas are kept in files");
    let memory = file("store: { kind: memory }\n", &exact(65));
    assert_eq!(settings(&memory).namespaces[0].limits.len(), 66, "memory needs no batch");
}
