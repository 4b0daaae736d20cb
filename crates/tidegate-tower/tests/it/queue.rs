//! Requests that wait for their turn instead of being refused.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use http::Request;
use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::{Algorithm, Limit, Matcher};
use tidegate_overload::{Overload, ResourceConfig};
use tidegate_tower::{AdmitBody, AdmitLayer, extract, timeout};
use tokio::task::JoinHandle;
use tower::{Layer, ServiceExt, service_fn};

use crate::world::{
    Frames, SECOND, World, bucket, builder, hanging, let_run, parallel, poll, prompt, request, request_of,
};

const HALF: Duration = Duration::from_millis(500);

/// One request a second for each user.
fn slow() -> World {
    World::new(builder([Limit::new("rate", bucket(1, SECOND, 1)).key(["user"])]))
}

/// One request at a time for each user.
fn single() -> World {
    World::new(builder([Limit::new("parallel", parallel(1)).key(["user"])]))
}

type Answer = http::Response<AdmitBody<Frames>>;

/// Runs a request to its answer, whose body does not end.
fn spawn(world: &World, request: Request<()>) -> JoinHandle<Answer> {
    let service = world.layer.layer(service_fn(hanging));
    tokio::spawn(async move { service.oneshot(request).await.unwrap() })
}

/// Runs a request, and notes `name` when it is served.
fn spawn_noted(
    world: &World,
    request: Request<()>,
    name: &'static str,
    served: &Arc<Mutex<Vec<&'static str>>>,
) -> JoinHandle<Answer> {
    let served = Arc::clone(served);
    let service = world.layer.layer(service_fn(move |request| {
        served.lock().unwrap().push(name);
        prompt(request)
    }));
    tokio::spawn(async move { service.oneshot(request).await.unwrap() })
}

async fn status(world: &World, request: Request<()>) -> u16 {
    world.layer.layer(service_fn(prompt)).oneshot(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_request_is_served_at_the_very_instant_the_refusal_would_have_named() {
    let world = slow().with(|layer| layer.wait(SECOND));
    assert_eq!(status(&world, request()).await, 200);
    let waits = spawn(&world, request());
    let_run().await;
    assert_eq!(world.layer.waiting(), 1);
    world.clock.advance(Duration::from_nanos(999_999_999));
    let_run().await;
    assert!(!waits.is_finished());
    world.clock.advance(Duration::from_nanos(1));
    assert_eq!(waits.await.unwrap().status(), 200);
    assert_eq!(world.layer.waiting(), 0);
}

#[tokio::test]
async fn who_would_wait_too_long_is_refused_at_once() {
    let world = slow().with(|layer| layer.wait(Duration::from_nanos(999_999_999)));
    assert_eq!(status(&world, request()).await, 200);
    assert_eq!(status(&world, request()).await, 429);
    // Within the wait, but not within the deadline.
    let world = slow().with(|layer| layer.wait(SECOND).deadline(timeout::millis("x-timeout-ms")));
    assert_eq!(status(&world, request()).await, 200);
    let mut hurried = request();
    hurried.headers_mut().insert("x-timeout-ms", "1000".parse().unwrap());
    assert_eq!(status(&world, hurried).await, 429);
}

#[tokio::test]
async fn a_place_that_somebody_gives_back_goes_to_who_waits() {
    let world = single().with(|layer| layer.wait(SECOND));
    let held = spawn(&world, request()).await.unwrap();
    let waits = spawn(&world, request());
    let_run().await;
    assert!(!waits.is_finished());
    drop(held);
    // The clock stands still: only what was given back can have woken it.
    let served = waits.await.unwrap();
    assert_eq!((served.status().as_u16(), world.layer.waiting()), (200, 0));
    // And nobody else has it.
    assert_eq!(
        spawn(&world.with(|layer| layer.wait(Duration::ZERO)), request()).await.unwrap().status(),
        429
    );
    drop(served);
}

#[tokio::test]
async fn a_place_that_is_given_back_before_one_stands_in_line_is_not_missed() {
    let world = single().with(|layer| layer.wait(SECOND));
    let held = spawn(&world, request()).await.unwrap();
    // Refused already, and not yet in line.
    let mut call = world.layer.layer(service_fn(prompt));
    let mut waits = Box::pin(tower::Service::call(&mut call, request()));
    drop(held);
    assert!(poll(&mut waits).is_ready());
}

#[tokio::test]
async fn a_place_in_flight_is_waited_for_by_all_alike() {
    let overload = Overload::new(ResourceConfig::new(1), 5).unwrap();
    let world = World::new(builder([]).overload(overload)).with(|layer| layer.wait(SECOND));
    let held = spawn(&world, request()).await.unwrap();
    let sheddable = spawn(&world, request_of("sheddable"));
    let_run().await;
    let critical = spawn(&world, request_of("critical"));
    let_run().await;
    drop(held);
    let served = critical.await.unwrap();
    assert_eq!(served.status(), 200);
    let_run().await;
    assert!(!sheddable.is_finished());
    drop(served);
    assert_eq!(sheddable.await.unwrap().status(), 200);
}

#[tokio::test]
async fn patience_ends_with_the_refusal() {
    let world = single().with(|layer| layer.wait(SECOND));
    let held = spawn(&world, request()).await.unwrap();
    let (first, second) = (spawn(&world, request()), spawn(&world, request()));
    let_run().await;
    assert_eq!(world.layer.waiting(), 2);
    world.clock.advance(SECOND);
    for waits in [first, second] {
        let answer = waits.await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["x-tidegate-reason"]),
            (429, &"concurrency_exceeded".parse().unwrap())
        );
    }
    assert_eq!(world.layer.waiting(), 0);
    drop(held);
}

