//! The settings of valid configurations.

use core::time::Duration;

use tidegate_core::algorithm::{
    Bucket, Calendar, CivilUnit, Concurrency, Fixed, Rolling, SlidingCounter, Weekday, WindowStart,
};
use tidegate_core::limit::{Consistency, KeyPart, Limit, Missing, Mode, OnExceed};
use tidegate_core::{Algorithm, Rate, WhenFull};
use tidegate_policy::policy::{Address, Format, Level, ListenerRole, OnStoreFailure};
use tidegate_policy::{Policy, parse, parse_bytes};

use crate::{settings, warnings, with_limit};

/// The one limit in a file.
fn limit(text: &str) -> Limit {
    settings(&with_limit(text)).namespaces[0].limits[0].clone()
}

fn bucket(units: u64, per: Duration, burst: u64) -> Algorithm {
    let rate = Rate::new(units, per).expect("the rate is one");
    Algorithm::Bucket(Bucket::new(rate, burst).expect("the bucket is one"))
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_example_is_right_and_has_no_warning() {
    assert_eq!(warnings(Policy::example()), Vec::<String>::new());
    let policy = settings(Policy::example());
    let limits = &policy.namespace("example").unwrap().limits;
    assert_eq!(limits[0].algorithm, bucket(5, Duration::from_mins(1), 5));
    assert_eq!(limits[1].algorithm, bucket(100, SECOND, 200));
    assert_eq!(policy.authorize.namespace.as_deref(), Some("example"));
}

#[test]
fn the_daily_queue_of_the_examples_is_right_and_has_no_warning() {
    let text = include_str!("../../../../examples/daily-queue/policy.yaml");
    assert_eq!(warnings(text), Vec::<String>::new());
    let limit = &settings(text).namespaces[0].limits[0];
    assert_eq!(
        (limit.consistency, limit.missing, limit.algorithm.limit()),
        (Consistency::Exact, Missing::Refuse, 10)
    );
    let overrides: Vec<u64> = limit.overrides.iter().map(|one| one.algorithm.limit()).collect();
    assert_eq!(overrides, [50, 2]);
}

#[test]
fn an_almost_empty_file_has_every_default() {
    let policy = settings("namespaces: {}");
    let [http] = &policy.listen[..] else { panic!("{:?}", policy.listen) };
    assert_eq!((http.role, http.insecure), (ListenerRole::Http, false));
    assert_eq!(http.address, Address::Tcp("127.0.0.1:8080".parse().unwrap()));
    assert_eq!((policy.memory.keys_bytes, policy.memory.when_full), (256 << 20, WhenFull::Refuse));
    assert_eq!((policy.metering.tenants, policy.metering.history_bytes), (10_000, 16 << 20));
    assert!(policy.namespaces.is_empty() && policy.authorize.headers.is_empty());
    assert!(!policy.http.rate_limit_headers && !policy.http.x_rate_limit_headers);
    assert_eq!(policy.http.bounds, tidegate_policy::policy::Bounds::default());
    assert_eq!((policy.log.level, policy.log.format), (Level::Info, Format::Text));
    assert_eq!(policy.log.refusals, Rate::per_second(10).ok());
}

#[test]
fn the_history_of_resources_is_a_size_or_off() {
    for (text, bytes) in [("64KiB", 64 << 10), ("1GiB", 1 << 30), ("off", 0), ("0", 0), ("'0'", 0)] {
        let policy = settings(&format!("metering: {{ history: {text}, tenants: 0 }}"));
        assert_eq!((policy.metering.history_bytes, policy.metering.tenants), (bytes, 0), "{text}");
    }
}

#[test]
fn the_example_of_the_design_is_read_as_it_is_meant() {
    let policy = settings(
        "
listen:
  http:  { address: 127.0.0.1:8080 }
  admin: { address: 127.0.0.1:8082 }
memory: { keys: 64MiB, when_full: admit }
namespaces:
  api:
    limits:
      - { name: per-application, key: [api_key], rate: 10000/s }
      - { name: per-user,        key: [user],    rate: 100/s, burst: 200 }
      - name: resharding
        match: { operation: ModifyShardCount }
        key: [account, stream]
        calendar: { limit: 10, unit: day, zone: America/Los_Angeles }
        overrides: [{ account: \"1234\", limit: 50 }]
      - { name: exports,  key: [user],   rolling: { limit: 20, window: 10m } }
      - { name: reads,    key: [tenant], match: { method: [GET, HEAD] }, fixed: { limit: 5000, window: 1m } }
      - { name: parallel, key: [tenant], concurrency: { limit: 32, hold: 30s } }
authorize: { headers: { x-api-key: api_key, X-User: user } }
",
    );
    let limits = &policy.namespace("api").unwrap().limits;
    let names: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
    assert_eq!(names, ["per-application", "per-user", "resharding", "exports", "reads", "parallel"]);
    let daily =
        |limit| Algorithm::Calendar(Calendar::new(limit, CivilUnit::Day, "America/Los_Angeles").unwrap());
    let minutes = Duration::from_mins;
    let algorithms: Vec<&Algorithm> = limits.iter().map(|limit| &limit.algorithm).collect();
    assert_eq!(
        algorithms,
        [
            &bucket(10_000, SECOND, 10_000),
            &bucket(100, SECOND, 200),
            &daily(10),
            &Algorithm::Rolling(Rolling::new(20, minutes(10)).unwrap()),
            &Algorithm::Fixed(Fixed::new(5000, minutes(1), WindowStart::Epoch).unwrap()),
            &Algorithm::Concurrency(Concurrency::new(32, Duration::from_secs(30)).unwrap()),
        ]
    );
    let resharding = &limits[2];
    assert_eq!(resharding.key, [KeyPart::from("account"), KeyPart::from("stream")]);
    assert_eq!(resharding.overrides[0].when, [("account".to_owned(), "1234".to_owned())]);
    assert_eq!(resharding.overrides[0].algorithm, daily(50));
    assert!(resharding.matches[0].matcher.matches(Some("ModifyShardCount")));
    assert!(
        limits[4].matches[0].matcher.matches(Some("HEAD"))
            && !limits[4].matches[0].matcher.matches(Some("PUT"))
    );
    assert_eq!(policy.memory.keys_bytes, 64 << 20);
    assert_eq!(policy.memory.when_full, WhenFull::Admit);
    let headers: Vec<(&str, &str)> = policy
        .authorize
        .headers
        .iter()
        .map(|(header, attribute)| (header.as_str(), attribute.as_str()))
        .collect();
    assert_eq!(headers, [("x-user", "user"), ("x-api-key", "api_key")]);
}

#[test]
fn every_field_of_a_limit_reaches_it() {
    let limit = limit(
        "{ name: a, was: b, key: [user, ip, { attribute: peer, ipv6_prefix: 56 }], missing: group, rate: 5/m, burst: 7, \
         debt: 3, mode: shadow, consistency: exact, on_exceed: { block: 10m } }",
    );
    assert_eq!((limit.name.as_str(), limit.was.as_deref()), ("a", Some("b")));
    assert_eq!(limit.key.iter().map(|part| part.ipv6_prefix).collect::<Vec<_>>(), [None, Some(64), Some(56)]);
    assert_eq!(
        (limit.missing, limit.mode, limit.consistency),
        (Missing::Group, Mode::Shadow, Consistency::Exact)
    );
    assert_eq!(limit.on_exceed, OnExceed::Block(Duration::from_mins(10)));
    let Algorithm::Bucket(bucket) = &limit.algorithm else { panic!("{:?}", limit.algorithm) };
    assert_eq!((bucket.rate(), bucket.burst(), bucket.debt()), (Rate::per_minute(5).unwrap(), 7, 3));
}

#[test]
fn every_variant_of_an_algorithm_can_be_asked_for() {
    let week = "{ name: a, calendar: { limit: 3, unit: week, week_start: sunday } }";
    assert_eq!(
        limit(week).algorithm,
        Algorithm::Calendar(
            Calendar::new(3, CivilUnit::Week, "UTC").unwrap().with_week_start(Weekday::Sunday)
        )
    );
    for (word, unit) in [
        ("minute", CivilUnit::Minute),
        ("hour", CivilUnit::Hour),
        ("day", CivilUnit::Day),
        ("week", CivilUnit::Week),
        ("month", CivilUnit::Month),
        ("year", CivilUnit::Year),
    ] {
        let expected = Algorithm::Calendar(Calendar::new(3, unit, "Asia/Tokyo").unwrap());
        let text = format!("{{ name: a, calendar: {{ limit: 3, unit: {word}, zone: Asia/Tokyo }} }}");
        assert_eq!(limit(&text).algorithm, expected);
    }
    assert_eq!(
        limit("{ name: a, fixed: { limit: 3, window: 1h, start: first_hit } }").algorithm,
        Algorithm::Fixed(Fixed::new(3, Duration::from_hours(1), WindowStart::FirstHit).unwrap())
    );
    assert_eq!(
        limit("{ name: a, rolling: { limit: 3, window: 1h, accuracy: approximate } }").algorithm,
        Algorithm::SlidingCounter(SlidingCounter::new(3, Duration::from_hours(1)).unwrap())
    );
}

#[test]
fn every_matcher_matches_what_its_words_say() {
    for (matcher, values) in [
        ("GET", &[(Some("GET"), true), (Some("get"), false), (None, false)][..]),
        ("[GET, HEAD]", &[(Some("HEAD"), true), (Some("PUT"), false), (None, false)]),
        ("{ exact: a }", &[(Some("a"), true), (Some("ab"), false)]),
        ("{ one_of: [a, b] }", &[(Some("b"), true), (Some("c"), false)]),
        ("{ prefix: /v1/ }", &[(Some("/v1/x"), true), (Some("/v2/x"), false)]),
        ("{ suffix: .example.com }", &[(Some("a.example.com"), true), (Some("example.com"), false)]),
        ("{ glob: \"bot*\" }", &[(Some("bot-1"), true), (Some("robot"), false)]),
        ("{ regex: \"[a-f0-9]{8}\" }", &[(Some("deadbeef"), true), (Some("deadbeef0"), false)]),
        ("{ cidr: [10.0.0.0/8, 192.168.0.0/16] }", &[(Some("192.168.3.4"), true), (Some("11.0.0.1"), false)]),
        ("{ cidr: 10.0.0.0/8 }", &[(Some("10.1.2.3"), true), (Some("x"), false)]),
        ("{ present: true }", &[(Some(""), true), (None, false)]),
        ("{ present: false }", &[(Some(""), false), (None, true)]),
        ("{ not: { exact: internal } }", &[(Some("internal"), false), (Some("x"), true), (None, true)]),
        ("{ not: internal }", &[(Some("internal"), false), (Some("x"), true), (None, true)]),
        ("{ not: [a, b] }", &[(Some("b"), false), (Some("x"), true)]),
        ("{ prefix: a, not: { suffix: z } }", &[(Some("ab"), true), (Some("az"), false), (Some("b"), false)]),
        ("{ present: true, not: x }", &[(Some("y"), true), (Some("x"), false), (None, false)]),
    ] {
        let limit = limit(&format!("{{ name: a, rate: 1/s, match: {{ attribute: {matcher} }} }}"));
        assert_eq!(limit.matches.len(), 1, "{matcher}");
        assert_eq!(limit.matches[0].attribute, "attribute");
        for (value, matches) in values {
            assert_eq!(limit.matches[0].matcher.matches(*value), *matches, "{matcher} {value:?}");
        }
    }
}

#[test]
fn a_higher_rate_with_a_smaller_burst_is_warned_of() {
    let told = "rate 100/s is higher than that of the limit, 600/m, and its burst of 100 smaller than 600";
    let limit = "name: a, key: [u], missing: group, rate: 600/m";
    let with_override = |numbers: &str| {
        super::warnings(&with_limit(&format!("{{ {limit}, overrides: [{{ u: x, {numbers} }}] }}")))
    };
    let warned = with_override("rate: 100/s");
    assert!(warned.len() == 1 && warned[0].contains(told), "{warned:?}");
    assert!(warned[0].contains("limits[0].overrides[0]"), "{warned:?}");
    for numbers in ["rate: 100/s, burst: 600", "rate: 5/s", "burst: 5"] {
        assert_eq!(with_override(numbers), [""; 0], "{numbers}");
    }
    let plan = format!(
        "namespaces: {{ api: {{ limits: [{{ {limit} }}], plans: {{ default: pro, numbers: {{ pro: {{ a: {{ rate: 100/s }} }} }} }} }} }}"
    );
    let warned = super::warnings(&plan);
    assert!(warned.iter().any(|line| line.contains(told)), "{warned:?}");
}

#[test]
fn what_an_override_leaves_out_is_as_in_the_limit() {
    let overridden = |limit: &str| {
        super::settings(&with_limit(limit)).namespaces[0].limits[0].overrides[0].algorithm.clone()
    };
    for (limit, expected) in [
        ("rate: 10/s, burst: 20, overrides: [{ u: x, rate: 30/s }]", bucket(30, SECOND, 60)),
        ("rate: 10/s, burst: 20, overrides: [{ u: x, burst: 5 }]", bucket(10, SECOND, 5)),
        ("rate: 10/s, overrides: [{ u: x, rate: 30/s }]", bucket(30, SECOND, 30)),
        (
            "rolling: { limit: 3, window: 1m }, overrides: [{ u: x, limit: 0 }]",
            Algorithm::Rolling(Rolling::new(0, Duration::from_mins(1)).unwrap()),
        ),
        (
            "fixed: { limit: 3, window: 1m, start: first_hit }, overrides: [{ u: x, window: 2m }]",
            Algorithm::Fixed(Fixed::new(3, Duration::from_mins(2), WindowStart::FirstHit).unwrap()),
        ),
        (
            "concurrency: { limit: 3, hold: 1s }, overrides: [{ u: x, limit: 9, hold: 2s }]",
            Algorithm::Concurrency(Concurrency::new(9, Duration::from_secs(2)).unwrap()),
        ),
    ] {
        assert_eq!(overridden(&format!("{{ name: a, key: [u], {limit} }}")), expected, "{limit}");
    }
}

#[test]
fn a_share_divides_rates_exactly_and_numbers_downwards() {
    for (whole, part) in [
        ("rate: 100/s, burst: 200", bucket(100, Duration::from_secs(3), 66)),
        ("rate: 2/s", bucket(2, Duration::from_secs(3), 1)),
        (
            "fixed: { limit: 100, window: 1m }",
            Algorithm::Fixed(Fixed::new(33, Duration::from_mins(1), WindowStart::Epoch).unwrap()),
        ),
        (
            "concurrency: { limit: 100, hold: 1s }",
            Algorithm::Concurrency(Concurrency::new(33, SECOND).unwrap()),
        ),
    ] {
        assert_eq!(limit(&format!("{{ name: a, {whole}, share: 1/3 }}")).algorithm, part, "{whole}");
    }
}

#[test]
fn statuses_and_what_happens_without_the_store_are_those_of_the_limit() {
    let policy = settings(
        "namespaces: { api: { limits: [
            { name: a, rate: 1/s, status: 403 },
            { name: b, rate: 1/s, consistency: exact },
            { name: c, calendar: { limit: 1, unit: day }, consistency: exact },
            { name: d, rate: 1/s, consistency: exact, on_store_failure: allow },
            { name: e, rate: 1/s, consistency: exact, on_store_failure: refuse },
        ] } }",
    );
    let namespace = &policy.namespaces[0];
    assert_eq!(namespace.statuses.clone().into_iter().collect::<Vec<_>>(), [("a".to_owned(), 403)]);
    let failures: Vec<OnStoreFailure> =
        namespace.limits.iter().skip(1).map(|limit| limit.on_store_failure).collect();
    assert_eq!(
        failures,
        [OnStoreFailure::Local, OnStoreFailure::Refuse, OnStoreFailure::Allow, OnStoreFailure::Refuse]
    );
}

