//! Resources in shadow mode: they refuse and delay nobody, and count what they would.

use core::time::Duration;

use tidegate_capacity::Capacity;
use tidegate_core::{Class, Limit, Reason, RequestOutcome, Timestamp};
use tidegate_engine::{
    Answered, Decision, Engine, EngineConfig, Event, FeaturePinning, NamespaceConfig, OfferOutcome, Outcome,
    Permit, Request, RowName, Step,
};
use tidegate_overload::{
    Cursor, FeatureConfig, Overload, OverloadBuilder, QueueConfig, ResourceConfig, ResourceMode, RoomUse,
};

use crate::world::{NOW, config, done, thumbnails};

const MS: Duration = Duration::from_millis(1);

fn at(ms: u32) -> Timestamp {
    NOW.saturating_add(ms * MS)
}

/// Two places and two positions in a fair queue.
fn app(mode: ResourceMode) -> OverloadBuilder {
    let resource = ResourceConfig::new(2).waiting_max(RoomUse::new(2, 1 << 20)).queue(QueueConfig::default());
    Overload::builder(7).resource("app", resource.mode(mode))
}

fn engine_of(overload: OverloadBuilder) -> Engine {
    let api = NamespaceConfig::new("api", [Limit::rate("all", "1000/s").unwrap()]);
    Engine::builder(config()).namespace(api).overload(overload.build().unwrap()).build().unwrap()
}

fn shadow() -> Engine {
    engine_of(app(ResourceMode::Shadow))
}

fn reloaded(engine: &Engine, mode: ResourceMode, ms: u32) -> Engine {
    engine.with_planes(Capacity::builder(), app(mode), at(ms)).unwrap()
}

fn request() -> Request<'static> {
    Request::new("api", ()).resource("app")
}

fn patient(ms: u32) -> Request<'static> {
    request().may_wait_until(at(ms))
}

fn admitted(engine: &Engine, request: &Request<'_>, ms: u32) -> Permit {
    match engine.admit(request, at(ms)).unwrap() {
        Step::Decided(Decision::Admit(permit)) => permit,
        other => panic!("a shadow resource refuses and delays nobody: {other:?}"),
    }
}

fn end(engine: &Engine, permit: Permit, ms: u32) {
    drop(engine.settle(permit, Outcome::Succeeded, at(ms)));
}

fn end_all(engine: &Engine, permits: impl IntoIterator<Item = Permit>, ms: u32) {
    for permit in permits {
        end(engine, permit, ms);
    }
}

/// The places in use, the undecided stand-ins, and the requests of some outcomes.
fn counts<const N: usize>(engine: &Engine, of: [OfferOutcome; N]) -> (u64, u64, [u64; N]) {
    let stats = engine.resource_stats(NOW).next().unwrap();
    (stats.in_flight, stats.undecided(), of.map(|outcome| stats.count(outcome)))
}

const OUTCOMES: [OfferOutcome; 4] = [
    OfferOutcome::Admitted,
    OfferOutcome::WouldLackPlace,
    OfferOutcome::WouldFindQueueFull,
    OfferOutcome::Cancelled,
];

#[test]
fn it_admits_everyone_at_once_and_counts_those_that_would_find_no_place() {
    let engine = shadow();
    let [first, second, third, fourth, fifth] = [0; 5].map(|ms| admitted(&engine, &request(), ms));
    assert!(third.must_be_settled() && third.holds_place());
    assert_eq!(counts(&engine, OUTCOMES), (2, 0, [2, 3, 0, 0]));
    // One without a place returns none.
    end(&engine, fifth, 10);
    let sixth = admitted(&engine, &request(), 11);
    assert_eq!(counts(&engine, OUTCOMES), (2, 0, [2, 4, 0, 0]));
    end(&engine, first, 12);
    assert_eq!(counts(&engine, OUTCOMES).0, 1);
    end_all(&engine, [second, third, fourth, sixth], 20);
    assert_eq!(counts(&engine, OUTCOMES), (0, 0, [2, 4, 0, 0]));
}

#[test]
fn a_stand_in_beyond_the_places_keeps_its_place_for_the_time_that_the_service_would_take() {
    let engine = shadow();
    let [first, second, third, fourth] = [0; 4].map(|ms| admitted(&engine, &request(), ms));
    // Ten milliseconds as one of four: at least five as one of two.
    end(&engine, fourth, 10);
    end(&engine, first, 10);
    assert_eq!(counts(&engine, OUTCOMES), (1, 0, [2, 2, 0, 0]));
    let late = admitted(&engine, &request(), 10);
    end(&engine, admitted(&engine, &request(), 14), 14);
    assert_eq!(counts(&engine, OUTCOMES), (2, 0, [3, 3, 0, 0]));
    let _ = engine.tick(at(15));
    assert_eq!(counts(&engine, OUTCOMES).0, 1, "its place is due, although its request is worked at");
    end_all(&engine, [second, third, late], 20);
    assert_eq!(counts(&engine, OUTCOMES), (0, 0, [3, 3, 0, 0]));
}

