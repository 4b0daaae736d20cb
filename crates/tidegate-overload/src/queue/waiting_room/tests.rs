use proptest::prelude::*;

use super::*;
use crate::resource_id::ResourceId;

mod fair_lines;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
const PLACE: Obstacle = Obstacle::Place(ResourceId(0));

fn room_of(bounds: RoomBounds) -> WaitingRoom {
    WaitingRoom::new(bounds)
}

fn roomy() -> WaitingRoom {
    room_of(RoomBounds::new(4096, 1 << 20))
}

fn group(namespace: u32, resource: u16) -> Group {
    Group { namespace, resource: Some(ResourceId(resource)) }
}

fn entrant(obstacle: Obstacle, class: Class) -> Entrant {
    Entrant::new(group(0, 0), class, obstacle)
}

fn enter(room: &mut WaitingRoom, obstacle: Obstacle, class: Class) -> Position {
    room.enter(entrant(obstacle, class), NOW).unwrap().position
}

#[test]
fn a_return_calls_the_first_of_its_own_line_and_no_other() {
    let mut room = roomy();
    let all: Vec<_> =
        (0..2048).map(|index| enter(&mut room, Obstacle::Counter(index / 2), Class::default())).collect();
    assert_eq!((room.count(), room.lines()), (2048, 1024));
    assert_eq!(room.returned(Obstacle::Counter(7)), Some(all[14]));
    assert_eq!(room.returned(Obstacle::Counter(4000)), None);
    assert_eq!(room.returned(PLACE), None);
}

#[test]
fn a_call_that_its_request_does_not_follow_goes_to_the_next() {
    let mut room = roomy();
    let all: Vec<_> = (0..3).map(|_| enter(&mut room, PLACE, Class::default())).collect();
    assert_eq!(room.returned(PLACE), Some(all[0]));
    assert_eq!(room.leave(all[0]), Some(all[1]));
    let last = enter(&mut room, PLACE, Class::default());
    assert_eq!(room.leave(all[2]), None, "a request from the middle of a line calls no other");
    assert_eq!(
        room.moved(all[1], Obstacle::Counter(1), NOW).called,
        Some(last),
        "nor is the call lost by moving on"
    );
    assert_eq!(room.moved(last, Obstacle::Counter(1), NOW).called, None);
}

#[test]
fn the_higher_class_is_first_and_within_a_class_the_earlier_one() {
    let mut room = roomy();
    let first = enter(&mut room, PLACE, Class::Sheddable);
    let second = enter(&mut room, PLACE, Class::Sheddable);
    let critical = enter(&mut room, PLACE, Class::Critical);
    assert!(room.is_next(critical) && !room.is_next(first) && !room.is_next(second));
    assert_eq!(room.leave(critical), Some(first));
    assert!(room.is_next(first));
    assert_eq!(room.leave(first), Some(second));
    assert!(room.is_next(second) && !room.is_next(first));
}

#[test]
fn the_earlier_arrival_is_first_also_after_it_waited_for_something_else() {
    let mut room = roomy();
    let early = enter(&mut room, Obstacle::Counter(1), Class::default());
    let late = enter(&mut room, PLACE, Class::default());
    assert_eq!(room.moved(early, PLACE, NOW).called, None);
    assert!(room.is_next(early) && !room.is_next(late));
    assert_eq!((room.lines(), room.next(Obstacle::Counter(1))), (1, None));
    let urgent = enter(&mut room, PLACE, Class::Critical);
    assert!(room.is_next(urgent));
    assert_eq!(room.moved(urgent, PLACE, NOW).called, None, "it waits there already");
    assert!(room.is_next(urgent));
}

#[test]
fn requests_for_different_counters_do_not_stand_in_each_others_way() {
    let mut room = roomy();
    let ada = enter(&mut room, Obstacle::Counter(1), Class::Critical);
    let bob = enter(&mut room, Obstacle::Counter(2), Class::Sheddable);
    assert!(room.is_next(ada) && room.is_next(bob));
    let ahead = |obstacle, class| room.line_ahead([obstacle], class);
    let first = Obstacle::Counter(1);
    assert_eq!(ahead(first, Class::Critical), Some(first));
    assert_eq!(ahead(first, Class::Sheddable), Some(first));
    assert_eq!(ahead(first, Class::CriticalPlus), None, "a higher class goes first");
    assert_eq!(ahead(Obstacle::Counter(3), Class::Sheddable), None);
    assert_eq!(ahead(PLACE, Class::Sheddable), None);
    let in_order = [Obstacle::Counter(3), Obstacle::Counter(2), Obstacle::Counter(1)];
    assert_eq!(room.line_ahead(in_order, Class::Sheddable), Some(Obstacle::Counter(2)));
    assert_eq!(room.line_ahead(in_order, Class::Critical), Some(Obstacle::Counter(1)));
}

