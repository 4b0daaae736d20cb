//! The way from a position to the slot of the partition that owns it, without a lock.
//!
//! Readers search a sorted list of atomics that one writer at a time may be changing. They can be
//! led to the wrong slot, never out of bounds: the reader locks the partition there and asks it
//! whether it owns the position, see [`crate::layout::Layout::owner`].

use std::sync::OnceLock;

use crate::layout::key_range::partition_of;
use crate::layout::position::{PartitionBy, Position};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Lists of 1, 2, 4 up to 65 536 entries.
const LISTS: usize = 17;

/// Positions and slots in the order of the positions.
#[derive(Debug)]
pub(crate) struct Routes {
    by: PartitionBy,
    lists: [OnceLock<Box<[Route]>>; LISTS],
    /// The list in use. Stored with Release and loaded with Acquire, since the list may have been
    /// made just before.
    list: AtomicU32,
    /// The entries in use. Relaxed: bounded by the list, and a partition that does not own the
    /// position is not used.
    length: AtomicU32,
}

#[derive(Debug)]
struct Route {
    // Relaxed: a position in the middle of a change leads to another partition, which is asked.
    first: [AtomicU64; 4],
    /// Stored with Release and loaded with Acquire, since the slot may have been made just before.
    slot: AtomicU32,
}

impl Route {
    fn unused() -> Self {
        Self { first: [(); 4].map(|()| AtomicU64::new(u64::MAX)), slot: AtomicU32::new(0) }
    }

    fn first(&self) -> Position {
        let [a, b, c, d] = &self.first;
        Position::from_words([a, b, c, d].map(|word| word.load(Ordering::Relaxed)))
    }

    /// Whether the partition begins at `position` or before. Later words are read only if needed.
    #[inline]
    fn begins_by(&self, position: Position) -> bool {
        let first = self.first[0].load(Ordering::Relaxed);
        if first == position.first_word() { self.first() <= position } else { first < position.first_word() }
    }

    fn set(&self, first: Position, slot: u32) {
        for (word, value) in self.first.iter().zip(first.words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.slot.store(slot, Ordering::Release);
    }
}

impl Routes {
    pub(crate) fn new(by: PartitionBy, order: &[(Position, u32)]) -> Self {
        let routes = Self {
            by,
            lists: [const { OnceLock::new() }; LISTS],
            list: AtomicU32::new(0),
            length: AtomicU32::new(0),
        };
        routes.set(order);
        routes
    }

    /// Leads to the slots of `order` from now on. One caller at a time.
    pub(crate) fn set(&self, order: &[(Position, u32)]) {
        let number = order.len().next_power_of_two().ilog2();
        let list = self.lists[number as usize]
            .get_or_init(|| (0..1_usize << number).map(|_| Route::unused()).collect());
        for (route, (first, slot)) in list.iter().zip(order) {
            route.set(*first, *slot);
        }
        // At most PARTITIONS_MAX.
        self.length.store(order.len() as u32, Ordering::Relaxed);
        self.list.store(number, Ordering::Release);
    }

    /// The slot that probably owns `position`.
    #[inline]
    pub(crate) fn find(&self, position: Position) -> u32 {
        let list = self.lists[self.list.load(Ordering::Acquire) as usize].get();
        let list = list.map_or(&[][..], |list| list);
        let length = (self.length.load(Ordering::Relaxed) as usize).min(list.len());
        let used = &list[..length];
        if self.by == PartitionBy::Hash {
            // Right at once as long as nothing was split.
            let guess = partition_of(position.first_word(), length as u32) as usize;
            if let Some(route) = used.get(guess)
                && route.begins_by(position)
                && used.get(guess + 1).is_none_or(|next| !next.begins_by(position))
            {
                return route.slot.load(Ordering::Acquire);
            }
        }
        let behind = used.partition_point(|route| route.begins_by(position));
        used.get(behind.saturating_sub(1)).map_or(0, |route| route.slot.load(Ordering::Acquire))
    }
}
