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
///
/// While a service that starts shows more capacity with each tick, seconds that are sold keep their
/// room: later tickets would go there before those that were sold earlier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotRoom {
    room: u16,
    part: u16,
    taken_over: Option<Timestamp>,
    /// The seconds before `sold_before` have at most this room.
    sold: u16,
    sold_before: u64,
}

impl SlotRoom {
    /// One request, until a capacity is known.
    pub(crate) const fn new() -> Self {
        Self { room: QUARTERS, part: QUARTERS, taken_over: None, sold: u16::MAX, sold_before: 0 }
    }

    /// The room of a slot: at least one request, at most 1 000.
    pub(crate) const fn all(self) -> u16 {
        self.room
    }

    /// The room of a second, which is less where [`SlotRoom::keep`] was told so.
    pub(crate) fn of(self, second: u64) -> u16 {
        if second < self.sold_before { self.room.min(self.sold) } else { self.room }
    }

    /// The first second that does not keep its room.
    pub(crate) const fn sold_before(self) -> u64 {
        self.sold_before
    }

    /// A tenant's part while others wait: a twentieth of the room, at least one request.
    pub(crate) const fn part(self) -> u16 {
        self.part
    }

    /// Takes over the capacity that a sale shows, in requests a second.
    pub(crate) fn sale(&mut self, share: Share, capacity: f64, now: Timestamp) {
        let room = room_of(share, capacity);
        let is_held = self.taken_over.is_some_and(|at| now.abs_diff(at) < CAPACITY_HELD);
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

    /// Lets the next sale take over any capacity, for all seconds.
    pub(crate) const fn release(&mut self) {
        (self.taken_over, self.sold, self.sold_before) = (None, u16::MAX, 0);
    }

    /// Lets the next sale take over any capacity, but a higher one only for seconds from this one
    /// on; 0: for all.
    pub(crate) fn keep(&mut self, sold_before: u64) {
        let sold = if sold_before > 0 { self.sold.min(self.room) } else { u16::MAX };
        (self.taken_over, self.sold, self.sold_before) = (None, sold, sold_before);
    }

    fn set(&mut self, room: u16) {
        self.room = room;
        self.sold = if self.sold_before > 0 { self.sold.min(room) } else { u16::MAX };
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

    #[test]
    fn sold_seconds_keep_their_room_when_the_capacity_rises_and_lose_it_when_it_falls_until_a_release() {
        let mut room = SlotRoom::new();
        room.tick(Share::WHOLE, 100.0, NOW);
        room.keep(7);
        room.tick(Share::WHOLE, 200.0, NOW);
        assert_eq!([6, 7].map(|second| room.of(second)), [400, 800]);
        room.keep(9);
        room.tick(Share::WHOLE, 250.0, NOW);
        assert_eq!([6, 8, 9].map(|second| room.of(second)), [400, 400, 1_000]);
        room.sale(Share::WHOLE, 50.0, NOW);
        room.tick(Share::WHOLE, 250.0, NOW);
        assert_eq!([6, 9].map(|second| room.of(second)), [200, 1_000]);
        room.release();
        assert_eq!(room.of(6), 1_000);
    }
}
