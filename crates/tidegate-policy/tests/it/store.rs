//! Where exact limits are kept: what may be asked for, and what is said about limits that do not fit.

use core::fmt::Write as _;
use core::time::Duration;

use tidegate::limit::Consistency;
use tidegate_policy::policy::{Durability, Embedded, StoreKind};

use crate::{assert_files, problems, settings, warnings};

fn embedded(text: &str) -> Embedded {
    match settings(&format!("store: {{ kind: embedded{text} }}")).store {
        StoreKind::Embedded(embedded) => embedded,
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
    assert_eq!(settings("store: {}\nlog: {}").store, StoreKind::Memory);
    assert_eq!(settings("store: { kind: memory }").store, StoreKind::Memory);
}

#[test]
fn a_store_that_is_none_says_what_to_do() {
    let long = "x".repeat(4097);
    assert_files(&[
        (
            "store: { kind: embeded }",
            &[
                "t.yaml:1:16: store.kind: \"embeded\" is not a value of this key; did you mean embedded? It is one of memory or embedded",
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
                "t.yaml:1:58: store.interval: interval \"100\" is not a span of time; add a unit, for example 100s",
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

/// A file whose every limit but one catches everybody.
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
fn a_quota_that_a_restart_forgets_is_warned_about() {
    let day = |name: &str| format!("{{ name: {name}, calendar: {{ limit: 1, unit: day }} }}");
    let many = [day("a"), day("b"), day("c"), day("d"), day("e")].join(", ");
    for (store, limits, expected) in [
        (
            "",
            day("a"),
            "t.yaml:1:30: namespaces.api.limits: a restart forgets quota \"a\"; use `store: { kind: embedded }`",
        ),
        (
            "",
            [day("a"), day("b")].join(", "),
            "t.yaml:1:30: namespaces.api.limits: a restart forgets quotas \"a\", \"b\"; use `store: { kind: embedded }`",
        ),
        (
            "",
            many,
            "t.yaml:1:30: namespaces.api.limits: a restart forgets quotas \"a\", \"b\", \"c\" and 2 more; use `store: { kind: embedded }`",
        ),
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
    assert_eq!(warnings(&file(EMBEDDED, &day("a"))), Vec::<String>::new());
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
    assert_eq!(settings(&file("", &exact(65))).namespaces[0].limits.len(), 66, "memory needs no batch");
}
