//! Events that the engine takes in besides requests, and the answers of all planes to a request.

use core::time::Duration;
use std::borrow::Cow;

use tidegate_core::algorithm::Verdict;
use tidegate_core::{CarriedLimit, Charging, Class, Reason};
use tidegate_engine::{AdminError, Decision, Event, InstanceState, Progress, Request, RequestError, Step};
use tidegate_overload::{AdaptiveLimitConfig, INSTANCE_TTL, LimitAlgorithm, Overload, ResourceConfig, TICK};

use crate::world::{NOW, Room, USER, World, bucket, request, stored, turn};

const MINUTE: Duration = Duration::from_mins(1);

fn reason_of(world: &World, request: &Request<'_>) -> Option<Reason> {
    match world.decide(request) {
        Decision::Admit(_) => None,
        Decision::Refuse(refused) => Some(refused.reason()),
    }
}

#[test]
fn a_pin_sheds_until_its_end_and_a_look_and_an_explanation_say_so() {
    let world = World::new(Room::WIDE);
    let pin = |level, until| Event::Pin { resource: None, level, until };
    world.engine.event(pin(Some(u16::MAX), NOW.saturating_add(MINUTE)), NOW).unwrap();
    assert_eq!(reason_of(&world, &request()), Some(Reason::OverloadShed));
    let peek = world.carry(world.engine.peek(&request(), NOW)).unwrap();
    assert_eq!(peek.refusal.map(|refusal| refusal.name().to_owned()).as_deref(), Some("admission_cursor"));
    let explained = world.carry(world.engine.explain(&request(), NOW)).unwrap();
    assert!(!explained.is_admitted());
    assert_eq!(explained.planes[0].reason(), Reason::OverloadShed);
    assert_eq!(reason_of(&world, &request().class(Class::CriticalPlus)), None);
    world.advance(MINUTE);
    let _ = world.engine.tick(world.now());
    assert_eq!(reason_of(&world, &request()), None, "the pin has ended");
}

#[test]
fn an_unknown_resource_or_partition_is_an_error_that_names_it() {
    let world = World::new(Room::WIDE);
    let signal = Event::Signal { resource: "checkout", pressure: 2.0 };
    let error = world.engine.event(signal, NOW).unwrap_err();
    assert!(matches!(&error, AdminError::UnknownResource(name) if name == "checkout"), "{error}");
    let placement = Event::Placement { namespace: "api", table: "no such table", partition: 0, node: "n1" };
    assert!(matches!(world.engine.event(placement, NOW), Err(AdminError::Request(RequestError::Access(_)))));
}

#[test]
fn a_placement_without_a_capacity_plane_is_an_error_that_names_the_table_and_the_fix() {
    let world = World::with_limits([]);
    let placement = Event::Placement { namespace: "api", table: "orders", partition: 0, node: "n1" };
    assert_eq!(
        world.engine.event(placement, NOW).unwrap_err().to_string(),
        "table \"orders\" cannot be placed: this engine has no capacity plane; set one with \
         `EngineBuilder::capacity`, or leave the placement out"
    );
}

#[test]
fn observed_usage_is_charged_whether_or_not_there_is_room() {
    let world = World::with_limits([tidegate_core::Limit::new("rate", bucket(3, MINUTE)).key(["user"])]);
    let observed = Request::new("api", &USER).cost(tidegate_core::Cost::new(3).unwrap());
    world.engine.event(Event::ObservedUsage(observed), NOW).unwrap();
    assert_eq!(world.left(), [("rate".to_owned(), 0)]);
    assert_eq!(reason_of(&world, &Request::new("api", &USER)), Some(Reason::RateExceeded));
}

#[test]
fn a_place_that_is_missing_is_what_a_look_says_and_it_takes_none() {
    let world = World::new(Room { in_flight: 1, ..Room::WIDE });
    let held = world.decide(&request());
    let peek = world.carry(world.engine.peek(&request(), NOW)).unwrap();
    assert_eq!(peek.refusal.map(|refusal| refusal.name().to_owned()).as_deref(), Some("in_flight"));
    drop(held);
    let peek = || world.carry(world.engine.peek(&request(), NOW)).unwrap().refusal;
    assert_eq!((peek(), peek()), (None, None));
}

#[test]
fn limits_that_arrive_with_a_request_see_the_cursor_and_are_not_charged_when_it_sheds() {
    let world = World::new(Room::WIDE);
    let (algorithm, key) = (bucket(5, MINUTE), [&b"k"[..]]);
    let carry = |cost| {
        let limit = CarriedLimit { key: Cow::Borrowed(&key[..]), algorithm: Cow::Borrowed(&algorithm), cost };
        let begun = world.engine.carry(&Request::new("any", ()), &[limit], Charging::Each, world.now());
        let Progress::Done(carried) = begun.unwrap() else { panic!("decided here") };
        carried
    };
    assert_eq!((carry(2).is_admitted, carry(0).limits[0].used), (true, 2));
    let pin = Event::Pin { resource: None, level: Some(u16::MAX), until: NOW.saturating_add(MINUTE) };
    world.engine.event(pin, NOW).unwrap();
    let shed = carry(1);
    assert_eq!(shed.refusal.as_ref().map(tidegate_core::Refusal::reason), Some(Reason::OverloadShed));
    let Verdict::Wait { until } = shed.limits[0].verdict else { panic!("{shed:?}") };
    assert!(!shed.is_admitted && until > NOW, "a caller is told when to come back");
    assert_eq!(carry(0).limits[0].used, 2, "nothing is charged, and a look is not shed");
}