#[test]
fn leaving_leaves_no_trace() {
    let mut room = roomy();
    let moved = enter(&mut room, Obstacle::Counter(1), Class::Critical);
    let other = enter(&mut room, Obstacle::Counter(1), Class::Critical);
    assert_eq!(room.moved(moved, PLACE, NOW).called, Some(other));
    assert!(room.is_next(moved) && room.is_next(other));
    assert_eq!(room.drain(), [moved, other]);
    assert_eq!(format!("{room:?}"), {
        let mut new = roomy();
        new.next_arrival = 2;
        format!("{new:?}")
    });
    assert_eq!((room.leave(moved), room.moved(other, PLACE, NOW).called), (None, None), "both are gone");
    assert!(!room.contains(moved) && !room.is_next(moved));
}

#[test]
fn no_more_wait_than_may() {
    let mut room = room_of(RoomBounds::new(1, 100));
    let one = enter(&mut room, PLACE, Class::Critical);
    let full = room.enter(entrant(PLACE, Class::Critical), NOW).unwrap_err();
    assert_eq!(
        full.to_string(),
        "the waiting room is full: at most 1 requests of 100 bytes together may wait"
    );
    room.leave(one);
    assert!(room.enter(entrant(PLACE, Class::Critical), NOW).is_ok());
    assert!(room_of(RoomBounds::new(0, 100)).enter(entrant(PLACE, Class::Critical), NOW).is_err());
}

#[test]
fn one_namespace_takes_all_there_is_only_while_no_other_may_wait() {
    for (namespaces, most) in [(1, 10), (2, 5), (3, 4), (11, 10)] {
        let mut room = room_of(RoomBounds::new(10, 100).shared_by(namespaces, 1));
        let entered = (0..20).filter(|_| room.enter(entrant(PLACE, Class::default()), NOW).is_ok());
        assert_eq!(entered.count(), most, "{namespaces}");
    }
    let mut room = room_of(RoomBounds::new(10, 100).shared_by(2, 1));
    let heavy = Entrant { bytes: 30, ..entrant(PLACE, Class::default()) };
    assert!(room.enter(heavy, NOW).is_ok());
    assert!(room.enter(heavy, NOW).is_err(), "60 of 100 bytes, half of which is its share");
    assert_eq!((room.used().requests, room.used().bytes), (1, 30));
}

#[test]
fn one_resource_of_a_namespace_leaves_the_others_their_parts() {
    // Each of two namespaces has 40 positions, and each of its four resources 5 of them.
    let mut room = room_of(RoomBounds::new(80, 0).shared_by(2, 4));
    let mut count = |namespace, resource| {
        let request = Entrant { group: group(namespace, resource), ..entrant(PLACE, Class::default()) };
        (0..100).filter(|_| room.enter(request, NOW).is_ok()).count()
    };
    assert_eq!(count(0, 0), 40 - 3 * 5);
    assert_eq!([count(0, 1), count(0, 2), count(0, 3)], [5, 5, 5]);
    assert_eq!(count(1, 0), 25);
    assert_eq!(count(0, 4), 0, "a fifth resource of a namespace with four has no part");
}

#[test]
fn the_lowest_class_that_arrived_last_is_displaced_by_a_higher_one_only() {
    let mut room = room_of(RoomBounds::new(4, 100));
    let critical = enter(&mut room, PLACE, Class::Critical);
    let early = enter(&mut room, Obstacle::Counter(1), Class::Sheddable);
    let late = enter(&mut room, Obstacle::Counter(2), Class::Sheddable);
    let plus = enter(&mut room, Obstacle::Counter(2), Class::SheddablePlus);
    assert!(room.enter(entrant(PLACE, Class::Sheddable), NOW).is_err(), "an equal class displaces none");
    let entered = room.enter(entrant(PLACE, Class::SheddablePlus), NOW).unwrap();
    assert_eq!((entered.displaced, entered.called), (Some(late), None), "it was behind `plus`");
    let entered = room.enter(entrant(PLACE, Class::CriticalPlus), NOW).unwrap();
    assert_eq!(entered.displaced, Some(early));
    let entered = room.enter(entrant(PLACE, Class::Critical), NOW).unwrap();
    assert!(entered.displaced.is_some_and(|displaced| displaced > plus), "the later one of its class");
    let entered = room.enter(entrant(PLACE, Class::Critical), NOW).unwrap();
    assert_eq!(entered.displaced, Some(plus));
    assert!(room.enter(entrant(PLACE, Class::Critical), NOW).is_err());
    assert_eq!(room.count(), 4);
    assert!(room.contains(critical));
}

