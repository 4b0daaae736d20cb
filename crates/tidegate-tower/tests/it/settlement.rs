//! When the permit of a request is settled, and as what.

use core::future::{pending, poll_fn, ready};
use core::task::Poll;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tidegate_engine::Outcome;
use tidegate_tower::{Admit, Clock};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::world::{Answered, Frames, SECOND, Then, World, hanging, left, poll, prompt, request, usual};

#[tokio::test]
async fn a_permit_is_held_until_the_body_has_ended_and_then_settled_as_succeeded() {
    let world = World::new(usual());
    let service = world.layer.layer(service_fn(prompt));
    let mut body = service.oneshot(request()).await.unwrap().into_body();
    assert_eq!(world.left(), left(1, 0));
    assert!(body.frame().await.unwrap().unwrap().is_data());
    assert_eq!((world.left(), world.outcomes()), (left(1, 0), vec![]), "more may come");
    assert!(body.frame().await.is_none());
    assert_eq!((world.left(), world.outcomes()), (left(1, 1), vec![Outcome::Succeeded]));
    drop(body);
    assert_eq!(world.outcomes().len(), 1, "once");
}

#[tokio::test]
async fn a_body_without_content_is_settled_with_the_head_of_its_answer() {
    let world = World::new(usual());
    let empty =
        |_: Request<()>| ready(Ok::<_, &str>(Response::new(http_body_util::Empty::<bytes::Bytes>::new())));
    let response = world.layer.layer(service_fn(empty)).oneshot(request()).await.unwrap();
    assert_eq!((world.left(), world.outcomes()), (left(1, 1), vec![Outcome::Succeeded]));
    drop(response);
}

#[tokio::test]
async fn a_body_that_says_it_has_ended_is_settled_with_its_last_frame() {
    // Servers drop such a body without asking it again.
    let world = World::new(usual());
    let full = |_: Request<()>| {
        ready(Ok::<_, &str>(Response::new(http_body_util::Full::new(bytes::Bytes::from("x")))))
    };
    let mut body = world.layer.layer(service_fn(full)).oneshot(request()).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().unwrap().is_data());
    drop(body);
    assert_eq!((world.left(), world.outcomes()), (left(1, 1), vec![Outcome::Succeeded]));
}

#[tokio::test]
async fn an_answer_of_500_and_above_is_settled_as_failed() {
    let world = World::new(usual());
    let broken = |_: Request<()>| {
        let mut response = Response::new(Frames::new([], Then::End));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        ready(Answered::Ok(response))
    };
    let response = world.layer.layer(service_fn(broken)).oneshot(request()).await.unwrap();
    let _ = response.into_body().collect().await.unwrap();
    assert_eq!((world.left(), world.outcomes()), (left(1, 1), vec![Outcome::Failed]));
}

