//! Questions: what is admitted, what is refused, and that a refusal leaves no trace.

use std::time::Duration;

use tidegate_wire::envoy::{RateLimitRequest, RateLimitUnit};

use super::{Envoy, app, config, descriptor, lefts, request, under, user, world};
use crate::world::{START, World, api, bucket, memory_store};
use std::sync::Arc;
use tidegate_core::limit::Consistency;
use tidegate_engine::NamespaceConfig;
use tidegate_server::ManualClock;

#[tokio::test]
async fn exactly_as_many_are_admitted_as_the_limit_has_and_again_when_time_has_passed() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    for left in [2, 1, 0] {
        assert_eq!(envoy.left(&[user("ada")]).await, [(false, left)]);
    }
    assert_eq!(envoy.left(&[user("ada")]).await, [(true, 0)]);
    assert_eq!(envoy.left(&[user("bob")]).await, [(false, 2)], "another key");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(envoy.left(&[user("ada")]).await, [(false, 0)]);
    assert_eq!(envoy.left(&[user("ada")]).await, [(true, 0)]);
}

#[tokio::test]
async fn several_descriptors_go_ahead_together_or_not_at_all() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    for left in [2, 1, 0] {
        assert_eq!(envoy.left(&[app("x"), user("ada")]).await, [(false, left + 2), (false, left)]);
    }
    let before = world.engine.fingerprint();
    // The app has two left each time: what it was charged before the user was asked is given back.
    for _ in 0..3 {
        assert_eq!(
            envoy.left(&[app("x"), user("ada"), user("bob")]).await,
            [(false, 2), (true, 0), (false, 3)]
        );
    }
    assert_eq!(world.engine.fingerprint(), before);
    assert_eq!(envoy.left(&[app("x"), user("bob")]).await, [(false, 1), (false, 2)]);
}

#[tokio::test]
async fn descriptors_of_one_counter_are_counted_each() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    assert_eq!(envoy.left(&[user("ada"), user("ada")]).await, [(false, 2), (false, 1)]);
    let before = world.engine.fingerprint();
    assert_eq!(envoy.left(&[user("ada"), user("ada")]).await, [(false, 1), (true, 0)]);
    assert_eq!(world.engine.fingerprint(), before);
}

#[tokio::test]
async fn the_weight_of_the_request_is_that_of_each_descriptor_and_charged_if_all_of_it_fits() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let heavy = |hits_addend| RateLimitRequest { hits_addend, ..request("api", &[app("x")]) };
    assert_eq!(lefts(&envoy.call(heavy(4)).await.unwrap()), [(false, 1)]);
    assert_eq!(lefts(&envoy.call(heavy(4)).await.unwrap()), [(true, 1)]);
    assert_eq!(lefts(&envoy.call(heavy(1)).await.unwrap()), [(false, 0)], "what was refused was not charged");
    let never = envoy.call(heavy(u32::MAX)).await.unwrap();
    assert_eq!(lefts(&never), [(true, 0)]);
    assert_eq!(never.statuses[0].duration_until_reset, None, "it never will be");
}

#[tokio::test]
async fn a_domain_that_is_no_namespace_has_no_limits() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let answer = envoy.call(request("elsewhere", &[user("ada"), user("bob")])).await.unwrap();
    assert_eq!(lefts(&answer), [(false, 0), (false, 0)]);
    assert!(answer.statuses.iter().all(|status| status.current_limit.is_none()));
    assert!(answer.response_headers_to_add.is_empty());
    let unmatched = envoy.ask(&[descriptor(&[("colour", "red")])]).await;
    assert_eq!(unmatched.statuses[0].current_limit, None);
}

#[tokio::test]
async fn a_concurrency_limit_is_only_looked_at_and_no_permit_leaks() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    for _ in 0..50 {
        assert_eq!(envoy.left(&[descriptor(&[("tenant", "acme")])]).await, [(false, 1)]);
    }
    // Held by others, it refuses here as well.
    let check = r#"{"tenant":"acme"}"#;
    let permits = [world.check(check).await.json(), world.check(check).await.json()];
    let refused = envoy.ask(&[descriptor(&[("tenant", "acme")])]).await;
    assert_eq!(lefts(&refused), [(true, 0)]);
    for permit in permits {
        let body = format!(r#"{{"permit":{}}}"#, permit["permit"]);
        assert_eq!(world.post("/v1/release", &body).await.status, 200);
    }
    assert_eq!(envoy.left(&[descriptor(&[("tenant", "acme")])]).await, [(false, 1)]);
}

