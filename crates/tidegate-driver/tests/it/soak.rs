//! Ten thousand requests by the admission, with random disconnects, panics, reloads and drains:
//! nothing stays held.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::Class;
use tidegate_driver::{Admission, Driver, Verdict};
use tidegate_engine::{Completion, OfferOutcome, Request};
use tidegate_store::DynStore;

use crate::soak_world::{
    CallerRequest, FEATURE, NAMESPACE, RESOURCES, SoakWorld, Stage, USERS, panic_as_planned, soak,
};

fn open(world: &SoakWorld) -> Admission {
    let store = Arc::clone(&world.store) as Arc<dyn DynStore>;
    Admission::from(Driver::new(world.engine.clone()).store(store).clock(Arc::clone(&world.clock)))
}

/// Sends one request, waits for its turn in one of the ways there are, works and ends.
async fn call(admission: Admission, mut caller: CallerRequest) {
    let random = &mut caller.random;
    let user = random.pick(&USERS);
    let attributes = [("user", user)];
    let mut request = Request::new(NAMESPACE, &attributes).class(random.pick(&Class::ALL)).tenant(user);
    if !random.one_in(4) {
        request = request.resource(random.pick(&RESOURCES));
    } else if random.one_in(2) {
        request = request.feature(FEATURE);
    }
    request.waiting_bytes = random.below(4000) as usize;
    let now = admission.driver().now();
    if random.one_in(8) {
        request = request.deadline(now.saturating_add(random.under_ms(100)));
    }
    let wait = random.under_ms(300);
    let verdict = match random.below(5) {
        0 => admission.admit(&request).await.unwrap(),
        1 => match tokio::time::timeout(wait, admission.until_ready(&request)).await {
            Ok(Ok(hold)) => Verdict::Admit(hold),
            Ok(Err(_)) | Err(_) => return caller.stage = Stage::Over,
        },
        2 => admission.admit_within(&request, wait).await.unwrap(),
        _ => admission.admit(&request.may_wait_until(now.saturating_add(wait))).await.unwrap(),
    };
    let Verdict::Admit(hold) = verdict else { return caller.stage = Stage::Over };
    caller.stage = Stage::AtWork;
    let work = caller.random.under_ms(20);
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(work).await;
    if caller.random.one_in(10) {
        panic_as_planned();
    }
    caller.stage = Stage::InBody;
    let body = caller.random.under_ms(10);
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(body).await;
    match caller.random.below(5) {
        0 => hold.succeeded(),
        1 => hold.failed(),
        2 => hold.cancelled(),
        3 => hold.settle(Completion::from_cost(caller.random.below(4))),
        _ => drop(hold),
    }
    caller.stage = Stage::Over;
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_with_disconnects_panics_reloads_and_drains_leave_nothing_held() {
    let began = tokio::time::Instant::now();
    let world = soak(0x7469_6465_6761_7465, open, call).await;
    // A limit that refuses lets nearly every request wait, and few are denied in the end. There is
    // no fair queue, no request without a known end, and no stream.
    let absent = [
        OfferOutcome::QueueDelay,
        OfferOutcome::OutOfPace,
        OfferOutcome::WouldBeDelayed,
        OfferOutcome::WouldBeOutOfPace,
        OfferOutcome::WouldLackStream,
        OfferOutcome::WouldFindQueueFull,
        OfferOutcome::WouldExpire,
        OfferOutcome::NoStream,
        OfferOutcome::Deferred,
        OfferOutcome::Denied,
        OfferOutcome::Throttled,
        OfferOutcome::Failed,
    ];
    world.assert_that_all_happened(|outcome| !absent.contains(&outcome));
    assert!(began.elapsed() < Duration::from_hours(1), "permits would have expired");
}
