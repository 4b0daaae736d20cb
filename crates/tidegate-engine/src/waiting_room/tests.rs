//! How often a waiting request takes the lock of the room.

use core::pin::pin;
use core::task::{Context, Waker};

use tidegate_core::algorithm::Bucket;
use tidegate_core::{Algorithm, Limit, Rate};
use tidegate_overload::{Overload, ResourceConfig};

use super::*;
use crate::{Answered, Decision, Engine, EngineConfig, NamespaceConfig, Pending, Request, Step, Wants};

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn poll(pending: &Pending) -> Poll<()> {
    let Wants::Turn(turn) = pending.wants() else { panic!("it waits for its turn") };
    pin!(turn).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_waiting_request_takes_the_lock_at_most_five_times_from_arrival_to_answer() {
    let rate = Bucket::new(Rate::per_second(1000).unwrap(), 1000).unwrap();
    let limits = [Limit::new("rate", Algorithm::Bucket(rate)).key(["user"])];
    for resource in [ResourceConfig::new(1), ResourceConfig::new(1).queue(QueueConfig::default())] {
        let mut config = EngineConfig::seeded([1, 2, 3, 4]);
        config.table.bytes = 1 << 20;
        let engine = Engine::builder(config)
            .namespace(NamespaceConfig::new("api", limits.clone()))
            .overload(Overload::new(resource, 5).unwrap())
            .build()
            .unwrap();
        let locks = || engine.shared.room.locks.load(core::sync::atomic::Ordering::Relaxed);
        let attributes = [("user", "ada")];
        let request = Request::new("api", &attributes).tenant("acme");
        let patient = request.may_wait_until(NOW.saturating_add(Duration::from_secs(1)));
        let Step::Decided(Decision::Admit(held)) = engine.admit(&request, NOW).unwrap() else {
            panic!("a place is free")
        };
        // Others wait as well, so that it stands in a line.
        let Step::Ask(first) = engine.admit(&patient, NOW).unwrap() else { panic!("no place is free") };
        let mut taken = 0;
        let mut count = |before: usize| taken += locks() - before;
        let before = locks();
        let Step::Ask(second) = engine.admit(&patient, NOW).unwrap() else { panic!("it joins the line") };
        assert!(poll(&second).is_pending());
        count(before);
        drop(held);
        let Step::Decided(Decision::Admit(permit)) = engine.resume(first, Answered::Turn, NOW) else {
            panic!("it is the first")
        };
        drop(permit);
        let before = locks();
        assert!(poll(&second).is_ready());
        let Step::Decided(Decision::Admit(permit)) = engine.resume(second, Answered::Turn, NOW) else {
            panic!("it is its turn")
        };
        count(before);
        assert!(taken <= 5, "{taken} times");
        drop(permit);
    }
}
