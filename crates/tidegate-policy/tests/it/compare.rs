//! Comparisons of a policy with the policy that replaces it.

use tidegate_policy::Fate::{self, Added, Forgotten, Kept, Renamed};
use tidegate_policy::{Change, Comparison, compare};

use crate::{settings, with_limit};

/// Limits with the name each had, empty for none.
type Names<'a> = &'a [(&'a str, &'a str)];
/// Limits with what becomes of each and the name it had.
type Fates<'a> = &'a [(&'a str, Fate, Option<&'a str>)];

fn of(old: &str, new: &str) -> Comparison {
    compare(&settings(old), &settings(new))
}

fn limits(old: &str, new: &str) -> Comparison {
    of(&with_limit(old), &with_limit(new))
}

/// Each limit with its fate and the name it had.
fn fates(comparison: &Comparison) -> Vec<(&str, Fate, Option<&str>)> {
    comparison.limits.iter().map(|limit| (limit.limit.as_str(), limit.fate, limit.was.as_deref())).collect()
}

#[test]
fn a_policy_compared_with_itself_keeps_everything() {
    let text = with_limit("{ name: a, key: [u], rate: 1/s, burst: 3 }, { name: b, was: c, rate: 1/s }");
    let comparison = of(&text, &text);
    assert_eq!(fates(&comparison), [("a", Fate::Kept, None), ("b", Fate::Kept, None)]);
    assert!(comparison.settings.is_empty());
    assert_eq!((comparison.forgotten(), comparison.to_string().as_str()), (0, "limits: 2 kept\n"));
}

#[test]
fn other_numbers_keep_the_counters_and_are_told_in_the_words_of_a_policy() {
    for (old, new, expected) in [
        (
            "rate: 100/s, burst: 200",
            "rate: 200/s, burst: 400",
            ("rate: 100/s, burst: 200", "rate: 200/s, burst: 400"),
        ),
        (
            "rolling: { limit: 3, window: 1m }",
            "rolling: { limit: 3, window: 2m }",
            ("rolling: { limit: 3, window: 1m }", "rolling: { limit: 3, window: 2m }"),
        ),
        (
            "fixed: { limit: 3, window: 1m }",
            "fixed: { limit: 4, window: 1m }",
            ("fixed: { limit: 3, window: 1m }", "fixed: { limit: 4, window: 1m }"),
        ),
        (
            "calendar: { limit: 10, unit: day }",
            "calendar: { limit: 20, unit: day }",
            ("calendar: { limit: 10, unit: day }", "calendar: { limit: 20, unit: day }"),
        ),
        (
            "calendar: { limit: 10, unit: day }",
            "calendar: { limit: 10, unit: day, zone: Asia/Tokyo }",
            ("calendar: { limit: 10, unit: day }", "calendar: { limit: 10, unit: day, zone: Asia/Tokyo }"),
        ),
        (
            "concurrency: { limit: 3, hold: 1s }",
            "concurrency: { limit: 3, hold: 2s }",
            ("concurrency: { limit: 3, hold: 1s }", "concurrency: { limit: 3, hold: 2s }"),
        ),
    ] {
        let comparison = limits(&format!("{{ name: a, {old} }}"), &format!("{{ name: a, {new} }}"));
        let limit = &comparison.limits[0];
        let numbers = limit.numbers.as_ref().unwrap();
        assert_eq!(limit.fate, Fate::NumbersChanged);
        assert_eq!((numbers.old.as_str(), numbers.new.as_str()), expected);
    }
}

