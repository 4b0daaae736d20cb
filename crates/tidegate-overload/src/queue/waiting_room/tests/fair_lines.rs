//! Rooms in which a resource has a fair queue.

use super::*;
use crate::namespaces::NamespaceShares;
use crate::places::service_times::ServiceTimes;
use crate::queue::fair_queue::{QueueShed, TurnVerdict};

const RESOURCE: ResourceId = ResourceId(0);
const COUNTER: Obstacle = Obstacle::Counter(1);

fn after(millis: u64) -> Timestamp {
    NOW.saturating_add(Duration::from_millis(millis))
}

fn fair_room(bounds: RoomBounds) -> WaitingRoom {
    let mut room = room_of(bounds);
    room.set_queues([(RESOURCE, QueueConfig::default())], NOW);
    room
}

fn of(class: Class, tenant: u64) -> Entrant {
    entrant(PLACE, class).tenant(Some(tenant))
}

#[test]
fn any_class_joins_a_fair_line_and_is_called_when_it_comes_first() {
    let mut room = fair_room(RoomBounds::new(100, 0));
    let low = room.enter(of(Class::Sheddable, 1), NOW).unwrap();
    assert_eq!(low.next, Some(low.position), "it is the next itself");
    assert_eq!(room.line_ahead([PLACE], Class::CriticalPlus), Some(PLACE), "weights hold for all");
    let behind = room.enter(of(Class::Sheddable, 1), NOW).unwrap();
    assert_eq!(behind.next, None);
    let urgent = room.enter(of(Class::CriticalPlus, 1), NOW).unwrap();
    assert_eq!(urgent.next, Some(urgent.position));
    // The call of the one that was next before is of no use any more.
    assert_eq!(room.turn(low.position, NOW), TurnVerdict::Wait);
    assert_eq!(room.turn(urgent.position, NOW), TurnVerdict::Go);
    assert_eq!(room.served(urgent.position, NOW).called, Some(low.position));
    assert_eq!(room.leave(behind.position), None);
    assert_eq!(room.served(low.position, NOW).called, None);
    assert_eq!((room.count(), room.lines(), room.used()), (0, 0, RoomUse::default()));
    assert_eq!(room.line_ahead([PLACE], Class::Sheddable), None);
    assert_eq!(room.served(low.position, NOW).called, None, "it has no position any more");
    assert_eq!(room.turn(low.position, NOW), TurnVerdict::Wait);
}

#[test]
fn one_tenant_cannot_fill_a_room() {
    let mut room = fair_room(RoomBounds::new(10, 0));
    let all: Vec<_> = (0..10).map(|_| room.enter(of(Class::Critical, 1), NOW).unwrap().position).collect();
    assert!(room.enter(of(Class::Critical, 1), NOW).is_err());
    for newest in all[6..].iter().rev() {
        let entered = room.enter(of(Class::Critical, 2), NOW).unwrap();
        assert_eq!(entered.displaced, Some(*newest));
    }
    let entered = room.enter(of(Class::Critical, 2), NOW).unwrap();
    assert_eq!(entered.displaced, Some(all[5]));
    assert!(room.enter(of(Class::Critical, 2), NOW).is_err(), "both have five");
    assert!(room.enter(of(Class::SheddablePlus, 3), NOW).is_err(), "never a higher class");
    let counts = room.queue(RESOURCE).unwrap().counts(Class::Critical);
    assert_eq!((counts.entered, counts.displaced, counts.waiting), (15, 5, 10));
}

#[test]
fn the_share_of_another_namespace_is_not_taken_from_it() {
    let mut room = fair_room(RoomBounds::new(10, 0).shared_by(2, 1));
    let of = |namespace, class, tenant| Entrant { group: group(namespace, 0), ..of(class, tenant) };
    for tenant in 0..5 {
        room.enter(of(0, Class::Sheddable, tenant), NOW).unwrap();
    }
    let own: Vec<_> = (0..5).map(|_| room.enter(of(1, Class::Critical, 7), NOW).unwrap().position).collect();
    assert!(room.enter(of(1, Class::Critical, 7), NOW).is_err(), "lower requests wait in the other's share");
    let entered = room.enter(of(1, Class::Critical, 8), NOW).unwrap();
    assert_eq!(entered.displaced, Some(own[4]), "of its own namespace");
}