#[test]
fn a_queue_that_would_be_full_delays_nobody_and_is_counted() {
    let engine = shadow();
    let permits: Vec<_> = (0..10).map(|_| admitted(&engine, &patient(60_000), 0)).collect();
    // Two have places, two stand-ins wait, and six would find the queue full.
    assert_eq!(counts(&engine, OUTCOMES), (2, 2, [2, 0, 6, 0]));
    assert_eq!(engine.waiting(), 0, "no request waits");
    let queue = engine.queue_counts(engine.resource_stats(NOW).next().unwrap().id).unwrap();
    assert_eq!(queue.iter().map(|class| class.waiting).sum::<u64>(), 2);
    end_all(&engine, permits, 30);
    assert_eq!(counts(&engine, OUTCOMES), (2, 0, [4, 0, 6, 0]), "the two that waited got places");
    let _ = engine.tick(at(100));
    assert_eq!(counts(&engine, OUTCOMES).0, 0);
}

#[test]
fn a_stand_in_whose_request_has_ended_before_keeps_its_place_for_as_long_as_that_took() {
    let engine = shadow();
    let [first, second, third, fourth] = [0; 4].map(|ms| admitted(&engine, &patient(60_000), ms));
    assert_eq!(counts(&engine, OUTCOMES), (2, 2, [2, 0, 0, 0]));
    // Two thirds of 9 ms, and half of 12 ms.
    end(&engine, third, 9);
    end(&engine, fourth, 12);
    assert_eq!(counts(&engine, OUTCOMES), (2, 2, [2, 0, 0, 0]));
    end(&engine, first, 14);
    end(&engine, second, 15);
    assert_eq!(counts(&engine, OUTCOMES), (2, 0, [4, 0, 0, 0]), "until 20 and 21 ms");
    // The service is idle, and this one would wait all the same: until 20 ms, then for its 2 ms.
    let short = admitted(&engine, &patient(60_000), 16);
    end(&engine, short, 18);
    assert_eq!(counts(&engine, OUTCOMES), (2, 1, [4, 0, 0, 0]));
    for (ms, in_flight) in [(20, 2), (21, 1), (22, 0)] {
        end(&engine, admitted(&engine, &request().end_unknown(), ms), ms);
        assert_eq!(counts(&engine, OUTCOMES).0, in_flight, "{ms} ms");
    }
}

#[test]
fn a_place_that_comes_free_goes_to_the_next_at_that_instant_however_late_that_is_looked_at() {
    let engine = shadow();
    let held: Vec<_> = (0..2).map(|_| admitted(&engine, &request(), 0)).collect();
    let waits: Vec<_> = (0..2).map(|_| admitted(&engine, &patient(60), 0)).collect();
    end_all(&engine, held.into_iter().chain(waits), 20);
    // These wait until 60 ms, and find places at 40 ms.
    let late: Vec<_> = (0..2).map(|_| admitted(&engine, &patient(60), 21)).collect();
    assert_eq!(counts(&engine, OUTCOMES), (2, 2, [4, 0, 0, 0]));
    let _ = engine.tick(at(500));
    assert_eq!(counts(&engine, OUTCOMES), (2, 0, [6, 0, 0, 0]));
    end_all(&engine, late, 500);
}

#[test]
fn a_stream_would_leave_its_place_when_its_answer_begins_and_count_until_it_ends() {
    let app = ResourceConfig::new(2).streams_max(2).mode(ResourceMode::Shadow);
    let engine = engine_of(Overload::builder(7).resource("app", app));
    let streams = || engine.resource_stats(NOW).next().unwrap().streams.unwrap().open;
    let mut permits: Vec<_> = (0..3).map(|_| admitted(&engine, &request().stream(), 0)).collect();
    let of = [OfferOutcome::Admitted, OfferOutcome::WouldLackPlace, OfferOutcome::WouldLackStream];
    assert_eq!((counts(&engine, of), streams()), ((2, 0, [2, 0, 1]), 2));
    for permit in &mut permits {
        assert!(permit.awaits_answer());
        engine.begin_answer(permit, Outcome::Succeeded, at(5));
        engine.begin_answer(permit, Outcome::Succeeded, at(6));
        assert!(!permit.awaits_answer());
    }
    assert_eq!((counts(&engine, of), streams()), ((0, 0, [2, 0, 1]), 2));
    let short = admitted(&engine, &request(), 10);
    assert_eq!(counts(&engine, of), (1, 0, [3, 0, 1]), "no service works at an open stream");
    end(&engine, short, 11);
    end_all(&engine, permits, 60_000);
    assert_eq!((counts(&engine, of), streams()), ((0, 0, [3, 0, 1]), 0));
    // A stream whose request ends before the answer begins, and one whose permit is dropped.
    end(&engine, admitted(&engine, &request().stream(), 60_001), 60_002);
    drop(admitted(&engine, &request().stream(), 60_003));
    end(&engine, admitted(&engine, &request(), 60_004), 60_005);
    assert_eq!((counts(&engine, of), streams()), ((0, 0, [6, 0, 1]), 0));
}