#[test]
fn what_is_part_of_the_identity_starts_fresh_and_is_named() {
    for (old, new, part) in [
        ("key: [u], rate: 1/s", "key: [u, v], rate: 1/s", "key: [u] -> [u, v]"),
        ("key: [u, v], rate: 1/s", "key: [v, u], rate: 1/s", "key: [u, v] -> [v, u]"),
        (
            "key: [ip], rate: 1/s",
            "key: [{ attribute: ip, ipv6_prefix: 48 }], rate: 1/s",
            "key: [ip] -> [{ attribute: ip, ipv6_prefix: 48 }]",
        ),
        ("rate: 1/s", "fixed: { limit: 1, window: 1s }", "algorithm: rate -> fixed"),
        (
            "rolling: { limit: 1, window: 1s }",
            "rolling: { limit: 1, window: 1s, accuracy: approximate }",
            "algorithm: rolling -> rolling, approximate",
        ),
        ("fixed: { limit: 1, window: 1m }", "fixed: { limit: 1, window: 2m }", "window: 1m -> 2m"),
        (
            "fixed: { limit: 1, window: 1m }",
            "fixed: { limit: 1, window: 1m, start: first_hit }",
            "start: epoch -> first_hit",
        ),
        ("calendar: { limit: 1, unit: day }", "calendar: { limit: 1, unit: week }", "unit: day -> week"),
    ] {
        let comparison = limits(&format!("{{ name: a, {old} }}"), &format!("{{ name: a, {new} }}"));
        let limit = &comparison.limits[0];
        assert_eq!(limit.fate, Fate::StartsFresh, "{old} {new}");
        let [one] = limit.identity.as_slice() else { panic!("{:?}", limit.identity) };
        assert_eq!(format!("{}: {} -> {}", one.what, one.old, one.new), part);
        assert_eq!(comparison.forgotten(), 1);
    }
}

#[test]
fn a_counter_that_moves_between_the_process_and_the_store_starts_fresh() {
    let file = |store: &str, consistency: &str| {
        format!(
            "store: {{ kind: {store} }}\n{}",
            with_limit(&format!("{{ name: a, rate: 1/s, consistency: {consistency} }}"))
        )
    };
    let moved = of(&file("embedded", "local"), &file("embedded", "exact"));
    assert_eq!(moved.limits[0].identity[0].what, "consistency");
    let unmoved = of(&file("memory", "local"), &file("memory", "exact"));
    assert_eq!(
        (unmoved.limits[0].fate, told(&unmoved.limits[0].rules)),
        (Fate::Kept, vec!["consistency: local -> exact".to_owned()])
    );
}

