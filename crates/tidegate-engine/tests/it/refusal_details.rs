//! The details of a refusal: the facts of the plane that refused, and none of any other.

use core::time::Duration;

use tidegate_capacity::{Access, Capacity, TableConfig, key_hash};
use tidegate_core::{
    AccessOperation, BindingSignal, CapacityDetails, Class, OverloadDetails, Reason, Refusal, RefusalDetails,
};
use tidegate_engine::{Decision, Event, Request};
use tidegate_overload::{COHORTS, Overload, ResourceConfig};

use crate::world::{NOW, Room, World, bucket, request, stored};

const TICK: Duration = Duration::from_millis(100);

fn world() -> World {
    let table = TableConfig::new("api", "orders", 1000, 5).partitions(2).nodes(["n1", "n2"]);
    let nodes = Capacity::builder().node("n1", 10_000).node("n2", 10_000);
    let checkout = ResourceConfig::new(2);
    let overload = Overload::builder(5).default_resource(ResourceConfig::new(1000));
    let overload = overload.resource("checkout", checkout).build().unwrap();
    let limits = [tidegate_core::Limit::new("rate", bucket(100, Duration::from_mins(1))).key(["user"])];
    let engine = stored(limits).capacity(nodes.table(table).build().unwrap()).overload(overload);
    World::of(engine.build().unwrap())
}

fn refusal(world: &World, request: &Request<'_>) -> Refusal {
    match world.decide(request) {
        Decision::Admit(_) => panic!("should be refused"),
        Decision::Refuse(refused) => refused.into_refusal(),
    }
}

/// The refusal of a request, which a look and an explanation show as well.
fn refusal_everywhere(world: &World, request: &Request<'_>) -> Refusal {
    let refused = refusal(world, request);
    let peek = world.carry(world.engine.peek(request, world.now())).unwrap();
    assert_eq!(peek.refusal.unwrap().details, refused.details, "a look shows the same details");
    let explained = world.carry(world.engine.explain(request, world.now())).unwrap();
    assert_eq!(explained.planes[0].details, refused.details, "so does an explanation");
    refused
}

fn capacity_of(refusal: &Refusal) -> CapacityDetails {
    refusal.details.as_deref().and_then(RefusalDetails::capacity).unwrap().clone()
}

fn overload_of(refusal: &Refusal) -> OverloadDetails {
    refusal.details.as_deref().and_then(RefusalDetails::overload).unwrap().clone()
}

#[test]
fn a_throttled_request_names_its_partition_range_node_operation_and_rate() {
    let world = world();
    for key in [&b"a"[..], b"b", b"c", b"d"] {
        let mut write = Request::new("api", ()).access(Access::write("orders", key, 1));
        while let Decision::Admit(_) = world.decide(&write) {}
        let refused = refusal_everywhere(&world, &write);
        let details = capacity_of(&refused);
        assert_eq!((&*details.table, refused.name()), ("orders", "orders"));
        assert_eq!(details.operation, AccessOperation::Write);
        assert_eq!(refused.scope[0].1, details.partition.to_string());
        assert_eq!(u64::from(details.partition), key_hash(key) >> 63, "two halves of the hashes");
        let range = details.key_range;
        let halves = ["0000000000000000-7fffffffffffffff", "8000000000000000-ffffffffffffffff"];
        assert_eq!(&*range, halves[(key_hash(key) >> 63) as usize]);
        assert_eq!(&*details.node, ["n1", "n2"][details.partition as usize]);
        assert_eq!(details.rate_thousandths, 2_500, "half of the table's 5 units a second");
        assert_eq!(details.consumed_thousandths, Some(3_000), "while anything was left of 2.5 units");
        let burst = [details.ceiling_thousandths, details.burst_left_thousandths];
        assert_eq!(burst, [None; 2], "there are no bursts");
        write.access = Some(Access::read("orders", key, 1));
        drop(world.decide(&write));
    }
    let read = Request::new("api", ()).access(Access::read("orders", b"a", 1 << 20));
    while let Decision::Admit(_) = world.decide(&read) {}
    let details = capacity_of(&refusal_everywhere(&world, &read));
    assert_eq!((details.operation, details.rate_thousandths), (AccessOperation::Read, 500_000));
}

#[test]
fn a_partition_that_has_moved_is_named_with_its_new_node() {
    let world = world();
    let write = Request::new("api", ()).access(Access::write("orders", b"a", 1));
    while let Decision::Admit(_) = world.decide(&write) {}
    let before = capacity_of(&refusal(&world, &write));
    let other = if &*before.node == "n1" { "n2" } else { "n1" };
    let event =
        Event::Placement { namespace: "api", table: "orders", partition: before.partition, node: other };
    world.engine.event(event, NOW).unwrap();
    let after = capacity_of(&refusal(&world, &write));
    assert_eq!((&*after.node, after.partition), (other, before.partition));
}

