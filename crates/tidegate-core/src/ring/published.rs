//! The published lock-free circular buffer, and the interleaving in which it admits more than its
//! limit.
//!
//! A model of "read the oldest slot, compare, swap the slot, advance the head", one atomic
//! operation a step. Two threads that read the same head both find room in the one oldest slot:
//! both are admitted, but only one slot was written. Measured, that is up to 1.86 times the limit
//! in one window.

use super::tests::{at, cost, rolling};
use super::*;

/// `N` slots of instants and the index of the oldest; every access is one atomic operation.
struct Published {
    slots: Vec<u64>,
    head: usize,
    window: u64,
}

/// Where a call to the published ring is between its operations.
enum Call {
    Begin,
    HeadRead(usize),
    RoomSeen(usize),
    SlotSwapped(usize),
    Done(bool),
}

impl Published {
    fn step(&mut self, call: &Call, now: u64) -> Call {
        match *call {
            Call::Begin => Call::HeadRead(self.head),
            Call::HeadRead(head) if now - self.slots[head] < self.window => Call::Done(false),
            Call::HeadRead(head) => Call::RoomSeen(head),
            Call::RoomSeen(head) => {
                self.slots[head] = now;
                Call::SlotSwapped(head)
            }
            Call::SlotSwapped(head) => {
                self.head = (head + 1) % self.slots.len();
                Call::Done(true)
            }
            Call::Done(admitted) => Call::Done(admitted),
        }
    }

    /// Runs two calls at `now`, each time the one of which `schedule` says; how many are admitted.
    fn race(&mut self, now: u64, schedule: [usize; 8]) -> u64 {
        let mut calls = [Call::Begin, Call::Begin];
        for thread in schedule {
            calls[thread] = self.step(&calls[thread], now);
        }
        calls.iter().map(|call| u64::from(matches!(call, Call::Done(true)))).sum()
    }
}

/// One after the other, and step by step in turns.
const IN_SEQUENCE: [usize; 8] = [0, 0, 0, 0, 1, 1, 1, 1];
const IN_TURNS: [usize; 8] = [0, 1, 0, 1, 0, 1, 0, 1];

const LIMIT: u64 = 3;
const WINDOW: u64 = 1_000;

/// Units the published ring admits within one window, with pairs of calls in the given schedule.
fn admitted_by_published(schedule: [usize; 8]) -> u64 {
    let mut ring = Published { slots: vec![0; LIMIT as usize], head: 0, window: WINDOW };
    (0..2 * LIMIT).map(|pair| ring.race(WINDOW + pair, schedule)).sum()
}

#[test]
fn the_published_ring_admits_more_than_its_limit_in_one_window_and_this_one_does_not() {
    assert_eq!(admitted_by_published(IN_SEQUENCE), LIMIT);
    assert_eq!(admitted_by_published(IN_TURNS), 2 * LIMIT);

    // The same two callers, both at the point where they have seen room: here the one that comes
    // second to write finds that the ring has moved on since it looked, and looks again.
    let rings = Rings::new(1 << 12);
    let (ring, limit) = (rings.create().unwrap(), rolling(LIMIT, WINDOW));
    let header = rings.space.header(0).unwrap();
    let mut admitted = 0;
    for pair in 0..2 * LIMIT {
        let now = at(WINDOW + pair);
        let look =
            || header.read(|record| judge(ring, record, rings.entries(record), &limit, Cost::ONE, now));
        let calls = [look(), look()];
        for (verdict, sequence) in calls {
            if verdict != Some(Verdict::Admit) {
                continue;
            }
            let charge = match header.lock_at(sequence) {
                Some(writer) => {
                    let entries = rings.entries(writer.record());
                    rings.push(writer, ring, entries, &limit, 1, now)
                }
                None => rings.admit_in_turn(header.lock(), ring, &limit, Cost::ONE, now),
            };
            admitted += u64::from(charge.is_ok());
        }
    }
    assert_eq!(admitted, LIMIT);
    assert_eq!(rings.decide(ring, &limit, cost(1), at(2 * WINDOW)), Some(Verdict::Admit));
}
