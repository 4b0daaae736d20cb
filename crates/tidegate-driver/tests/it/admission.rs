//! Admission without HTTP: deciding, waiting, settling.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::{Class, Cost, Limit};
use tidegate_driver::{Admission, Clock, UntilReadyError, Verdict};
use tidegate_engine::{Completion, Event};

use crate::world::{MANY, SECOND, SEED, World, bucket, let_run, mixed, parallel, request};

fn one_a_second() -> World {
    World::new([Limit::new("rate", bucket(1)).key(["user"])], MANY)
}

fn one_at_a_time() -> World {
    World::new([Limit::new("jobs", parallel(1)).key(["user"])], MANY)
}

#[tokio::test]
async fn an_admission_without_a_store_decides_every_limit_itself() {
    let world = one_a_second();
    let admission = Admission::builder()
        .seed(SEED)
        .limits(mixed())
        .clock(Arc::clone(&world.clock) as Arc<dyn Clock>)
        .build()
        .unwrap();
    let first = admission.admit(&request()).await.unwrap().into_result().unwrap();
    let refused = admission.admit(&request()).await.unwrap();
    assert_eq!(refused.refusal().unwrap().name(), "jobs");
    first.settle(Completion::from_cost(2));
    let left: Vec<u64> =
        admission.peek(&request()).await.unwrap().iter().map(|report| report.remaining).collect();
    assert_eq!(left, [3, 1, 1]);
}

#[tokio::test]
async fn a_request_waits_until_the_instant_of_its_refusal_and_no_longer() {
    let world = one_a_second();
    world.admission.admit(&request()).await.unwrap().into_result().unwrap().succeeded();
    let admission = world.admission.clone();
    let waits = tokio::spawn(async move { admission.admit_within(&request(), SECOND).await });
    let_run().await;
    world.clock.advance(Duration::from_nanos(999_999_999));
    let_run().await;
    assert!(!waits.is_finished());
    world.clock.advance(Duration::from_nanos(1));
    assert!(waits.await.unwrap().unwrap().into_result().is_ok());
}

#[tokio::test]
async fn a_request_that_would_wait_too_long_is_refused_at_once() {
    let world = one_a_second();
    world.admission.admit(&request()).await.unwrap().into_result().unwrap().succeeded();
    let almost = Duration::from_nanos(999_999_999);
    assert!(world.admission.admit_within(&request(), almost).await.unwrap().refusal().is_some());
    let late = request().deadline(world.clock.now().saturating_add(SECOND));
    assert!(world.admission.admit_within(&late, SECOND).await.unwrap().refusal().is_some());
}

#[tokio::test]
async fn a_request_that_waits_for_a_permit_goes_on_when_one_is_dropped() {
    let world = one_at_a_time();
    let held = world.admission.admit(&request()).await.unwrap();
    let admission = world.admission.clone();
    let waits = tokio::spawn(async move { admission.until_ready(&request()).await });
    let_run().await;
    assert!(!waits.is_finished());
    drop(held);
    // The clock stands still: only the permit that came back can have woken it.
    let second = waits.await.unwrap().unwrap();
    assert_eq!(world.left(), [0]);
    second.succeeded();
    assert_eq!(world.left(), [1]);
}

#[tokio::test]
async fn a_wait_for_a_permit_ends_when_its_time_ends() {
    let world = one_at_a_time();
    let _held = world.admission.admit(&request()).await.unwrap();
    let admission = world.admission.clone();
    let waits = tokio::spawn(async move { admission.admit_within(&request(), SECOND).await });
    for _ in 0..10 {
        let_run().await;
        assert!(!waits.is_finished());
        world.clock.advance(SECOND / 10);
    }
    assert!(waits.await.unwrap().unwrap().refusal().is_some());
}