#[test]
fn fair_lines_and_others_displace_each_others_lower_classes() {
    let mut room = fair_room(RoomBounds::new(2, 0));
    let counter = enter(&mut room, COUNTER, Class::Sheddable);
    let low = room.enter(of(Class::Sheddable, 1), NOW).unwrap().position;
    let entered = room.enter(of(Class::Critical, 1), NOW).unwrap();
    assert_eq!(entered.displaced, Some(low), "its own line first");
    assert_eq!(entered.next, Some(entered.position));
    let entered = room.enter(of(Class::Critical, 2), NOW).unwrap();
    assert_eq!(entered.displaced, Some(counter));
    let entered = room.enter(entrant(COUNTER, Class::CriticalPlus), NOW).unwrap();
    assert!(entered.displaced.is_some());
    assert!(room.enter(entrant(COUNTER, Class::Critical), NOW).is_err());
}

#[test]
fn a_request_that_asks_for_an_answer_has_been_charged_and_gets_it_back() {
    let mut room = fair_room(RoomBounds::new(100, 0));
    let mut enter = |tenant, units| {
        let cost = tidegate_core::Cost::new(units).unwrap();
        room.enter(of(Class::Critical, tenant).cost(cost), NOW).unwrap().position
    };
    let (first, second, other) = (enter(1, 1), enter(1, 5), enter(2, 1));
    assert_eq!(room.turn(first, after(3)), TurnVerdict::Go);
    let answer = Obstacle::Answer(first);
    let moved = room.moved(first, answer, after(3));
    assert_eq!((moved.called, moved.next), (Some(other), None), "tenant 1 has had its turn");
    assert_eq!(room.next(answer), Some(first));
    // The store refuses: it comes back, before the later request of its tenant, and its wait goes
    // on.
    let moved = room.moved(first, PLACE, after(4));
    assert_eq!((moved.called, moved.next), (None, None), "its tenant's turn comes after the other's");
    assert_eq!(room.served(other, after(4)).called, Some(first));
    assert_eq!(room.turn(first, after(5)), TurnVerdict::Go);
    assert_eq!(room.moved(first, answer, after(5)).called, Some(second));
    assert_eq!(room.served(first, after(7)).called, None);
    assert!(!room.contains(first));
    let counts = room.queue(RESOURCE).unwrap().counts(Class::Critical);
    assert_eq!((counts.served, counts.wait_sum), (2, Duration::from_millis(4 + 7)));
    // Leaving while it waits for the answer gives the charge back: its tenant is not 5 behind.
    let mut enter = |tenant| room.enter(of(Class::Critical, tenant), NOW).unwrap().position;
    let (third, _, next_of_first) = (enter(2), enter(2), enter(1));
    assert_eq!(room.moved(second, Obstacle::Answer(second), after(8)).called, Some(third));
    assert_eq!(room.leave(second), None);
    assert_eq!(room.served(third, after(9)).called, Some(next_of_first));
}

#[test]
fn a_request_that_waited_for_something_else_begins_its_wait_in_the_queue() {
    let mut room = fair_room(RoomBounds::new(100, 0));
    let until = after(5_000);
    let entrant = Entrant { obstacle: COUNTER, ..of(Class::Critical, 1).until(until) };
    let position = room.enter(entrant, NOW).unwrap().position;
    assert_eq!(room.moved(position, PLACE, after(1_000)).next, Some(position));
    assert_eq!(room.turn(position, after(1_002)), TurnVerdict::Go);
    assert_eq!(room.turn(position, until), TurnVerdict::Shed(QueueShed::Expired));
    assert!(room.contains(position), "until it leaves");
    assert_eq!(room.leave(position), None);
    let counts = room.queue(RESOURCE).unwrap().counts(Class::Critical);
    assert_eq!((counts.expired, counts.cancelled, counts.waiting), (1, 0, 0));
}

