//! Every offered request ends in one outcome, whatever becomes of it, and leaves nothing behind.

use core::time::Duration;

use proptest::prelude::*;
use tidegate::{Class, Limit};
use tidegate_engine::{
    Decision, Engine, EngineConfig, EngineError, Event, NamespaceConfig, OfferOutcome, Outcome, Pending,
    Permit, Request, Step,
};
use tidegate_overload::{Overload, ResourceConfig};

use crate::world::{NOW, Room, USER, World, bucket, request};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_request_that_cannot_be_decided_is_no_demand_and_leaves_nothing() {
    let world = World::new(Room::WIDE);
    let long = "u".repeat(8 << 10);
    let too_long = [("user", long.as_str())];
    let before = world.state();
    for _ in 0..100 {
        let error = world.engine.admit(&Request::new("api", &too_long), world.now()).unwrap_err();
        assert!(matches!(error, EngineError::KeyTooLong(_)), "{error}");
    }
    assert_eq!(world.state(), before);
    let stats = world.engine.resource_stats(world.now()).next().unwrap();
    assert_eq!((stats.offered, stats.count(OfferOutcome::Failed), stats.undecided()), (100, 100, 0));
    // A cursor that had counted them would shed the one honest request of this tick.
    drop(world.decide(&request().class(Class::Sheddable)));
    world.engine.event(Event::Pressure(1.2), world.now()).unwrap();
    assert_eq!(world.engine.resource_stats(world.now()).next().unwrap().demand, 1);
}

#[test]
fn a_resource_that_is_slow_keeps_no_request_of_another_one_waiting() {
    let resource = || ResourceConfig::new(2);
    let overload = Overload::builder(7).resource("slow", resource()).resource("fast", resource()).build();
    let limit = Limit::new("rate", bucket(1000, SECOND)).key(["user"]);
    let api = NamespaceConfig { name: "api".into(), limits: vec![limit] };
    let engine = Engine::builder(EngineConfig::seeded([1, 2, 3, 4]))
        .namespace(api)
        .overload(overload.unwrap())
        .build();
    let engine = engine.unwrap();
    let ask = |resource, now| {
        let request = Request::new("api", &USER).resource(resource);
        engine.admit(&request.may_wait_until(NOW.saturating_add(60 * SECOND)), now).unwrap()
    };
    let (mut at_work, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        match ask("slow", NOW) {
            Step::Decided(Decision::Admit(permit)) => at_work.push(permit),
            Step::Ask(pending) => waiting.push(pending),
            other @ Step::Decided(_) => panic!("{other:?}"),
        }
    }
    assert_eq!((at_work.len(), waiting.len()), (2, 48));
    for ms in 0..5000 {
        let now = NOW.saturating_add(Duration::from_millis(ms));
        match ask("fast", now) {
            Step::Decided(Decision::Admit(permit)) => drop(permit),
            other => panic!("at {ms} ms: {other:?}"),
        }
    }
    drop((at_work, waiting));
    assert_eq!(engine.waiting(), 0);
    for stats in engine.resource_stats(NOW) {
        assert_eq!((stats.in_flight, stats.undecided(), stats.offered), (0, 0, stats.decided()));
    }
}

/// The next act of a caller.
#[derive(Clone, Debug)]
enum Act {
    Ask { user: usize, class: usize, waits_ms: u64, attempt: u32 },
    Resume { which: usize, ms: u64 },
    Leave { which: usize },
    End { which: usize, outcome: u8 },
    Drop { which: usize },
    StoreFails(bool),
    Drain,
}

