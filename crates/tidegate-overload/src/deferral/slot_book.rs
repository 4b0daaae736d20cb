//! The booked slots of a calendar, in order.

use std::collections::VecDeque;

use super::booked_slot::BookedSlot;

/// The slots for which tickets were sold, by their second, the earliest first.
///
/// Slots are mostly appended. So they stay in one ring that wastes no memory between them, and a
/// slot is mostly found where it would be if no second were missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotBook(VecDeque<BookedSlot>);

impl SlotBook {
    /// The slots, the earliest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &BookedSlot> + ExactSizeIterator {
        self.0.iter()
    }

    /// The slots from a second on.
    pub(crate) fn starting_at(&self, second: u64) -> impl Iterator<Item = &BookedSlot> {
        let (Ok(place) | Err(place)) = self.place(second);
        self.0.range(place..)
    }

    /// The number of slots.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The earliest slot.
    pub(crate) fn first(&self) -> Option<&BookedSlot> {
        self.0.front()
    }

    /// The latest slot.
    pub(crate) fn last(&self) -> Option<&BookedSlot> {
        self.0.back()
    }

    /// The slot of a second.
    pub(crate) fn get(&self, second: u64) -> Option<&BookedSlot> {
        self.place(second).ok().map(|place| &self.0[place])
    }

    /// The slot of a second, to change it.
    pub(crate) fn get_mut(&mut self, second: u64) -> Option<&mut BookedSlot> {
        self.place(second).ok().map(|place| &mut self.0[place])
    }

    /// The slot of a second, which is added if it is missing.
    pub(crate) fn get_or_add(&mut self, second: u64) -> &mut BookedSlot {
        let place = self.place(second).unwrap_or_else(|place| {
            self.0.insert(place, BookedSlot::new(second));
            place
        });
        &mut self.0[place]
    }

    /// Removes the earliest slot.
    pub(crate) fn pop_first(&mut self) -> Option<BookedSlot> {
        let first = self.0.pop_front();
        if self.0.is_empty() {
            self.0.shrink_to_fit();
        }
        first
    }

    /// Removes the latest slot.
    pub(crate) fn pop_last(&mut self) -> Option<BookedSlot> {
        self.0.pop_back()
    }

    /// The bytes of the ring, without the bits of the slots.
    pub(crate) fn ring_bytes(&self) -> usize {
        self.0.capacity() * size_of::<BookedSlot>()
    }

    /// The place of a second, or where it would have to be added.
    fn place(&self, second: u64) -> Result<usize, usize> {
        let Some(first) = self.0.front() else { return Err(0) };
        if let Some(guess) = second.checked_sub(first.second()).and_then(|ahead| usize::try_from(ahead).ok())
        {
            match self.0.get(guess) {
                Some(slot) if slot.second() == second => return Ok(guess),
                None if self.0.back().is_some_and(|last| last.second() < second) => return Err(self.0.len()),
                _ => {}
            }
        }
        self.0.binary_search_by_key(&second, BookedSlot::second)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use std::collections::BTreeSet;

    use tidegate_test_support::SplitMix64;

    use super::*;

    #[test]
    fn slots_are_found_in_any_order_of_addition_and_removal() {
        let mut random = SplitMix64::new(5);
        let (mut book, mut model) = (SlotBook::default(), BTreeSet::new());
        for _ in 0..20_000 {
            let second = 1_000 + random.below(60);
            match random.below(8) {
                0 => assert_eq!(book.pop_first().map(|slot| slot.second()), model.pop_first()),
                1 => assert_eq!(book.pop_last().map(|slot| slot.second()), model.pop_last()),
                2..5 => {
                    assert_eq!(book.get_or_add(second).second(), second);
                    model.insert(second);
                }
                _ => assert_eq!(book.get(second).is_some(), model.contains(&second)),
            }
            assert!(book.iter().map(BookedSlot::second).eq(model.iter().copied()));
            assert!(book.starting_at(second).map(BookedSlot::second).eq(model.range(second..).copied()));
        }
    }
}
