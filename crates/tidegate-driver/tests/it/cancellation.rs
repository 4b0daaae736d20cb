//! Requests that are dropped before they are decided, and permits that are dropped before they are
//! settled.

use tidegate_core::Limit;
use tidegate_core::limit::{Consistency, OnStoreFailure};
use tidegate_driver::Verdict;
use tidegate_driver::store_call::STORE_TIMEOUT;
use tidegate_engine::{Outcome, Request, Step};
use tidegate_store::{Kind, NoteKind, Store as _};

use crate::world::{Health, MANY, NOW, SECOND, World, leased, let_run, mixed, parallel, poll, request};

/// Begins a request, and drops it before the store has answered.
fn drop_while_the_store_is_called(world: &World) {
    let request = request();
    let mut admit = Box::pin(world.admission.admit(&request));
    assert!(poll(admit.as_mut()).is_pending());
}

#[tokio::test]
async fn a_request_that_is_dropped_while_the_store_is_called_gives_everything_back() {
    let world = World::new(mixed(), 0);
    let request = request();
    {
        let mut admit = Box::pin(world.admission.admit(&request));
        assert!(poll(admit.as_mut()).is_pending());
        assert_eq!(world.left(), [4, 2, 0], "the store has charged and not answered yet");
    }
    world.store.answers.add_permits(MANY);
    let_run().await;
    assert_eq!(world.left(), [5, 3, 1]);
    assert_eq!(world.calls(), 3, "the batch, the same one again, and its undo");
}

#[tokio::test]
async fn a_pending_request_that_is_never_driven_gives_everything_back() {
    let world = World::new(mixed(), MANY);
    let Step::Ask(pending) =
        world.driver.engine().admit(&request(), tidegate_driver::Clock::now(&*world.clock)).unwrap()
    else {
        panic!("the store is asked first");
    };
    drop(world.driver.drive(pending));
    let_run().await;
    assert_eq!(world.left(), [5, 3, 1]);
}

#[tokio::test]
async fn a_decision_that_is_dropped_before_it_is_looked_at_gives_its_permit_back() {
    let world = World::new(mixed(), MANY);
    drop(world.admission.admit(&request()).await.unwrap());
    let_run().await;
    // Its work may have begun, so rates stay charged.
    assert_eq!(world.left(), [4, 2, 1]);
    world.admission.admit(&request()).await.unwrap().into_result().unwrap().cancelled();
    let_run().await;
    assert_eq!(world.left(), [4, 2, 1], "a cancelled request leaves no charge");
}