#[test]
fn issue_39_each_refusal_of_the_overload_plane_names_the_class_and_the_tenant() {
    let world = world();
    let asked = Request::new("api", ()).resource("checkout").class(Class::Sheddable);
    let scope = |request: &Request<'_>| {
        let refused = refusal_everywhere(&world, request);
        let pairs = refused.scope.iter().map(|(name, value)| format!("{name}={value}"));
        (refused.name().to_owned(), pairs.collect::<Vec<_>>().join(" "))
    };
    let named = |name: &str, scope: &str| (name.to_owned(), scope.to_owned());
    let late = asked.tenant("t40").deadline(NOW);
    assert_eq!(scope(&late), named("deadline", "class=sheddable tenant=t40"));
    let places = [(); 2].map(|()| world.decide(&asked));
    assert!(places.iter().all(|decision| matches!(decision, Decision::Admit(_))));
    assert_eq!(scope(&asked.tenant("t40")), named("in_flight", "class=sheddable tenant=t40"));
    assert_eq!(scope(&asked), named("in_flight", "class=sheddable"));
    let until = NOW.saturating_add(TICK);
    let pin = Event::Pin { resource: Some("checkout"), level: Some(2 * COHORTS), until };
    world.engine.event(pin, NOW).unwrap();
    assert_eq!(scope(&asked.tenant("t40")), named("admission_cursor", "class=sheddable tenant=t40"));
    let explained = world.carry(world.engine.explain(&asked.tenant("t40"), world.now())).unwrap();
    let load = explained.load.unwrap();
    assert!(load.level < COHORTS && load.is_below_cursor, "{load:?}");
    assert_eq!((load.cursor.level(), load.in_flight, load.in_flight_max), (2 * COHORTS, 2, 2));
}

#[test]
fn a_request_that_the_cursor_sheds_shows_its_level_the_cursor_and_the_signal_that_binds() {
    let world = world();
    let shed = Request::new("api", ()).resource("checkout").tenant("ada").class(Class::SheddablePlus);
    let pin = |level, until| Event::Pin { resource: Some("checkout"), level, until };
    let cursor = 2 * COHORTS + 3;
    world.engine.event(pin(Some(cursor), NOW.saturating_add(TICK)), NOW).unwrap();
    let details = overload_of(&refusal_everywhere(&world, &shed));
    assert_eq!(details.resource.as_deref(), Some("checkout"));
    assert_eq!(details.mechanism.level().map(|level| level / COHORTS), Some(Class::SheddablePlus as u16));
    assert_eq!((details.cursor, details.binding_signal), (cursor, BindingSignal::Pin));
    let again = overload_of(&refusal(&world, &shed));
    assert_eq!(again.mechanism.level(), details.mechanism.level(), "a tenant stays in its cohort");

    // Pressure from outside takes over when the pin has ended.
    let mut refused = None;
    for _ in 0..20 {
        world.advance(TICK);
        world.engine.event(Event::Signal { resource: "checkout", pressure: 3.0 }, world.now()).unwrap();
        let _ = world.engine.tick(world.now());
        match world.decide(&shed) {
            Decision::Admit(_) => {}
            Decision::Refuse(one) => refused = Some(one.into_refusal()),
        }
    }
    let details = overload_of(&refused.unwrap());
    assert_eq!(details.binding_signal, BindingSignal::Pressure);
    assert!(details.mechanism.level().unwrap() < details.cursor, "{details:?}");
}

#[test]
fn a_request_without_a_place_shows_that_places_bind_and_later_that_they_moved_the_cursor() {
    let world = world();
    let request = Request::new("api", ()).resource("checkout").class(Class::Sheddable);
    let held = [world.decide(&request), world.decide(&request)];
    let refused = refusal_everywhere(&world, &request);
    let details = overload_of(&refused);
    assert_eq!((refused.name(), details.binding_signal), ("in_flight", BindingSignal::InFlight));
    assert_eq!((details.mechanism.level(), details.cursor), (None, 0), "its level played no part");
    let mut last = refused;
    for _ in 0..20 {
        for _ in 0..10 {
            last = refusal(&world, &request);
        }
        world.advance(TICK);
        let _ = world.engine.tick(world.now());
    }
    let details = overload_of(&last);
    assert_eq!((last.name(), details.binding_signal), ("admission_cursor", BindingSignal::InFlight));
    assert!(details.cursor > 0);
    drop(held);
    let other = Request::new("api", ()).resource("search").class(Class::Sheddable);
    assert!(matches!(world.decide(&other), Decision::Admit(_)), "the default resource is idle");
}

#[test]
fn a_refusal_by_a_limit_or_a_deadline_has_no_details() {
    let world = World::new(Room { local: 1, ..Room::WIDE });
    let held = world.decide(&request());
    let denied = refusal(&world, &request());
    assert_eq!((denied.reason(), denied.details.clone()), (Reason::RateExceeded, None));
    let late = refusal(&world, &request().deadline(NOW));
    assert_eq!((late.reason(), late.details.clone()), (Reason::DeadlineUnmeetable, None));
    drop(held);
}
