//! Requests that wait for their turn: what they hold, in which order they are called, when they
//! stop waiting, and what the store is asked meanwhile.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};

use tidegate_capacity::Access;
use tidegate_core::algorithm::Concurrency;
use tidegate_core::limit::Missing;
use tidegate_core::{Algorithm, Class, Limit, Plane, Reason, Retry, Timestamp};
use tidegate_engine::{
    Answered, Decision, Engine, NamespaceConfig, OfferOutcome, Outcome, Pending, Permit, Request, RoomBounds,
    RoomUse, Step, lacks_in_flight_place,
};
use tidegate_overload::{Overload, QueueConfig, ResourceConfig};

use crate::world::{NOW, Room, Stage, USER, World, bucket, config, request, stored, turn};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_mins(1);
const BOB: [(&str, &str); 1] = [("user", "bob")];
const CYD: [(&str, &str); 1] = [("user", "cyd")];

fn after(span: Duration) -> Timestamp {
    NOW.saturating_add(span)
}

/// A request of `user` that meets every plane and may wait for an hour.
fn patient(user: &'static [(&'static str, &'static str)], class: Class) -> Request<'static> {
    let access = Access::write("orders", b"order-7", 1000);
    let request = Request::new("api", user).class(class).tenant("acme").access(access);
    request.may_wait_until(after(Duration::from_hours(1)))
}

/// A world with this many places in flight and room in every other plane.
fn places(in_flight: u64) -> World {
    World::new(Room { in_flight, ..Room::WIDE })
}

/// An engine with one concurrency limit of 1, whose permits expire after a minute.
fn one_job_at_a_time() -> World {
    let jobs = Algorithm::Concurrency(Concurrency::new(1, MINUTE).unwrap());
    World::with_limits([Limit::new("jobs", jobs).key(["user"])])
}

fn is_called(pending: &Pending) -> bool {
    turn(pending).is_called()
}

/// Lets a request wait. Its own returned charges do not call it.
fn enter(world: &World, request: &Request<'_>) -> Pending {
    let pending = world.begin(request).waits();
    assert!(!is_called(&pending), "a waiting request is called for what others return");
    pending
}

/// Counts how often a waiting request is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for the turn of each of these requests as a driver does.
fn watch(waiting: &[&Pending]) -> Vec<Arc<Wakes>> {
    let watch_one = |pending: &&Pending| {
        let count = Arc::new(Wakes::default());
        let waker = Arc::clone(&count).into();
        assert!(core::pin::pin!(turn(pending)).poll(&mut Context::from_waker(&waker)).is_pending());
        count
    };
    waiting.iter().map(watch_one).collect()
}

fn counts(wakes: &[Arc<Wakes>]) -> Vec<usize> {
    wakes.iter().map(|one| one.0.load(Ordering::Relaxed)).collect()
}

#[test]
fn at_ten_times_the_load_the_store_is_asked_once_for_each_admitted_request() {
    // Ten places, each held for 100 ms, serve 100 requests a second; 1000 a second arrive, and each
    // waits for 500 ms at most.
    let limits = Room { local: 100_000, capacity: 100_000, exact: 100_000, in_flight: 10 };
    let world = World::new(limits);
    let mut running = VecDeque::new();
    let mut waiting: Vec<Pending> = Vec::new();
    let (mut admitted, mut refused) = (0_u64, 0_u64);
    for arrival in 0..3000 {
        let now = world.now();
        let request = patient(&USER, Class::ALL[arrival % 4]);
        let request = request.may_wait_until(now.saturating_add(500 * MS));
        let mut due = VecDeque::from([None]);
        while running.front().is_some_and(|(end, _)| *end <= now) {
            let (_, permit) = running.pop_front().unwrap();
            world.finish(world.engine.settle(permit, Outcome::Succeeded, now));
        }
        loop {
            let stage = match due.pop_front() {
                Some(None) => world.begin(&request),
                Some(Some(pending)) => world.resume(pending),
                None => {
                    let is_due = |one: &mut Pending| is_called(one) || turn(one).wake_at() <= now;
                    due.extend(waiting.extract_if(.., is_due).map(Some));
                    if due.is_empty() {
                        break;
                    }
                    continue;
                }
            };
            match stage {
                Stage::Admitted(permit) => {
                    admitted += 1;
                    running.push_back((now.saturating_add(100 * MS), permit));
                }
                Stage::Refused(_) => refused += 1,
                Stage::Waits(pending) => waiting.push(pending),
            }
        }
        world.advance(MS);
    }
    assert!((290..=310).contains(&admitted), "the places are always in use: {admitted} admitted");
    assert!(refused > 2000, "{refused} refused");
    assert!(
        world.store_calls() * 100 <= admitted * 105,
        "{} store calls for {admitted} requests",
        world.store_calls()
    );
    drop((running, waiting));
    let stats = world.stats();
    assert_eq!((stats.in_flight, stats.undecided(), world.engine.waiting()), (0, 0, 0));
}

#[test]
fn a_queue_that_is_too_long_refuses_the_least_important_tenants_before_it_sheds_any_other() {
    let overload = Overload::new(ResourceConfig::new(1).queue(QueueConfig::default()), 7).unwrap();
    let level_of = |tenant: &str| overload.request_level(1, Class::Sheddable, Some(tenant), NOW).number();
    let tenants: Vec<String> = (0..300).map(|tenant| tenant.to_string()).collect();
    let levels: Vec<u16> = tenants.iter().map(|tenant| level_of(tenant)).collect();
    let engine = Engine::builder(config()).namespace(NamespaceConfig::new("api", [])).overload(overload);
    let world = World::of(engine.build().unwrap());
    let mut running: Option<Permit> = None;
    let mut waiting: Vec<Pending> = Vec::new();
    let (mut refused, mut let_in) = (Vec::new(), Vec::new());
    // Each millisecond a request ends, and two new tenants come. Delay control sheds from the 140th
    // on: the delay is above the target after 40 ms, and 100 ms later the queue stands.
    for millis in 0..135 {
        let now = world.now();
        if millis % 100 == 0 {
            let _ = world.engine.tick(now);
        }
        if let Some(permit) = running.take() {
            world.finish(world.engine.settle(permit, Outcome::Succeeded, now));
        }
        for called in waiting.extract_if(.., |pending| is_called(pending)).collect::<Vec<_>>() {
            match world.resume(called) {
                Stage::Admitted(permit) => running = Some(permit),
                other => panic!("it was its turn: {other:?}"),
            }
        }
        for arrival in [2 * millis, 2 * millis + 1] {
            let request = Request::new("api", tidegate_core::Attributes::default());
            let request = request.class(Class::Sheddable).tenant(&tenants[arrival]);
            match world.begin(&request.may_wait_until(after(MINUTE))) {
                Stage::Admitted(permit) => running = Some(permit),
                Stage::Refused(denied) => refused.push((levels[arrival], denied)),
                Stage::Waits(pending) => {
                    waiting.push(pending);
                    if millis >= 100 {
                        let_in.push(levels[arrival]);
                    }
                }
            }
        }
        world.advance(MS);
    }
    assert!((8..=25).contains(&refused.len()), "a fifth of 70 arrivals: {}", refused.len());
    let highest = refused.iter().map(|(level, _)| *level).max().unwrap();
    let lowest = let_in.iter().copied().min().unwrap();
    assert!(highest < lowest, "refused up to level {highest}, let in from {lowest} on");
    for (_, refusal) in refused {
        assert_eq!((refusal.reason(), refusal.name()), (Reason::OverloadShed, "queue_delay"));
        let scope: Vec<&str> = refusal.scope.iter().map(|(name, _)| &**name).collect();
        assert_eq!(scope, ["class", "tenant"]);
    }
}

/// The refusal names the instant, so it is known when the request comes that no turn is in time.
#[test]
fn a_request_whose_own_limit_refuses_it_for_longer_than_it_may_wait_joins_no_line() {
    let world = World::new(Room { local: 1, in_flight: 1, ..Room::WIDE });
    let held = world.begin(&patient(&USER, Class::Critical)).admitted();
    let bob = enter(&world, &patient(&BOB, Class::Critical));
    let ask = |wait| world.begin(&patient(&USER, Class::Critical).may_wait_until(after(wait)));
    let is_told_of_the_rate = |stage: Stage| {
        let Stage::Refused(refusal) = stage else { panic!("waits, or is admitted") };
        let expected = (Reason::RateExceeded, Retry::At(after(MINUTE)));
        assert_eq!((refusal.reason(), refusal.retry()), expected);
    };
    // Others wait for the place, which this request would need as well.
    is_told_of_the_rate(ask(10_000 * MS));
    assert_eq!(world.engine.waiting(), 1);
    let long = ask(MINUTE).waits();
    // Another waits for the counter itself.
    is_told_of_the_rate(ask(59_999 * MS));
    assert_eq!(world.engine.waiting(), 2);
    world.finish(world.engine.settle(held, Outcome::Succeeded, world.now()));
    assert!(is_called(&bob) && !is_called(&long));
    drop(world.resume(bob).admitted());
    let stats = world.stats();
    assert_eq!(stats.undecided(), 1, "only the one that waits is undecided");
}

#[test]
fn a_waiting_request_holds_nothing_and_leaves_its_limits_as_they_were() {
    let world = places(1);
    let held = world.begin(&patient(&USER, Class::Critical)).admitted();
    let (left, state, calls) = (world.left(), world.state(), world.store_calls());
    let pending = enter(&world, &patient(&USER, Class::Critical));
    assert_eq!(world.store_calls(), calls, "the store is not asked for a request without a place");
    assert_eq!(world.left(), left);
    let after = world.state();
    assert_eq!((&after.0, &after.1, &after.2), (&state.0, &state.1, &state.2));
    assert_eq!((world.stats().in_flight, world.engine.waiting(), world.stats().undecided()), (1, 1, 1));
    drop(pending);
    assert_eq!(world.state(), state);
    assert_eq!(world.stats().count(OfferOutcome::Cancelled), 1);
    drop(held);
}

#[test]
fn a_returned_place_wakes_only_the_request_that_is_next() {
    let world = places(2);
    let held = [(); 2].map(|()| world.begin(&patient(&USER, Class::Critical)).admitted());
    let classes = [Class::Sheddable, Class::Critical, Class::Critical, Class::Sheddable];
    let waiting = classes.map(|class| enter(&world, &patient(&USER, class)));
    let wakes = watch(&waiting.each_ref());
    let [one, other] = held;
    drop(one);
    assert_eq!(counts(&wakes), [0, 1, 0, 0]);
    let [_low, next, second, _last] = waiting;
    let next = world.resume(next).admitted();
    // Its departure calls the request behind it, and no other one.
    assert_eq!(counts(&wakes), [0, 1, 1, 0]);
    let second = world.resume(second).waits();
    let again = watch(&[&second]);
    drop((next, other));
    assert_eq!((counts(&wakes), counts(&again)), (vec![0, 1, 1, 0], vec![1]));
}

#[test]
fn waiting_requests_are_admitted_by_class_and_then_by_arrival() {
    let world = places(1);
    let mut held = world.begin(&patient(&USER, Class::Critical)).admitted();
    let classes = [Class::Sheddable, Class::Critical, Class::Critical, Class::Sheddable];
    let mut waiting: Vec<_> =
        (0..4).zip(classes.map(|class| enter(&world, &patient(&USER, class)))).collect();
    let mut order = Vec::new();
    while !waiting.is_empty() {
        world.finish(world.engine.settle(held, Outcome::Succeeded, world.now()));
        let called: Vec<_> = waiting.extract_if(.., |(_, pending)| is_called(pending)).collect();
        let [(number, pending)] = <[_; 1]>::try_from(called).unwrap();
        order.push(number);
        held = world.resume(pending).admitted();
        // The new head of the line was called when the admitted one left it. It waits on.
        let called: Vec<_> = waiting.extract_if(.., |(_, pending)| is_called(pending)).collect();
        waiting.extend(called.into_iter().map(|(number, pending)| (number, world.resume(pending).waits())));
    }
    assert_eq!(order, [1, 2, 0, 3]);
}

#[test]
fn the_last_attempt_keeps_its_position_until_the_store_has_answered() {
    let world = places(1);
    let held = world.begin(&request()).admitted();
    let pending = enter(&world, &patient(&USER, Class::Critical).may_wait_until(after(MS * 10)));
    world.advance(MS * 10);
    drop(held);
    assert!(is_called(&pending), "at the last instant at which it may wait");
    let Step::Ask(asking) = world.engine.resume(pending, Answered::Turn, world.now()) else {
        panic!("it asks the store")
    };
    assert_eq!(world.engine.waiting(), 1);
    let answer = world.ask(asking.batch().unwrap());
    let step = world.engine.resume(asking, answer, world.now());
    let Step::Decided(Decision::Admit(permit)) = step else { panic!("{step:?}") };
    assert_eq!((world.engine.waiting(), world.stats().undecided()), (0, 0));
    drop(permit);
}

#[test]
fn newcomers_do_not_take_the_units_that_a_request_waits_for() {
    let world = World::new(Room { capacity: 2, ..Room::WIDE });
    for _ in 0..2 {
        drop(world.begin(&request()).admitted());
    }
    let first = enter(&world, &patient(&USER, Class::Critical));
    world.advance(turn(&first).wake_at().saturating_since(world.now()));
    // There are units again, and it has not been resumed yet.
    let second = enter(&world, &patient(&BOB, Class::Critical));
    let lower = enter(&world, &patient(&CYD, Class::Sheddable));
    // Reads have units of their own.
    let read = Access::read("orders", b"order-7", 1000);
    drop(world.begin(&patient(&CYD, Class::Critical).access(read)).admitted());
    drop(world.resume(first).admitted());
    for next in [second, lower] {
        assert!(is_called(&next), "it is the next");
        let next = world.resume(next).waits();
        world.advance(turn(&next).wake_at().saturating_since(world.now()));
        drop(world.resume(next).admitted());
    }
}

#[test]
fn a_request_whose_obstacle_changes_keeps_its_arrival() {
    let world = World::new(Room { local: 1, in_flight: 1, ..Room::WIDE });
    drop(world.begin(&patient(&USER, Class::Critical)).admitted());
    let held = world.begin(&patient(&CYD, Class::Critical)).admitted();
    let early = enter(&world, &patient(&USER, Class::Critical));
    let late = enter(&world, &patient(&BOB, Class::Critical));
    assert_eq!(turn(&early).wake_at(), after(MINUTE), "it waits for its rate");
    world.advance(MINUTE);
    // The rate has room, and now a place is missing.
    let early = world.resume(early).waits();
    let early = if is_called(&early) { world.resume(early).waits() } else { early };
    assert!(!is_called(&early));
    drop(held);
    assert!(is_called(&early) && !is_called(&late));
    let held = world.resume(early).admitted();
    drop(held);
    drop(world.resume(late).admitted());
}

#[test]
fn a_free_place_belongs_to_the_waiting_request_unless_a_higher_class_comes() {
    let world = places(1);
    let held = world.begin(&patient(&USER, Class::SheddablePlus)).admitted();
    let waiting = enter(&world, &patient(&USER, Class::SheddablePlus));
    drop(held);
    assert!(is_called(&waiting));
    for class in [Class::Sheddable, Class::SheddablePlus] {
        let state = world.state();
        let refused = world.begin(&request().class(class)).refused();
        assert_eq!((refused.reason(), refused.name()), (Reason::OverloadShed, "in_flight"));
        assert_eq!(world.state(), state, "it is refused and leaves nothing");
        let calls = world.store_calls();
        drop(enter(&world, &patient(&USER, class)));
        assert_eq!(world.store_calls(), calls, "it joins the line without asking");
    }
    let higher = world.begin(&request().class(Class::Critical)).admitted();
    let waiting = world.resume(waiting).waits();
    assert!(!is_called(&waiting));
    drop(higher);
    assert!(is_called(&waiting));
    drop(world.resume(waiting).admitted());
    drop(world.begin(&request()).admitted());
}

#[test]
fn a_request_that_waits_for_a_permit_goes_on_by_its_own_clock_when_the_permit_expires() {
    let world = one_job_at_a_time();
    let held = world.begin(&Request::new("api", &USER)).admitted();
    let until = after(Duration::from_hours(1));
    let request = Request::new("api", &USER).may_wait_until(until);
    let (mut first, second) = (enter(&world, &request), enter(&world, &request));
    let mut attempts = 0;
    let permit = loop {
        let at = turn(&first).wake_at();
        assert!(at > world.now() && at <= world.now().saturating_add(200 * MS));
        world.advance(at.saturating_since(world.now()));
        attempts += 1;
        match world.resume(first) {
            Stage::Waits(pending) => first = pending,
            stage => break stage.admitted(),
        }
    };
    assert!(world.now() >= after(MINUTE) && world.now() <= after(MINUTE + 200 * MS));
    assert!(attempts <= 602, "{attempts} attempts in a minute");
    // The first request has left the line, so that the second one keeps time from now on.
    assert!(is_called(&second));
    let second = world.resume(second).waits();
    assert!(turn(&second).wake_at() < until);
    drop(permit);
    assert!(is_called(&second));
    drop(held);
}

#[test]
fn a_request_that_waits_for_its_rate_goes_on_at_the_instant_of_its_refusal() {
    let world = World::new(Room { local: 1, ..Room::WIDE });
    drop(world.begin(&patient(&USER, Class::Critical)).admitted());
    let pending = enter(&world, &patient(&USER, Class::Critical));
    assert_eq!(turn(&pending).wake_at(), after(MINUTE));
    world.advance(MINUTE.checked_sub(Duration::from_nanos(1)).unwrap());
    let pending = world.resume(pending).waits();
    world.advance(Duration::from_nanos(1));
    drop(world.resume(pending).admitted());
}

#[test]
fn a_request_whose_time_is_up_gets_its_own_refusal_although_no_other_request_comes() {
    let world = places(1);
    let _held = world.begin(&patient(&USER, Class::Critical)).admitted();
    let request = request().may_wait_until(after(MINUTE));
    let both = [enter(&world, &request), enter(&world, &request)];
    assert_eq!(both.each_ref().map(|one| turn(one).wake_at()), [after(MINUTE); 2]);
    world.advance(MINUTE);
    for pending in both {
        let refused = world.resume(pending).refused();
        assert_eq!((refused.reason(), refused.name()), (Reason::OverloadShed, "in_flight"));
    }
    assert_eq!((world.engine.waiting(), world.stats().undecided()), (0, 0));
}

#[test]
fn a_request_stops_waiting_before_its_deadline() {
    let world = places(1);
    let _held = world.begin(&patient(&USER, Class::Critical)).admitted();
    let pending = enter(&world, &patient(&USER, Class::Critical).deadline(after(MINUTE)));
    assert_eq!(turn(&pending).wake_at(), after(MINUTE.checked_sub(Duration::from_nanos(1)).unwrap()));
}

#[test]
fn in_a_full_room_a_higher_class_displaces_the_lowest_that_waits() {
    let world = World::new(Room { local: 4, in_flight: 1, ..Room::WIDE });
    world.engine.set_waiting_bounds(RoomBounds::new(2, usize::MAX));
    let held = world.begin(&patient(&USER, Class::Critical)).admitted();
    let plus = enter(&world, &patient(&USER, Class::SheddablePlus));
    let lowest = enter(&world, &patient(&USER, Class::Sheddable));
    let wakes = watch(&[&plus, &lowest]);
    let critical = enter(&world, &patient(&USER, Class::Critical));
    assert_eq!(counts(&wakes), [0, 1]);
    let displaced = world.resume(lowest).refused();
    assert_eq!((displaced.plane(), displaced.reason()), (Plane::Overload, Reason::QueueFull));
    assert_eq!(displaced.retry(), Retry::Backoff);
    assert!(displaced.retry_hint.is_some());
    assert!(!lacks_in_flight_place(&displaced), "it is refused for the queue, not for a place");

    let equal = world.begin(&patient(&USER, Class::SheddablePlus)).refused();
    assert_eq!(equal.reason(), Reason::QueueFull, "an equal class displaces nothing");
    assert_eq!(world.stats().count(OfferOutcome::QueueFull), 2);
    assert_eq!(world.engine.waiting_use().requests, 2);
    drop((plus, critical, held));
    assert_eq!(world.stats().undecided(), 0);
}

#[test]
fn in_a_full_room_a_request_over_its_own_limit_gets_the_refusal_of_that_limit() {
    let world = World::new(Room { local: 1, in_flight: 1, ..Room::WIDE });
    world.engine.set_waiting_bounds(RoomBounds::new(0, usize::MAX));
    let held = world.begin(&patient(&USER, Class::Critical)).admitted();
    let refused = world.begin(&patient(&USER, Class::Critical)).refused();
    assert_eq!((refused.reason(), refused.name()), (Reason::RateExceeded, "rate"));
    let refused = world.begin(&patient(&BOB, Class::Critical)).refused();
    assert_eq!((refused.reason(), refused.name()), (Reason::QueueFull, "queue"));
    drop(held);
}

#[test]
fn the_room_is_bounded_in_bytes() {
    let world = places(1);
    world.engine.set_waiting_bounds(RoomBounds::new(100, 1000));
    let _held = world.begin(&patient(&USER, Class::Critical)).admitted();
    let of = |bytes| {
        let mut request = patient(&USER, Class::Critical);
        request.waiting_bytes = bytes;
        request
    };
    let copy = enter(&world, &of(0));
    let copied = world.engine.waiting_use().bytes;
    assert!((50..300).contains(&copied), "{copied}");
    drop(copy);
    let waiting = enter(&world, &of(600 - copied));
    assert_eq!(world.begin(&of(401 - copied)).refused().reason(), Reason::QueueFull);
    let fits = enter(&world, &of(400 - copied));
    assert_eq!((world.engine.waiting_use().requests, world.engine.waiting_use().bytes), (2, 1000));
    drop((waiting, fits));
    assert_eq!(world.engine.waiting_use(), RoomUse::default());
}

#[test]
fn issue_39_all_that_is_copied_counts_and_all_resources_have_one_bound_with_shares() {
    let app = ResourceConfig::new(1).waiting_max(RoomUse::new(1000, 1 << 20)).queue(QueueConfig::default());
    let resources = ["one", "two", "three", "four"];
    let overload = resources.into_iter().fold(Overload::builder(7), |all, name| all.resource(name, app));
    let names = ["api", "other"].map(|name| NamespaceConfig::new(name, []));
    let engine = Engine::builder(config()).namespaces(names).overload(overload.build().unwrap());
    let world = World::of(engine.build().unwrap());
    world.engine.set_waiting_bytes(400 << 10);
    let text = "x".repeat(10_000);
    let large = [("user", text.as_str())];
    let ask = |namespace, resource| {
        let request = Request::new(namespace, &large).resource(resource).class(Class::Critical);
        world.begin(&request.may_wait_until(after(MINUTE)))
    };
    let held = resources.map(|resource| ask("api", resource).admitted());
    let mut waiting = Vec::new();
    for index in 0..100 {
        if let Stage::Waits(pending) = ask("api", resources[index % 4]) {
            waiting.push(pending);
        }
    }
    // Its share is a quarter of the bound, and the pool half of it; the attributes count for the
    // copy of the request and once more for its refusal.
    let used = world.engine.waiting_use();
    assert_eq!((waiting.len(), used.bytes / used.requests / 1000), (15, 20));
    let others = (0..100).filter_map(|index| match ask("other", resources[index % 4]) {
        Stage::Waits(pending) => Some(pending),
        _ => None,
    });
    let others: Vec<_> = others.collect();
    assert_eq!(others.len(), 5, "the share of the other namespace is left to it");
    assert_eq!(ask("other", "one").refused().reason(), Reason::QueueFull);
    drop((waiting, others, held));
    assert_eq!(world.engine.waiting_use(), RoomUse::default());
}

#[test]
fn a_waiting_request_counts_the_limits_that_apply_to_it_and_no_others() {
    let used = |others: usize| {
        let job = Limit::new("job", bucket(1, MINUTE)).key(["user"]);
        let other = |at: usize| {
            Limit::new(format!("other-{at}"), bucket(1, MINUTE)).key(["other"]).missing(Missing::Skip)
        };
        let limits = core::iter::once(job).chain((0..others).map(other));
        let engine = Engine::builder(config()).namespace(NamespaceConfig::new("api", limits));
        let engine = engine.build().unwrap();
        let request = Request::new("api", &USER).may_wait_until(after(10 * MINUTE));
        let _admitted = engine.admit(&request, NOW).unwrap();
        let _waits = engine.admit(&request, NOW).unwrap();
        assert_eq!(engine.waiting(), 1);
        engine.waiting_use().bytes
    };
    assert_eq!(used(100), used(0));
}

#[test]
fn a_namespace_cannot_use_up_the_share_of_another() {
    let overload = Overload::new(ResourceConfig::new(1), 5).unwrap();
    let other = NamespaceConfig::new("other", [Limit::new("rate", bucket(9, MINUTE))]);
    let limits = [Limit::new("rate", bucket(100, MINUTE))];
    let world = World::of(stored(limits).namespace(other).overload(overload).build().unwrap());
    world.engine.set_waiting_bounds(RoomBounds::new(4, usize::MAX).shared_by(2, 1));
    let wait = |namespace| Request::new(namespace, &USER).may_wait_until(after(MINUTE));
    let _held = world.begin(&wait("api")).admitted();
    let mine = [enter(&world, &wait("api")), enter(&world, &wait("api"))];
    assert_eq!(world.begin(&wait("api")).refused().reason(), Reason::QueueFull);
    let theirs = [enter(&world, &wait("other")), enter(&world, &wait("other"))];
    assert_eq!(world.begin(&wait("other")).refused().reason(), Reason::QueueFull);
    drop((mine, theirs));
}

#[test]
fn a_drain_refuses_every_waiting_request_at_once_and_lets_no_later_one_wait() {
    let world = World::new(Room { local: 1, in_flight: 1, ..Room::WIDE });
    let _held = world.begin(&patient(&USER, Class::Critical)).admitted();
    let for_rate = enter(&world, &patient(&USER, Class::Critical));
    let for_place = enter(&world, &patient(&BOB, Class::Critical));
    let joined = enter(&world, &patient(&BOB, Class::Critical));
    let wakes = watch(&[&for_rate, &for_place, &joined]);
    world.engine.drain_waiting();
    assert_eq!(counts(&wakes), [1, 1, 1]);
    let says_when = |refused: &tidegate_core::Refusal| {
        refused.retry_hint.is_some() || matches!(refused.retry(), Retry::At(_))
    };
    for pending in [for_rate, for_place, joined] {
        let refused = world.resume(pending).refused();
        assert_eq!(refused.reason(), Reason::QueueFull, "whatever it waited for");
        assert!(says_when(&refused));
    }
    let later = match world.begin(&patient(&CYD, Class::Critical)) {
        // It is called as soon as it enters.
        Stage::Waits(pending) if is_called(&pending) => world.resume(pending).refused(),
        stage => stage.refused(),
    };
    assert!(says_when(&later));
    assert_eq!((world.engine.waiting(), world.stats().undecided()), (0, 0));
}

/// Notes the order in which waiting requests are woken.
struct Order(usize, Arc<Mutex<Vec<usize>>>);

impl Wake for Order {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[test]
fn a_drain_wakes_waiting_requests_in_order_of_their_arrival() {
    let world = places(1);
    let _held = world.begin(&patient(&USER, Class::Critical)).admitted();
    let waiting: Vec<_> = (0..100).map(|_| enter(&world, &patient(&BOB, Class::Critical))).collect();
    let order = Arc::new(Mutex::new(Vec::new()));
    for (number, pending) in waiting.iter().enumerate() {
        let waker = Arc::new(Order(number, Arc::clone(&order))).into();
        assert!(core::pin::pin!(turn(pending)).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    world.engine.drain_waiting();
    assert!(order.lock().unwrap().iter().copied().eq(0..100), "{order:?}");
}