#[tokio::test]
async fn until_ready_serves_every_waiting_request_and_ends_where_no_wait_helps() {
    let world = one_at_a_time();
    let workers: Vec<_> = (0..20)
        .map(|_| {
            let admission = world.admission.clone();
            tokio::spawn(async move {
                let hold = admission.until_ready(&request()).await.unwrap();
                tokio::task::yield_now().await;
                hold.succeeded();
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(world.left(), [1]);
    let world = one_a_second();
    let huge = request().cost(Cost::new(2).unwrap());
    let error = world.admission.until_ready(&huge).await.unwrap_err();
    assert!(matches!(error, UntilReadyError::Never(_)), "{error}");
}

#[tokio::test]
async fn a_wait_that_is_dropped_leaves_nothing_behind() {
    let world = one_at_a_time();
    let held = world.admission.admit(&request()).await.unwrap();
    let admission = world.admission.clone();
    let waits = tokio::spawn(async move { admission.until_ready(&request()).await });
    let_run().await;
    waits.abort();
    assert!(waits.await.is_err());
    drop(held);
    let_run().await;
    assert_eq!(world.left(), [1]);
}

#[tokio::test]
async fn a_request_that_waits_is_decided_by_the_limits_of_a_reload() {
    let world = one_a_second();
    world.admission.admit(&request()).await.unwrap().into_result().unwrap().succeeded();
    let admission = world.admission.clone();
    let waits = tokio::spawn(async move { admission.until_ready(&request()).await });
    let_run().await;
    world.reload([Limit::new("jobs", parallel(1)).key(["user"])]);
    let _only = world.admission.admit(&request()).await.unwrap().into_result().unwrap();
    world.clock.advance(SECOND);
    let_run().await;
    assert!(!waits.is_finished(), "the limit of the reload has no place");
    waits.abort();
}

#[tokio::test]
async fn an_exact_permit_is_given_back_when_it_is_dropped() {
    let world = World::new(mixed(), MANY);
    let verdict = world.admission.admit(&request()).await.unwrap();
    assert!(matches!(verdict, Verdict::Admit(_)));
    assert_eq!(world.left(), [4, 2, 0]);
    drop(verdict);
    let_run().await;
    assert_eq!(world.left(), [4, 2, 1]);
}

#[tokio::test]
async fn a_hold_that_is_settled_is_a_sample_of_latency_and_one_that_is_dropped_is_not() {
    let world = World::new([], MANY);
    let admit = async || world.admission.admit(&request()).await.unwrap().into_result().unwrap();
    let (done, broken, dropped) = (admit().await, admit().await, admit().await);
    world.clock.advance(SECOND);
    done.succeeded();
    broken.failed();
    drop(dropped);
    admit().await.cancelled();
    let engine = world.driver.engine();
    let stats = engine.resource_stats(world.clock.now()).next().unwrap();
    assert_eq!((stats.latency.succeeded, stats.latency.failed), (1, 1));
    assert_eq!((stats.latency.end, stats.in_flight), (Some(SECOND), 0));
}

/// Nothing but the request itself ticks the engine here.
#[tokio::test]
async fn a_request_that_is_shed_is_admitted_at_its_next_try_after_the_pressure_has_gone() {
    let world = one_at_a_time();
    let step = Duration::from_millis(100);
    let sheddable = || request().class(Class::Sheddable);
    for _ in 0..50 {
        drop(world.admission.admit(&sheddable()).await.unwrap());
        world.driver.engine().event(Event::Pressure(3.0), world.clock.now()).unwrap();
        world.clock.advance(step);
    }
    let refused = world.admission.admit(&sheddable()).await.unwrap();
    let hint = refused.refusal().unwrap().retry_hint.unwrap();
    let admission = world.admission.clone();
    let waits = tokio::spawn(async move { admission.until_ready(&sheddable()).await });
    let mut waited = Duration::ZERO;
    while waited < hint.max(4 * step) {
        let_run().await;
        assert!(!waits.is_finished(), "it respects the hint");
        world.clock.advance(step);
        waited += step;
    }
    // The next refusal would tell another time, within half of the hint.
    while waited < 2 * hint && !waits.is_finished() {
        let_run().await;
        world.clock.advance(step);
        waited += step;
    }
    let_run().await;
    assert!(waits.is_finished(), "after {waited:?}");
    waits.await.unwrap().unwrap().succeeded();
}