#[test]
fn names_that_are_passed_on_take_their_counters_along() {
    let file = |limits: &[(&str, &str)]| {
        let one = |(name, was): &(&str, &str)| match *was {
            "" => format!("{{ name: {name}, rate: 1/s }}"),
            was => format!("{{ name: {name}, was: {was}, rate: 1/s }}"),
        };
        with_limit(&limits.iter().map(one).collect::<Vec<_>>().join(", "))
    };
    let cases: [(Names<'_>, Names<'_>, Fates<'_>); 9] = [
        (&[("a", "")], &[("b", "a")], &[("b", Renamed, Some("a"))]),
        (&[("b", "a")], &[("b", "a")], &[("b", Kept, None)]),
        (&[("b", "a")], &[("b", "")], &[("b", Kept, None)]),
        (&[("b", "a")], &[("c", "b")], &[("c", Renamed, Some("b"))]),
        (
            &[("a", ""), ("b", "")],
            &[("a", "b"), ("b", "a")],
            &[("a", Renamed, Some("b")), ("b", Renamed, Some("a"))],
        ),
        (&[("a", "b"), ("b", "a")], &[("a", "b"), ("b", "a")], &[("a", Kept, None), ("b", Kept, None)]),
        // It has counters of its own and keeps those.
        (&[("a", ""), ("b", "")], &[("b", "a")], &[("b", Kept, None), ("a", Forgotten, None)]),
        (&[("a", "")], &[("b", "nothing")], &[("b", Added, None), ("a", Forgotten, None)]),
        (
            &[("a", ""), ("b", ""), ("c", "")],
            &[("b", "a"), ("c", "b"), ("d", "c")],
            &[("b", Renamed, Some("a")), ("c", Renamed, Some("b")), ("d", Renamed, Some("c"))],
        ),
    ];
    for (old, new, expected) in cases {
        let comparison = of(&file(old), &file(new));
        assert_eq!(fates(&comparison), expected, "{old:?} {new:?}");
    }
}

#[test]
fn a_limit_that_starts_fresh_is_told_with_its_numbers() {
    for (old, new, expected) in [
        (
            "key: [u], fixed: { limit: 5, window: 15m }",
            "key: [u], fixed: { limit: 8, window: 16m }",
            "window: 15m -> 16m; fixed: { limit: 5, window: 15m } -> fixed: { limit: 8, window: 16m }",
        ),
        (
            "key: [u], rate: 100/s",
            "key: [u, v], rate: 130/s",
            "key: [u] -> [u, v]; rate: 100/s -> rate: 130/s",
        ),
    ] {
        let comparison = limits(&format!("{{ name: a, {old} }}"), &format!("{{ name: a, {new} }}"));
        assert!(comparison.to_string().contains(expected), "{comparison}");
    }
}

#[test]
fn a_change_is_told_wherever_in_a_value_it_stands() {
    let of_match = |text: &str| format!("{{ name: a, rate: 1/s, match: {{ m: {text} }} }}");
    let (long, many) = ("x".repeat(200), "[a, b, c, d, e, f, g, h, i, ");
    for (old, new) in [
        (format!("{many}j]"), format!("{many}k]")),
        (format!("{{ glob: \"{long}*\" }}"), format!("{{ glob: \"{long}y*\" }}")),
    ] {
        let comparison = limits(&of_match(&old), &of_match(&new));
        assert_eq!(comparison.limits[0].rules.len(), 1, "{comparison}");
        let costs = |text: &str| {
            format!("namespaces: {{ api: {{ costs: [{{ match: {{ m: {text} }}, cost: 2 }}] }} }}")
        };
        assert_eq!(of(&costs(&old), &costs(&new)).settings.len(), 1);
    }
    let zone = |zone: &str| {
        format!(
            "{{ name: a, key: [u], calendar: {{ limit: 9, unit: day, zone_from: z }}, overrides: [{{ u: x, limit: 5{zone} }}] }}"
        )
    };
    let comparison = limits(&zone(""), &zone(", zone: UTC"));
    assert_eq!(comparison.limits[0].rules.len(), 1, "{comparison}");
    // Two values that begin alike are two.
    let tenants = |plan: &str| {
        let tenant = "t".repeat(100);
        format!(
            "namespaces: {{ api: {{ plans: {{ numbers: {{ free: {{}}, gold: {{}} }}, assigned: {{ tenant: {{ {tenant}1: gold, \
             {tenant}2: {plan} }} }} }} }} }}"
        )
    };
    assert_eq!(of(&tenants("free"), &tenants("free")).settings.len(), 0);
    assert_eq!(of(&tenants("free"), &tenants("gold")).settings.len(), 1);
}

/// Changes as a line of a table.
fn told(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|one| format!("{}: {} -> {}", one.what, one.old, one.new)).collect()
}

#[test]
fn the_numbers_of_plans_and_overrides_are_told_as_they_are_in_force() {
    let policy = |gold: &str, ada: &str, more: &str, costs: &str| {
        format!(
            "namespaces: {{ api: {{ plans: {{ assigned: {{ tenant: {{ acme: gold{more} }} }}, \
             numbers: {{ free: {{}}, gold: {{ a: {{ {gold} }} }} }} }}, costs: [{costs}], \
             limits: [{{ name: a, key: [user], rate: 10/s, burst: 20, overrides: [{{ user: ada, {ada} }}] }}] }} }}"
        )
    };
    let comparison = of(
        &policy("rate: 100/s", "rate: 5/s", "", "{ match: { op: search }, cost: 5 }"),
        &policy(
            "rate: 1000/s",
            "rate: 6/s",
            ", zed: free",
            "{ match: { op: search }, cost: 7 }, { cost: 2 }",
        ),
    );
    assert_eq!(comparison.limits[0].fate, Fate::Kept);
    assert_eq!(
        told(&comparison.limits[0].rules),
        [
            "plans.gold: rate: 100/s, burst: 200 -> rate: 1000/s, burst: 2000",
            "overrides.user=ada: rate: 5/s, burst: 10 -> rate: 6/s, burst: 12",
        ]
    );
    let settings: Vec<String> = comparison
        .settings
        .iter()
        .map(|one| format!("{}: {} -> {} {}", one.path, one.old, one.new, one.needs_restart))
        .collect();
    assert_eq!(
        settings,
        [
            "namespaces.api.plans.assigned.tenant.zed: none -> free false",
            "namespaces.api.costs[0]: { match: { op: search }, cost: 5 } -> { match: { op: search }, cost: 7 } false",
            "namespaces.api.costs[1]: none -> { match: {}, cost: 2 } false",
        ]
    );
    assert!(
        comparison.to_string().contains(
            "\n  api/a  kept\n    plans.gold: rate: 100/s, burst: 200 -> rate: 1000/s, burst: 2000\n"
        ),
        "{comparison}"
    );
}

