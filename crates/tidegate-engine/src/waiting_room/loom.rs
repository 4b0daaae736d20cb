//! Interleavings of returns, entrances and departures.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use tidegate_core::{Class, Timestamp};
use tidegate_overload::{Entrant, Group, Obstacle, RoomBounds};

use super::{CallReason, Room, RoomAnswer, Seat};
use crate::sync::Arc;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
const COUNTER: Obstacle = Obstacle::Counter(1);

fn entrant() -> Entrant {
    Entrant::new(Group { namespace: 1, resource: None }, Class::default(), COUNTER)
}

fn room() -> Arc<Room> {
    Arc::new(Room::new(RoomBounds::new(8, 1024)))
}

fn enter(room: &Arc<Room>) -> Seat {
    seat(Room::enter(room, (entrant(), None), room.returns(), NOW))
}

fn seat(answer: RoomAnswer) -> Seat {
    match answer {
        RoomAnswer::Waits { seat, .. } => seat,
        other => panic!("there is room: {other:?}"),
    }
}

#[test]
fn loom_a_return_between_a_refusal_and_the_entrance_calls_the_request() {
    loom::model(|| {
        let room = room();
        let is_free = Arc::new(AtomicBool::new(false));
        let returner = {
            let (room, is_free) = (Arc::clone(&room), Arc::clone(&is_free));
            thread::spawn(move || {
                is_free.store(true, Ordering::SeqCst);
                room.returned(COUNTER);
            })
        };
        let returns = room.returns();
        let is_refused = !is_free.load(Ordering::SeqCst);
        let seat = is_refused.then(|| seat(Room::enter(&room, (entrant(), None), returns, NOW)));
        returner.join().unwrap();
        assert!(seat.is_none_or(|seat| seat.at_turn(NOW).call == Some(CallReason::Turn)));
    });
}

#[test]
fn loom_a_request_that_leaves_hands_its_call_on() {
    loom::model(|| {
        let room = room();
        let (first, second) = (enter(&room), enter(&room));
        let returner = {
            let room = Arc::clone(&room);
            thread::spawn(move || room.returned(COUNTER))
        };
        drop(first);
        returner.join().unwrap();
        assert_eq!(second.at_turn(NOW).call, Some(CallReason::Turn));
        drop(second);
        assert_eq!(room.count(), 0);
    });
}

#[test]
fn loom_a_drain_calls_a_request_that_enters_at_the_same_time() {
    loom::model(|| {
        let room = room();
        let drainer = {
            let room = Arc::clone(&room);
            thread::spawn(move || room.drain())
        };
        let seat = enter(&room);
        drainer.join().unwrap();
        assert_eq!(seat.at_turn(NOW).call, Some(CallReason::Drained));
    });
}
