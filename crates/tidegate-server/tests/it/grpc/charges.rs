//! Charges, looks and refunds: what a descriptor says it weighs.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::limit::Consistency;
use tidegate_engine::NamespaceConfig;
use tidegate_server::ManualClock;
use tidegate_wire::envoy::RateLimitUnit;

use super::{Envoy, app, back, config, header, lefts, under, user, weighing, world};
use crate::world::{START, World, fixed, memory_store};

#[tokio::test]
async fn looking_first_and_charging_afterwards_comes_to_an_end() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    // As Envoy does with `apply_on_stream_done`: a look, the response, a charge whose answer is not
    // read.
    assert_eq!(envoy.left(&[weighing(0, app("x"))]).await, [(false, 5)]);
    assert_eq!(envoy.left(&[weighing(4, app("x"))]).await, [(false, 1)]);
    assert_eq!(envoy.left(&[weighing(0, app("x"))]).await, [(false, 1)]);
    // Three more than are left: booked, or the next look would let it go on for ever.
    assert_eq!(envoy.left(&[weighing(4, app("x"))]).await, [(true, 0)]);
    assert_eq!(envoy.left(&[weighing(0, app("x"))]).await, [(true, 0)]);
    assert_eq!(envoy.left(&[app("x")]).await, [(true, 0)]);
    world.clock.advance(Duration::from_mins(1));
    let (is_over, left) = envoy.left(&[weighing(0, app("x"))]).await[0];
    assert!(!is_over && left > 0, "the next window");
}

#[tokio::test]
async fn a_look_changes_nothing_and_is_refused_where_nothing_is_left() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    for left in [2, 1] {
        assert_eq!(envoy.left(&[user("ada")]).await, [(false, left)]);
    }
    let before = world.engine.fingerprint();
    for _ in 0..3 {
        assert_eq!(envoy.left(&[weighing(0, user("ada"))]).await, [(false, 1)]);
    }
    assert_eq!(world.engine.fingerprint(), before);
    assert_eq!(envoy.left(&[user("ada")]).await, [(false, 0)]);
    let refused = envoy.ask(&[weighing(0, user("ada"))]).await;
    assert_eq!(lefts(&refused), [(true, 0)]);
    assert_eq!(header(&refused, "retry-after"), Some("1"));
}

#[tokio::test]
async fn a_charge_is_booked_whatever_becomes_of_the_questions_beside_it() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    for _ in 0..3 {
        envoy.ask(&[user("ada")]).await;
    }
    assert_eq!(envoy.left(&[weighing(2, app("x")), user("ada")]).await, [(false, 3), (true, 0)]);
    assert_eq!(envoy.left(&[weighing(0, app("x"))]).await, [(false, 3)]);
    // And a charge that does not fit holds the questions beside it back.
    assert_eq!(envoy.left(&[user("bob"), weighing(9, app("x"))]).await, [(false, 3), (true, 0)]);
    assert_eq!(envoy.left(&[user("bob")]).await, [(false, 2)], "it was not charged");
}

#[tokio::test]
async fn the_largest_weight_there_is_leaves_a_bounded_debt() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    for _ in 0..3 {
        assert_eq!(envoy.left(&[weighing(u64::MAX, user("ada"))]).await, [(true, 0)]);
    }
    let refused = envoy.ask(&[user("ada")]).await;
    let wait = refused.statuses[0].duration_until_reset.unwrap().seconds;
    assert_eq!(wait, 301, "a hundred times the limit, and one more");
    world.clock.advance(Duration::from_secs(wait.try_into().unwrap()));
    assert!(!envoy.left(&[user("ada")]).await[0].0, "waiting as told is enough");
}

#[tokio::test]
async fn the_wait_after_a_debt_is_as_long_as_the_debt() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let booked = envoy.ask(&[weighing(5, user("ada"))]).await;
    assert_eq!(lefts(&booked), [(true, 0)]);
    // Two are owed and one is wanted, at one a second.
    assert_eq!(booked.statuses[0].duration_until_reset.unwrap().seconds, 3);
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(envoy.left(&[user("ada")]).await, [(true, 0)]);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(envoy.left(&[user("ada")]).await, [(false, 0)]);
}

#[tokio::test]
async fn what_is_given_back_may_be_used_again_and_is_never_more_than_was_used() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    assert_eq!(envoy.left(&[weighing(4, app("x"))]).await, [(false, 1)]);
    assert_eq!(envoy.left(&[back(weighing(3, app("x")))]).await, [(false, 4)]);
    assert_eq!(envoy.left(&[back(weighing(u64::MAX, app("x")))]).await, [(false, 5)]);
    assert_eq!(envoy.left(&[app("x")]).await, [(false, 4)]);
    assert_eq!(envoy.left(&[back(app("x"))]).await, [(false, 5)], "one, where nobody says how many");
    assert_eq!(envoy.left(&[back(weighing(0, app("x")))]).await, [(false, 5)]);
}

#[tokio::test]
async fn limits_of_the_request_are_charged_looked_at_and_given_back_as_those_of_the_policy() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let own = || under(5, RateLimitUnit::Minute, user("ada"));
    assert_eq!(envoy.left(&[weighing(4, own())]).await, [(false, 1)]);
    assert_eq!(envoy.left(&[weighing(0, own())]).await, [(false, 1)]);
    assert_eq!(envoy.left(&[weighing(4, own())]).await, [(true, 0)]);
    assert_eq!(envoy.left(&[weighing(0, own())]).await, [(true, 0)]);
    assert_eq!(envoy.left(&[back(weighing(8, own()))]).await, [(false, 5)]);
    assert_eq!(envoy.left(&[own()]).await, [(false, 4)]);
}

#[tokio::test]
async fn quotas_in_the_store_are_charged_looked_at_and_given_back_alike() {
    let clock = Arc::new(ManualClock::new(START));
    let store = memory_store(&clock);
    let limits = vec![fixed("app", 5, Duration::from_hours(1)).key(["app"]).consistency(Consistency::Exact)];
    let world = World::asking([NamespaceConfig::new("api", limits)], config(), clock, store).await;
    let mut envoy = Envoy::of(&world).await;
    for one in [app("x"), under(5, RateLimitUnit::Day, app("x"))] {
        assert_eq!(envoy.left(&[weighing(4, one.clone())]).await, [(false, 1)]);
        assert_eq!(envoy.left(&[weighing(4, one.clone())]).await, [(true, 0)]);
        assert_eq!(envoy.left(&[weighing(0, one.clone())]).await, [(true, 0)]);
        assert_eq!(envoy.left(&[back(weighing(4, one.clone()))]).await, [(false, 1)]);
        assert_eq!(envoy.left(core::slice::from_ref(&one)).await, [(false, 0)]);
        assert_eq!(envoy.left(&[one]).await, [(true, 0)]);
    }
}
