//! The room of a slot: how much of the next seconds is for sale, and how much of it to one tenant.

use core::time::Duration;

use tidegate_core::Timestamp;

use super::ticket_number::SLOT_TICKETS_MAX;
use super::typical_cost::QUARTERS;
use crate::queue::fair_queue::Share;

/// The parts of a slot: a tenant keeps one of them while others wait.
const TENANT_PARTS: u16 = 20;
/// How long a sale is made by the capacity of before while the present one is higher.
const CAPACITY_HELD: Duration = Duration::from_millis(100);

/// The room of a slot and a tenant's part of it, in quarters of a request.
///
/// The room follows the capacity that the resource shows. A lower capacity counts at once; a
/// higher one counts from the next tick on, or once the last one was taken over 100 ms ago, so that
/// a capacity that trembles from sale to sale does not cost a look at every slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotRoom {
    room: u16,
    part: u16,
    taken_over: Option<Timestamp>,
}

impl SlotRoom {
    /// One request, until a capacity is known.
    pub(crate) const fn new() -> Self {
        Self { room: QUARTERS, part: QUARTERS, taken_over: None }
    }

    /// The room of a slot: at least one request, at most 1 000.
    pub(crate) const fn all(self) -> u16 {
        self.room
    }

    /// A tenant's part while others wait: a twentieth of the room, at least one request.
    pub(crate) const fn part(self) -> u16 {
        self.part
    }

    /// Takes over the capacity that a sale shows, in requests a second.
    pub(crate) fn sale(&mut self, share: Share, capacity: f64, now: Timestamp) {
        let room = room_of(share, capacity);
        let is_held = self.taken_over.is_some_and(|at| {
            let apart = now.saturating_since(at).max(at.saturating_since(now));
            apart < CAPACITY_HELD
        });
        if !is_held {
            self.tick(share, capacity, now);
        } else if room < self.room {
            self.set(room);
        }
    }

    /// Takes over the capacity that a tick shows, in requests a second.
    pub(crate) fn tick(&mut self, share: Share, capacity: f64, now: Timestamp) {
        self.set(room_of(share, capacity));
        self.taken_over = Some(now);
    }

    /// Lets the next sale take over any capacity.
    pub(crate) const fn release(&mut self) {
        self.taken_over = None;
    }

    fn set(&mut self, room: u16) {
        self.room = room;
        self.part = tenant_part_of(room);
    }
}

/// A tenant's part of a room: a twentieth, at least one request.
pub(crate) fn tenant_part_of(room: u16) -> u16 {
    (room / TENANT_PARTS).max(QUARTERS)
}

/// The room that a share of a capacity gives. A capacity that is no number gives the least.
#[expect(clippy::cast_sign_loss, reason = "a room is at least 4")]
fn room_of(share: Share, capacity: f64) -> u16 {
    // A tenth of 30 is 3, and not a little less.
    let quarters = (share.as_ratio() * capacity * f64::from(QUARTERS) + 1e-6).floor();
    // `max` before `min`: the maximum of an undefined number and another one is the other one.
    quarters.max(f64::from(QUARTERS)).min(f64::from(SLOT_TICKETS_MAX * QUARTERS)) as u16
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    #[test]
    fn the_room_is_the_share_of_the_capacity_and_at_least_one_request_and_at_most_a_thousand() {
        let fifth = Share::percent(20);
        for (capacity, quarters) in [(1_000.0, 800), (7.0, 5), (15.0, 12), (0.0, 4), (-5.0, 4), (1e12, 4_000)]
        {
            assert_eq!(room_of(fifth, capacity), quarters, "{capacity}");
        }
        assert_eq!(room_of(fifth, f64::NAN), 4);
        assert_eq!(room_of(fifth, f64::INFINITY), 4_000);
        assert_eq!(room_of(Share::NONE, f64::INFINITY), 4, "nothing of the infinite is no number");
    }

    #[test]
    fn the_part_of_a_tenant_is_a_twentieth_and_at_least_one_request() {
        let mut room = SlotRoom::new();
        for (capacity, part) in [(1_000.0, 200), (400.0, 80), (30.0, 6), (19.0, 4), (1.0, 4)] {
            room.tick(Share::WHOLE, capacity, NOW);
            assert_eq!(room.part(), part, "{capacity}");
        }
    }

    #[test]
    fn a_lower_capacity_counts_at_once_and_a_higher_one_after_a_tick_or_100_ms() {
        let at = |millis| NOW.saturating_add(Duration::from_millis(millis));
        let mut room = SlotRoom::new();
        room.sale(Share::WHOLE, 100.0, at(0));
        assert_eq!(room.all(), 400);
        room.sale(Share::WHOLE, 50.0, at(10));
        assert_eq!(room.all(), 200);
        room.sale(Share::WHOLE, 100.0, at(99));
        assert_eq!(room.all(), 200);
        room.sale(Share::WHOLE, 100.0, at(100));
        assert_eq!(room.all(), 400);
        room.sale(Share::WHOLE, 200.0, at(101));
        assert_eq!(room.all(), 400);
        room.tick(Share::WHOLE, 200.0, at(102));
        assert_eq!(room.all(), 800);
        room.sale(Share::WHOLE, 400.0, NOW.saturating_sub(Duration::from_hours(1)));
        assert_eq!(room.all(), 1_600, "the clock was set back");
    }
}
