//! Which counter a request falls on.

use super::*;
use crate::limit::{Consistency, KeyPart, Missing};

fn once(key: &[&str], missing: Missing) -> Gate {
    let limit =
        Limit::new("once", bucket(1, Duration::from_hours(1))).key(key.iter().copied()).missing(missing);
    gate([limit])
}

#[test]
fn tuples_that_collide_when_joined_have_counters_of_their_own() {
    let gate = once(&["one", "two"], Missing::Skip);
    for (one, two) in [("a", "b_c"), ("a_b", "c"), ("a_b_c", ""), ("", "a_b_c"), ("a\0b", "c"), ("a", "b\0c")]
    {
        assert!(gate.check(&[("one", one), ("two", two)], Cost::ONE, NOW).is_admit(), "{one:?} {two:?}");
        assert!(!gate.check(&[("one", one), ("two", two)], Cost::ONE, NOW).is_admit(), "{one:?} {two:?}");
    }
}

#[test]
fn limits_of_two_namespaces_or_two_names_share_nothing() {
    let table = table();
    for (namespace, name) in [("a", "x"), ("b", "x"), ("a", "y"), ("ax", ""), ("", "ax")] {
        let name = if name.is_empty() { "z" } else { name };
        let limit = Limit::new(name, bucket(1, Duration::from_hours(1))).key(["user"]);
        let gate = Gate::builder(namespace).limit(limit).table(Arc::clone(&table)).build().unwrap();
        assert!(gate.check(&[("user", "ada")], Cost::ONE, NOW).is_admit(), "{namespace} {name}");
        assert!(!gate.check(&[("user", "ada")], Cost::ONE, NOW).is_admit(), "{namespace} {name}");
    }
}

#[test]
fn a_request_that_lacks_a_key_attribute_is_skipped_refused_or_grouped_as_the_limit_says() {
    let skip = once(&["user"], Missing::Skip);
    for _ in 0..3 {
        assert!(skip.check((), Cost::ONE, NOW).is_admit());
    }
    let refuse = once(&["user"], Missing::Refuse);
    let refusal = refuse.check((), Cost::ONE, NOW).into_result().unwrap_err();
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::AttributeMissing, Retry::Never));
    assert_eq!(refusal.remaining(), 0, "there is no counter");
    assert_eq!(
        refusal.detail.as_deref(),
        Some("the request lacks the attribute \"user\", which limit \"once\" requires")
    );
    let group = once(&["user"], Missing::Group);
    assert!(group.check((), Cost::ONE, NOW).is_admit());
    assert!(
        !group.check(&[("tenant", "t")], Cost::ONE, NOW).is_admit(),
        "all that lack it share one counter"
    );
    assert!(group.check(&[("user", "")], Cost::ONE, NOW).is_admit(), "an empty value is a value");
}

#[test]
fn a_request_that_lacks_a_key_attribute_is_refused_here_also_where_a_store_decides_the_limit() {
    let exact = |missing| {
        let limit = Limit::new("once", bucket(1, Duration::from_hours(1))).key(["user"]).missing(missing);
        let limit = limit.consistency(Consistency::Exact);
        Gate::builder("api").limit(limit).exact_in_store().build().unwrap()
    };
    let refuse = exact(Missing::Refuse);
    let refusal = refuse.check((), Cost::ONE, NOW).into_result().unwrap_err();
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::AttributeMissing, Retry::Never));
    for _ in 0..2 {
        assert!(refuse.check(&[("user", "ada")], Cost::ONE, NOW).is_admit(), "the store counts it");
    }
    assert!(exact(Missing::Skip).check((), Cost::ONE, NOW).is_admit());
    let group = exact(Missing::Group);
    assert_eq!(group.exact_limits(&group.locate_store_limits((), NOW), NOW).len(), 1, "the store counts it");
    assert!(group.check((), Cost::ONE, NOW).is_admit());
}

#[test]
fn addresses_are_counted_by_their_network_however_they_are_written() {
    let gate = once(&["ip"], Missing::Skip);
    assert!(gate.check(&[("ip", "2001:db8:1:2::1")], Cost::ONE, NOW).is_admit());
    for same in ["2001:db8:1:2::2", "2001:0DB8:0001:0002:ffff::1", "2001:db8:1:2:3:4:5:6"] {
        assert!(!gate.check(&[("ip", same)], Cost::ONE, NOW).is_admit(), "{same}");
    }
    assert!(gate.check(&[("ip", "2001:db8:1:3::1")], Cost::ONE, NOW).is_admit(), "the next network");
    assert!(gate.check(&[("ip", "10.0.0.1")], Cost::ONE, NOW).is_admit());
    assert!(!gate.check(&[("ip", "::ffff:10.0.0.1")], Cost::ONE, NOW).is_admit(), "the same address, mapped");
    assert!(gate.check(&[("ip", "10.0.0.2")], Cost::ONE, NOW).is_admit());
    let refusal = gate.check(&[("ip", "2001:db8:1:2::9")], Cost::ONE, NOW).into_result().unwrap_err();
    assert_eq!(refusal.scope[0].1, "2001:db8:1:2::/64");
}

#[test]
fn addresses_are_counted_one_by_one_when_told_so_and_other_attributes_always() {
    let part = KeyPart { attribute: "ip".into(), ipv6_prefix: None };
    let gate = gate([Limit::new("once", bucket(1, Duration::from_hours(1))).key([part])]);
    assert!(gate.check(&[("ip", "2001:db8:1:2::1")], Cost::ONE, NOW).is_admit());
    assert!(gate.check(&[("ip", "2001:db8:1:2::2")], Cost::ONE, NOW).is_admit());
    let gate = once(&["api_key"], Missing::Skip);
    assert!(gate.check(&[("api_key", "2001:db8::1")], Cost::ONE, NOW).is_admit());
    assert!(gate.check(&[("api_key", "2001:db8::2")], Cost::ONE, NOW).is_admit());
}

#[test]
fn the_override_that_names_the_most_attributes_wins() {
    let hour = Duration::from_hours(1);
    let limit = Limit::new("stream", bucket(1, hour))
        .key(["account", "stream"])
        .override_for([("account", "1234")], bucket(2, hour))
        .override_for([("account", "1234"), ("stream", "big")], bucket(4, hour))
        .override_for([("stream", "odd")], bucket(3, hour));
    let gate = gate([limit]);
    let admitted = |account: &str, stream: &str| {
        (0..9)
            .filter(|_| gate.check(&[("account", account), ("stream", stream)], Cost::ONE, NOW).is_admit())
            .count()
    };
    assert_eq!(admitted("1", "a"), 1);
    assert_eq!(admitted("1234", "a"), 2);
    assert_eq!(admitted("1234", "b"), 2, "each stream of the account has its own counter");
    assert_eq!(admitted("1234", "big"), 4);
    assert_eq!(admitted("1", "odd"), 3);
    assert_eq!(admitted("1234", "odd"), 2, "of two with as many attributes the first counts");
}

#[test]
fn a_limit_applies_only_where_all_its_conditions_hold() {
    use crate::matcher::Matcher;
    let limit = per_second("user", 1)
        .when("method", Matcher::exact("POST"))
        .when("plan", Matcher::not(Matcher::exact("gold")));
    let gate = gate([limit]);
    let check = |method: &str, plan: &str| {
        gate.check(&[("user", "ada"), ("method", method), ("plan", plan)], Cost::ONE, NOW).is_admit()
    };
    assert!(check("POST", "free"));
    assert!(!check("POST", "free"));
    assert!(check("GET", "free") && check("GET", "free"));
    assert!(check("POST", "gold") && check("POST", "gold"));
}