#[test]
fn a_request_that_may_wait_begins_anew_when_a_place_is_returned() {
    let world = World::new(Room { in_flight: 1, ..Room::WIDE });
    let held = world.decide(&request());
    let patient = request().may_wait_until(NOW.saturating_add(MINUTE));
    let Step::Ask(pending) = world.engine.admit(&patient, NOW).unwrap() else { panic!("it waits") };
    let tidegate_engine::Wants::Turn(turn) = pending.wants() else { panic!("for its turn") };
    assert!(!turn.is_called());
    drop(held);
    assert!(turn.is_called());
    assert_eq!(world.engine.waiting(), 1);
    let mut step = world.engine.resume(pending, tidegate_engine::Answered::Turn, NOW);
    while let Step::Ask(pending) = step {
        let answer = world.ask(pending.batch().expect("only the store is left to be asked"));
        step = world.engine.resume(pending, answer, NOW);
    }
    assert!(matches!(step, Step::Decided(Decision::Admit(_))));
    assert_eq!(world.engine.waiting(), 0);
}

#[test]
fn a_request_that_asks_the_store_keeps_nobody_behind_it_from_a_second_place() {
    let world = World::new(Room { in_flight: 2, ..Room::WIDE });
    let held = [world.decide(&request()), world.decide(&request())];
    let patient = request().may_wait_until(NOW.saturating_add(MINUTE));
    let wait = || match world.engine.admit(&patient, NOW).unwrap() {
        Step::Ask(pending) => pending,
        Step::Decided(decision) => panic!("it waits: {decision:?}"),
    };
    let is_called = |pending: &tidegate_engine::Pending| match pending.wants() {
        tidegate_engine::Wants::Turn(turn) => turn.is_called(),
        other => panic!("{other:?}"),
    };
    let (first, second) = (wait(), wait());
    drop(held);
    assert!(is_called(&first) && !is_called(&second));
    let step = world.engine.resume(first, tidegate_engine::Answered::Turn, NOW);
    let Step::Ask(asking) = step else { panic!("{step:?}") };
    assert!(asking.batch().is_some(), "the first asks the store, and holds a place");
    assert!(is_called(&second), "there is another place");
    let step = world.engine.resume(second, tidegate_engine::Answered::Turn, NOW);
    assert!(matches!(&step, Step::Ask(pending) if pending.batch().is_some()), "{step:?}");
}

#[test]
fn a_request_that_waits_is_called_when_an_adaptive_limit_grows_although_no_place_comes_back() {
    let limit = AdaptiveLimitConfig {
        algorithm: LimitAlgorithm::Aimd,
        min: 1,
        max: 10,
        initial: 1,
        window: 2 * TICK,
        samples_min: 1,
        ..AdaptiveLimitConfig::default()
    };
    let overload = Overload::builder(5).resource("app", ResourceConfig::adaptive(limit));
    let limits = [tidegate_core::Limit::new("rate", bucket(1000, MINUTE)).key(["user"])];
    let world = World::of(stored(limits).overload(overload.build().unwrap()).build().unwrap());
    let asked = Request::new("api", &USER).resource("app");
    let patient = asked.may_wait_until(world.now().saturating_add(MINUTE));
    let first = world.begin(&asked).admitted();
    let (second, third) = (world.begin(&patient).waits(), world.begin(&patient).waits());
    world.finish(world.engine.settle(first, tidegate_engine::Outcome::Succeeded, world.now()));
    let held = world.resume(second).admitted();
    let third = match world.resume(third) {
        crate::world::Stage::Waits(pending) => pending,
        other => panic!("there is one place: {other:?}"),
    };
    assert!(!turn(&third).is_called());
    for _ in 0..5 {
        world.advance(TICK);
        let _ = world.engine.tick(world.now());
    }
    assert_eq!(world.stats().in_flight_max, 2);
    assert!(turn(&third).is_called());
    drop(world.resume(third).admitted());
    drop(held);
}