#[test]
fn a_displaced_request_that_was_next_hands_its_call_on() {
    // A resource within its part is protected, so the one in its line that may be displaced is the
    // request of the other resource before it.
    let mut room = room_of(RoomBounds::new(8, 0).shared_by(1, 2));
    let of = |resource, class| Entrant { group: group(0, resource), ..entrant(PLACE, class) };
    let first = room.enter(of(0, Class::Sheddable), NOW).unwrap().position;
    let second = room.enter(of(1, Class::Sheddable), NOW).unwrap().position;
    for _ in 0..5 {
        room.enter(Entrant { obstacle: Obstacle::Counter(1), ..of(0, Class::Critical) }, NOW).unwrap();
    }
    let urgent = Entrant { obstacle: Obstacle::Counter(1), ..of(0, Class::CriticalPlus) };
    let entered = room.enter(urgent, NOW).unwrap();
    assert_eq!((entered.displaced, entered.called), (Some(first), Some(second)));
    assert!(room.enter(urgent, NOW).is_ok_and(|entered| entered.displaced.is_some_and(|one| one != second)));
    assert!(room.contains(second), "its resource has used only its part");
}

#[test]
fn narrower_bounds_turn_no_waiting_request_away_and_hold_for_the_next() {
    let mut room = room_of(RoomBounds::new(4, 100));
    let all: Vec<_> = (0..4).map(|_| enter(&mut room, PLACE, Class::default())).collect();
    room.set_bounds(RoomBounds::new(2, 100));
    assert_eq!(room.count(), 4);
    assert!(room.enter(entrant(PLACE, Class::default()), NOW).is_err());
    for position in &all[..2] {
        room.leave(*position);
    }
    assert!(room.enter(entrant(PLACE, Class::default()), NOW).is_err(), "two still wait");
    room.leave(all[2]);
    assert!(room.enter(entrant(PLACE, Class::default()), NOW).is_ok());
    room.set_bounds(RoomBounds::new(3, 100));
    assert!(room.enter(entrant(PLACE, Class::default()), NOW).is_ok());
}

/// The same room as a list that is searched from the start each time.
struct Model {
    bounds: RoomBounds,
    waiters: Vec<(Position, Entrant)>,
}

impl Model {
    fn next(&self, obstacle: Obstacle) -> Option<Position> {
        let line = self.waiters.iter().filter(|(_, one)| one.obstacle == obstacle);
        line.max_by_key(|(position, one)| (one.class, Reverse(*position))).map(|(position, _)| *position)
    }

    /// The used and reserved parts by the definition, in the unit that `weigh` counts.
    fn claimed(&self, most: usize, weigh: fn(&Entrant) -> usize) -> usize {
        let share = most / self.bounds.namespaces;
        let part = match self.bounds.resources {
            1 => share,
            resources => share / 2 / resources,
        };
        let of_group = |group: Group| -> usize {
            self.waiters.iter().map(|(_, one)| one).filter(|one| one.group == group).map(weigh).sum()
        };
        let of_namespace = |namespace| {
            let resources = 0..self.bounds.resources as u16;
            let all: usize = resources.map(|resource| of_group(group(namespace, resource)).max(part)).sum();
            all.max(share)
        };
        (0..self.bounds.namespaces as u32).map(of_namespace).sum()
    }

    fn is_within_bounds(&self) -> bool {
        self.claimed(self.bounds.requests, |_| 1) <= self.bounds.requests
            && self.claimed(self.bounds.bytes, |one| one.bytes) <= self.bounds.bytes
    }

    /// Whether a request would be let in, and which one it would displace.
    fn enter(&mut self, position: Position, entrant: Entrant) -> Result<Option<Position>, ()> {
        self.waiters.push((position, entrant));
        if self.is_within_bounds() {
            return Ok(None);
        }
        let mut lower: Vec<_> =
            self.waiters.iter().filter(|(_, one)| one.class < entrant.class).copied().collect();
        lower.sort_by_key(|(position, one)| (one.class, Reverse(*position)));
        let mut seen = Vec::new();
        for (victim, one) in lower {
            // Of each group only the first.
            if seen.contains(&one.group) {
                continue;
            }
            seen.push(one.group);
            let all = self.waiters.clone();
            self.waiters.retain(|(position, _)| *position != victim);
            if self.is_within_bounds() {
                return Ok(Some(victim));
            }
            self.waiters = all;
        }
        self.waiters.pop();
        Err(())
    }