#[tokio::test]
async fn first_come_is_first_served_and_a_higher_class_before_it() {
    let world = slow().with(|layer| layer.wait(Duration::from_mins(1)));
    let served = Arc::new(Mutex::new(Vec::new()));
    assert_eq!(status(&world, request()).await, 200);
    let mut tasks = Vec::new();
    for (class, name) in [
        ("sheddable", "low 1"),
        ("critical", "high 1"),
        ("sheddable", "low 2"),
        ("critical", "high 2"),
        ("sheddable_plus", "middle"),
    ] {
        tasks.push(spawn_noted(&world, request_of(class), name, &served));
        let_run().await;
    }
    for _ in 0..10 {
        world.clock.advance(HALF);
        let_run().await;
    }
    assert_eq!(*served.lock().unwrap(), ["high 1", "high 2", "middle", "low 1", "low 2"]);
    for task in tasks {
        assert_eq!(task.await.unwrap().status(), 200);
    }
    assert_eq!(world.layer.waiting(), 0);
}

#[tokio::test]
async fn nobody_overtakes_by_arriving_when_there_is_room() {
    let world = slow().with(|layer| layer.wait(Duration::from_mins(1)));
    let served = Arc::new(Mutex::new(Vec::new()));
    assert_eq!(status(&world, request()).await, 200);
    let first = spawn_noted(&world, request(), "first", &served);
    let_run().await;
    // There is room now, and the one who waits has not been polled since.
    world.clock.advance(SECOND);
    let late = spawn_noted(&world, request(), "late", &served);
    let mut later = Box::pin(world.layer.layer(service_fn(prompt)).oneshot(request()));
    assert!(poll(&mut later).is_pending());
    // Other users are not concerned.
    let other = Request::builder().header("x-user", "bob").body(()).unwrap();
    assert_eq!(status(&world, other).await, 200);
    drop(later);
    assert_eq!(first.await.unwrap().status(), 200);
    world.clock.advance(SECOND);
    assert_eq!(late.await.unwrap().status(), 200);
    assert_eq!(*served.lock().unwrap(), ["first", "late"]);
}

#[tokio::test]
async fn who_is_not_concerned_by_a_limit_stands_behind_nobody_who_waits_for_it() {
    let writes =
        Limit::new("writes", bucket(1, SECOND, 1)).key(["user"]).when("method", Matcher::exact("PUT"));
    let world =
        World::new(builder([writes])).with(|layer| layer.attribute("method", extract::method()).wait(SECOND));
    let put = || Request::put("/").header("x-user", "ada").body(()).unwrap();
    assert_eq!(status(&world, put()).await, 200);
    let waits = spawn(&world, put());
    let_run().await;
    let mut read = Box::pin(world.layer.layer(service_fn(prompt)).oneshot(request()));
    assert!(poll(&mut read).is_ready());
    let mut write = Box::pin(world.layer.layer(service_fn(prompt)).oneshot(put()));
    assert!(poll(&mut write).is_pending());
    drop(write);
    world.clock.advance(SECOND);
    assert_eq!(waits.await.unwrap().status(), 200);
}