#[test]
fn a_request_of_unknown_end_is_paced_by_the_work_whose_end_is_known_and_without_any_never() {
    let overload = Overload::builder(5).resource("app", ResourceConfig::new(5));
    let limits = [tidegate_core::Limit::new("rate", bucket(1_000_000, MINUTE)).key(["user"])];
    let world = World::of(stored(limits).overload(overload.build().unwrap()).build().unwrap());
    let known = Request::new("api", &USER).resource("app");
    let unknown = known.end_unknown();
    for _ in 0..1000 {
        drop(world.begin(&unknown).admitted());
    }
    assert_eq!(world.stats().in_flight, 0, "it takes no place");
    let held = world.begin(&known).admitted();
    world.advance(TICK / 2);
    world.finish(world.engine.settle(held, tidegate_engine::Outcome::Succeeded, world.now()));
    world.advance(TICK);
    let _ = world.engine.tick(world.now());
    // Five places of 50 ms serve a hundred a second; a thousand a second ask, for two seconds.
    let mut admitted = 0;
    for _ in 0..2000 {
        world.advance(Duration::from_millis(1));
        match world.begin(&unknown) {
            crate::world::Stage::Admitted(permit) => {
                drop(permit);
                admitted += 1;
            }
            crate::world::Stage::Refused(refused) => {
                assert_eq!((refused.reason(), refused.name()), (Reason::OverloadShed, "pace"));
                assert!(refused.retry_hint.is_some_and(|hint| hint >= Duration::from_secs(1)));
            }
            crate::world::Stage::Waits(_) => panic!("no place comes back for which it could wait"),
        }
        let _ = world.engine.tick(world.now());
    }
    assert!((200..=206).contains(&admitted), "{admitted}");
    let stats = world.stats();
    assert_eq!((stats.offered, stats.undecided()), (3001, 0), "{stats:?}");
}

#[test]
fn the_places_of_a_resource_follow_the_instances_that_report_themselves() {
    let app = ResourceConfig::new(5).places_per_instance(1);
    let overload = Overload::builder(5).resource("app", app).resource("fixed", ResourceConfig::new(5));
    let limits = [tidegate_core::Limit::new("rate", bucket(1000, MINUTE)).key(["user"])];
    let world = World::of(stored(limits).overload(overload.build().unwrap()).build().unwrap());
    let report = |instance, state| {
        let event = Event::Instance { resource: Some("app"), instance, state };
        world.engine.event(event, world.now()).unwrap();
        let stats = world.engine.resource_stats(world.now()).next().unwrap();
        (stats.instances, stats.in_flight_max)
    };
    assert_eq!(report("a", InstanceState::Alive), (Some(1), 5), "others may not have reported yet");
    world.advance(INSTANCE_TTL / 2);
    report("a", InstanceState::Alive);
    world.advance(INSTANCE_TTL / 2);
    assert_eq!(report("a", InstanceState::Alive), (Some(1), 1));

    // A request that waits for a place is called when another instance comes.
    let asked = Request::new("api", &USER).resource("app");
    let Ok(Step::Decided(Decision::Admit(held))) = world.engine.admit(&asked, world.now()) else { panic!() };
    let patient = asked.may_wait_until(world.now().saturating_add(MINUTE));
    let Step::Ask(pending) = world.engine.admit(&patient, world.now()).unwrap() else { panic!("it waits") };
    assert!(!turn(&pending).is_called());
    assert_eq!(report("b", InstanceState::Alive), (Some(2), 2));
    assert!(turn(&pending).is_called());
    let step = world.engine.resume(pending, tidegate_engine::Answered::Turn, world.now());
    let Step::Decided(Decision::Admit(second)) = step else { panic!("{step:?}") };

    // Work in flight above the bound stays, and no other request gets a place.
    assert_eq!(report("b", InstanceState::Gone), (Some(1), 1));
    drop(second);
    assert_eq!(reason_of(&world, &asked), Some(Reason::OverloadShed));
    drop(held);
    assert_eq!(reason_of(&world, &asked), None);
    world.advance(INSTANCE_TTL);
    let _ = world.engine.tick(world.now());
    let stats = world.engine.resource_stats(world.now()).next().unwrap();
    assert_eq!((stats.instances, stats.in_flight_max), (Some(0), 5), "nothing is known of it any more");
}

#[test]
fn an_instance_of_a_resource_that_does_not_scale_is_an_error_that_names_the_fix() {
    let world = World::new(Room::WIDE);
    let report = |resource| {
        let event = Event::Instance { resource, instance: "a", state: InstanceState::Alive };
        world.engine.event(event, NOW).unwrap_err()
    };
    let error = report(None);
    assert!(matches!(error, AdminError::Instance(_)), "{error:?}");
    assert!(error.to_string().contains("the default resource does not scale"), "{error}");
    assert!(error.to_string().contains("places_per_instance"), "{error}");
    assert!(matches!(report(Some("app")), AdminError::UnknownResource(_)));
    let config = ResourceConfig::new(5).places_per_instance(0);
    let error = Overload::builder(5).resource("app", config).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "resource \"app\": places_per_instance 0 is not between 1 and 1000000; use how many requests one instance \
         works on at once"
    );
}
