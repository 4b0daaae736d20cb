//! The map from positions to the values that are kept of the requests that wait there.
//!
//! A value takes the memory of its slot and 13 bytes of an index at up to 7/8 of its load. A tree
//! would fill its nodes by half, since positions come in ascending order. The memory is given back
//! when nothing waits any more.

use core::fmt;
use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use crate::queue::waiting_room::Position;

/// The slots that are allocated at once, so that no growth moves all that wait.
const PAGE: usize = 64;

/// An index of this many positions, and a page of slots, stay when nothing waits.
const KEPT: usize = 1024;

/// The end of the list of free slots.
const NONE: u32 = u32::MAX;

/// Values by position. Each function takes O(1) on average.
#[derive(Clone)]
pub(crate) struct PositionMap<T> {
    slots: HashMap<Position, u32, BuildHasherDefault<ArrivalHasher>>,
    pages: Vec<Vec<Slot<T>>>,
    /// The first slot of the list of free ones.
    free: u32,
}

#[derive(Clone)]
enum Slot<T> {
    Taken(T),
    /// The next free slot.
    Free(u32),
}

impl<T> Default for PositionMap<T> {
    fn default() -> Self {
        Self { slots: HashMap::default(), pages: Vec::new(), free: NONE }
    }
}

impl<T> PositionMap<T> {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn contains(&self, position: Position) -> bool {
        self.slots.contains_key(&position)
    }

    /// Adds the value of a position that has none.
    pub(crate) fn insert(&mut self, position: Position, value: T) {
        let number = self.free;
        let taken = if number == NONE {
            self.push(value)
        } else {
            let slot = &mut self.pages[number as usize / PAGE][number as usize % PAGE];
            if let Slot::Free(next) = core::mem::replace(slot, Slot::Taken(value)) {
                self.free = next;
            }
            number
        };
        let before = self.slots.insert(position, taken);
        debug_assert!(before.is_none(), "{position:?} is used again");
    }

    /// Adds a slot. A number of slots that does not fit 32 bits is beyond any memory.
    fn push(&mut self, value: T) -> u32 {
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            let slots = if self.pages.is_empty() { 0 } else { PAGE };
            self.pages.push(Vec::with_capacity(slots));
        }
        let before = (self.pages.len() - 1) * PAGE;
        let page = self.pages.last_mut().expect("a page was added if there was none");
        page.push(Slot::Taken(value));
        (before + page.len() - 1) as u32
    }

    pub(crate) fn get(&self, position: Position) -> Option<&T> {
        let number = *self.slots.get(&position)? as usize;
        match &self.pages[number / PAGE][number % PAGE] {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, position: Position) -> Option<&mut T> {
        let number = *self.slots.get(&position)? as usize;
        match &mut self.pages[number / PAGE][number % PAGE] {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(crate) fn remove(&mut self, position: Position) -> Option<T> {
        let number = self.slots.remove(&position)?;
        let slot = &mut self.pages[number as usize / PAGE][number as usize % PAGE];
        let removed = core::mem::replace(slot, Slot::Free(self.free));
        self.free = number;
        if self.slots.is_empty() {
            self.give_memory_back();
        }
        match removed {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    /// Nothing waits any more.
    fn give_memory_back(&mut self) {
        if self.slots.capacity() > KEPT {
            self.slots = HashMap::default();
        }
        if self.pages.len() > 1 {
            self.pages = Vec::new();
        } else if let Some(page) = self.pages.first_mut() {
            page.clear();
        }
        self.free = NONE;
    }

    /// The values with their positions, in order of arrival. Takes O(n log n).
    pub(crate) fn sorted(&self) -> Vec<(Position, &T)> {
        let positions = self.slots.keys().copied();
        let mut all: Vec<_> = positions.filter_map(|one| Some((one, self.get(one)?))).collect();
        all.sort_unstable_by_key(|(position, _)| *position);
        all
    }
}

impl<T: fmt::Debug> fmt::Debug for PositionMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.sorted()).finish()
    }
}

/// A hash of arrivals: they are counted from 0, and no stranger chooses them.
#[derive(Clone, Copy, Debug, Default)]
struct ArrivalHasher(u64);

impl Hasher for ArrivalHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_map_does_what_a_tree_does(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..400)) {
            let mut map = PositionMap::default();
            let mut tree = BTreeMap::new();
            for (number, (is_entrance, index)) in (0_u64..).zip(steps) {
                if is_entrance || tree.is_empty() {
                    map.insert(Position::new(number), number);
                    tree.insert(Position::new(number), number);
                } else {
                    let position = *tree.keys().nth(index.index(tree.len())).unwrap();
                    *map.get_mut(position).unwrap() += 1;
                    prop_assert_eq!(map.remove(position), tree.remove(&position).map(|value| value + 1));
                    prop_assert_eq!((map.remove(position), map.contains(position)), (None, false));
                }
                prop_assert_eq!((map.len(), map.is_empty()), (tree.len(), tree.is_empty()));
                prop_assert_eq!(map.sorted(), tree.iter().map(|(position, value)| (*position, value)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn slots_are_used_again_and_memory_is_given_back_when_nothing_waits() {
        let mut map = PositionMap::default();
        let positions = |from: u64| (from..from + 10 * KEPT as u64).map(Position::new);
        for position in positions(0) {
            map.insert(position, ());
        }
        let pages = map.pages.len();
        for position in positions(0).skip(1) {
            assert!(map.remove(position).is_some());
        }
        for position in positions(1 << 40).skip(1) {
            map.insert(position, ());
        }
        assert_eq!(map.pages.len(), pages, "no slot is lost");
        let all: Vec<_> = map.sorted().into_iter().map(|(position, ())| position).collect();
        for position in all {
            assert!(map.remove(position).is_some());
        }
        assert_eq!((map.pages.len(), map.slots.capacity()), (0, 0));
    }
}
