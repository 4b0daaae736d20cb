//! Limits that a store decides.

use core::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use http_body_util::BodyExt;
use tidegate_core::Limit;
use tidegate_core::limit::Consistency;
use tidegate_store::{Answer, Batch, DynStore, MemoryConfig, MemoryStore, Note, NoteKind, Store, StoreError};
use tidegate_tower::Clock;
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt, service_fn};

use crate::world::{
    Answered, Frames, SECOND, Then, World, bucket, builder, hanging, let_run, parallel, poll, prompt, request,
};

/// A store in memory whose answers wait for permission, after the batch has taken effect.
struct Gated {
    store: MemoryStore,
    answers: Semaphore,
    batches: AtomicUsize,
}

impl Store for Gated {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        let answer = self.store.run_now(batch);
        self.answers.acquire().await.unwrap().forget();
        answer
    }

    fn notes(&self, kind: NoteKind) -> impl Future<Output = Result<Vec<Note>, StoreError>> + Send {
        self.store.notes(kind)
    }
}

const MANY: usize = 1000;

fn stored(answers: usize) -> (World, Arc<Gated>) {
    let local = Limit::new("rate", bucket(5, SECOND, 5)).key(["user"]);
    let quota = Limit::new("quota", bucket(3, SECOND, 3)).key(["user"]).consistency(Consistency::Exact);
    let jobs = Limit::new("jobs", parallel(1)).key(["user"]).consistency(Consistency::Exact);
    let world = World::new(builder([local, quota, jobs]));
    let clock = Arc::clone(&world.clock);
    let store = MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), move || clock.now());
    let store = Arc::new(Gated { store, answers: Semaphore::new(answers), batches: AtomicUsize::new(0) });
    let given = Arc::clone(&store) as Arc<dyn DynStore>;
    (world.with(|layer| layer.store(given)), store)
}

/// The units that rate, quota and jobs have left.
fn left(world: &World, store: &Gated) -> Vec<u64> {
    let engine = world.engine.engine();
    let request = tidegate_engine::Request::new("api", &[("user", "ada")]);
    let mut progress = engine.peek(&request, world.clock.now()).unwrap();
    loop {
        match progress {
            tidegate_engine::Progress::Done(peek) => {
                return peek.limits.iter().map(|one| one.remaining).collect();
            }
            tidegate_engine::Progress::Ask(asking) => {
                let answer = store.store.run_now(asking.batch());
                progress = asking.resume(&engine, answer, world.clock.now()).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn limits_of_the_store_are_charged_shown_and_given_back() {
    let (world, store) = stored(MANY);
    let response = world.layer.layer(service_fn(prompt)).oneshot(request()).await.unwrap();
    assert_eq!(response.headers()["ratelimit"], r#""rate";r=4;t=1, "quota";r=2;t=1, "jobs";r=0"#);
    assert_eq!(left(&world, &store), [4, 2, 0]);
    let refused = world.layer.layer(service_fn(prompt)).oneshot(request()).await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["x-tidegate-limit"]),
        (429, &"jobs".parse().unwrap())
    );
    assert_eq!(left(&world, &store), [4, 2, 0], "a refusal charges nothing");
    let _ = response.into_body().collect().await.unwrap();
    let_run().await;
    assert_eq!(left(&world, &store), [4, 2, 1]);
}

#[tokio::test]
async fn who_goes_away_while_the_store_is_asked_gets_everything_back() {
    let (world, store) = stored(0);
    let never = |_: Request<()>| -> core::future::Ready<Answered> { panic!("it went away") };
    let mut call = Box::pin(world.layer.layer(service_fn(never)).oneshot(request()));
    assert!(poll(&mut call).is_pending());
    assert_eq!(left(&world, &store), [4, 2, 0], "the store has charged and not answered yet");
    drop(call);
    store.answers.add_permits(MANY);
    let_run().await;
    assert_eq!(left(&world, &store), [5, 3, 1]);
    assert_eq!(world.outcomes(), [], "it was never begun");
    // The same batch again, which the store knew, and what takes it back.
    assert_eq!(store.batches.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_dropped_answer_gives_back_what_the_store_lent() {
    let (world, store) = stored(MANY);
    let response = world.layer.layer(service_fn(hanging)).oneshot(request()).await.unwrap();
    assert_eq!(left(&world, &store), [4, 2, 0]);
    drop(response);
    let_run().await;
    assert_eq!(left(&world, &store), [4, 2, 1]);
}

#[tokio::test]
async fn the_true_cost_reaches_the_store() {
    let (world, store) = stored(MANY);
    let answer = |_: Request<()>| async {
        let mut response = Response::new(Frames::new(["x"], Then::End));
        response.headers_mut().insert("x-cost", "3".parse().unwrap());
        Answered::Ok(response)
    };
    let response = world.layer.layer(service_fn(answer)).oneshot(request()).await.unwrap();
    let _ = response.into_body().collect().await.unwrap();
    let_run().await;
    assert_eq!(left(&world, &store), [2, 0, 1]);
}

#[tokio::test]
async fn who_waits_for_what_the_store_lends_is_woken_when_it_is_back() {
    let (world, _store) = stored(MANY);
    let world = world.with(|layer| layer.wait(SECOND));
    let held = world.layer.layer(service_fn(hanging)).oneshot(request()).await.unwrap();
    let waits = tokio::spawn(world.layer.layer(service_fn(prompt)).oneshot(request()));
    let_run().await;
    assert_eq!(world.layer.waiting(), 1);
    drop(held);
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_in_time_is_as_good_as_none() {
    // No answer at all, and no store at all: each limit says for itself what then holds.
    let (silent, _store) = stored(0);
    let none = {
        let quota = Limit::new("quota", bucket(3, SECOND, 3)).key(["user"]).consistency(Consistency::Exact);
        World::new(builder([quota]))
    };
    for world in [silent, none] {
        let refused = world.layer.layer(service_fn(prompt)).oneshot(request()).await.unwrap();
        let reason = refused.headers()["x-tidegate-reason"].to_str().unwrap();
        assert_eq!((refused.status().as_u16(), reason), (503, "store_unavailable"));
    }
}