    /// Whether a request is within the part of its group, in requests and bytes.
    fn is_within_part(&self, entrant: &Entrant) -> bool {
        let own = self.waiters.iter().map(|(_, one)| one).filter(|one| one.group == entrant.group);
        let (requests, bytes) =
            own.fold((1, entrant.bytes), |(requests, bytes), one| (requests + 1, bytes + one.bytes));
        let divisor = match self.bounds.resources {
            1 => self.bounds.namespaces,
            resources => self.bounds.namespaces * 2 * resources,
        };
        requests <= self.bounds.requests / divisor && bytes <= self.bounds.bytes / divisor
    }
}

#[derive(Clone, Debug)]
enum Step {
    Enter { namespace: u32, resource: u16, class: usize, bytes: usize, obstacle: u64 },
    Leave(prop::sample::Index),
    Move(prop::sample::Index, u64),
}

fn obstacle(number: u64) -> Obstacle {
    if number == 0 { PLACE } else { Obstacle::Counter(number) }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let enter = (0_u32..3, 0_u16..3, 0_usize..4, 0_usize..9, 0_u64..4);
    let enter = enter.prop_map(|(namespace, resource, class, bytes, obstacle)| Step::Enter {
        namespace,
        resource,
        class,
        bytes,
        obstacle,
    });
    let step = prop_oneof![
        4 => enter,
        1 => any::<prop::sample::Index>().prop_map(Step::Leave),
        1 => (any::<prop::sample::Index>(), 0_u64..4).prop_map(|(index, obstacle)| Step::Move(index, obstacle)),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Entrances, displacements, moves and departures in any order: the room answers as the list
    /// does, a group within its part always finds room, and the bounds hold.
    #[test]
    fn the_room_does_what_a_sorted_list_does(
        (namespaces, resources) in (1_usize..4, 1_usize..4),
        (requests, bytes) in (0_usize..40, 0_usize..120),
        steps in steps(),
    ) {
        let bounds = RoomBounds::new(requests, bytes).shared_by(namespaces, resources);
        let mut room = room_of(bounds);
        let mut model = Model { bounds, waiters: Vec::new() };
        for step in steps {
            match step {
                Step::Enter { namespace, resource, class, bytes, obstacle: at } => {
                    let group = group(namespace % namespaces as u32, resource % resources as u16);
                    let entrant = Entrant::new(group, Class::ALL[class], obstacle(at)).bytes(bytes);
                    let is_within = model.is_within_part(&entrant);
                    let next_before: Vec<_> = (0..4).map(|at| model.next(obstacle(at))).collect();
                    let expected = model.enter(Position::new(room.next_arrival), entrant);
                    prop_assert!(expected.is_ok() || !is_within);
                    prop_assert!(expected != Ok(None) || model.is_within_bounds());
                    let entered = room.enter(entrant, NOW);
                    prop_assert_eq!(entered.map(|entered| entered.displaced).map_err(|_| ()), expected);
                    if let Ok(Entered { position, displaced, called, .. }) = entered {
                        prop_assert!(displaced.is_none() || !is_within);
                        let line = (0..4).find(|at| displaced.is_some() && next_before[*at as usize] == displaced);
                        let new = line.and_then(|at| model.next(obstacle(at))).filter(|new| *new != position);
                        prop_assert_eq!(called, new);
                    }
                }
                Step::Leave(index) if !model.waiters.is_empty() => {
                    let (position, one) = model.waiters.remove(index.index(model.waiters.len()));
                    let was_next = room.is_next(position);
                    prop_assert_eq!(room.leave(position), model.next(one.obstacle).filter(|_| was_next));
                }
                Step::Move(index, to) if !model.waiters.is_empty() => {
                    let index = index.index(model.waiters.len());
                    let (position, old) = (model.waiters[index].0, model.waiters[index].1.obstacle);
                    let was_next = room.is_next(position);
                    model.waiters[index].1.obstacle = obstacle(to);
                    let called = model.next(old).filter(|_| was_next && old != obstacle(to));
                    prop_assert_eq!(room.moved(position, obstacle(to), NOW).called, called);
                }
                Step::Leave(_) | Step::Move(..) => {}
            }
            for at in 0..4 {
                prop_assert_eq!(room.next(obstacle(at)), model.next(obstacle(at)));
                for class in Class::ALL {
                    let waits = |(_, one): &(Position, Entrant)| one.obstacle == obstacle(at) && one.class >= class;
                    let is_ahead = model.waiters.iter().any(waits);
                    prop_assert_eq!(room.line_ahead([obstacle(at)], class).is_some(), is_ahead);
                }
            }
            let used: usize = model.waiters.iter().map(|(_, one)| one.bytes).sum();
            prop_assert_eq!((room.count(), room.used().requests, room.used().bytes), (model.waiters.len(), model.waiters.len(), used));
            prop_assert!(room.count() <= requests && used <= bytes);
        }
        let mut all: Vec<_> = model.waiters.iter().map(|(position, _)| *position).collect();
        all.sort_unstable();
        prop_assert_eq!(room.drain(), all);
        prop_assert_eq!((room.count(), room.lines(), room.used(), room.groups.len()), (0, 0, RoomUse::default(), 0));
        prop_assert_eq!((room.displaceable.len(), room.lines.next(PLACE)), (0, None));
    }
}

#[test]
fn one_namespace_may_fill_the_bounds_of_a_resource_and_takes_nothing_of_the_shared_room() {
    let mut room = room_of(RoomBounds::new(4, 4000).shared_by(2, 1));
    room.set_resource_bounds([(ResourceId(0), RoomUse::new(100, 100_000))]);
    let of =
        |namespace, resource| Entrant::new(group(namespace, resource), Class::Critical, PLACE).bytes(1000);
    let own: Vec<_> = (0..100).map(|_| room.enter(of(0, 0), NOW).unwrap().position).collect();
    let full = room.enter(of(0, 0), NOW).unwrap_err();
    assert_eq!((full.bounds.requests, full.bounds.bytes), (100, 100_000));
    // Another one has a half of them, once it asks.
    let displaced = (0..50).map(|_| room.enter(of(1, 0), NOW).unwrap().displaced.unwrap());
    assert!(displaced.eq(own[50..].iter().rev().copied()), "the newest ones of the first");
    assert!(room.enter(of(1, 0), NOW).is_err());
    // Each namespace still has its half of the shared room, and no more.
    for namespace in [0, 1] {
        assert_eq!([1, 2].map(|_| room.enter(of(namespace, 1), NOW).is_ok()), [true, true]);
        assert!(room.enter(of(namespace, 1), NOW).is_err());
    }
    assert_eq!((room.count(), room.used()), (104, RoomUse::new(104, 104_000)));
    // Without bounds of its own it counts with the others, and with them it does not again.
    room.set_resource_bounds([]);
    room.leave(own[0]);
    assert!(room.enter(of(1, 0), NOW).is_err());
    room.set_resource_bounds([(ResourceId(0), RoomUse::new(100, 100_000))]);
    assert!(room.enter(of(1, 0), NOW).is_ok());
    assert_eq!(room.used(), RoomUse::new(104, 104_000));
}

#[test]
fn a_resource_with_bounds_of_its_own_fills_these_and_displaces_its_own_requests_only() {
    let bounds = RoomBounds::new(4096, 1 << 20).shared_by(1, 2);
    let mut room = room_of(bounds);
    room.set_resource_bounds([(ResourceId(0), RoomUse::new(2, 100))]);
    let of = |resource, class, bytes| Entrant::new(group(0, resource), class, PLACE).bytes(bytes);
    let other = room.enter(of(1, Class::Sheddable, 1000), NOW).unwrap().position;
    let first = room.enter(of(0, Class::Sheddable, 40), NOW).unwrap().position;
    room.enter(of(0, Class::Critical, 40), NOW).unwrap();
    assert!(room.enter(of(0, Class::Sheddable, 1), NOW).is_err(), "two wait for it");
    let entered = room.enter(of(0, Class::Critical, 60), NOW).unwrap();
    assert_eq!(entered.displaced, Some(first));
    assert!(room.contains(other));
    assert!(room.enter(of(0, Class::Critical, 1), NOW).is_err());
    // Requests that wait already count against bounds that come later.
    room.set_resource_bounds([(ResourceId(1), RoomUse::new(1, 5000))]);
    assert!(room.enter(of(0, Class::Sheddable, 1), NOW).is_ok());
    assert!(room.enter(of(1, Class::Sheddable, 1), NOW).is_err());
    room.set_bounds(bounds);
    assert!(room.enter(of(1, Class::Sheddable, 1), NOW).is_err(), "the bounds outlive those of the room");
    room.leave(other);
    assert!(room.enter(of(1, Class::Sheddable, 1), NOW).is_ok());
}

#[test]
fn issue_39_the_rooms_of_all_resources_have_one_bound_of_bytes_and_each_namespace_a_share_of_it() {
    let mut room = roomy();
    room.set_resource_bounds((0..4).map(|resource| (ResourceId(resource), RoomUse::new(100, 1000))));
    room.set_total_bytes(1200, 2);
    let mut enter = |namespace, resource| {
        let obstacle = Obstacle::Place(ResourceId(resource));
        let entrant = Entrant::new(group(namespace, resource), Class::Critical, obstacle).bytes(100);
        room.enter(entrant, NOW)
    };
    // Four resources of 1000 bytes each; the namespace has its share of 300 and the pool of 600.
    let entered = (0..40).filter(|one| enter(1, one % 4).is_ok()).count();
    assert_eq!(entered, 9);
    let entered = (0..40).filter(|one| enter(2, one % 4).is_ok()).count();
    assert_eq!(entered, 3, "the share of the other namespace is free in every room");
    assert_eq!(room.used(), RoomUse::new(12, 1200));
    // A request of a higher class takes the room of one that matters less, in whatever room.
    let urgent = Entrant::new(group(1, 9), Class::CriticalPlus, PLACE).bytes(100);
    assert!(room.enter(urgent, NOW).unwrap().displaced.is_some());
    room.set_bounds(RoomBounds::new(4096, 1 << 21));
    assert!(room.enter(urgent, NOW).unwrap().displaced.is_some(), "other bounds change nothing");
    room.drain();
    room.set_total_bytes(usize::MAX, 2);
    assert!((0..20).all(|_| room.enter(urgent, NOW).is_ok()));
}

/// An entrant of a connection with this number that occupies 40 bytes, by 10 of its own.
fn on_connection(id: u64, class: Class) -> Entrant {
    let connection = WaitingConnection { id: core::num::NonZeroU64::new(id).unwrap(), bytes: 40 };
    entrant(PLACE, class).bytes(10).connection(Some(connection))
}

#[test]
fn issue_39_a_connection_counts_once_until_the_last_of_its_requests_has_left() {
    // Every order in which three requests of one connection leave beside one of another.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut room = roomy();
        let one = |room: &mut WaitingRoom, id| {
            room.enter(on_connection(id, Class::default()), NOW).unwrap().position
        };
        let other = one(&mut room, 2);
        let all = [(); 3].map(|()| one(&mut room, 1));
        assert_eq!(room.used(), RoomUse::new(4, 50 + 70));
        for (left, at) in order.into_iter().enumerate() {
            room.leave(all[at]);
            let rest = 2 - left;
            let of_first = if rest > 0 { 40 + rest * 10 } else { 0 };
            assert_eq!(room.used(), RoomUse::new(1 + rest, 50 + of_first), "{order:?}");
        }
        room.leave(other);
        assert_eq!(room.used(), RoomUse::default());
    }
}

