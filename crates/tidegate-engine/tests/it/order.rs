//! Every plane refuses at its position of the order, and nothing stays charged.

use core::time::Duration;
use tidegate_core::{Plane, Reason, Retry, Timestamp};
use tidegate_engine::{Decision, Event, OfferOutcome, Outcome, Permit};

use crate::world::{NOW, Room, World, request};

fn admitted(decision: Decision) -> Permit {
    match decision {
        Decision::Admit(permit) => permit,
        Decision::Refuse(refusal) => panic!("{refusal}"),
    }
}

fn refused(decision: Decision) -> (Plane, Reason, String, Retry) {
    match decision {
        Decision::Admit(_) => panic!("should be refused"),
        Decision::Refuse(refusal) => {
            (refusal.plane(), refusal.reason(), refusal.name().to_owned(), refusal.retry())
        }
    }
}

/// Uses up one position with requests that are admitted, then sends one more and compares the world
/// before and after.
fn refuse_at(room: Room, expected: (Plane, Reason, &str)) -> Retry {
    let world = World::new(room);
    let held: Vec<_> = (0..2).map(|_| admitted(world.decide(&request()))).collect();
    let (before, demand) = (world.state(), world.stats().demand);
    let mut retry = Retry::Never;
    for _ in 0..3 {
        let (plane, reason, name, when) = refused(world.decide(&request()));
        assert_eq!((plane, reason, name.as_str()), expected);
        retry = when;
        assert_eq!(world.state(), before, "a refusal by {name} left a charge");
        assert_eq!(world.stats().demand, demand, "a refusal by {name} left demand");
    }
    drop(held);
    retry
}

#[test]
fn position_1_a_request_past_its_deadline_is_refused_before_anything_is_charged() {
    let world = World::new(Room::WIDE);
    let before = world.state();
    let late = request().deadline(NOW);
    let (plane, reason, _, retry) = refused(world.decide(&late));
    assert_eq!((plane, reason, retry), (Plane::Overload, Reason::DeadlineUnmeetable, Retry::Never));
    assert_eq!(world.state(), before);
    let in_time = request().deadline(NOW.saturating_add(Duration::from_nanos(1)));
    drop(admitted(world.decide(&in_time)));
}

#[test]
fn position_1_the_admission_cursor_sheds_before_anything_is_charged() {
    let world = World::new(Room::WIDE);
    for step in 0..20 {
        drop(world.engine.admit(&request(), world.now()));
        world.engine.event(Event::Pressure(3.0), world.now()).unwrap();
        world.advance(Duration::from_millis(100));
        let _ = world.engine.tick(world.now());
        let _ = step;
    }
    let before = world.state();
    let (plane, reason, name, retry) = refused(world.decide(&request()));
    assert_eq!(
        (plane, reason, name.as_str(), retry),
        (Plane::Overload, Reason::OverloadShed, "admission_cursor", Retry::Backoff)
    );
    assert_eq!(world.state(), before);
    let important = request().class(tidegate_core::Class::CriticalPlus);
    drop(admitted(world.decide(&important)));
}

#[test]
fn position_2_a_local_limit_denies_and_nothing_stays_charged() {
    let retry = refuse_at(Room { local: 2, ..Room::WIDE }, (Plane::Limits, Reason::RateExceeded, "rate"));
    assert_eq!(retry, Retry::At(NOW.saturating_add(Duration::from_secs(30))));
}

#[test]
pub(crate) fn position_3_the_capacity_plane_throttles_and_the_limits_get_their_charges_back() {
    let expected = (Plane::Capacity, Reason::TableThroughputExceeded, "orders");
    let retry = refuse_at(Room { capacity: 2, ..Room::WIDE }, expected);
    assert!(matches!(retry, Retry::At(instant) if instant > NOW), "{retry:?}");
}

#[test]
fn position_4_an_exact_limit_denies_and_limits_and_capacity_get_their_charges_back() {
    let retry = refuse_at(Room { exact: 2, ..Room::WIDE }, (Plane::Limits, Reason::QuotaExceeded, "quota"));
    assert_eq!(retry, Retry::At(NOW.saturating_add(Duration::from_hours(1))));
}