#[tokio::test]
async fn a_key_that_stands_twice_counts_by_both_of_its_values() {
    let limits = vec![bucket("pairs", 1, 1).key(["generic_key", "generic_key.2"])];
    let world = World::with([NamespaceConfig::new("api", limits)], config()).await;
    let mut envoy = Envoy::of(&world).await;
    let pair = |one, two| descriptor(&[("generic_key", one), ("generic_key", two)]);
    assert_eq!(envoy.left(&[pair("a", "b")]).await, [(false, 0)]);
    assert_eq!(envoy.left(&[pair("a", "c")]).await, [(false, 0)]);
    assert_eq!(envoy.left(&[pair("a", "b")]).await, [(true, 0)]);
}

#[tokio::test]
async fn a_shadow_limit_neither_refuses_nor_shows() {
    let limits = vec![bucket("wide", 1, 3).key(["user"]), bucket("shadow", 1, 1).key(["user"]).shadow()];
    let world = World::with([NamespaceConfig::new("api", limits)], config()).await;
    let mut envoy = Envoy::of(&world).await;
    for left in [2, 1, 0] {
        let answer = envoy.ask(&[user("ada")]).await;
        assert_eq!(lefts(&answer), [(false, left)]);
        assert_eq!(answer.statuses[0].current_limit.as_ref().unwrap().name, "wide");
    }
    assert_eq!(envoy.ask(&[user("ada")]).await.statuses[0].current_limit.as_ref().unwrap().name, "wide");
}

#[tokio::test]
async fn a_limit_that_comes_with_a_descriptor_takes_the_place_of_the_policy() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let own = |limit| under(limit, RateLimitUnit::Hour, user("ada"));
    for left in [3, 2, 1, 0] {
        let answer = envoy.ask(&[own(4)]).await;
        assert_eq!(lefts(&answer), [(false, left)]);
        let limit = answer.statuses[0].current_limit.clone().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit().as_str_name()), (4, "HOUR"));
        // The window is the hour of the clock, which has just begun.
        assert_eq!(answer.statuses[0].duration_until_reset.unwrap().seconds, 3600);
    }
    let refused = envoy.ask(&[own(4)]).await;
    assert_eq!(lefts(&refused), [(true, 0)]);
    assert_eq!(super::header(&refused, "retry-after"), Some("3600"));
    // Used units stay used when the number changes; another unit is another counter; the policy's
    // was not touched.
    assert_eq!(envoy.left(&[own(6)]).await, [(false, 1)]);
    assert_eq!(envoy.left(&[under(6, RateLimitUnit::Day, user("ada"))]).await, [(false, 5)]);
    assert_eq!(envoy.left(&[user("ada")]).await, [(false, 2)]);
    world.clock.advance(Duration::from_hours(1));
    assert_eq!(envoy.left(&[own(4)]).await, [(false, 3)]);
}

#[tokio::test]
async fn a_limit_that_comes_with_a_descriptor_needs_no_namespace_and_zero_admits_nothing() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let mut ask = async |limit| {
        lefts(
            &envoy
                .call(request("elsewhere", &[under(limit, RateLimitUnit::Minute, user("ada"))]))
                .await
                .unwrap(),
        )
    };
    assert_eq!(ask(2).await, [(false, 1)]);
    assert_eq!(ask(0).await, [(true, 0)]);
    assert_eq!(ask(2).await, [(false, 0)]);
    assert_eq!(ask(2).await, [(true, 0)]);
}

