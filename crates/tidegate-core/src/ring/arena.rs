//! Which ranges of the slab of instants are free: best fit, neighbours joined.
//!
//! Only free ranges are recorded; who holds a range knows it. There is never more than one free
//! range for each held one, plus one, because neighbouring free ranges are joined; [`crate::ring`]
//! counts what they cost here with each ring. Allocating and freeing take O(log n) in the number of
//! free ranges.

use std::collections::{BTreeMap, BTreeSet};

/// Slots `start..start + len` of the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) start: u32,
    pub(super) len: u32,
}

/// Lengths are multiples of this many slots, so that nothing is left over that is too small to be
/// of use.
pub(super) const GRANULE: u32 = 4;

/// The free ranges of a slab that grows at its end.
#[derive(Debug, Default)]
pub(super) struct Arena {
    len_by_start: BTreeMap<u32, u32>,
    /// `(len, start)`: the first entry at or after `(len, 0)` is the best fit.
    by_len: BTreeSet<(u32, u32)>,
    /// Slots the slab has.
    len: u32,
    free: u32,
}

impl Arena {
    /// Slots that are free.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Slots the slab has, free or held.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Takes the smallest free range of at least `len` slots, cut to `len`; the lowest one of
    /// several.
    pub(super) fn allocate(&mut self, len: u32) -> Option<SlotRange> {
        let &(found, start) = self.by_len.range((len, 0)..).next()?;
        self.remove(start, found);
        if found > len {
            self.insert(start + len, found - len);
        }
        self.free -= len;
        Some(SlotRange { start, len })
    }

    /// Gives back a range that [`Arena::allocate`] handed out.
    pub(super) fn release(&mut self, range: SlotRange) {
        if range.len == 0 {
            return;
        }
        self.free += range.len;
        let SlotRange { mut start, mut len } = range;
        if let Some((&before, &before_len)) = self.len_by_start.range(..start).next_back() {
            debug_assert!(before + before_len <= start, "a range is given back twice");
            if before + before_len == start {
                self.remove(before, before_len);
                start = before;
                len += before_len;
            }
        }
        if let Some(&after_len) = self.len_by_start.get(&(range.start + range.len)) {
            self.remove(range.start + range.len, after_len);
            len += after_len;
        }
        self.insert(start, len);
    }

    /// The slab has grown by `len` slots.
    pub(super) fn extend(&mut self, len: u32) {
        let start = self.len;
        self.len += len;
        self.release(SlotRange { start, len });
    }

    fn insert(&mut self, start: u32, len: u32) {
        self.len_by_start.insert(start, len);
        self.by_len.insert((len, start));
    }

    fn remove(&mut self, start: u32, len: u32) {
        self.len_by_start.remove(&start);
        self.by_len.remove(&(len, start));
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_given_back_can_be_taken_again_in_one_piece() {
        let mut arena = Arena::default();
        arena.extend(64);
        let parts: Vec<SlotRange> = (0..4).map(|_| arena.allocate(16).unwrap()).collect();
        assert_eq!(arena.allocate(4), None);
        for index in [1, 3, 0, 2] {
            arena.release(parts[index]);
        }
        assert_eq!(arena.allocate(64), Some(SlotRange { start: 0, len: 64 }));
    }

    #[test]
    fn the_smallest_range_that_fits_is_taken() {
        let mut arena = Arena::default();
        arena.extend(100);
        let [small, _wall, large, _end] = [8, 4, 40, 4].map(|len| arena.allocate(len).unwrap());
        arena.release(large);
        arena.release(small);
        assert_eq!(arena.allocate(8), Some(small));
    }

    #[test]
    fn growing_joins_the_free_end() {
        let mut arena = Arena::default();
        arena.extend(8);
        arena.extend(8);
        assert_eq!(arena.allocate(16), Some(SlotRange { start: 0, len: 16 }));
    }

    proptest! {
        #[test]
        fn ranges_never_overlap_and_nothing_is_lost(steps in prop::collection::vec((0_u32..40, any::<prop::sample::Index>()), 1..200)) {
            let mut arena = Arena::default();
            let mut held: Vec<SlotRange> = Vec::new();
            for (len, which) in steps {
                if len == 0 {
                    arena.extend(GRANULE * 8);
                } else if len < 20 || held.is_empty() {
                    if let Some(range) = arena.allocate(len) {
                        held.push(range);
                    }
                } else {
                    let range = held.swap_remove(which.index(held.len()));
                    arena.release(range);
                }
                let mut owner = vec![false; arena.len() as usize];
                let free = arena.len_by_start.iter().map(|(&start, &len)| SlotRange { start, len });
                for range in held.iter().copied().chain(free) {
                    for slot in &mut owner[range.start as usize..(range.start + range.len) as usize] {
                        prop_assert!(!*slot);
                        *slot = true;
                    }
                }
                prop_assert!(owner.iter().all(|&owned| owned));
                prop_assert!(arena.len_by_start.len() <= held.len() + 1);
                prop_assert_eq!(arena.by_len.len(), arena.len_by_start.len());
                prop_assert_eq!(arena.free(), arena.len_by_start.values().sum::<u32>());
            }
        }
    }
}