#[test]
fn listeners_are_addresses_or_sockets_alone_or_with_what_belongs_to_them() {
    let http = |text: &str| settings(&format!("listen: {{ http: {text} }}")).listen.remove(0);
    assert_eq!(http("127.0.0.1:0").address.to_string(), "127.0.0.1:0");
    assert_eq!(http("\"[::1]:80\"").address.to_string(), "[::1]:80");
    assert_eq!(http("unix:/run/t.sock").address, Address::Unix("/run/t.sock".into()));
    assert!(http("{ address: 0.0.0.0:80, insecure: true }").insecure);
    assert!(http("\"[::ffff:127.0.0.1]:80\"").address.is_local());
    assert_eq!(http("\"127.0.0.1:${PORT}\"").address.to_string(), "127.0.0.1:9090");
}

#[test]
fn the_settings_of_the_service_are_read() {
    let policy = settings(
        "
http:
  legacy_headers: [x_rate_limit, rate_limit]
  bounds: { body: 1MiB, headers: 32KiB, header_count: 7, attributes: 8, attribute: 99B, connections: 9,
            request_timeout: 1500ms, drain_timeout: 0s }
log: { level: debug, format: json, refusals: off }
",
    );
    assert!(policy.http.rate_limit_headers && policy.http.x_rate_limit_headers);
    let bounds = policy.http.bounds;
    assert_eq!((bounds.body_bytes, bounds.header_bytes, bounds.headers), (1 << 20, 32 << 10, 7));
    assert_eq!((bounds.attributes, bounds.attribute_bytes, bounds.connections), (8, 99, 9));
    assert_eq!((bounds.request_timeout, bounds.drain_timeout), (Duration::from_millis(1500), Duration::ZERO));
    assert_eq!(
        (policy.log.level, policy.log.format, policy.log.refusals),
        (Level::Debug, Format::Json, None)
    );
}

