//! Settings that a namespace has for all its limits.

use core::time::Duration;

use tidegate_core::limit::{Consistency, Mode, OnExceed, OnStoreFailure};

use crate::{problems, settings, warnings};

const REDIS: &str = "store: { kind: redis, urls: [redis://r:6379], members: 3 }\n";

const DEFAULTS: &str = "
namespaces:
  api:
    defaults:
      key: [tenant]
      missing: refuse
      mode: shadow
      consistency: leased
      on_store_failure: refuse
      lease_period: 10s
      on_exceed: { block: 1m }
      refund_on: [failed]
      status: 503
      zone: Europe/Berlin
      zone_from: tz
    limits:
      - { name: rate, rate: 10000/s }
      - { name: own, key: [user], missing: skip, mode: enforce, consistency: exact, on_store_failure: allow, on_exceed: { block: 2m }, refund_on: [], status: 429, rate: 100/s }
      - { name: all, key: [], rate: 1000/s, lease_period: 5s }
      - { name: daily, calendar: { limit: 100000, unit: day } }
      - { name: tokyo, calendar: { limit: 100000, unit: day, zone: Asia/Tokyo, zone_from: other } }
      - { name: rolling, rolling: { limit: 5, window: 1m } }
      - { name: divided, consistency: local, share: auto, rate: 100/s }
";

#[test]
fn a_default_counts_for_the_limits_that_can_have_it_and_do_not_say_otherwise() {
    let policy = settings(&format!("{REDIS}{DEFAULTS}"));
    let namespace = policy.namespace("api").unwrap();
    let limit = |name: &str| namespace.limits.iter().find(|limit| limit.name == name).unwrap();
    let rate = limit("rate");
    assert_eq!((rate.key[0].attribute.as_str(), rate.mode), ("tenant", Mode::Shadow));
    assert_eq!((rate.consistency, rate.on_store_failure), (Consistency::Leased, OnStoreFailure::Refuse));
    assert_eq!(
        (rate.lease_period, rate.on_exceed),
        (Duration::from_secs(10), OnExceed::Block(Duration::from_mins(1)))
    );
    assert_eq!((rate.refund_on.to_string(), namespace.statuses["rate"]), ("failed".to_owned(), 503));
    assert_eq!(rate.zone_from, None);
    let own = limit("own");
    assert_eq!((own.key[0].attribute.as_str(), own.mode), ("user", Mode::Enforce));
    assert_eq!((own.consistency, own.on_store_failure), (Consistency::Exact, OnStoreFailure::Allow));
    assert_eq!((own.refund_on.is_empty(), namespace.statuses["own"]), (true, 429));
    assert_eq!(own.on_exceed, OnExceed::Block(Duration::from_mins(2)));
    assert!(limit("all").key.is_empty());
    assert_eq!(limit("all").lease_period, Duration::from_secs(5));
    let daily = limit("daily");
    assert_eq!(
        (daily.algorithm.civil_zone(), daily.zone_from.as_deref()),
        (Some("Europe/Berlin"), Some("tz"))
    );
    assert_eq!(daily.consistency, Consistency::Leased);
    let tokyo = limit("tokyo");
    assert_eq!(
        (tokyo.algorithm.civil_zone(), tokyo.zone_from.as_deref()),
        (Some("Asia/Tokyo"), Some("other"))
    );
    // A limit that cannot be leased is decided as without the default, and its failure of the
    // store counts only where a store decides.
    assert_eq!(
        (limit("rolling").consistency, limit("rolling").on_store_failure),
        (Consistency::Local, OnStoreFailure::Refuse)
    );
    assert_eq!((limit("divided").consistency, limit("divided").is_divided), (Consistency::Local, true));
}

#[test]
fn a_problem_of_a_default_is_reported_once_where_it_stands() {
    for (from, to, expected) in [
        (
            "key: [tenant]",
            "key: [tenant, tenant]",
            "namespaces.api.defaults.key[1]: duplicate attribute \"tenant\" in `key`; remove one",
        ),
        (
            "consistency: leased",
            "consistency: leasd",
            "namespaces.api.defaults.consistency: \"leasd\" is not a value of this key; did you mean leased? It is one of local, exact or leased",
        ),
        (
            "consistency: leased",
            "consistency: broadcast",
            "namespaces.api.defaults.consistency: \"broadcast\" is not available in this version; use local, exact or leased",
        ),
        (
            "lease_period: 10s",
            "lease_period: 10m",
            "namespaces.api.defaults.lease_period: lease_period \"10m\" is out of range; use a span from 4s to 1m",
        ),
        (
            "block: 1m",
            "block: 0s",
            "namespaces.api.defaults.on_exceed.block: block \"0s\" is not between 1us and 366d; use a span in that range",
        ),
        (
            "refund_on: [failed]",
            "refund_on: [fail]",
            "namespaces.api.defaults.refund_on[0]: \"fail\" is no outcome; did you mean failed?",
        ),
        (
            "zone: Europe/Berlin",
            "zone: PST",
            "namespaces.api.defaults.zone: there is no time zone \"PST\"; use the IANA name America/Los_Angeles",
        ),
        (
            "status: 503",
            "status: 200",
            "namespaces.api.defaults.status: 200 is out of range; use a whole number from 400 to 599",
        ),
    ] {
        let text = format!("{REDIS}{}", DEFAULTS.replace(from, to));
        let said = problems(&text);
        let (_, first) = said[0].split_once(": ").unwrap();
        assert_eq!((first, said.len()), (expected, 1), "{to}");
    }
}

#[test]
fn a_default_that_no_limit_takes_is_warned_of() {
    let text = "namespaces: { api: { defaults: { zone: UTC, lease_period: 5s, on_store_failure: allow }, limits: [ { name: a, rate: 5/s } ] } }";
    assert_eq!(
        warnings(text),
        [
            "t.yaml:1:40: namespaces.api.defaults.zone: `zone` has no effect: no limit of the namespace takes it from here; remove it",
            "t.yaml:1:59: namespaces.api.defaults.lease_period: `lease_period` has no effect: no limit of the namespace takes it from here; remove it",
            "t.yaml:1:81: namespaces.api.defaults.on_store_failure: `on_store_failure` has no effect: no limit of the namespace takes it from here; remove it",
        ]
    );
}

#[test]
fn a_limit_with_its_defaults_is_the_limit_with_these_settings_written_out() {
    let short = "namespaces: { api: { defaults: { key: [user], missing: group, zone: UTC }, limits: [ { name: a, rate: 5/s }, { name: b, calendar: { limit: 5, unit: day } } ] } }";
    let long = "namespaces: { api: { limits: [ { name: a, key: [user], missing: group, rate: 5/s }, { name: b, key: [user], missing: group, calendar: { limit: 5, unit: day, zone: UTC } } ] } }";
    let limits = |text: &str| format!("{:?}", settings(text).namespaces[0].limits);
    assert_eq!(limits(short), limits(long));
}
