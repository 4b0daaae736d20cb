//! The queue of planned events, ordered by instant; at one instant in the order in which they
//! were planned.
//!
//! Most of it happens soon, so the near future is a wheel of slots: an event is put in its slot
//! without being compared with any other, and a slot is sorted when its time comes. That is R.
//! Brown's calendar queue (1988) with slots of a fixed width; what happens after the wheel's last
//! slot waits in an ordered map.

use std::collections::{BTreeMap, VecDeque};

/// How many slots the wheel has.
const SLOTS: usize = 256;

/// Events in the order in which they happen.
#[derive(Debug)]
pub struct EventQueue<E> {
    /// Events before `near_until`, in order.
    near: VecDeque<Planned<E>>,
    /// The beginning of a slot.
    near_until: u64,
    /// Events within so many slots from then on.
    wheel: Box<[Vec<Planned<E>>]>,
    /// How long a slot lasts.
    width: u64,
    /// How many events the wheel holds.
    in_wheel: usize,
    /// Later events.
    far: BTreeMap<(u64, u64), E>,
    planned: u64,
}

#[derive(Debug)]
struct Planned<E> {
    at: u64,
    order: u64,
    event: E,
}

impl<E> EventQueue<E> {
    /// No events yet. The queue is fastest where a slot, which lasts `width` nanoseconds, has some
    /// tens of them.
    pub fn new(width: u64) -> Self {
        Self {
            near: VecDeque::new(),
            near_until: 0,
            wheel: (0..SLOTS).map(|_| Vec::new()).collect(),
            width: width.max(1),
            in_wheel: 0,
            far: BTreeMap::new(),
            planned: 0,
        }
    }

    /// Plans an event at an instant, which is not before the last one that has happened.
    pub fn plan(&mut self, at: u64, event: E) {
        self.planned += 1;
        let order = self.planned;
        if at < self.near_until {
            // It was planned last of those at its instant.
            let place = self.near.partition_point(|other| other.at <= at);
            self.near.insert(place, Planned { at, order, event });
        } else if at < self.far_from() {
            self.put(Planned { at, order, event });
        } else {
            self.far.insert((at, order), event);
        }
    }

    /// When the next event happens.
    pub fn next_at(&mut self) -> Option<u64> {
        self.come_near();
        self.near.front().map(|next| next.at)
    }

    /// Takes the next event, with its instant.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        self.come_near();
        self.near.pop_front().map(|next| (next.at, next.event))
    }

    /// Where the wheel ends.
    fn far_from(&self) -> u64 {
        self.near_until.saturating_add(self.width * SLOTS as u64)
    }

    fn slot(&self, at: u64) -> usize {
        (at / self.width) as usize % SLOTS
    }

    fn put(&mut self, planned: Planned<E>) {
        self.wheel[self.slot(planned.at)].push(planned);
        self.in_wheel += 1;
    }

    /// Opens slots until there is something near, or nothing planned.
    fn come_near(&mut self) {
        while self.near.is_empty() {
            if self.in_wheel == 0 {
                let Some(((at, _), _)) = self.far.first_key_value() else { return };
                self.near_until = at - at % self.width;
            } else {
                let place = self.slot(self.near_until);
                let mut slot = core::mem::take(&mut self.wheel[place]);
                self.in_wheel -= slot.len();
                slot.sort_unstable_by_key(|planned| (planned.at, planned.order));
                self.near.extend(slot.drain(..));
                // It keeps its room.
                self.wheel[place] = slot;
                self.near_until += self.width;
            }
            let far_from = self.far_from();
            while let Some(next) = self.far.first_entry().filter(|next| next.key().0 < far_from) {
                let ((at, order), event) = next.remove_entry();
                self.put(Planned { at, order, event });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Chance;

    #[test]
    fn events_happen_by_time_and_at_one_instant_as_they_were_planned() {
        for width in [1, 2, 7, 1000] {
            let mut queue = EventQueue::new(width);
            for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b'), (5000, 'g'), (5, 'e'), (300, 'f')] {
                queue.plan(at, name);
            }
            let order: String = std::iter::from_fn(|| queue.pop().map(|(_, name)| name)).collect();
            assert_eq!(order, "abcdefg", "slots of {width}");
        }
    }

    #[test]
    fn what_is_planned_while_others_happen_has_its_place_among_them() {
        let mut chance = Chance::new(1, 1);
        for width in [1, 10, 100] {
            let mut queue = EventQueue::new(width);
            let (mut now, mut happened, mut planned) = (0, 0, 0_u64);
            while planned < 20_000 || happened < planned {
                if planned < 20_000 {
                    // Soon, at this very instant, or after the wheel.
                    let ahead = [chance.below(3), chance.below(200), chance.below(100_000)];
                    queue.plan(now + ahead[planned as usize % 3], planned);
                    planned += 1;
                    if planned % 2 == 0 {
                        continue;
                    }
                }
                let next_at = queue.next_at();
                let (at, _) = queue.pop().unwrap();
                assert!(at >= now && next_at == Some(at), "{at} after {now}");
                (now, happened) = (at, happened + 1);
            }
            assert_eq!((queue.pop(), happened), (None, planned));
        }
    }

    #[test]
    fn an_event_planned_in_the_open_slot_takes_its_place_there() {
        let mut queue = EventQueue::new(10);
        for (at, name) in [(5, 'c'), (1, 'a'), (19, 'd')] {
            queue.plan(at, name);
        }
        assert_eq!((queue.next_at(), queue.near_until), (Some(1), 10));
        queue.plan(3, 'b');
        assert_eq!(queue.near.iter().map(|planned| planned.event).collect::<String>(), "abc");
    }
}
