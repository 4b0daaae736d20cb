//! Many requests with random cancellations, reloads and failures of the store: nothing stays held.

use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;

use tidegate::Limit;
use tidegate::limit::Consistency;
use tidegate_driver::Verdict;
use tidegate_engine::{Completion, Request};

use crate::world::{Health, MANY, SECOND, World, bucket, let_run, parallel, poll};

/// xorshift64, from a seed that a failure prints.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn limits() -> Vec<Limit> {
    vec![
        Limit::new("local", bucket(1000)).key(["user"]),
        Limit::new("local-jobs", parallel(40)).key(["user"]),
        Limit::new("exact", bucket(1000)).key(["user"]).consistency(Consistency::Exact),
        Limit::new("exact-jobs", parallel(40)).key(["user"]).consistency(Consistency::Exact),
        Limit::new("leased", bucket(1000)).key(["user"]).consistency(Consistency::Leased),
    ]
}

/// Runs one request, which is dropped somewhere on its way as `chance` says.
async fn run_one(world: &World, user: &str, chance: &mut Random) {
    let pairs = [("user", user)];
    let request = Request::new("default", &pairs);
    let mut admit = pin!(world.admission.admit(&request));
    for _ in 0..chance.below(4) {
        if let core::task::Poll::Ready(verdict) = poll(admit.as_mut()) {
            return end(verdict.unwrap(), chance);
        }
        tokio::task::yield_now().await;
    }
    if chance.below(3) > 0 {
        // It is dropped here, decided or not.
        return;
    }
    if let Ok(verdict) = tokio::time::timeout(SECOND, admit).await {
        end(verdict.unwrap(), chance);
    }
}

fn end(verdict: Verdict, chance: &mut Random) {
    let Verdict::Admit(hold) = verdict else { return };
    match chance.below(5) {
        0 => hold.succeeded(),
        1 => hold.failed(),
        2 => hold.cancelled(),
        3 => hold.settle(Completion::of_cost(chance.below(4))),
        _ => drop(hold),
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_with_drops_reloads_and_failures_leave_nothing_held() {
    let seed = 0x7469_6465_6761_7465;
    let mut chance = Random(seed);
    let world = Arc::new(World::with_in_flight(limits(), MANY, 100));
    for _ in 0..100 {
        match chance.below(6) {
            0 => world.reload(limits()),
            1 => world.set_health(Health::LosesAnswers),
            2 => world.set_health(Health::Refuses),
            _ => world.set_health(Health::Good),
        }
        let workers: Vec<_> = (0..10)
            .map(|_| {
                let (world, mut chance) = (Arc::clone(&world), Random(chance.below(u64::MAX) | 1));
                tokio::spawn(async move {
                    for _ in 0..10 {
                        let user = ["ada", "bob", "cyd"][chance.below(3) as usize];
                        run_one(&world, user, &mut chance).await;
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
        world.clock.advance(Duration::from_millis(chance.below(500)));
    }
    // Everything that was begun ends, and undos are retried.
    world.set_health(Health::Good);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let_run().await;
    for user in ["ada", "bob", "cyd"] {
        let pairs = [("user", user)];
        let request = Request::new("default", &pairs);
        let reports = world.admission.peek(&request).await.unwrap();
        let jobs = |name: &str| reports.iter().find(|report| report.name == name).unwrap().remaining;
        assert_eq!((jobs("local-jobs"), jobs("exact-jobs")), (40, 40), "{user}, seed {seed:#x}");
    }
    // All places in flight are free.
    world.clock.advance(Duration::from_secs(10));
    let mut holds = Vec::new();
    for number in 0..100 {
        let user = format!("new-{number}");
        let pairs = [("user", &*user)];
        holds
            .push(world.admission.admit(&Request::new("default", &pairs)).await.unwrap().admitted().unwrap());
    }
}
