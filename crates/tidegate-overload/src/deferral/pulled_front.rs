//! Pulling the calendar forward while the load eases: tickets become due early, in order of slots.

use core::time::Duration;

use tidegate_core::Timestamp;

use super::slot_book::SlotBook;
use super::typical_cost::QUARTERS;
use crate::tick::TICK;

/// The longest time between two ticks for which the front gains.
const GAIN_MAX: Duration = Duration::from_secs(1);

/// The load of a resource as the tick of its calendar sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalendarLoad {
    /// The capacity of the resource, in requests a second.
    pub capacity: f64,
    /// The part of the capacity that is not in use, in requests a second.
    pub spare: f64,
    /// Whether the load level is below Hard, so that the calendar is pulled forward.
    pub is_below_hard: bool,
}

/// The last second whose tickets are due although they are early.
///
/// While the level is below Hard, the front gains spare capacity with each tick, and pays with it
/// for the unspent weight of the next booked slot, one slot after the other. Empty seconds cost
/// nothing. So as many bearers as there is room for come early, and never one of a later slot
/// before one of an earlier slot. Capacity that is gained and pays for nothing yet is kept: up to
/// the weight of the next slot, and up to a second's worth behind the last slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct PulledFront {
    front: Option<u64>,
    /// The capacity that is gained and not yet paid, in quarters of a request.
    credit: f64,
    /// The gain, in quarters of a request a second.
    spare: f64,
    /// The booked slots behind the front at the last tick, with the unspent weight up to each.
    ahead: Vec<AheadSlot>,
    ticked: Option<Timestamp>,
}

/// A booked slot behind the front, and the unspent weight of all slots from the front to the end of
/// this one, in quarters of a request.
#[derive(Clone, Copy, Debug)]
struct AheadSlot {
    second: u64,
    weight: u32,
}

impl PulledFront {
    /// Moves the front. `end` is the last second for sale.
    pub(crate) fn tick(&mut self, book: &SlotBook, load: CalendarLoad, end: u64, now: Timestamp) {
        let ticked = self.ticked.replace(now).unwrap_or(now);
        if !load.is_below_hard {
            *self = Self { ticked: Some(now), ..Self::default() };
            return;
        }
        if now < ticked {
            // The clock was set back. The front would be as far ahead as the clock was.
            (self.front, self.credit) = (None, 0.0);
        }
        let spare = load.spare * f64::from(QUARTERS);
        self.spare = if spare.is_finite() { spare.max(0.0) } else { 0.0 };
        self.credit += self.spare * now.saturating_since(ticked).min(GAIN_MAX).as_secs_f64();
        let mut front = self.front.map_or(now.as_secs(), |front| front.max(now.as_secs()));
        self.ahead.clear();
        let mut weight = 0;
        for slot in book.starting_at(front + 1) {
            let unspent = slot.unspent();
            if self.ahead.is_empty() && self.credit >= f64::from(unspent) {
                self.credit -= f64::from(unspent);
                front = slot.second();
                continue;
            }
            if self.ahead.is_empty() {
                front = front.max(end.min(slot.second() - 1));
            }
            weight += unspent;
            self.ahead.push(AheadSlot { second: slot.second(), weight });
            if self.spare <= 0.0 {
                break;
            }
        }
        if self.ahead.is_empty() {
            front = front.max(end);
            self.credit = self.credit.min(self.spare * GAIN_MAX.as_secs_f64());
        }
        self.front = Some(front);
    }

    /// Whether the tickets of a second are due early.
    pub(crate) fn is_past(&self, second: u64) -> bool {
        self.front.is_some_and(|front| second <= front)
    }

    /// The last second whose tickets are due early.
    pub(crate) const fn front(&self) -> Option<u64> {
        self.front
    }

    /// A ticket was sold for a second. Nothing was paid for the ticket, so the front falls back to
    /// before the second.
    pub(crate) fn sold(&mut self, second: u64) {
        self.front = self.front.map(|front| front.min(second.saturating_sub(1)));
    }

    /// When the front will have passed a second at the present rate, at the latest `not_before`.
    pub(crate) fn come_back(&self, second: u64, not_before: Timestamp, now: Timestamp) -> Timestamp {
        if self.front.is_none() || self.spare <= 0.0 {
            return not_before;
        }
        let behind = self.ahead.partition_point(|slot| slot.second <= second);
        let weight = behind.checked_sub(1).map_or(0, |last| self.ahead[last].weight);
        let seconds = (f64::from(weight) - self.credit).max(0.0) / self.spare;
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).max(TICK);
        not_before.min(now.saturating_add(wait))
    }

    /// The bytes of what is remembered of the slots behind the front.
    pub(crate) fn bytes(&self) -> usize {
        self.ahead.capacity() * size_of::<AheadSlot>()
    }
}
