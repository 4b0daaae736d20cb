//! Requests that are streams: their places come back when their answers begin, and their streams
//! however their admission or their work ends.

use core::time::Duration;

use tidegate_capacity::Capacity;
use tidegate_core::{Attributes, Limit, OverloadMechanism, RefusalDetails};
use tidegate_engine::{Completion, Engine, NamespaceConfig, OfferOutcome, Outcome, Permit, Request};
use tidegate_overload::{Overload, QueueConfig, ResourceConfig};

use crate::world::{NOW, World, bucket, config};

const MS: Duration = Duration::from_millis(1);

/// Two places and three streams, of which each of two namespaces has a part.
fn world(queue: Option<QueueConfig>) -> World {
    let app = ResourceConfig::new(2).streams_max(3);
    let app = queue.map_or(app, |queue| app.queue(queue));
    let one = Limit::new("one", bucket(1, Duration::from_hours(1)));
    let namespaces = [
        NamespaceConfig::new("shop", []),
        NamespaceConfig::new("blog", []),
        NamespaceConfig::new("once", [one]),
    ];
    let engine = Engine::builder(config()).namespaces(namespaces).build().unwrap();
    let resources = Overload::builder(7).resource("app", app);
    let engine = engine.with_planes(Capacity::builder(), resources, NOW).unwrap();
    engine.set_namespace_shares("app", [("shop", 2)]);
    engine.set_stream_namespaces("app", ["shop", "blog", "elsewhere"]);
    World::of(engine)
}

fn stream(namespace: &str) -> Request<'_> {
    Request::new(namespace, Attributes::default()).resource("app").stream()
}

/// The places that are taken, and the streams that are open.
fn held(world: &World) -> (u64, u64) {
    let stats = world.stats();
    (stats.in_flight, stats.streams.map_or(0, |streams| streams.open))
}

fn begin(world: &World, permit: &mut Permit) {
    world.engine.begin_answer(permit, Outcome::Succeeded, world.now());
}

#[test]
fn issue_39_a_stream_keeps_its_place_until_its_answer_begins_and_counts_until_it_is_settled() {
    let world = world(None);
    let mut permit = world.begin(&stream("shop")).admitted();
    assert_eq!((held(&world), permit.awaits_answer()), ((1, 1), true));
    world.advance(30 * MS);
    begin(&world, &mut permit);
    assert_eq!((held(&world), permit.awaits_answer()), ((0, 1), false));
    let latency = world.stats().latency;
    assert_eq!((latency.succeeded, latency.end), (1, Some(30 * MS)));
    world.advance(Duration::from_mins(5));
    // A second time nothing happens.
    begin(&world, &mut permit);
    let settled = world.engine.settle(permit, Outcome::Failed, world.now());
    assert!(!settled.has_lost_place, "it was given back, and has not expired");
    assert_eq!((held(&world), world.stats().latency), ((0, 0), latency));
}

#[test]
fn issue_39_whatever_ends_a_stream_gives_it_back() {
    let ends: [fn(&World, Permit); 4] = [
        |world, permit| drop(world.engine.settle(permit, Outcome::Succeeded, world.now())),
        |world, permit| drop(world.engine.settle(permit, Outcome::Cancelled, world.now())),
        |world, permit| {
            let late = Completion::from(Outcome::Failed).timed_out();
            drop(world.engine.settle(permit, late, world.now()));
        },
        |_, permit| drop(permit),
    ];
    for has_begun in [false, true] {
        for end in ends {
            let world = world(None);
            let mut permit = world.begin(&stream("shop")).admitted();
            if has_begun {
                begin(&world, &mut permit);
            }
            end(&world, permit);
            assert_eq!(held(&world), (0, 0), "{has_begun}");
        }
    }
}

#[test]
fn issue_39_a_stream_too_many_is_refused_and_is_no_demand() {
    let world = world(None);
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut permit = world.begin(&stream("shop")).admitted();
        begin(&world, &mut permit);
        open.push(permit);
    }
    let until = world.now().saturating_add(Duration::from_secs(1));
    for request in [stream("shop"), stream("shop").may_wait_until(until)] {
        let refused = world.begin(&request).refused();
        let details = refused.details.as_deref().and_then(RefusalDetails::overload).unwrap();
        assert_eq!(
            (details.mechanism, refused.violated[0].limit),
            (OverloadMechanism::Streams, 2),
            "the part of shop"
        );
        assert!(refused.retry_hint.is_some());
    }
    let stats = world.stats();
    assert_eq!((stats.count(OfferOutcome::NoStream), stats.demand, held(&world)), (2, 2, (0, 2)));
    // Neither another namespace nor a request that is no stream lacks anything.
    let other = world.begin(&stream("blog")).admitted();
    let plain = world.begin(&Request::new("shop", Attributes::default()).resource("app")).admitted();
    assert_eq!(held(&world), (2, 3));
    drop((other, plain, open));
    assert_eq!(held(&world), (0, 0));
}

#[test]
fn issue_39_a_request_that_a_limit_denies_or_that_finds_no_place_opens_no_stream() {
    let world = world(None);
    let first = world.begin(&stream("once")).admitted();
    world.begin(&stream("once")).refused();
    assert_eq!(held(&world), (1, 1));
    let second = world.begin(&stream("shop")).admitted();
    world.begin(&stream("blog")).refused();
    assert_eq!(held(&world), (2, 2));
    drop((first, second));
    assert_eq!(held(&world), (0, 0));
}

#[test]
fn issue_39_the_answer_of_a_stream_calls_the_next_request_that_waits() {
    for queue in [None, Some(QueueConfig::default())] {
        let world = world(queue);
        let mut first = world.begin(&stream("shop")).admitted();
        let second = world.begin(&stream("shop")).admitted();
        let until = world.now().saturating_add(Duration::from_secs(1));
        let waits = world.begin(&stream("blog").may_wait_until(until)).waits();
        assert_eq!(held(&world), (2, 2), "who waits holds nothing");
        begin(&world, &mut first);
        let called = world.resume(waits).admitted();
        assert_eq!(held(&world), (2, 3));
        drop((first, second, called));
        assert_eq!(held(&world), (0, 0));
    }
}