#[test]
fn nothing_is_cut_off_and_nothing_is_told_by_a_number_made_of_it() {
    let assigned = |plan: &str| {
        let all: Vec<String> = (0..50).map(|tenant| format!("tenant-{tenant}: {plan}")).collect();
        format!(
            "namespaces: {{ api: {{ plans: {{ numbers: {{ free: {{}}, gold: {{}} }}, assigned: {{ tenant: {{ {} }} }} }} }} }}",
            all.join(", ")
        )
    };
    let comparison = of(&assigned("free"), &assigned("gold"));
    assert_eq!(comparison.settings.len(), 50);
    let text = comparison.to_string();
    for tenant in 0..50 {
        assert!(text.contains(&format!("tenant.tenant-{tenant} ")), "{text}");
    }
    assert!(!text.contains('…'), "{text}");
}

#[test]
fn what_changes_no_counter_is_told_beside_the_limit() {
    let comparison = limits(
        "{ name: a, key: [u], rate: 1/s }",
        "{ name: a, key: [u], rate: 1/s, match: { m: GET }, missing: group, mode: shadow, status: 403, on_exceed: { block: 1s }, \
         overrides: [{ u: x, rate: 2/s }] }",
    );
    let limit = &comparison.limits[0];
    assert_eq!(limit.fate, Fate::Kept);
    assert_eq!(
        told(&limit.rules),
        [
            "match: {} -> { m: GET }",
            "missing: skip -> group",
            "mode: enforce -> shadow",
            "status: none -> 403",
            "on_exceed: refuse -> block 1s",
            "overrides.u=x: none -> rate: 2/s",
        ]
    );
}

#[test]
fn a_namespace_that_comes_or_goes_takes_its_limits_along() {
    let file =
        |namespace: &str| format!("namespaces: {{ {namespace}: {{ limits: [{{ name: a, rate: 1/s }}] }} }}");
    let comparison = of(&file("old"), &file("new"));
    let said: Vec<(&str, Fate)> =
        comparison.limits.iter().map(|limit| (limit.namespace.as_str(), limit.fate)).collect();
    assert_eq!(said, [("new", Fate::Added), ("old", Fate::Forgotten)]);
}

#[test]
fn of_a_namespace_that_comes_or_goes_only_what_it_says_itself_is_listed() {
    let file = |rest: &str| format!("namespaces: {{ {rest} api: {{ limits: [{{ name: a, rate: 1/s }}] }} }}");
    let changed = |old: &str, new: &str| -> Vec<String> {
        let comparison = of(&file(old), &file(new));
        comparison.settings.iter().map(|one| format!("{}: {} -> {}", one.path, one.old, one.new)).collect()
    };
    let plain = "batch: { limits: [{ name: a, rate: 1/s }] },";
    assert_eq!(changed("", plain), [""; 0]);
    assert_eq!(changed(plain, ""), [""; 0]);
    let tenant = "batch: { limits: [{ name: a, rate: 1/s }], request: { tenant: entry.user } },";
    assert_eq!(changed(plain, tenant), ["namespaces.batch.request.tenant: entry.tenant -> entry.user"]);
    assert!(changed("", tenant).contains(&"namespaces.batch.request.tenant: none -> entry.user".to_owned()));
}

#[test]
fn a_change_of_a_secret_says_only_that_it_changed() {
    let policy = |token: &str, header: &str| {
        format!(
            "namespaces: {{ api: {{}} }}
authorization: [{{ name: ada, token: {token}, namespaces: [api] }}]
proxy: {{ upstreams: {{ app: ['http://127.0.0.1:1'] }}, routes: [{{ name: r, upstream: app, match: {{ headers: {{ x-key: {header} }} }} }}] }}"
        )
    };
    let comparison = of(&policy("one-long-secret-token", "one"), &policy("two-long-secret-token", "two"));
    let changed = comparison.settings.iter().map(|one| format!("{}: {} -> {}", one.path, one.old, one.new));
    assert_eq!(
        changed.collect::<Vec<_>>(),
        ["authorization.ada.token: set -> changed", "proxy.routes.r.match.headers.x-key: set -> changed"]
    );
    let debug = format!("{:?}", settings(&policy("one-long-secret-token", "one")));
    assert!(!debug.contains("one-long-secret"), "{debug}");
}