#[tokio::test]
async fn limits_of_the_policy_and_of_the_request_go_ahead_together_or_not_at_all() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let own = || under(1, RateLimitUnit::Hour, descriptor(&[("path", "/a")]));
    assert_eq!(envoy.left(&[user("ada"), own()]).await, [(false, 2), (false, 0)]);
    let before = world.engine.fingerprint();
    assert_eq!(envoy.left(&[user("ada"), own()]).await, [(false, 2), (true, 0)]);
    assert_eq!(world.engine.fingerprint(), before);
    for left in [1, 0] {
        assert_eq!(envoy.left(&[user("ada")]).await, [(false, left)]);
    }
    // And the other way round: the policy refuses, and the other counter is not touched.
    let other = || under(2, RateLimitUnit::Hour, descriptor(&[("path", "/b")]));
    assert_eq!(envoy.left(&[other(), user("ada")]).await, [(false, 2), (true, 0)]);
    assert_eq!(envoy.left(&[other()]).await, [(false, 1)]);
}

#[tokio::test]
async fn quotas_in_the_store_go_ahead_together_or_not_at_all() {
    let clock = Arc::new(ManualClock::new(START));
    let store = memory_store(&clock);
    let quota = |name: &str, limit| {
        let window = Duration::from_hours(1);
        crate::world::fixed(name, limit, window).key([name.to_owned()]).consistency(Consistency::Exact)
    };
    let limits = vec![quota("user", 2), quota("app", 5)];
    let namespace = NamespaceConfig::new("api", limits);
    let world = World::asking([namespace], config(), clock, store).await;
    let mut envoy = Envoy::of(&world).await;
    let own = || under(3, RateLimitUnit::Day, descriptor(&[("path", "/a")]));
    assert_eq!(envoy.left(&[app("x"), user("ada"), own()]).await, [(false, 4), (false, 1), (false, 2)]);
    assert_eq!(envoy.left(&[app("x"), user("ada"), own()]).await, [(false, 3), (false, 0), (false, 1)]);
    for _ in 0..3 {
        assert_eq!(envoy.left(&[app("x"), user("ada"), own()]).await, [(false, 3), (true, 0), (false, 1)]);
    }
    assert_eq!(envoy.left(&[app("x"), user("bob"), own()]).await, [(false, 2), (false, 1), (false, 0)]);
    assert_eq!(envoy.left(&[app("x"), user("bob"), own()]).await, [(false, 2), (false, 1), (true, 0)]);
    assert_eq!(envoy.left(&[app("x"), user("bob")]).await, [(false, 1), (false, 0)]);
}

#[tokio::test]
async fn a_value_that_is_too_long_to_be_stored_gets_nobody_past_a_quota() {
    let clock = Arc::new(ManualClock::new(START));
    let store = memory_store(&clock);
    let quota = crate::world::fixed("quota", 5, Duration::from_hours(1)).key(["user"]);
    let namespace = NamespaceConfig::new("api", [quota.consistency(Consistency::Exact)]);
    let world = World::asking([namespace], config(), clock, store).await;
    let mut envoy = Envoy::of(&world).await;
    let long = "u".repeat(8 << 10);
    let refused = envoy.ask(&[user(&long)]).await;
    assert_eq!(lefts(&refused), [(true, 0)]);
    assert_eq!(super::header(&refused, "x-tidegate-reason"), Some("blocked"));
    assert_eq!(envoy.left(&[super::weighing(0, user(&long))]).await, [(true, 0)]);
    // A limit that comes with the request counts it by its hash.
    let own = |value: &str| under(2, RateLimitUnit::Day, user(value));
    for (is_over, left) in [(false, 1), (false, 0), (true, 0)] {
        assert_eq!(envoy.left(&[own(&long)]).await, [(is_over, left)]);
    }
    assert_eq!(envoy.left(&[own(&long[1..])]).await, [(false, 1)]);
}

#[tokio::test]
async fn forty_at_once_on_one_key_of_five_are_five() {
    let world = World::with([api()], config()).await;
    let envoy = Envoy::of(&world).await.0;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let mut envoy = Envoy(envoy.clone());
        calls.spawn(async move { envoy.left(&[app("x")]).await[0].0 });
    }
    let refused = calls.join_all().await.into_iter().filter(|is_over| *is_over).count();
    assert_eq!(refused, 35);
}