#[test]
fn issue_39_the_charge_for_a_connection_passes_on_when_its_request_is_displaced() {
    let mut room = room_of(RoomBounds::new(8, 70));
    let low = |class| on_connection(1, class);
    let victim = room.enter(low(Class::Sheddable), NOW).unwrap().position;
    let heir = room.enter(low(Class::Critical), NOW).unwrap().position;
    assert_eq!(room.used(), RoomUse::new(2, 60));
    // Only the ten bytes of the victim come free: not enough for another connection.
    assert!(room.enter(on_connection(2, Class::Critical), NOW).is_err());
    assert_eq!(room.used(), RoomUse::new(2, 60), "nothing has changed");
    let plain = entrant(PLACE, Class::Critical).bytes(20);
    assert_eq!(room.enter(plain, NOW).unwrap().displaced, Some(victim));
    assert_eq!(room.used(), RoomUse::new(2, 70));
    room.leave(heir);
    assert_eq!(room.used(), RoomUse::new(1, 20));
    // The only request of a connection makes room for another one of the same.
    let mut narrow = room_of(RoomBounds::new(8, 50));
    let first = narrow.enter(low(Class::Sheddable), NOW).unwrap().position;
    assert_eq!(narrow.enter(low(Class::Critical), NOW).unwrap().displaced, Some(first));
    assert_eq!(narrow.used(), RoomUse::new(1, 50));
}
