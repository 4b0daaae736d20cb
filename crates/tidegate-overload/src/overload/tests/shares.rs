//! Numbers of a fleet that its members divide.

use super::*;
use crate::places::fleet_share::FleetShare;

fn plane(share: FleetShare) -> OverloadBuilder {
    let config = ResourceConfig::new(10).waiting_max(RoomUse::new(7, 1000)).share(share);
    Overload::builder(7).resource("app", config)
}

/// The places and the requests that may wait.
fn numbers(overload: &Overload) -> (u64, usize) {
    let resource = overload.find(Some("app")).unwrap();
    let waiting = overload.waiting_bounds().find(|(id, _)| *id == resource).unwrap().1;
    (overload.stats(resource, START).in_flight_max, waiting.requests)
}

#[test]
fn members_divide_the_numbers_that_they_share_and_each_has_at_least_one() {
    for (share, members, expected) in [
        (FleetShare::None, 2, (10, 7)),
        (FleetShare::Queue, 2, (10, 3)),
        (FleetShare::PlacesAndQueue, 0, (10, 7)),
        (FleetShare::PlacesAndQueue, 2, (5, 3)),
        (FleetShare::PlacesAndQueue, 3, (3, 2)),
        (FleetShare::PlacesAndQueue, u32::MAX, (1, 1)),
    ] {
        let overload = plane(share).build().unwrap();
        overload.set_members(members);
        assert_eq!(numbers(&overload), expected, "{share:?} by {members}");
        overload.tick(START);
        assert_eq!(numbers(&overload), expected, "a tick changes nothing: {share:?} by {members}");
        overload.set_members(1);
        assert_eq!(numbers(&overload), (10, 7), "the members have left");
    }
}

#[test]
fn a_reload_divides_what_it_brings_by_the_members_there_are() {
    let first = plane(FleetShare::PlacesAndQueue).build().unwrap();
    first.set_members(2);
    let resource = first.find(Some("app")).unwrap();
    let held: Vec<_> =
        (0..5).map(|_| take_place(&first, resource, level_of(Class::Critical), START).unwrap()).collect();
    let config = ResourceConfig::new(40).share(FleetShare::PlacesAndQueue);
    let second = plane(FleetShare::PlacesAndQueue).resource("new", config).build_over(&first).unwrap();
    let new = second.find(Some("new")).unwrap();
    assert_eq!(second.stats(new, START).in_flight_max, 20);
    assert_eq!(numbers(&second), (5, 3));
    // Another member comes: what is in flight stays, and nothing more gets in.
    second.set_members(5);
    assert_eq!((numbers(&second), second.in_flight(resource)), ((2, 1), 5));
    assert!(take_place(&second, resource, level_of(Class::Critical), START).is_err());
    for permit in held {
        second.give_back(permit);
    }
    assert_eq!(second.in_flight(resource), 0);
}