#[test]
fn position_4_a_store_that_does_not_answer_refuses_and_the_rest_get_their_charges_back() {
    let mut world = World::new(Room::WIDE);
    drop(admitted(world.decide(&request())));
    let before = world.state();
    world.store_is_down = true;
    let (plane, reason, name, retry) = refused(world.decide(&request()));
    assert_eq!((plane, reason, name.as_str()), (Plane::Limits, Reason::StoreUnavailable, "quota"));
    assert_eq!(retry, Retry::At(NOW.saturating_add(Duration::from_secs(1))));
    assert_eq!(world.state(), before);
}

#[test]
fn position_5_a_full_system_sheds_and_limits_capacity_and_store_get_their_charges_back() {
    let world = World::new(Room { in_flight: 2, ..Room::WIDE });
    let held: Vec<_> = (0..2).map(|_| admitted(world.decide(&request()))).collect();
    let (local, capacity, ..) = world.state();
    let left_in_store = |world: &World| {
        let permit = admitted(world.decide(&request()));
        let left = world.engine.statuses(&permit).iter().find(|one| one.name == "quota").unwrap().remaining;
        world.finish(world.engine.settle(permit, Outcome::Cancelled, world.now()));
        left
    };
    for _ in 0..3 {
        let (plane, reason, name, retry) = refused(world.decide(&request()));
        assert_eq!(
            (plane, reason, name.as_str(), retry),
            (Plane::Overload, Reason::OverloadShed, "in_flight", Retry::Backoff)
        );
        assert_eq!(world.state().0, local, "local limits");
        assert_eq!(world.state().1, capacity, "capacity");
    }
    drop(held);
    // Two were admitted and stay spent; this one is the third, and the refused ones left nothing.
    assert_eq!(left_in_store(&world), 1000 - 3);
}

#[test]
pub(crate) fn position_5_a_place_that_others_wait_for_sheds_and_limits_and_capacity_get_their_charges_back() {
    let world = World::new(Room { in_flight: 1, ..Room::WIDE });
    let held = admitted(world.decide(&request()));
    let patient = request().may_wait_until(NOW.saturating_add(Duration::from_secs(1)));
    let waiting = world.begin(&patient).waits();
    // The place is free, and called for.
    drop(held);
    let before = world.state();
    for _ in 0..3 {
        let (plane, reason, name, retry) = refused(world.decide(&request()));
        assert_eq!(
            (plane, reason, name.as_str(), retry),
            (Plane::Overload, Reason::OverloadShed, "in_flight", Retry::Backoff)
        );
        assert_eq!(world.state(), before);
    }
    drop(world.resume(waiting).admitted());
}

#[test]
fn a_full_system_tells_a_caller_over_its_limit_or_throughput_of_that_and_counts_alike() {
    let over_limit = (Plane::Limits, Reason::RateExceeded, "rate");
    let over_throughput = (Plane::Capacity, Reason::TableThroughputExceeded, "orders");
    let both = Room { local: 2, capacity: 2, in_flight: 2, ..Room::WIDE };
    for (room, expected, outcome) in [
        (both, over_limit, OfferOutcome::Denied),
        (Room { local: 1000, ..both }, over_throughput, OfferOutcome::Throttled),
    ] {
        let world = World::new(room);
        let held: Vec<_> = (0..2).map(|_| admitted(world.decide(&request()))).collect();
        let (before, demand) = (world.state(), world.stats().demand);
        for _ in 0..3 {
            let (plane, reason, name, _) = refused(world.decide(&request()));
            assert_eq!((plane, reason, name.as_str()), expected);
        }
        assert_eq!(world.state(), before);
        let stats = world.stats();
        assert_eq!((stats.offered, stats.count(outcome), stats.demand), (5, 3, demand));
        drop(held);
    }
}

