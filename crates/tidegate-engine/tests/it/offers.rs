//! Every offered request ends in one outcome, whatever becomes of it, and leaves nothing behind.

use core::time::Duration;

use proptest::prelude::*;
use tidegate_core::limit::Consistency;
use tidegate_core::{Class, Limit, Reason};
use tidegate_engine::{
    Answered, Decision, Engine, EngineConfig, Event, NamespaceConfig, OfferOutcome, Outcome, Pending, Permit,
    Request, RequestError, RoomBounds, Step, Wants,
};
use tidegate_overload::{Overload, ResourceConfig};

use crate::batch::refused;
use crate::world::{NOW, Room, USER, World, bucket, lease_config, request, stored_by};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_request_that_cannot_be_decided_is_no_demand_and_leaves_nothing() {
    let world = World::new(Room::WIDE);
    let long = "u".repeat(8 << 10);
    let too_long = [("user", long.as_str())];
    let before = world.state();
    for _ in 0..100 {
        let error = world.engine.admit(&Request::new("api", &too_long), world.now()).unwrap_err();
        assert!(matches!(error, RequestError::KeyTooLong(_)), "{error}");
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
    let api = NamespaceConfig::new("api", [limit]);
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

#[test]
fn a_request_that_is_not_admitted_after_it_got_a_place_was_not_served() {
    let room = Room { exact: 2, ..Room::WIDE };
    for end_known in [true, false] {
        let ask = || if end_known { request() } else { request().end_unknown() };
        let world = World::new(room);
        for _ in 0..2 {
            drop(world.decide(&ask()));
        }
        assert_eq!(world.stats().served, 2);
        // The store denies the third.
        assert!(matches!(world.decide(&ask()), Decision::Refuse(_)));
        assert_eq!((world.stats().served, world.stats().demand), (2, 2), "end known: {end_known}");
        // It denies the fourth, which then waits for the quota instead.
        let waiting = world.begin(&ask().may_wait_until(NOW.saturating_add(100 * 60 * 60 * SECOND))).waits();
        assert_eq!((world.stats().served, world.stats().undecided()), (2, 1), "end known: {end_known}");
        drop(waiting);
        // It denies the second of a batch, and with it the first.
        let world = World::new(room);
        refused(&world, &[ask(), ask(), ask()]);
        assert_eq!((world.stats().served, world.stats().demand), (0, 0), "end known: {end_known}");
        // A limit refuses a later member of a batch before the store is asked.
        let world = World::new(Room { local: 1, ..Room::WIDE });
        refused(&world, &[ask(), ask()]);
        assert_eq!((world.stats().served, world.stats().demand), (0, 0), "end known: {end_known}");
        // Its caller goes away while the store is asked.
        let world = World::new(room);
        drop(world.engine.admit(&ask(), world.now()).unwrap());
        assert_eq!(world.stats().served, 0, "end known: {end_known}");
    }
}

/// A resource with one place that is taken, for which one request waits; and a second request that
/// has joined its line without asking.
struct Line {
    world: World,
    held: Permit,
    first: Pending,
    joined: Pending,
}

impl Line {
    const WAIT: Duration = SECOND;

    fn patient(class: Class) -> Request<'static> {
        request().class(class).may_wait_until(NOW.saturating_add(Self::WAIT))
    }

    fn new() -> Self {
        let world = World::new(Room { in_flight: 1, ..Room::WIDE });
        world.engine.set_waiting_bounds(RoomBounds::new(2, usize::MAX));
        let held = world.begin(&request()).admitted();
        let first = world.begin(&Self::patient(Class::Critical)).waits();
        let calls = world.store_calls();
        let joined = world.begin(&Self::patient(Class::Sheddable)).waits();
        assert_eq!((world.store_calls(), world.stats().undecided()), (calls, 2));
        Self { world, held, first, joined }
    }

    /// The request that joined has ended as `outcome`; it is the only one that has.
    fn assert_ended(world: &World, outcome: OfferOutcome, others: [u64; 2]) {
        let stats = world.stats();
        let [offered, undecided] = others;
        assert_eq!(stats.count(outcome), 1 + u64::from(outcome == OfferOutcome::Admitted), "{stats:?}");
        assert_eq!((stats.offered, stats.undecided()), (offered + 1, undecided), "{stats:?}");
    }
}

#[test]
fn a_request_that_joined_a_line_and_is_displaced_was_offered_and_ends_as_queue_full() {
    let Line { world, held, first, joined } = Line::new();
    let higher = world.begin(&Line::patient(Class::CriticalPlus)).waits();
    assert_eq!(world.resume(joined).refused().reason(), Reason::QueueFull);
    Line::assert_ended(&world, OfferOutcome::QueueFull, [3, 2]);
    drop((held, first, higher));
    assert_eq!(world.stats().undecided(), 0);
}

#[test]
fn a_request_that_joined_a_line_and_whose_time_is_up_was_offered_and_ends_without_a_place() {
    let Line { world, held, first, joined } = Line::new();
    world.advance(Line::WAIT);
    assert_eq!(world.resume(joined).refused().name(), "in_flight");
    Line::assert_ended(&world, OfferOutcome::NoPlace, [2, 1]);
    drop((held, first));
    assert_eq!(world.stats().undecided(), 0);
}

#[test]
fn a_request_that_joined_a_line_and_is_drained_was_offered_and_ends_as_queue_full() {
    let Line { world, held, first, joined } = Line::new();
    world.engine.drain_waiting();
    assert_eq!(world.resume(joined).refused().reason(), Reason::QueueFull);
    Line::assert_ended(&world, OfferOutcome::QueueFull, [2, 1]);
    drop((held, first));
    assert_eq!(world.stats().undecided(), 0);
}

#[test]
fn a_request_that_joined_a_line_and_is_dropped_was_offered_and_was_cancelled() {
    let Line { world, held, first, joined } = Line::new();
    drop(joined);
    Line::assert_ended(&world, OfferOutcome::Cancelled, [2, 1]);
    drop((held, first));
    assert_eq!(world.stats().undecided(), 0);
}

#[test]
fn a_request_that_joined_a_line_and_is_called_was_offered_once_and_is_admitted() {
    let Line { world, held, first, joined } = Line::new();
    drop(first);
    drop(held);
    drop(world.resume(joined).admitted());
    let stats = world.stats();
    assert_eq!((stats.offered, stats.count(OfferOutcome::Admitted), stats.undecided()), (3, 2, 0));
    assert_eq!(stats.demand, 3, "its demand counts from when it joined");
}

#[test]
fn an_attempt_that_repeats_a_refusal_is_not_offered_again_and_one_that_repeats_none_is() {
    let Line { world, held, first, joined } = Line::new();
    drop(joined);
    let mut refused = Line::patient(Class::Sheddable);
    refused.may_wait_until = None;
    world.begin(&refused).refused();
    assert_eq!(world.stats().offered, 4);
    let mut repeated = Line::patient(Class::Sheddable);
    repeated.attempt = 5;
    let again = world.begin(&repeated).waits();
    assert_eq!(world.stats().offered, 4, "it repeats the refusal");
    drop(again);
    let more = world.begin(&repeated).waits();
    assert_eq!(world.stats().offered, 5, "whatever its caller says");
    drop((held, first, more));
}

#[test]
fn a_request_that_has_waited_for_a_lease_and_joins_a_line_is_offered_once() {
    let leased = Limit::new("rate", bucket(1000, SECOND)).key(["user"]).consistency(Consistency::Leased);
    let config = lease_config();
    let overload = Overload::new(ResourceConfig::new(1), 5).unwrap();
    let world = World::of(stored_by(config, [leased]).overload(overload).build().unwrap());
    let ask = |user| {
        let request = Request::new("api", user).may_wait_until(NOW.saturating_add(Line::WAIT));
        world.begin(&request).waits()
    };
    let land = |pending| {
        for asked in world.engine.take_lease_asks() {
            let answer = world.ask(asked.batch());
            world.engine.lease_answered(asked, answer, world.now());
        }
        world.go_on(world.engine.resume(pending, Answered::Lease, world.now()))
    };
    let held = land(ask(&USER)).admitted();
    let (second, first) = (ask(&[("user", "bob")]), land(ask(&USER)).waits());
    let joined = land(second).waits();
    assert!(matches!(joined.wants(), Wants::Turn(_)));
    drop(first);
    drop(held);
    drop(world.resume(joined).admitted());
    let stats = world.stats();
    assert_eq!((stats.offered, stats.undecided()), (3, 0), "{stats:?}");
    assert_eq!((stats.count(OfferOutcome::Admitted), stats.count(OfferOutcome::Cancelled)), (2, 1));
}

#[test]
fn a_namespace_and_a_resource_that_wait_keep_no_others_from_waiting() {
    let resource = || ResourceConfig::new(1);
    let overload = Overload::builder(7).resource("app", resource()).resource("db", resource()).build();
    let namespace = |name: &str| NamespaceConfig::new(name, []);
    let engine = Engine::builder(EngineConfig::seeded([1, 2, 3, 4]))
        .namespaces([namespace("api"), namespace("shop")])
        .overload(overload.unwrap())
        .build();
    let engine = engine.unwrap();
    let ask = |namespace, resource| {
        let request = Request::new(namespace, &USER).resource(resource);
        engine.admit(&request.may_wait_until(NOW.saturating_add(60 * SECOND)), NOW).unwrap()
    };
    let mut steps = vec![ask("api", "app"), ask("api", "db")];
    for (nth, (namespace, resource)) in [("api", "app"), ("api", "db"), ("shop", "app"), ("shop", "db")]
        .into_iter()
        .cycle()
        .take(400)
        .enumerate()
    {
        let step = ask(namespace, resource);
        assert!(matches!(step, Step::Ask(_)), "request {nth}, of {namespace} for {resource}: {step:?}");
        steps.push(step);
    }
    assert_eq!(engine.waiting(), 400);
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
    fn take(&mut self, step: Step<'static>) {
        match step {
            Step::Decided(Decision::Admit(permit)) => self.at_work.push(permit),
            Step::Decided(Decision::Refuse(_)) => {}
            Step::Ask(pending) => self.waiting.push(pending),
        }
    }

    fn go_on(&mut self, pending: Pending) {
        let answered = match pending.batch() {
            Some(batch) => Answered::Store(self.world.ask(batch)),
            None => Answered::Turn,
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
        // A small room, so that requests are displaced, those that have joined a line included.
        callers.world.engine.set_waiting_bounds(RoomBounds::new(5, usize::MAX));
        let (mut first_attempts, mut attempts) = (0, 0);
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
                        callers.take(step.into_owned());
                        first_attempts += u64::from(attempt == 0);
                        attempts += 1;
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
        // A repeated attempt is offered unless it repeats a refusal.
        prop_assert!((first_attempts..=attempts).contains(&stats.offered));
    }
}