#[test]
fn settings_that_need_a_restart_are_told_by_their_path() {
    let comparison = of(
        "listen: { http: 127.0.0.1:1 }\nnamespaces: { api: { limits: [] } }",
        "listen: { http: 127.0.0.1:2, admin: 127.0.0.1:3 }
store: { kind: embedded, durability: interval }
memory: { keys: 64MiB, when_full: admit }
namespaces: { api: { limits: [] } }
authorize: { headers: { x-user: user }, namespace: api }
http: { legacy_headers: [rate_limit], bounds: { body: 1MiB, drain_timeout: 1s } }
log: { level: warn, format: json, refusals: off, decisions: d.jsonl }",
    );
    let restart: Vec<String> = comparison
        .needs_restart()
        .map(|setting| format!("{}: {} -> {}", setting.path, setting.old, setting.new))
        .collect();
    assert_eq!(
        restart,
        [
            "listen.http: 127.0.0.1:1 -> 127.0.0.1:2",
            "listen.admin: none -> 127.0.0.1:3",
            "store.kind: memory -> embedded",
            "store.path: none -> ./tidegate-data",
            "store.durability: none -> interval",
            "store.interval: none -> 100ms",
            "store.memory: none -> 64MiB",
            "store.disk: none -> 4GiB",
            "memory.keys: 256MiB -> 64MiB",
            "memory.when_full: refuse -> admit",
            "http.bounds.body: 64KiB -> 1MiB",
            "http.bounds.drain_timeout: 30s -> 1s",
            "log.level: info -> warn",
            "log.format: text -> json",
            "log.decisions.path: none -> d.jsonl",
            "log.decisions.size: none -> 64MiB",
            "log.decisions.files: none -> 4",
            "log.decisions.queue: none -> 65536",
            "log.decisions.sample: none -> all",
        ]
    );
    let taken_over: Vec<&str> = comparison
        .settings
        .iter()
        .filter(|setting| !setting.needs_restart)
        .map(|setting| setting.path.as_str())
        .collect();
    assert_eq!(
        taken_over,
        ["authorize.headers.x-user", "authorize.namespace", "http.legacy_headers", "log.refusals"]
    );
}

#[test]
fn the_first_quota_needs_a_restart_that_opens_a_store_and_the_last_needs_none() {
    let restart = |old: &str, new: &str| -> Vec<String> {
        let comparison = of(&with_limit(old), &with_limit(new));
        comparison.needs_restart().map(|setting| format!("{}: {}", setting.path, setting.new)).collect()
    };
    let (rate, quota) = ("{ name: a, rate: 1/s }", "{ name: b, rate: 1/h }");
    assert_eq!(
        restart(rate, quota),
        [
            "store.kind: embedded",
            "store.path: ./tidegate-data",
            "store.durability: sync",
            "store.memory: 64MiB",
            "store.disk: 4GiB"
        ]
    );
    assert_eq!(restart(quota, rate), Vec::<String>::new());
    assert_eq!(restart(quota, quota), Vec::<String>::new());
}

#[test]
fn people_read_a_short_table() {
    let comparison = of(
        &with_limit(
            "{ name: per-user, key: [user], rate: 100/s, burst: 200 }, { name: exports, key: [user], rate: 1/s }, \
             { name: same, rate: 1/s }, { name: old, rate: 1/s }, { name: gone, rate: 1/s }",
        ),
        &format!(
            "{}\nlisten: {{ http: 127.0.0.1:9 }}\nlog: {{ refusals: off }}",
            with_limit(
                "{ name: per-user, key: [user], rate: 200/s, burst: 400 }, { name: exports, key: [team], rate: 1/s }, \
                 { name: same, rate: 1/s }, { name: brand-new, was: old, rate: 2/s, mode: shadow }, { name: more, rate: 1/s }",
            )
        ),
    );
    assert_eq!(
        comparison.to_string(),
        "\
limits: 1 kept, 1 numbers changed, 1 renamed, 1 starts fresh, 1 added, 1 forgotten
  api/per-user   numbers changed  rate: 100/s, burst: 200 -> rate: 200/s, burst: 400
  api/exports    starts fresh     key: [user] -> [team]
  api/brand-new  renamed          was old; rate: 1/s -> rate: 2/s
    mode: enforce -> shadow
  api/more       added            rate: 1/s
  api/gone       forgotten        rate: 1/s
settings that need a restart:
  listen.http  127.0.0.1:8080 -> 127.0.0.1:9
settings taken over while running:
  log.refusals  10/s -> off
"
    );
}