fn act() -> impl Strategy<Value = Act> {
    let which = 0..64_usize;
    prop_oneof![
        8 => (0..4_usize, 0..4_usize, 0..200_u64, 0..2_u32)
            .prop_map(|(user, class, waits_ms, attempt)| Act::Ask { user, class, waits_ms, attempt }),
        8 => (which.clone(), 0..50_u64).prop_map(|(which, ms)| Act::Resume { which, ms }),
        2 => which.clone().prop_map(|which| Act::Leave { which }),
        4 => (which.clone(), 0..3_u8).prop_map(|(which, outcome)| Act::End { which, outcome }),
        2 => which.prop_map(|which| Act::Drop { which }),
        1 => any::<bool>().prop_map(Act::StoreFails),
        1 => Just(Act::Drain),
    ]
}

const USERS: [&str; 4] = ["ada", "bob", "cyd", "dan"];

struct Callers {
    world: World,
    waiting: Vec<Pending>,
    at_work: Vec<Permit>,
}

impl Callers {
    fn take(&mut self, step: Step) {
        match step {
            Step::Decided(Decision::Admit(permit)) => self.at_work.push(permit),
            Step::Decided(Decision::Refuse(_)) => {}
            Step::Ask(pending) => self.waiting.push(pending),
        }
    }

    fn go_on(&mut self, pending: Pending) {
        let answered = match pending.batch() {
            Some(batch) => tidegate_engine::Answered::Store(self.world.ask(batch)),
            None => tidegate_engine::Answered::Turn,
        };
        let step = self.world.engine.resume(pending, answered, self.world.now());
        self.take(step);
    }

    fn end(&mut self, permit: Permit, outcome: u8) {
        let outcome = [Outcome::Succeeded, Outcome::Failed, Outcome::Cancelled][usize::from(outcome)];
        let settled = self.world.engine.settle(permit, outcome, self.world.now());
        for batch in settled.batches {
            let _ = self.world.ask(&batch);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn offered_is_the_sum_of_the_outcomes_and_nothing_stays_held(
        acts in prop::collection::vec(act(), 1..400),
    ) {
        let room = Room { in_flight: 3, local: 40, ..Room::WIDE };
        let mut callers = Callers { world: World::new(room), waiting: Vec::new(), at_work: Vec::new() };
        for act in acts {
            match act {
                Act::Ask { user, class, waits_ms, attempt } => {
                    let pairs = [("user", USERS[user])];
                    let mut request = Request::new("api", &pairs).class(Class::ALL[class]);
                    request.attempt = attempt;
                    if waits_ms > 20 {
                        let until = callers.world.now().saturating_add(Duration::from_millis(waits_ms));
                        request.may_wait_until = Some(until);
                    }
                    if let Ok(step) = callers.world.engine.admit(&request, callers.world.now()) {
                        callers.take(step);
                    }
                }
                Act::Resume { which, ms } if which < callers.waiting.len() => {
                    callers.world.advance(Duration::from_millis(ms));
                    let pending = callers.waiting.swap_remove(which);
                    callers.go_on(pending);
                }
                Act::Leave { which } if which < callers.waiting.len() => {
                    drop(callers.waiting.swap_remove(which));
                }
                Act::End { which, outcome } if which < callers.at_work.len() => {
                    let permit = callers.at_work.swap_remove(which);
                    callers.end(permit, outcome);
                }
                Act::Drop { which } if which < callers.at_work.len() => {
                    drop(callers.at_work.swap_remove(which));
                }
                Act::StoreFails(fails) => callers.world.store_is_down = fails,
                Act::Drain => callers.world.engine.drain_waiting(),
                Act::Resume { .. } | Act::Leave { .. } | Act::End { .. } | Act::Drop { .. } => {}
            }
            let stats = callers.world.engine.resource_stats(NOW).next().unwrap();
            prop_assert!(stats.in_flight <= 3, "{stats:?}");
        }
        callers.waiting.clear();
        callers.at_work.clear();
        prop_assert_eq!(callers.world.engine.waiting(), 0);
        let stats = callers.world.engine.resource_stats(NOW).next().unwrap();
        prop_assert_eq!((stats.in_flight, stats.undecided()), (0, 0));
        prop_assert_eq!(stats.offered, stats.decided());
    }
}
