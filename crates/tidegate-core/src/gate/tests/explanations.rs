//! Explanations of each limit, and that an explanation always agrees with a check.

use proptest::prelude::*;

use super::*;
use crate::limit::{KeyPart, Missing, Override};
use crate::matcher::Matcher;

const MINUTE: Duration = Duration::from_mins(1);

fn of<'a>(all: &'a [Explanation], name: &str) -> &'a Explanation {
    all.iter().find(|one| one.name == name).unwrap()
}

fn counting<'a>(all: &'a [Explanation], name: &str) -> &'a Counting {
    match &of(all, name).standing {
        Standing::Counts(counting) => counting,
        other => panic!("{name}: {other:?}"),
    }
}

fn level<'a>(all: &'a [Explanation], name: &str) -> &'a Level {
    counting(all, name).level.as_ref().unwrap()
}

#[test]
fn a_limit_that_does_not_apply_says_which_condition_or_which_attribute_it_is_for() {
    let reads = || Matcher::one_of(["GET", "HEAD"]);
    let gate = gate([
        per_second("user", 1).when("path", Matcher::prefix("/v1/")).when("method", reads()),
        per_second("app", 1),
        per_second("session", 1).missing(Missing::Refuse),
        per_second("tenant", 1).missing(Missing::Group),
    ]);
    let all = gate.explain(&[("user", "ada"), ("path", "/v1/x"), ("method", "POST")], Cost::ONE, NOW);
    let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["user", "app", "session", "tenant"], "the order is the policy's");
    let unmatched = |attribute: &str, value: Option<&str>, wants: &str| Standing::Unmatched {
        attribute: attribute.to_owned(),
        value: value.map(str::to_owned),
        wants: wants.to_owned(),
    };
    assert_eq!(all[0].standing, unmatched("method", Some("POST"), r#"one of "GET", "HEAD""#));
    assert_eq!(all[1].standing, Standing::Skipped { lacks: "app".to_owned() });
    assert_eq!(all[2].standing, Standing::Insists { lacks: "session".to_owned() });
    assert_eq!(counting(&all, "tenant").key, [("tenant".to_owned(), None)]);
    assert_eq!(all.iter().map(Explanation::refuses).collect::<Vec<_>>(), [false, false, true, false]);
    let all = gate.explain(&[("user", "ada")], Cost::ONE, NOW);
    assert_eq!(all[0].standing, unmatched("path", None, r#"a value that starts with "/v1/""#));
}

#[test]
fn the_key_is_shown_as_it_is_counted() {
    let limit = Limit::new("per-address", bucket(1, MINUTE)).key(["ip"]);
    let gate = gate([limit, Limit::new("all", bucket(1, MINUTE))]);
    let all = gate.explain(&[("ip", "2001:db8:1:2:3:4:5:6")], Cost::ONE, NOW);
    assert_eq!(counting(&all, "per-address").key, [("ip".to_owned(), Some("2001:db8:1:2::/64".to_owned()))]);
    assert_eq!(counting(&all, "all").key, [], "one counter for all");
}

#[test]
fn the_numbers_that_count_are_named_with_whose_they_are() {
    let when = |user: &str| vec![("user".to_owned(), user.to_owned())];
    let limit = per_second("user", 1).override_for([("user", "ada")], bucket(5, Duration::from_secs(1)));
    let until = after(MINUTE);
    let set = |user, units| Override::new(when(user), bucket(units, Duration::from_secs(1)));
    let gate = Gate::builder("api")
        .limit(limit)
        .override_at_run_time("user", set("bob", 9), until)
        .override_at_run_time("user", set("cyd", 7), Timestamp::MAX)
        .table(table())
        .build()
        .unwrap();
    let numbers = |user, now| {
        let all = gate.explain(&[("user", user)], Cost::ONE, now);
        (counting(&all, "user").algorithm.limit(), counting(&all, "user").numbers_of.clone())
    };
    assert_eq!(numbers("dot", NOW), (1, NumbersOf::Limit));
    assert_eq!(numbers("ada", NOW), (5, NumbersOf::Policy { when: when("ada") }));
    let at_run_time = |user, until| NumbersOf::RunTime { when: when(user), until };
    assert_eq!(numbers("bob", NOW), (9, at_run_time("bob", Some(until))));
    assert_eq!(numbers("bob", until), (1, NumbersOf::Limit), "it has ended");
    assert_eq!(numbers("cyd", NOW), (7, at_run_time("cyd", None)));
}

#[test]
fn a_level_says_what_is_used_and_left_and_when_it_would_be_admitted() {
    for limit in one_of_each(5) {
        let name = limit.name.clone();
        let is_held = name == "concurrency";
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        let fresh = level(&gate.explain(&attributes, Cost::ONE, NOW), &name).clone();
        assert_eq!(fresh, Level::new(5, 0, 5, NOW, Outlook::Admit), "{name}");
        let held: Vec<_> = (0..5).map(|_| gate.check(&attributes, Cost::ONE, NOW)).collect();
        let full = level(&gate.explain(&attributes, Cost::ONE, NOW), &name).clone();
        assert_eq!((full.used, full.remaining), (5, 0), "{name}");
        let refusal = gate.check(&attributes, Cost::ONE, NOW).into_result().unwrap_err();
        let (reason, retry) = (refusal.reason(), refusal.retry());
        assert_eq!(full.outlook, Outlook::Refuse { reason, retry }, "{name}");
        let too_much = level(&gate.explain(&attributes, cost(6), NOW), &name).outlook;
        if !is_held {
            let never = Outlook::Refuse { reason: Reason::CostExceedsLimit, retry: Retry::Never };
            assert_eq!(too_much, never, "{name}");
        }
        drop(held);
    }
}

#[test]
fn a_blocked_key_says_until_when_and_a_shadow_limit_refuses_nothing() {
    let gate = gate([per_second("user", 1).block_on_exceed(MINUTE), per_second("app", 1).shadow()]);
    let attributes = [("user", "ada"), ("app", "x")];
    assert!(gate.block(&attributes, "user", after(MINUTE), NOW).unwrap());
    let all = gate.explain(&attributes, cost(2), NOW);
    let blocked = Outlook::Refuse { reason: Reason::Blocked, retry: Retry::At(after(MINUTE)) };
    assert_eq!((level(&all, "user").outlook, counting(&all, "user").blocks_for), (blocked, Some(MINUTE)));
    let app = of(&all, "app");
    assert!(app.is_shadow && !app.refuses() && level(&all, "app").outlook != Outlook::Admit);
}

/// The values that attributes of random requests have.
const VALUES: [&str; 3] = ["a", "b", "2001:db8::1"];
const NAMES: [&str; 3] = ["user", "ip", "method"];

fn matchers() -> impl Strategy<Value = Matcher> {
    prop_oneof![
        Just(Matcher::exact("a")),
        Just(Matcher::one_of(["a", "b"])),
        Just(Matcher::present()),
        Just(Matcher::absent()),
        Just(Matcher::not(Matcher::exact("b"))),
        Just(Matcher::cidr("2001:db8::/32").unwrap()),
    ]
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let missing = prop_oneof![Just(Missing::Skip), Just(Missing::Refuse), Just(Missing::Group)];
    let one = (
        0..5_usize,
        1..6_u64,
        proptest::sample::subsequence(&NAMES[..], 0..=2),
        missing,
        proptest::option::of((0..3_usize, matchers())),
        any::<(bool, bool, bool)>(),
    );
    let limit = one.prop_map(|(kind, units, key, missing, condition, (is_shadow, blocks, is_other))| {
        let mut limit = one_of_each(units).swap_remove(kind).key(key.clone()).missing(missing);
        if let Some((attribute, matcher)) = condition {
            limit = limit.when(NAMES[attribute], matcher);
        }
        if blocks {
            limit = limit.block_on_exceed(Duration::from_secs(5));
        }
        if let (true, Some(name)) = (is_other, key.first()) {
            let other = one_of_each(units + 2).swap_remove(kind).algorithm;
            limit = limit.override_for([(*name, "a")], other);
        }
        if is_shadow && units % 2 == 0 { limit.shadow() } else { limit }
    });
    proptest::collection::vec(limit, 1..5).prop_map(|mut limits| {
        for (index, limit) in limits.iter_mut().enumerate() {
            limit.name = format!("limit-{index}");
        }
        limits
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_explanation_says_of_every_request_what_a_check_then_decides(
        limits in limits(),
        requests in proptest::collection::vec(
            (proptest::array::uniform3(proptest::option::of(0..3_usize)), 1..4_u64, 0..20_000_u64),
            1..40,
        ),
    ) {
        let gate = gate(limits);
        let mut held = Vec::new();
        let mut now = NOW;
        for (values, units, step) in requests {
            now = now.saturating_add(Duration::from_millis(step));
            let pairs = NAMES.iter().zip(values);
            let attributes: Vec<_> =
                pairs.filter_map(|(name, value)| Some((*name, VALUES[value?]))).collect();
            let before = gate.table().fingerprint();
            let all = gate.explain(attributes.as_slice(), cost(units), now);
            prop_assert_eq!(gate.table().fingerprint(), before, "explaining changes nothing");
            let would_admit = !all.iter().any(Explanation::refuses);
            let decision = gate.check(attributes.as_slice(), cost(units), now);
            prop_assert_eq!(would_admit, decision.is_admit(), "{:?} of {:?}", all, attributes);
            if let Decision::Admit(permit) = decision {
                held.push(permit);
            }
        }
    }
}

#[test]
fn a_part_of_a_key_that_is_no_address_is_shown_as_it_is() {
    let part = KeyPart { attribute: "ip".to_owned(), ipv6_prefix: Some(48) };
    let gate = gate([Limit::new("per-address", bucket(1, MINUTE)).key([part])]);
    for (value, key, no_addresses) in [
        ("2001:db8:1:2::3", "2001:db8:1::/48", &[][..]),
        (" 10.1.2.3", "10.1.2.3", &[]),
        ("unknown", "unknown", &["ip"]),
    ] {
        let all = gate.explain(&[("ip", value)], Cost::ONE, NOW);
        let counted = counting(&all, "per-address");
        assert_eq!(counted.key[0].1.as_deref(), Some(key));
        assert_eq!(counted.no_addresses, no_addresses);
    }
}