#[test]
fn a_full_system_changes_nothing_but_counts_and_offers_the_access() {
    let world = World::new(Room { in_flight: 2, ..Room::WIDE });
    let held: Vec<_> = (0..2).map(|_| admitted(world.decide(&request()))).collect();
    let before = world.state();
    let offered = |world: &World| {
        let mut partitions = world.engine.partition_statuses("api", "orders", world.now()).unwrap();
        partitions.next().unwrap().write.offered.as_thousandths()
    };
    assert_eq!(offered(&world), 2_000, "a unit each");
    for _ in 0..3 {
        refused(world.decide(&request()));
    }
    assert_eq!(world.state(), before);
    let stats = world.stats();
    assert_eq!((stats.offered, stats.count(OfferOutcome::NoPlace), stats.demand), (5, 3, 5));
    assert_eq!(offered(&world), 5_000);
    drop(held);
}

#[test]
pub(crate) fn a_cancelled_request_leaves_nothing_anywhere() {
    let world = World::new(Room::WIDE);
    let first = admitted(world.decide(&request()));
    let (local, capacity, ..) = world.state();
    let permit = admitted(world.decide(&request()));
    world.finish(world.engine.settle(permit, Outcome::Cancelled, world.now()));
    let (local_after, capacity_after, ..) = world.state();
    assert_eq!((local_after, capacity_after), (local, capacity));
    drop(first);
}

#[test]
fn dropping_a_permit_gives_back_its_place_and_keeps_what_was_spent() {
    let world = World::new(Room { in_flight: 1, ..Room::WIDE });
    let permit = admitted(world.decide(&request()));
    assert!(permit.must_be_settled());
    assert_eq!(permit.expires_at(), Some(NOW.saturating_add(Duration::from_mins(1))));
    let left = world.engine.statuses(&permit);
    assert_eq!(left.iter().map(|one| one.remaining).collect::<Vec<_>>(), [999, 999, 999, 999]);
    refused(world.decide(&request()));
    drop(permit);
    let again = admitted(world.decide(&request()));
    let left = world.engine.statuses(&again);
    let left: Vec<_> = left.iter().map(|one| (one.name.as_str(), one.remaining)).collect();
    assert_eq!(left, [("rate", 998), ("rolling", 998), ("parallel", 999), ("quota", 998)]);
}

#[test]
fn an_access_to_a_table_that_does_not_exist_is_an_error_and_leaves_no_charge() {
    let world = World::new(Room::WIDE);
    let before = world.state();
    let lost = request().access(tidegate_capacity::Access::read("nowhere", b"k", 1));
    let error = world.engine.admit(&lost, NOW).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert_eq!(world.state(), before);
    let _ = Timestamp::MIN;
}

#[test]
pub(crate) fn a_denied_request_is_no_demand_on_the_system() {
    use tidegate_core::{Class, Cost};
    use tidegate_engine::Request;

    let world = World::new(Room { local: 100, ..Room::WIDE });
    let flood = [("user", "flood")];
    let flood = Request::new("api", &flood).class(Class::CriticalPlus).cost(Cost::new(101).unwrap());
    let critical = Request::new("api", ()).class(Class::Critical);
    for _ in 0..1000 {
        assert_eq!(refused(world.decide(&flood)).1, Reason::CostExceedsLimit);
    }
    for _ in 0..60 {
        drop(admitted(world.decide(&critical)));
    }
    for _ in 0..40 {
        drop(admitted(world.decide(&Request::new("api", ()).class(Class::Sheddable))));
    }
    // A tenth must go, of the class that asks for more than its part. Were the flood counted, the
    // tenth would be of the flood.
    world.engine.event(Event::Pressure(1.2), world.now()).unwrap();
    world.advance(Duration::from_millis(100));
    let _ = world.engine.tick(world.now());
    drop(admitted(world.decide(&critical)));
    let (_, reason, ..) = refused(world.decide(&Request::new("api", ()).class(Class::Sheddable)));
    assert_eq!(reason, Reason::OverloadShed);
}