#[test]
fn another_lease_period_keeps_the_counters_and_is_named() {
    let shared = |period: &str| {
        let store = "{ kind: redis, urls: [redis://127.0.0.1:1] }";
        format!("store: {store}\n{}", with_limit(&format!("{{ name: a, rate: 100/s{period} }}")))
    };
    let comparison = of(&shared(""), &shared(", lease_period: 20s"));
    assert_eq!(told(&comparison.limits[0].rules), ["lease_period: 5s -> 20s"]);
    assert_eq!(comparison.forgotten(), 0);
    assert_eq!(of(&shared(""), &shared(", lease_period: 5s")).limits[0].fate, Fate::Kept);
}

/// Every setting that a policy in place of another takes over, and every one that waits for a
/// restart, differs between these two.
const EVERY_KEY: [&str; 2] = [
    "listen: { http: 127.0.0.1:1 }
namespaces: { api: { limits: [] } }",
    "listen: { http: 127.0.0.1:2, admin: 127.0.0.1:3, grpc: 127.0.0.1:4, resp: 127.0.0.1:5, proxy: 127.0.0.1:6 }
store: { kind: embedded, durability: interval }
memory: { keys: 64MiB, waiting: 1MiB, when_full: admit }
metering: { tenants: 0, history: off }
namespaces: { api: { limits: [], costs: [{ cost: 2 }] } }
nodes: [{ name: n, units: 9000 }]
accounts: [{ name: a, read: 9, write: 9 }]
resources: { app: { concurrency: 9 } }
signals: [{ name: s, source: in_flight }]
features: [search]
authorization: [{ token: ada-has-a-long-token, namespaces: [api] }]
authorize: { headers: { x-user: user }, namespace: api }
proxy: { upstreams: { app: { servers: ['http://127.0.0.1:1'] } }, routes: [{ name: r, upstream: app, match: { path: / } }] }
envoy_ratelimit: { path: files }
rlqs: { ttl: 20s, holders: 9, buckets: 9, namespaces: [api] }
http: { legacy_headers: [rate_limit], bounds: { body: 1MiB, headers: 64KiB, header_count: 9, attributes: 9, \
  attribute: 16B, connections: 9, request_timeout: 1s, drain_timeout: 1s } }
log: { level: warn, format: json, refusals: off, decisions: d.jsonl }",
];

#[test]
fn a_policy_in_place_of_another_takes_over_what_the_comparison_says_and_leaves_the_rest() {
    let [running, new] = EVERY_KEY.map(settings);
    let whole = compare(&running, &new).settings;
    let schema = tidegate_policy::schema();
    let keys = |definition: &str| {
        let keys = schema["$defs"][definition]["properties"].as_object().unwrap().keys();
        keys.cloned().collect::<Vec<_>>()
    };
    let sections = schema["properties"].as_object().unwrap().keys().cloned();
    let inner = [
        ("listen", "listen"),
        ("memory", "memory"),
        ("metering", "metering"),
        ("rlqs", "rlqs"),
        ("http", "http"),
        ("http.bounds", "bounds"),
        ("log", "log"),
    ];
    let inner =
        inner.into_iter().flat_map(|(path, of)| keys(of).into_iter().map(move |key| format!("{path}.{key}")));
    for key in sections.chain(inner) {
        assert!(whole.iter().any(|one| one.path.starts_with(&key)), "{key} does not differ");
    }
    let taken_over = new.clone().in_place_of(&running);
    let (restart, reload): (Vec<_>, Vec<_>) = whole.into_iter().partition(|one| one.needs_restart);
    assert_eq!(compare(&running, &taken_over).settings, reload);
    assert_eq!(compare(&taken_over, &new).settings, restart);
}