#[test]
fn a_scalar_where_text_is_meant_is_its_source_text() {
    let values =
        ["1234", "1.10", "yes", "0x1F", "0123", "1e3", "2026-11-20", "'quoted'", "\"null\"", "!!str 7"];
    let texts = ["1234", "1.10", "yes", "0x1F", "0123", "1e3", "2026-11-20", "quoted", "null", "7"];
    for (value, text) in values.iter().zip(texts) {
        let limit = limit(&format!(
            "{{ name: {value}, key: [account], rate: 1/s, match: {{ v: {value} }}, overrides: [{{ account: {value}, rate: 2/s }}] }}"
        ));
        assert_eq!(limit.name, text);
        assert!(limit.matches[0].matcher.matches(Some(text)), "{value}");
        assert_eq!(limit.overrides[0].when[0].1, text);
    }
}

#[test]
fn numbers_and_words_may_come_from_the_environment() {
    let env = |name: &str| match name {
        "BURST" => Some("7".to_owned()),
        "MODE" => Some("shadow".to_owned()),
        _ => None,
    };
    let text = with_limit("{ name: a, rate: \"${RATE:-3/s}\", burst: \"${BURST}\", mode: \"${MODE}\" }");
    let limit = parse("t", &text, &env).unwrap().policy.namespaces[0].limits[0].clone();
    assert_eq!(limit.algorithm, bucket(3, SECOND, 7));
    assert_eq!(limit.mode, Mode::Shadow);
    let text = with_limit("{ name: a, rate: 1/s, match: { path: [\"$${BURST}\", \"a$|b\"] } }");
    let limit = parse("t", &text, &env).unwrap().policy.namespaces[0].limits[0].clone();
    assert!(
        limit.matches[0].matcher.matches(Some("${BURST}")) && limit.matches[0].matcher.matches(Some("a$|b"))
    );
}

#[test]
fn bytes_are_read_as_utf_8() {
    assert!(parse_bytes("t", Policy::example().as_bytes(), &|_| None).is_ok());
    let problems = parse_bytes("t", b"a: 1\nb\xC3\xA9: \xFF", &|_| None).unwrap_err();
    assert_eq!(problems.to_string(), "t:2:5: the file is not UTF-8 text; save it as UTF-8");
}
