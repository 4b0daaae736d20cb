//! Tables and resources that a reload changes while requests are under way.

use core::time::Duration;

use tidegate_capacity::{Access, Capacity, CapacityBuilder, TableConfig};
use tidegate_core::{Class, Reason, Timestamp};
use tidegate_engine::{
    BuildError, Decision, Engine, EngineConfig, NamespaceConfig, OfferOutcome, Outcome, Permit, Request,
    RequestError, Step,
};
use tidegate_overload::{FleetShare, Overload, OverloadBuilder, ResourceConfig, RoomUse};

use crate::world::{NOW, USER, turn};

fn tables(write: u64) -> CapacityBuilder {
    let orders = TableConfig::new("api", "orders", 100, write).nodes(["node"]);
    Capacity::builder().node("node", 10_000).table(orders)
}

fn resources(places: u64) -> OverloadBuilder {
    Overload::builder(7).resource("app", ResourceConfig::new(places).waiting_max(RoomUse::new(2, 1 << 20)))
}

fn engine() -> Engine {
    let api = NamespaceConfig::new("api", []);
    Engine::builder(EngineConfig::seeded([1, 2, 3, 4])).namespace(api).build().unwrap()
}

fn request() -> Request<'static> {
    Request::new("api", &USER).resource("app").access(Access::write("orders", b"order-7", 10 << 10))
}

fn ask(engine: &Engine, request: &Request<'_>) -> Result<Permit, Reason> {
    ask_at(engine, request, NOW)
}

fn ask_at(engine: &Engine, request: &Request<'_>, now: Timestamp) -> Result<Permit, Reason> {
    match engine.admit(request, now).unwrap() {
        Step::Decided(Decision::Admit(permit)) => Ok(permit),
        Step::Decided(Decision::Refuse(refused)) => Err(refused.reason()),
        Step::Ask(pending) => panic!("{pending:?}"),
    }
}

#[test]
fn planes_come_go_and_change_over_one_state() {
    let bare = engine();
    assert!(matches!(bare.admit(&request(), NOW), Err(RequestError::UnknownTable { .. })));
    let first = bare.with_planes(tables(15), resources(2), NOW).unwrap();
    let permits = [ask(&first, &request()).unwrap(), ask(&first, &request()).unwrap()];
    assert_eq!(ask(&first, &request()).unwrap_err(), Reason::TableThroughputExceeded);
    // More units and places: what is used stays used, what is held stays held. The debt of 5 units
    // is repaid at the new rate.
    let second = first.with_planes(tables(40), resources(3), NOW).unwrap();
    assert_eq!(ask(&second, &request()).unwrap_err(), Reason::TableThroughputExceeded);
    let later = NOW.saturating_add(Duration::from_secs(1));
    let third = ask_at(&second, &request(), later).unwrap();
    let stats = |engine: &Engine| {
        let stats = engine.resource_stats(NOW).next().unwrap();
        (stats.in_flight, stats.offered, stats.decided())
    };
    assert_eq!(stats(&second), (3, 5, 5));
    assert_eq!(ask_at(&second, &request(), later).unwrap_err(), Reason::OverloadShed);
    // An error changes nothing.
    let error = second.with_planes(tables(20_000), resources(1), NOW).unwrap_err();
    assert!(matches!(error, BuildError::Tables(_)), "{error}");
    let error = second.with_planes(tables(40), resources(0), NOW).unwrap_err();
    assert!(matches!(error, BuildError::Resources(_)), "{error}");
    assert_eq!(second.resource_stats(NOW).next().unwrap().in_flight_max, 3);
    // Without tables and resources the permits are settled all the same.
    let last = second.with_planes(Capacity::builder(), Overload::builder(7), NOW).unwrap();
    assert!(matches!(last.admit(&request(), NOW), Err(RequestError::Access(_))));
    for permit in permits.into_iter().chain([third]) {
        drop(last.settle(permit, Outcome::Succeeded, NOW));
    }
    assert_eq!(stats(&second), (0, 6, 6));
    assert_eq!(last.resource_stats(NOW).count(), 0);
    let again = last.with_planes(tables(40), resources(1), NOW).unwrap();
    assert_eq!(stats(&again).0, 0);
}

#[test]
fn a_request_that_waits_for_a_place_is_called_when_a_reload_brings_one() {
    let first = engine().with_planes(tables(1000), resources(1), NOW).unwrap();
    let permit = ask(&first, &request()).unwrap();
    let patient = request().may_wait_until(NOW.saturating_add(Duration::from_mins(1)));
    let Step::Ask(pending) = first.admit(&patient, NOW).unwrap() else { panic!("it waits") };
    assert!(!turn(&pending).is_called());
    let second = first.with_planes(tables(1000), resources(2), NOW).unwrap();
    assert!(turn(&pending).is_called());
    let Step::Decided(Decision::Admit(other)) = second.resume(pending, tidegate_engine::Answered::Turn, NOW)
    else {
        panic!("there is a place");
    };
    drop((permit, other));
    assert_eq!((second.waiting(), second.resource_stats(NOW).next().unwrap().in_flight), (0, 0));
}

#[test]
fn what_waits_for_a_resource_is_bounded_by_its_own_settings() {
    let engine = engine().with_planes(tables(1000), resources(1), NOW).unwrap();
    let _permit = ask(&engine, &request()).unwrap();
    let patient = |class| request().class(class).may_wait_until(NOW.saturating_add(Duration::from_mins(1)));
    let mut waiting: Vec<_> =
        (0..2).map(|_| engine.admit(&patient(Class::Sheddable), NOW).unwrap()).collect();
    let Step::Decided(Decision::Refuse(full)) = engine.admit(&patient(Class::Sheddable), NOW).unwrap() else {
        panic!("two wait already");
    };
    assert_eq!(full.reason(), Reason::QueueFull);
    waiting.push(engine.admit(&patient(Class::Critical), NOW).unwrap());
    assert_eq!(engine.waiting(), 2);
    drop(waiting);
    let stats = engine.resource_stats(NOW).next().unwrap();
    assert_eq!((stats.undecided(), stats.count(OfferOutcome::QueueFull)), (0, 1));
}

#[test]
fn members_divide_the_places_of_a_resource_and_new_places_call_what_waits() {
    let shared = Overload::builder(7).resource(
        "app",
        ResourceConfig::new(4).waiting_max(RoomUse::new(4, 1 << 20)).share(FleetShare::PlacesAndQueue),
    );
    let engine = engine();
    // Known before there are resources, as at a start.
    assert!(engine.with_members(2).unwrap().is_none(), "no limit is divided");
    let engine = engine.with_planes(Capacity::builder(), shared, NOW).unwrap();
    let request = Request::new("api", &USER).resource("app");
    let held = [ask(&engine, &request).unwrap(), ask(&engine, &request).unwrap()];
    assert_eq!(ask(&engine, &request).unwrap_err(), Reason::OverloadShed);
    let mut patient = request;
    patient.may_wait_until = Some(NOW.saturating_add(Duration::from_mins(1)));
    let Step::Ask(waiting) = engine.admit(&patient, NOW).unwrap() else { panic!("it waits") };
    let called = || turn(&waiting).is_called();
    assert!(!called());
    assert!(engine.with_members(1).unwrap().is_none());
    assert!(called(), "the other member has left its places");
    assert_eq!(engine.resource_stats(NOW).next().unwrap().in_flight_max, 4);
    drop((held, waiting));
}