#[test]
fn a_line_becomes_fair_or_plain_while_requests_wait_in_it() {
    let mut room = roomy();
    let low = enter(&mut room, PLACE, Class::Sheddable);
    let high = enter(&mut room, PLACE, Class::Critical);
    room.set_queues([(RESOURCE, QueueConfig::default())], NOW);
    assert_eq!((room.next(PLACE), room.queue(RESOURCE).unwrap().count()), (Some(high), 2));
    assert_eq!(room.served(high, NOW).called, Some(low));
    room.set_queues([], NOW);
    assert!(room.queue(RESOURCE).is_none());
    assert_eq!(room.next(PLACE), Some(low));
    assert_eq!(room.drain(), [low]);
    assert_eq!((room.count(), room.lines(), room.groups.len(), room.aside.len()), (0, 0, 0, 0));
}

#[derive(Clone, Debug)]
enum FairStep {
    Enter { class: usize, tenant: u64, to: u64 },
    Serve,
    Leave(prop::sample::Index),
    Move(prop::sample::Index, u64),
    Correct { class: usize, tenant: u64, units: u64 },
}

fn fair_steps() -> impl Strategy<Value = Vec<FairStep>> {
    let index = any::<prop::sample::Index>;
    let step = prop_oneof![
        4 => (0_usize..4, 0_u64..5, 0_u64..2).prop_map(|(class, tenant, to)| FairStep::Enter { class, tenant, to }),
        3 => Just(FairStep::Serve),
        1 => index().prop_map(FairStep::Leave),
        2 => (index(), 0_u64..3).prop_map(|(index, to)| FairStep::Move(index, to)),
        1 => (0_usize..4, 0_u64..5, 2_u64..9)
            .prop_map(|(class, tenant, units)| FairStep::Correct { class, tenant, units }),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Each new next request of a fair line is called, so that no place stays free while others
    /// wait; and nothing is left when all have gone.
    #[test]
    fn the_next_request_of_a_fair_line_has_always_been_called(
        requests in 1_usize..20,
        steps in fair_steps(),
    ) {
        let mut room = fair_room(RoomBounds::new(requests, 0));
        let mut waiting: Vec<Position> = Vec::new();
        let mut called = room.next(PLACE);
        let mut now = NOW;
        let to = |number, position| match number {
            0 => PLACE,
            1 => COUNTER,
            _ => Obstacle::Answer(position),
        };
        for step in steps {
            now = now.saturating_add(Duration::from_millis(1));
            let before = room.next(PLACE);
            let mut calls = Vec::new();
            match step {
                FairStep::Enter { class, tenant, to: at } => {
                    let obstacle = if at == 0 { PLACE } else { COUNTER };
                    let entrant = Entrant { obstacle, ..of(Class::ALL[class], tenant) };
                    if let Ok(entered) = room.enter(entrant, now) {
                        waiting.push(entered.position);
                        waiting.retain(|position| Some(*position) != entered.displaced);
                        calls.extend([entered.called, entered.next]);
                    }
                }
                FairStep::Serve => {
                    if let Some(next) = room.next(PLACE) {
                        if matches!(room.turn(next, now), TurnVerdict::Shed(_)) {
                            calls.push(room.leave(next));
                        } else {
                            calls.push(room.served(next, now).called);
                        }
                        waiting.retain(|position| *position != next);
                    }
                }
                FairStep::Leave(index) if !waiting.is_empty() => {
                    let position = waiting.remove(index.index(waiting.len()));
                    calls.push(room.leave(position));
                }
                FairStep::Move(index, number) if !waiting.is_empty() => {
                    let position = waiting[index.index(waiting.len())];
                    let moved = room.moved(position, to(number, position), now);
                    calls.extend([moved.called, moved.next]);
                }
                FairStep::Correct { class, tenant, units } => {
                    let cost = tidegate_core::Cost::new(units).unwrap();
                    let held = Duration::from_micros(cost.units());
                    calls.push(room.settle(RESOURCE, &of(Class::ALL[class], tenant).cost(cost), held, now));
                }
                FairStep::Leave(_) | FairStep::Move(..) => {}
            }
            let next = room.next(PLACE);
            if next != before {
                called = calls.iter().flatten().copied().find(|one| Some(*one) == next);
            }
            prop_assert_eq!(called, next);
            prop_assert_eq!(room.count(), waiting.len());
            prop_assert!(waiting.iter().all(|position| room.contains(*position)));
            prop_assert_eq!(room.line_ahead([PLACE], Class::CriticalPlus).is_some(), next.is_some());
        }
        prop_assert_eq!(room.drain(), waiting);
        prop_assert_eq!((room.lines(), room.groups.len(), room.displaceable.len(), room.aside.len()), (0, 0, 0, 0));
        prop_assert_eq!(room.used(), RoomUse::default());
    }
}

fn of_namespace(namespace: u32, class: Class) -> Entrant {
    let mut one = of(class, 1).bytes(10);
    one.group.namespace = namespace;
    one
}

#[test]
fn a_namespace_below_its_part_of_a_room_of_its_own_displaces_one_that_is_over_it() {
    let mut room = fair_room(RoomBounds::new(100, 1 << 20));
    room.set_resource_bounds([(RESOURCE, RoomUse::new(10, 1000))]);
    let flood: Vec<_> =
        (0..10).map(|_| room.enter(of_namespace(1, Class::Critical), NOW).unwrap().position).collect();
    assert!(room.enter(of_namespace(1, Class::CriticalPlus), NOW).is_ok(), "of its own, a lower class");
    // Of the other namespace even the lowest class has its half, and no more.
    for number in 0..5 {
        let entered = room.enter(of_namespace(2, Class::Sheddable), NOW).unwrap();
        assert_eq!(entered.displaced, Some(flood[8 - number]), "the newest of the lowest class");
    }
    assert!(room.enter(of_namespace(2, Class::Sheddable), NOW).is_err(), "both have their part");
    assert!(room.enter(of_namespace(1, Class::CriticalPlus), NOW).is_ok(), "of its own");
    let queue = room.queue(RESOURCE).unwrap();
    let waiting = |class| queue.counts(class).waiting;
    let all = [Class::Sheddable, Class::Critical, Class::CriticalPlus].map(waiting);
    assert_eq!(all, [5, 3, 2], "a namespace within its part gives way to no higher class of another");
    room.set_namespace_shares(RESOURCE, &NamespaceShares::new([(1, 4)]));
    let entered = room.enter(of_namespace(1, Class::Critical), NOW).unwrap();
    assert!(entered.displaced.is_some(), "four parts of five are its own now");
    assert_eq!(room.queue(RESOURCE).unwrap().counts(Class::Sheddable).waiting, 4);
}

#[test]
fn the_end_of_one_request_moves_its_class_by_no_more_than_eight_typical_ones() {
    let mut room = fair_room(RoomBounds::new(1000, 1 << 20).shared_by(2, 1));
    room.set_service_times(RESOURCE, ServiceTimes::typical_of_all(Duration::from_millis(10)));
    let namespace = |number: u32, class| {
        let mut one = of_namespace(number, class);
        one.until = Timestamp::MAX;
        one
    };
    let enter = |room: &mut WaitingRoom, number, class| {
        room.enter(namespace(number, class), NOW).unwrap();
    };
    for number in [1, 2] {
        (0..50).for_each(|_| enter(&mut room, number, Class::Critical));
        (0..50).for_each(|_| enter(&mut room, number, Class::Sheddable));
    }
    // The first request of namespace 1 says that it has kept its place for an hour.
    let mut order = Vec::new();
    let mut has_lied = false;
    while let Some(next) = room.next(PLACE) {
        let (waiter, ()) = room.waiters.get(next).copied().unwrap();
        let charged = room.served(next, NOW).charged.unwrap();
        order.push((waiter.group.namespace, waiter.class));
        if waiter.group.namespace == 1 && waiter.class == Class::Critical && !has_lied {
            has_lied = true;
            let entrant = namespace(1, Class::Critical).cost(charged);
            room.settle(RESOURCE, &entrant, Duration::from_hours(1), NOW);
        }
    }
    let first = &order[..50];
    let count = |of: (u32, Class)| first.iter().filter(|one| **one == of).count();
    assert!(count((2, Class::Critical)) >= 40, "{first:?}");
    assert!(count((1, Class::Critical)) <= 2, "its own namespace bears it: {first:?}");
}