#[tokio::test]
async fn a_grpc_status_in_the_trailers_says_whether_the_service_failed() {
    for (status, outcome) in [("0", Outcome::Succeeded), ("5", Outcome::Succeeded), ("13", Outcome::Failed)] {
        let world = World::new(usual());
        let answer = move |_: Request<()>| {
            ready(Answered::Ok(Response::new(
                Frames::new(["x"], Then::Hang).trailers(&[("grpc-status", status)]),
            )))
        };
        let mut body = world.layer.layer(service_fn(answer)).oneshot(request()).await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        assert!(body.frame().await.unwrap().unwrap().is_trailers());
        assert_eq!(world.outcomes(), [outcome], "nothing comes after trailers: {status}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_and_a_service_that_errs_are_settled_as_failed() {
    let world = World::new(usual());
    let breaks = |_: Request<()>| ready(Answered::Ok(Response::new(Frames::new(["x"], Then::Fail))));
    let response = world.layer.layer(service_fn(breaks)).oneshot(request()).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap_err(), "the body broke off");
    assert_eq!((world.left(), world.outcomes()), (left(1, 1), vec![Outcome::Failed]));

    let errs = |_: Request<()>| ready(Err::<Response<Frames>, _>("no"));
    assert_eq!(world.layer.layer(service_fn(errs)).oneshot(request()).await.unwrap_err(), "no");
    assert_eq!((world.left(), world.outcomes()), (left(0, 1), vec![Outcome::Failed; 2]));
}

#[tokio::test]
async fn a_client_that_goes_away_gives_back_what_was_lent_and_keeps_what_was_spent() {
    let world = World::new(usual());
    // In the middle of the body.
    let response = world.layer.layer(service_fn(hanging)).oneshot(request()).await.unwrap();
    assert_eq!(world.left(), left(1, 0));
    drop(response);
    assert_eq!((world.left(), world.outcomes()), (left(1, 1), vec![Outcome::Abandoned]));
    // Before there is an answer.
    let never = |_: Request<()>| pending::<Answered>();
    let mut call = Box::pin(world.layer.layer(service_fn(never)).oneshot(request()));
    assert!(poll(&mut call).is_pending());
    assert_eq!(world.left(), left(0, 0));
    drop(call);
    assert_eq!((world.left(), world.outcomes()), (left(0, 1), vec![Outcome::Abandoned; 2]));
}

#[tokio::test]
async fn a_service_that_panics_leaks_nothing() {
    let world = World::new(usual());
    let panics = |_: Request<()>| poll_fn(|_| -> Poll<Answered> { panic!("a defect of the service") });
    let task = tokio::spawn(world.layer.layer(service_fn(panics)).oneshot(request()));
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!((world.left(), world.outcomes()), (left(1, 1), vec![Outcome::Failed]));

    // And in the call itself, before there is a future.
    let panics = |_: Request<()>| -> core::future::Ready<Answered> { panic!("a defect of the service") };
    let task = tokio::spawn(world.layer.layer(service_fn(panics)).oneshot(request()));
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!((world.left(), world.outcomes()), (left(0, 1), vec![Outcome::Failed; 2]));
}

#[tokio::test]
async fn places_in_flight_return_to_none_however_requests_end() {
    let world = World::new(usual());
    for user in ["a", "b", "c", "d"] {
        let mut held = Vec::new();
        for n in 0..3 {
            let request = Request::builder().header("x-user", format!("{user}{n}")).body(()).unwrap();
            let response = world.layer.layer(service_fn(hanging)).oneshot(request).await.unwrap();
            assert_eq!(response.status(), 200);
            held.push(response);
        }
        let more = Request::builder().header("x-user", format!("{user}x")).body(()).unwrap();
        let refused = world.layer.layer(service_fn(hanging)).oneshot(more).await.unwrap();
        assert_eq!(refused.headers()["x-tidegate-reason"], "overload_shed");
        drop(held);
    }
}

#[tokio::test]
async fn the_true_cost_in_the_answer_is_what_is_charged() {
    // Two units a second: one was charged, and what it truly cost is charged instead.
    for (cost, remaining) in [("0", 2), ("1", 1), ("2", 0), ("9", 0), ("many", 1)] {
        for in_trailers in [false, true] {
            let world = World::new(usual());
            let answer = move |_: Request<()>| {
                let frames = Frames::new(["x"], Then::End);
                let mut response = Response::new(frames);
                if in_trailers {
                    *response.body_mut() = Frames::new(["x"], Then::End).trailers(&[("x-cost", cost)]);
                } else {
                    response.headers_mut().insert("x-cost", cost.parse().unwrap());
                }
                ready(Answered::Ok(response))
            };
            let response = world.layer.layer(service_fn(answer)).oneshot(request()).await.unwrap();
            assert_eq!(world.left(), left(1, 0));
            let _ = response.into_body().collect().await.unwrap();
            assert_eq!(world.left(), left(remaining, 1), "{cost}, in trailers: {in_trailers}");
        }
    }
}

#[tokio::test]
async fn a_refused_request_never_reaches_the_service() {
    let world = World::new(usual());
    let held = world.layer.layer(service_fn(hanging)).oneshot(request()).await.unwrap();
    let reached = |_: Request<()>| -> core::future::Ready<Answered> { panic!("it was refused") };
    let mut service: Admit<_> = world.layer.layer(service_fn(reached));
    let before = world.left();
    let refused = service.ready().await.unwrap().call(request()).await.unwrap();
    assert_eq!((refused.status().as_u16(), world.left()), (429, before));
    drop(held);
}

#[tokio::test]
async fn the_resource_learns_when_the_head_of_an_answer_came_and_when_its_body_ended() {
    let world = World::new(usual());
    let clock = Arc::clone(&world.clock);
    let slow = move |request: Request<()>| {
        clock.advance(SECOND);
        prompt(request)
    };
    let mut body = world.layer.layer(service_fn(slow)).oneshot(request()).await.unwrap().into_body();
    world.clock.advance(2 * SECOND);
    while body.frame().await.is_some() {}
    let latency = || world.engine.engine().resource_stats(world.clock.now()).next().unwrap().latency;
    let seen = latency();
    assert_eq!((seen.first_byte, seen.end), (Some(SECOND), Some(3 * SECOND)));
    assert_eq!((seen.succeeded, seen.failed), (1, 0));

    // A client that goes away within the body cuts the work short.
    let mut body = world.layer.layer(service_fn(hanging)).oneshot(request()).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().unwrap().is_data());
    drop(body);
    assert_eq!(world.outcomes(), [Outcome::Succeeded, Outcome::Abandoned]);
    assert_eq!(latency(), seen, "no sample");
}