#[test]
fn a_stand_in_waits_as_its_request_would_have_and_expires_at_the_same_instant() {
    let engine = shadow();
    let first: Vec<_> = (0..2).map(|_| admitted(&engine, &request(), 0)).collect();
    let waits = [40, 60].map(|until| admitted(&engine, &patient(until), 0));
    assert_eq!(counts(&engine, OUTCOMES), (2, 2, [2, 0, 0, 0]));
    // Nothing happens before 41 ms: the rehearsal is brought up to each instant by what comes next.
    let late = admitted(&engine, &request(), 41);
    assert_eq!(counts(&engine, OUTCOMES), (2, 1, [2, 2, 0, 0]));
    let [mut first, second] = <[Permit; 2]>::try_from(first).unwrap().map(Some);
    end(&engine, first.take().unwrap(), 50);
    assert_eq!(counts(&engine, OUTCOMES), (2, 0, [3, 2, 0, 0]));
    end(&engine, second.unwrap(), 70);
    assert_eq!(counts(&engine, OUTCOMES).0, 1);
    end_all(&engine, waits.into_iter().chain([late]), 80);
    let _ = engine.tick(at(200));
    assert_eq!(counts(&engine, OUTCOMES), (0, 0, [3, 2, 0, 0]));
}

#[test]
fn a_permit_that_is_dropped_or_taken_back_leaves_no_stand_in() {
    let engine = shadow();
    drop(admitted(&engine, &request(), 0));
    let cancelled = admitted(&engine, &request(), 0);
    drop(engine.settle(cancelled, Outcome::Cancelled, NOW));
    assert_eq!(counts(&engine, OUTCOMES).0, 0);
    // A batch of which another request is refused.
    let held: Vec<_> = (0..2).map(|_| admitted(&engine, &request(), 0)).collect();
    let over = request().cost(tidegate_core::Cost::new(2000).unwrap());
    let step = engine.admit_all(&[patient(60_000), over], NOW).unwrap();
    let Step::Decided(Decision::Refuse(refused)) = step else { panic!("a limit refuses") };
    assert_eq!(refused.into_refusal().reason(), Reason::CostExceedsLimit);
    assert_eq!(counts(&engine, OUTCOMES).1, 0);
    end_all(&engine, held, 1);
    assert_eq!(counts(&engine, OUTCOMES).0, 0);
}

#[test]
fn limits_enforce_as_ever_and_a_request_that_they_refuse_is_no_demand() {
    let engine = shadow();
    let over = request().cost(tidegate_core::Cost::new(2000).unwrap());
    let Step::Decided(Decision::Refuse(_)) = engine.admit(&over, NOW).unwrap() else { panic!("refused") };
    assert_eq!(engine.resource_stats(NOW).next().unwrap().demand, 0);
}

#[test]
fn the_cursor_and_the_pace_refuse_nobody() {
    let engine = shadow();
    let pin =
        Event::Pin { resource: Some("app"), level: Some(Cursor::CLOSED.level()), until: Timestamp::MAX };
    engine.event(pin, NOW).unwrap();
    end(&engine, admitted(&engine, &request().class(Class::Critical), 0), 1);
    drop(admitted(&engine, &request().end_unknown(), 0));
    assert_eq!(counts(&engine, [OfferOutcome::WouldBeShed]), (0, 0, [2]));
}

#[test]
fn its_features_serve_everyone_at_the_best_level() {
    let mut feature: FeatureConfig = thumbnails();
    feature.resource = Some("app".to_owned());
    let engine = engine_of(app(ResourceMode::Shadow).feature(feature));
    let pin = FeaturePinning {
        feature: "thumbnails".to_owned(),
        level: "off".to_owned(),
        until: at(60_000),
        by: None,
        reason: None,
    };
    engine.pin_feature(pin, NOW).unwrap();
    assert_eq!(engine.feature_views(NOW)[0].level, 2);
    end(&engine, admitted(&engine, &request().feature("thumbnails"), 0), 1);
}