#[tokio::test]
async fn no_more_wait_than_may_and_the_next_one_is_refused_at_once() {
    let world = slow().with(|layer| layer.wait(SECOND).waiters_max(1));
    assert_eq!(status(&world, request()).await, 200);
    let waits = spawn(&world, request());
    let_run().await;
    assert_eq!(status(&world, request()).await, 429);
    world.clock.advance(SECOND);
    assert_eq!(waits.await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_second_layer_on_the_same_engine_leaves_the_bound_of_the_first() {
    let world = slow().with(|layer| layer.wait(SECOND).waiters_max(1));
    drop(AdmitLayer::new(world.engine.clone(), "api").unwrap());
    assert_eq!(status(&world, request()).await, 200);
    let waits = spawn(&world, request());
    let_run().await;
    let mut refused = Box::pin(world.layer.layer(service_fn(prompt)).oneshot(request()));
    assert!(poll(&mut refused).is_ready(), "one request waits already");
    world.clock.advance(SECOND);
    assert_eq!(waits.await.unwrap().status(), 200);
}

#[tokio::test]
async fn who_goes_away_leaves_the_line_without_a_trace() {
    let world = single().with(|layer| layer.wait(SECOND));
    let held = spawn(&world, request()).await.unwrap();
    let fingerprint = world.engine.engine().fingerprint();
    let first = spawn(&world, request());
    let_run().await;
    let second = spawn(&world, request());
    let_run().await;
    first.abort();
    let_run().await;
    assert_eq!((world.layer.waiting(), world.engine.engine().fingerprint()), (1, fingerprint));
    drop(held);
    assert_eq!(second.await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_head_that_is_called_and_goes_away_hands_on_the_call() {
    let world = single().with(|layer| layer.wait(SECOND));
    let held = spawn(&world, request()).await.unwrap();
    let mut first = Box::pin(world.layer.layer(service_fn(hanging)).oneshot(request()));
    assert!(poll(&mut first).is_pending());
    let second = spawn(&world, request());
    let_run().await;
    drop(held);
    drop(first);
    assert_eq!(second.await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_request_that_waits_for_one_limit_may_then_wait_for_another() {
    let minute = Fixed::new(2, Duration::from_secs(3), WindowStart::Epoch).unwrap();
    let world = World::new(builder([
        Limit::new("rate", bucket(1, SECOND, 1)).key(["user"]),
        Limit::new("fixed", Algorithm::Fixed(minute)).key(["user"]),
        Limit::new("parallel", parallel(1)).key(["user"]),
    ]))
    .with(|layer| layer.wait(Duration::from_secs(5)));
    let held = spawn(&world, request()).await.unwrap();
    let waits = spawn(&world, request());
    let_run().await;
    drop(held);
    let_run().await;
    // The place is free, but the rate is used up until the second is over.
    assert!(!waits.is_finished());
    world.clock.advance(SECOND);
    let answer = waits.await.unwrap();
    assert_eq!(answer.status(), 200);
    // The window holds two and is full again at the third second.
    let waits = spawn(&world, request());
    let_run().await;
    drop(answer);
    world.clock.advance(SECOND);
    let_run().await;
    assert!(!waits.is_finished());
    world.clock.advance(SECOND);
    assert_eq!(waits.await.unwrap().status(), 200);
}

#[tokio::test]
async fn many_that_wait_are_all_served_and_never_more_at_a_time_than_may() {
    let rate = Limit::new("rate", bucket(1000, SECOND, 1000)).key(["user"]);
    let world = World::new(builder([rate, Limit::new("parallel", parallel(3)).key(["user"])]))
        .with(|layer| layer.wait(SECOND));
    let under_way = Arc::new(Mutex::new((0, 0)));
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let under_way = Arc::clone(&under_way);
            let service = world.layer.layer(service_fn(move |request| {
                let under_way = Arc::clone(&under_way);
                async move {
                    {
                        let mut counts = under_way.lock().unwrap();
                        counts.0 += 1;
                        counts.1 = counts.1.max(counts.0);
                    }
                    tokio::task::yield_now().await;
                    under_way.lock().unwrap().0 -= 1;
                    prompt(request).await
                }
            }));
            tokio::spawn(async move { service.oneshot(request()).await.unwrap().status().as_u16() })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), 200);
    }
    assert_eq!((*under_way.lock().unwrap(), world.layer.waiting()), ((0, 3), 0));
    assert_eq!(world.left(), [("rate".to_owned(), 800), ("parallel".to_owned(), 3)]);
}

/// Two services behind layers of one engine: neither takes a place of the other.
#[tokio::test]
async fn layers_that_name_their_resources_have_places_of_their_own() {
    let overload = Overload::builder(5)
        .resource("search", ResourceConfig::new(1))
        .resource("orders", ResourceConfig::new(1))
        .build()
        .unwrap();
    let World { layer, .. } = World::new(builder([]).overload(overload));
    let search = layer.clone().resource("search").unwrap();
    let orders = layer.clone().resource("orders").unwrap();
    let ask = async |layer: &AdmitLayer| layer.layer(service_fn(hanging)).oneshot(request()).await.unwrap();
    let held = ask(&search).await;
    assert_eq!(held.status(), 200);
    assert_eq!(ask(&search).await.status(), 503);
    let other = ask(&orders).await;
    assert_eq!((other.status().as_u16(), ask(&orders).await.status().as_u16()), (200, 503));
    drop(held);
    assert_eq!(ask(&search).await.status(), 200);
    let error = layer.resource("serach").err().unwrap().to_string();
    assert_eq!(error, "resource \"serach\" does not exist; use \"search\" or \"orders\"");
}