#[tokio::test]
async fn a_permit_that_is_dropped_while_the_store_is_asked_to_keep_it_gives_everything_back() {
    let world = World::new(mixed(), 1);
    let hold = world.admission.admit(&request()).await.unwrap().into_result().unwrap();
    let engine = world.driver.handle().engine();
    let begun = engine.keep(hold.into_permit(), NOW.saturating_add(60 * SECOND), NOW).unwrap();
    {
        let mut keep = Box::pin(world.driver.keep(begun));
        assert!(poll(keep.as_mut()).is_pending(), "the store has not answered");
    }
    assert_eq!((world.left(), engine.stats(NOW).permits_kept), (vec![4, 2, 0], 1));
    world.store.answers.add_permits(MANY);
    let_run().await;
    assert_eq!((world.left(), engine.stats(NOW).permits_kept), (vec![5, 3, 1], 0));
    let notes = world.store.memory.notes(NoteKind::Permit).await.unwrap();
    assert!(notes.is_empty(), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_a_store_in_trouble_was_asked_to_keep_is_given_back_when_it_recovers() {
    for is_caller_gone in [true, false] {
        for world in [World::new(mixed(), 1), World::without_leases(mixed(), 1)] {
            let hold = world.admission.admit(&request()).await.unwrap().into_result().unwrap();
            let engine = world.driver.handle().engine();
            let begun = engine.keep(hold.into_permit(), NOW.saturating_add(60 * SECOND), NOW).unwrap();
            if is_caller_gone {
                let mut keep = Box::pin(world.driver.keep(begun));
                assert!(poll(keep.as_mut()).is_pending(), "the store has not answered");
                drop(keep);
                world.set_health(Health::Refuses);
            } else {
                world.set_health(Health::Refuses);
                drop(world.driver.keep(begun).await.unwrap_err());
            }
            let_run().await;
            assert_eq!((world.left(), engine.stats(NOW).permits_kept), (vec![5, 2, 0], 0));
            world.set_health(Health::Good);
            world.store.answers.add_permits(MANY);
            // Sleeps: on tokio's paused clock, no real time passes.
            tokio::time::sleep(SECOND).await;
            assert_eq!(world.left(), [5, 3, 1], "its caller is gone: {is_caller_gone}");
            let notes = world.store.memory.notes(NoteKind::Permit).await.unwrap();
            assert!(notes.is_empty(), "{notes:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_settled_while_the_store_is_away_is_given_back_when_it_recovers() {
    let world = World::new(mixed(), MANY);
    let permit = world.admission.admit(&request()).await.unwrap().into_result().unwrap().into_permit();
    let settled = world.driver.engine().settle(permit, Outcome::Succeeded, NOW);
    world.set_health(Health::Refuses);
    world.driver.send_settled(settled).await.unwrap_err();
    world.set_health(Health::Good);
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.left(), [4, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_store_without_leases_answers_too_late_is_undone() {
    let world = World::without_leases(mixed(), 0);
    let refusal = world.admission.admit(&request()).await.unwrap();
    assert_eq!(refusal.refusal().unwrap().reason(), tidegate_core::Reason::StoreUnavailable);
    world.store.answers.add_permits(MANY);
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.left(), [5, 3, 1]);
}

#[tokio::test]
async fn a_kept_permit_is_cancelled_unless_its_caller_is_told_its_name() {
    let world = World::new(mixed(), MANY);
    let engine = world.driver.handle().engine();
    for is_told in [false, true] {
        let hold = world.admission.admit(&request()).await.unwrap().into_result().unwrap();
        let begun = engine.keep(hold.into_permit(), NOW.saturating_add(60 * SECOND), NOW).unwrap();
        let untold = world.driver.keep(begun).await.unwrap();
        let id = untold.id();
        if is_told {
            assert_eq!(untold.told(), id);
        } else {
            drop(untold);
        }
        let_run().await;
        let expected = if is_told { (vec![4, 2, 0], 1) } else { (vec![5, 3, 1], 0) };
        assert_eq!((world.left(), engine.stats(NOW).permits_kept), expected, "told: {is_told}");
    }
}

#[tokio::test]
async fn a_reload_between_the_question_and_the_answer_changes_nothing_of_what_is_held() {
    let world = World::new(mixed(), 0);
    let request = request();
    let mut admit = Box::pin(world.admission.admit(&request));
    assert!(poll(admit.as_mut()).is_pending());
    world.reload(mixed());
    world.store.answers.add_permits(MANY);
    let Verdict::Admit(hold) = admit.await.unwrap() else { panic!("there was room") };
    world.reload(mixed());
    assert_eq!(world.left(), [4, 2, 0]);
    hold.succeeded();
    let_run().await;
    assert_eq!(world.left(), [4, 2, 1]);
}

#[tokio::test]
async fn a_reload_after_the_request_was_dropped_does_not_lose_what_it_holds() {
    let world = World::new(mixed(), 0);
    drop_while_the_store_is_called(&world);
    world.reload(mixed());
    world.store.answers.add_permits(MANY);
    let_run().await;
    assert_eq!(world.left(), [5, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_permit_in_the_store_is_returned_if_its_answer_is_lost_and_the_request_is_admitted_here() {
    let jobs = Limit::new("jobs", parallel(2)).key(["user"]).consistency(Consistency::Exact);
    let world = World::new([jobs.on_store_failure(OnStoreFailure::Local)], MANY);
    world.set_health(Health::LosesAnswers);
    world.admission.admit(&request()).await.unwrap().into_result().unwrap().succeeded();
    world.set_health(Health::Good);
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.left(), [2]);
}

#[tokio::test]
async fn a_caller_that_panics_gives_back_its_permit() {
    let world = World::new(mixed(), MANY);
    let admission = world.admission.clone();
    let caller = tokio::spawn(async move {
        let _hold = admission.admit(&request()).await.unwrap().into_result().unwrap();
        panic!("the work fails");
    });
    assert!(caller.await.is_err());
    let_run().await;
    assert_eq!(world.left(), [4, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_store_call_hangs_is_decided_at_the_deadline_and_undone_later() {
    let world = World::new(mixed(), 0);
    let since = tokio::time::Instant::now();
    let refusal = world.admission.admit(&request()).await.unwrap();
    assert!(since.elapsed() < 2 * STORE_TIMEOUT, "{:?}", since.elapsed());
    assert_eq!(refusal.refusal().unwrap().reason(), tidegate_core::Reason::StoreUnavailable);
    assert_eq!(world.left(), [5, 2, 0], "the store has charged, for nothing");
    world.store.answers.add_permits(MANY);
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.left(), [5, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_is_undone_even_if_the_second_call_does_not_reach_the_store() {
    let world = World::new(mixed(), 0);
    drop_while_the_store_is_called(&world);
    world.set_health(Health::Refuses);
    let_run().await;
    assert_eq!(world.left(), [5, 2, 0], "the first call has charged");
    world.set_health(Health::Good);
    world.store.answers.add_permits(MANY);
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.left(), [5, 3, 1]);
}

#[test]
fn a_request_that_is_dropped_outside_of_a_runtime_gives_back_what_it_holds_here() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let world = World::new(mixed(), 0);
    let request = request();
    let mut admit = Box::pin(world.admission.admit(&request));
    runtime.block_on(async { assert!(poll(admit.as_mut()).is_pending()) });
    drop(admit);
    assert_eq!(world.left(), [5, 2, 0]);
    // The undo is kept for the next renewal.
    let kept = world.driver.engine().take_lease_asks();
    assert!(
        kept.iter().all(|asks| asks
            .batch()
            .operations
            .iter()
            .all(|one| matches!(one.kind, Kind::Undo { .. })))
    );
    kept.iter().for_each(|asks| drop(world.store.memory.run_now(asks.batch())));
    assert_eq!(world.left(), [5, 3, 1]);
}

#[test]
fn a_hold_that_is_dropped_outside_of_a_runtime_gives_back_what_it_holds_here() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let world = World::new(mixed(), MANY);
    let held = runtime.block_on(world.admission.admit(&request())).unwrap();
    drop(held);
    // The store is not told, so its permit is lent until it expires; the place in flight is back.
    assert_eq!(world.left(), [4, 2, 0]);
    let others: Vec<_> = ["b", "c", "d"]
        .map(|user| runtime.block_on(world.admission.admit(&Request::new("default", &[("user", user)]))))
        .into();
    assert!(others.iter().all(|verdict| verdict.as_ref().unwrap().refusal().is_none()), "{others:?}");
}

#[tokio::test]
async fn a_request_that_is_dropped_while_it_waits_for_a_lease_holds_nothing() {
    let world = World::new(leased(10), 0);
    let request = request();
    {
        let mut admit = Box::pin(world.admission.admit(&request));
        assert!(poll(admit.as_mut()).is_pending());
        let_run().await;
    }
    world.store.answers.add_permits(MANY);
    let_run().await;
    // The ask was for its unit and nobody else has taken it; as a bucket it drains within a second.
    assert!(world.left()[0] >= 9, "{:?}", world.left());
    world.clock.advance(SECOND);
    assert_eq!(world.left(), [10]);
    let others: Vec<_> = (0..3).map(|_| world.admission.admit(&request)).collect();
    for other in others {
        assert!(other.await.unwrap().into_result().is_ok(), "its place in flight is free");
    }
}