#[test]
fn a_reload_turns_it_on_and_off_and_keeps_counts_places_and_the_cursor() {
    let first = engine_of(app(ResourceMode::Enforce));
    let held: Vec<_> = (0..2).map(|_| admitted(&first, &request(), 0)).collect();
    let Step::Ask(pending) = first.admit(&patient(60_000), NOW).unwrap() else { panic!("it waits") };
    first.event(Event::Signal { resource: "app", pressure: 3.0 }, NOW).unwrap();
    let _ = first.tick(at(100));
    let cursor = first.resource_stats(NOW).next().unwrap().cursor;
    let second = reloaded(&first, ResourceMode::Shadow, 100);
    assert_eq!(second.resource_stats(NOW).next().unwrap().cursor, cursor);
    assert_eq!(counts(&second, OUTCOMES), (2, 1, [2, 0, 0, 0]));
    // A request that waits goes on at once.
    assert!(crate::world::turn(&pending).is_called());
    let Step::Decided(Decision::Admit(waited)) = second.resume(pending, Answered::Turn, at(101)) else {
        panic!("nobody waits for a shadow resource")
    };
    assert_eq!(second.waiting(), 0);
    // The places that were given before are those of the rehearsal.
    let more: Vec<_> = (0..3).map(|_| admitted(&second, &patient(60_000), 102)).collect();
    let before = counts(&second, OUTCOMES);
    assert_eq!((before.0, before.1), (2, 2), "{before:?}");
    let third = reloaded(&second, ResourceMode::Enforce, 200);
    let _ = third.tick(at(200));
    assert_eq!(counts(&third, OUTCOMES).1, 0, "stand-ins no longer wait");
    let Step::Ask(pending) = third.admit(&patient(60_000), at(201)).unwrap() else { panic!("it waits") };
    end_all(&third, held, 210);
    assert!(crate::world::turn(&pending).is_called());
    let Step::Decided(Decision::Admit(last)) = third.resume(pending, Answered::Turn, at(211)) else {
        panic!("a place is free")
    };
    end_all(&third, more.into_iter().chain([waited, last]), 220);
    let _ = third.tick(at(400));
    assert_eq!(counts(&third, OUTCOMES).0, 0);
}

#[test]
fn a_place_that_a_stand_in_gives_back_after_the_reload_calls_a_request_that_waits() {
    let first = shadow();
    let held: Vec<_> = (0..2).map(|_| admitted(&first, &request(), 0)).collect();
    let second = reloaded(&first, ResourceMode::Enforce, 1);
    let Step::Ask(pending) = second.admit(&patient(60_000), at(1)).unwrap() else { panic!("it waits") };
    end_all(&second, held, 2);
    assert!(crate::world::turn(&pending).is_called());
}

#[test]
fn usage_names_the_resource_and_its_refusals_are_admissions() {
    let api = NamespaceConfig::new("api", []);
    let overload = app(ResourceMode::Shadow).build().unwrap();
    let engine = Engine::builder(EngineConfig::seeded([1, 2, 3, 4]))
        .namespace(api)
        .overload(overload)
        .metering(tidegate_engine::MeterConfig::default(), NOW)
        .build()
        .unwrap();
    (0..5).for_each(|_| end(&engine, admitted(&engine, &request(), 0), 1));
    let usage = engine.usage().unwrap();
    let app = usage.resources.iter().find(|row| row.name == RowName::Named("app".into())).unwrap();
    let of = |outcome: RequestOutcome| -> u64 {
        app.classes.iter().map(|class| class.outcomes[outcome.index()]).sum()
    };
    assert_eq!((of(RequestOutcome::Admitted), of(RequestOutcome::Shed)), (5, 0));
}

#[test]
fn an_explanation_admits_a_request_and_says_what_the_resource_would_do() {
    let engine = shadow();
    let explained = || done(engine.explain(&patient(60_000), NOW));
    assert!(explained().is_admitted() && explained().rehearsed.is_empty());
    let held: Vec<_> = (0..2).map(|_| admitted(&engine, &request(), 0)).collect();
    let waits = explained();
    assert!(waits.is_admitted() && waits.wait().is_none(), "{waits:?}");
    let load = waits.load.unwrap();
    assert!(load.is_shadow && load.wait.is_some(), "{load:?}");
    assert_eq!((load.in_flight, load.in_flight_max), (2, 2));
    let refused = done(engine.explain(&request(), NOW));
    assert!(refused.is_admitted(), "{refused:?}");
    assert_eq!(refused.rehearsed[0].reason(), Reason::OverloadShed);
    let peek = done(engine.peek(&request(), NOW));
    assert_eq!(peek.refusal, None);
    end_all(&engine, held, 1);
}
