//! Many callers at once, in one member and in several.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::algorithm::Verdict;
use tidegate_core::{Algorithm, Cost, Rate};
use tidegate_store::{Batch, FleetStore as _, Key, Kind, Operation, RequestId, Store};
use tidegate_store_redis::RedisStore;

use crate::engine::{Server, skip};

fn hourly(limit: u64) -> Algorithm {
    Algorithm::bucket(Rate::new(limit, Duration::from_hours(1)).unwrap()).unwrap()
}

fn check(id: u128, key: &[u8], limit: u64) -> Batch {
    let kind = Kind::Check { cost: Cost::ONE };
    Batch::all_or_nothing(
        RequestId(id),
        [Operation::new(Key::new("api", b"limit", key).unwrap(), hourly(limit), kind)],
    )
}

#[tokio::test(flavor = "current_thread")]
async fn four_hundred_callers_of_one_key_share_calls_and_get_exactly_the_limit() {
    let name = "four_hundred_callers_of_one_key_share_calls_and_get_exactly_the_limit";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let store = RedisStore::open(server.config()).unwrap();
    store.now().await.unwrap();
    let calls = store.stats().calls;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..400 {
        let store = store.clone();
        callers.spawn(async move { store.run(&check(caller, b"hot", 250)).await.unwrap().refused });
    }
    let refused = callers.join_all().await.into_iter().filter(|refused| *refused).count();
    assert_eq!(refused, 150);
    // One alone, and then what one call takes of the others.
    let calls = store.stats().calls - calls;
    assert!(calls <= 5, "400 callers took {calls} calls");
}

#[tokio::test(flavor = "current_thread")]
async fn members_that_share_a_server_get_exactly_the_limit_together() {
    let Some(server) = Server::start(&[]) else {
        return skip("members_that_share_a_server_get_exactly_the_limit_together");
    };
    let members: Vec<_> = (0..4).map(|_| RedisStore::open(server.config()).unwrap()).collect();
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..800_u128 {
        let store = members[caller as usize % members.len()].clone();
        callers.spawn(async move { store.run(&check(caller, b"shared", 300)).await.unwrap().refused });
    }
    let admitted = callers.join_all().await.into_iter().filter(|refused| !refused).count();
    assert_eq!(admitted, 300);
}

#[tokio::test(flavor = "current_thread")]
async fn a_batch_sent_again_through_another_member_is_charged_once() {
    let Some(server) = Server::start(&[]) else {
        return skip("a_batch_sent_again_through_another_member_is_charged_once");
    };
    let (first, second) =
        (RedisStore::open(server.config()).unwrap(), RedisStore::open(server.config()).unwrap());
    let batch = check(7, b"once", 10);
    let answer = first.run(&batch).await.unwrap();
    assert_eq!(second.run(&batch).await.unwrap(), answer);
    // And given back once, by whichever member.
    for (store, used) in [(&second, 0), (&first, 0)] {
        let undo = Batch::undo_of(&batch, RequestId(8 + u128::from(store.stats().calls)));
        assert_eq!(store.run(&undo).await.unwrap().outcomes[0].used, used);
    }
    let after = first.run(&check(100, b"once", 10)).await.unwrap().outcomes[0];
    assert_eq!((after.verdict, after.used), (Verdict::Admit, 1));
}

#[tokio::test(flavor = "current_thread")]
async fn what_waits_is_bounded_and_what_is_over_the_bound_is_not_sent() {
    let Some(server) = Server::start(&[]) else {
        return skip("what_waits_is_bounded_and_what_is_over_the_bound_is_not_sent");
    };
    let mut config = server.config();
    config.queue = 10;
    let store = RedisStore::open(config).unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..100 {
        let store = store.clone();
        callers.spawn(async move { store.run(&check(caller, b"queue", 1000)).await });
    }
    let answers = callers.join_all().await;
    let failed: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(
        !failed.is_empty() && failed.iter().all(|error| error.is_transient() && !error.is_outcome_unknown())
    );
    let used = store.run(&check(1000, b"queue", 1000)).await.unwrap().outcomes[0].used;
    assert_eq!(used as usize, 1 + answers.len() - failed.len());
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_dropped_before_it_is_sent_is_not_charged() {
    let Some(server) = Server::start(&[]) else {
        return skip("what_is_dropped_before_it_is_sent_is_not_charged");
    };
    let store = RedisStore::open(server.config()).unwrap();
    let batch = Arc::new(check(1, b"dropped", 10));
    // Dropped while it waits: no task of the store has run since.
    let mut future = Box::pin(store.run(&batch));
    std::future::poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(future);
    assert_eq!(store.run(&check(2, b"dropped", 10)).await.unwrap().outcomes[0].used, 1);
    assert_eq!(store.stats().waiting, 0);
}
