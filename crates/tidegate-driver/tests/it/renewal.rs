//! Lease renewal: by requests alone, by a task, and while the store is away.

use core::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_core::limit::{Consistency, OnStoreFailure};
use tidegate_core::{Limit, Reason};
use tidegate_driver::driver::RENEWALS_MAX;
use tidegate_driver::{Admission, StoreHooks};
use tidegate_engine::Request;
use tidegate_store::{Answer, StoreError};

use crate::world::{Health, MANY, SECOND, World, bucket, leased, let_run, request};

#[tokio::test]
async fn leases_renew_by_requests_alone() {
    let world = World::new(leased(100), MANY);
    for _ in 0..200 {
        let request = request();
        let mut hold = pin!(world.admission.until_ready(&request));
        let hold = loop {
            tokio::select! {
                hold = &mut hold => break hold.unwrap(),
                () = let_run() => world.clock.advance(SECOND / 100),
            }
        };
        hold.succeeded();
    }
    assert!(world.calls() < 150, "{} calls for 200 requests", world.calls());
}

#[tokio::test]
async fn leases_renew_by_a_task_where_requests_do_not() {
    let world = World::new(leased(10), MANY);
    let driver = world.driver.clone();
    let task = tokio::spawn(async move { driver.run_lease_renewal().await });
    let_run().await;
    let tidegate_engine::Step::Ask(pending) =
        world.driver.engine().admit(&request(), crate::world::NOW).unwrap()
    else {
        panic!("there is no lease yet");
    };
    let decided = world.driver.drive(pending).decided().await;
    assert!(matches!(decided.decision, tidegate_engine::Decision::Admit(_)));
    task.abort();
}

#[tokio::test]
async fn a_request_whose_lease_cannot_be_asked_for_is_refused() {
    let limit = Limit::new("leased", bucket(10))
        .key(["user"])
        .consistency(Consistency::Leased)
        .on_store_failure(OnStoreFailure::Refuse);
    let world = World::new([limit], MANY);
    world.set_health(Health::Refuses);
    let refused = world.admission.admit(&request()).await.unwrap();
    assert_eq!(refused.refusal().unwrap().reason(), Reason::StoreUnavailable);
}

#[tokio::test]
async fn asks_gather_while_as_many_batches_as_may_be_are_in_flight() {
    let world = World::with_in_flight(leased(10), 0, 1000);
    let users: Vec<String> = (0..100).map(|number| format!("user-{number}")).collect();
    let waiting: Vec<_> = users
        .into_iter()
        .map(|user| {
            let admission = world.admission.clone();
            tokio::spawn(async move {
                let pairs = [("user", &*user)];
                admission.admit(&Request::new("default", &pairs)).await.unwrap().into_result().is_ok()
            })
        })
        .collect();
    let_run().await;
    assert_eq!(world.calls(), RENEWALS_MAX);
    world.store.answers.add_permits(MANY);
    for admitted in waiting {
        assert!(admitted.await.unwrap());
    }
    assert!(world.calls() < RENEWALS_MAX + 10, "the other asks went together: {}", world.calls());
}

#[derive(Default)]
struct Count(AtomicUsize);

impl StoreHooks for Count {
    fn call_ended(&self, answer: &Result<Answer, StoreError>) {
        if answer.is_ok() {
            return;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn hooks_hear_of_failed_calls() {
    let world = World::new(crate::world::mixed(), MANY);
    let hooks = Arc::<Count>::default();
    let admission = Admission::from(world.driver.clone().hooks(Arc::clone(&hooks) as Arc<dyn StoreHooks>));
    world.set_health(Health::LosesAnswers);
    assert!(admission.admit(&request()).await.unwrap().refusal().is_some());
    assert!(hooks.0.load(Ordering::Relaxed) >= 1);
}

#[tokio::test]
async fn leases_are_returned_when_the_program_ends() {
    let world = World::new(leased(10), MANY);
    world.admission.admit(&request()).await.unwrap().into_result().unwrap().succeeded();
    let_run().await;
    assert!(world.admission.close().await);
    world.set_health(Health::Refuses);
    assert!(world.driver.return_leases().await, "there is no lease left to return");
}

#[tokio::test]
async fn leases_of_ledgers_in_the_process_ask_no_store_and_are_returned_to_the_ledgers() {
    let world = World::without_leases([Limit::new("rate", bucket(100)).lendable()], MANY);
    let lent = world.driver.engine().with_lent("default").unwrap().unwrap();
    world.driver.handle().replace(lent);
    world.set_health(Health::Refuses);
    for _ in 0..60 {
        world.admission.admit(&request()).await.unwrap().into_result().unwrap().succeeded();
        world.clock.advance(SECOND / 50);
    }
    let remaining = async || {
        let peek = world.driver.engine().peek(&request(), world.driver.now());
        world.driver.complete(peek.unwrap()).await.unwrap().limits[0].remaining
    };
    let totals = || world.driver.engine().lease_totals().unwrap();
    let (asks, before) = (totals().asks, remaining().await);
    assert!((1..30).contains(&asks) && totals().holders == 1, "{:?}", totals());
    assert!(world.driver.return_leases().await, "every ask is answered");
    assert_eq!((totals().holders, totals().unanswered, world.calls()), (0, 0, 0));
    assert!(remaining().await >= before, "what was in hand is in the ledger");
}
