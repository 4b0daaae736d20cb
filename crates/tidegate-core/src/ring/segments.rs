//! An array that grows while others read it: its elements never move and are never freed before the
//! array.
//!
//! Elements live in segments that are created when first needed, so that unused room costs no
//! memory but an empty directory entry. A segment is never freed: a late reader finds an element of
//! the same type, never freed memory. [`Places`] says which elements are in use, and a [`Handle`]
//! names one use of one element.

use core::num::{NonZeroU32, NonZeroU64};
use std::sync::OnceLock;

/// Room for a number of elements, created `1 << BITS` at a time; the last segment may be shorter.
#[derive(Debug)]
pub(crate) struct Segments<T, const BITS: u32> {
    directory: Box<[OnceLock<Box<[T]>>]>,
    len_max: usize,
}

impl<T, const BITS: u32> Segments<T, BITS> {
    /// An empty array with room for `len_max` elements.
    pub(crate) fn new(len_max: usize) -> Self {
        let segments = len_max.div_ceil(1 << BITS);
        Self { directory: (0..segments).map(|_| OnceLock::new()).collect(), len_max }
    }

    /// The element at `index`, if its segment was created.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let segment = self.directory.get((index >> BITS) as usize)?.get()?;
        segment.get((index & ((1 << BITS) - 1)) as usize)
    }

    /// How many elements may be created from element `start` on: what is left of the segment that
    /// begins there, at most `affordable`. None once a segment was created shorter than it could
    /// be.
    pub(crate) fn room(&self, start: usize, affordable: usize) -> usize {
        let is_segment = start & ((1 << BITS) - 1) == 0;
        let left = if is_segment { self.len_max.saturating_sub(start) } else { 0 };
        left.min(1 << BITS).min(affordable)
    }

    /// Creates `len` elements made by `fill` from element `start` on, as [`Segments::room`] allows.
    pub(crate) fn create(&self, start: usize, len: usize, fill: impl Fn() -> T) {
        debug_assert!(len <= self.room(start, len));
        if let Some(segment) = self.directory.get(start >> BITS).filter(|_| len > 0) {
            segment.get_or_init(|| (0..len).map(|_| fill()).collect());
        }
    }
}

/// Which elements of [`Segments`] are in use.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Elements that exist.
    created: usize,
    /// Elements handed out at least once; those below are in use, in `returned`, or retired.
    handed_out: u32,
    returned: Vec<u32>,
}

impl Places {
    /// Elements that exist.
    pub(crate) fn created(&self) -> usize {
        self.created
    }

    /// Elements in use, or retired.
    pub(crate) fn in_use(&self) -> usize {
        self.handed_out as usize - self.returned.len()
    }

    /// Hands out an unused element. Without one, `create` makes more from the given index on and
    /// returns how many it made.
    pub(crate) fn take(&mut self, create: impl FnOnce(usize) -> usize) -> Option<u32> {
        if let Some(index) = self.returned.pop() {
            return Some(index);
        }
        if self.handed_out as usize == self.created {
            self.created += create(self.created);
        }
        if self.handed_out as usize == self.created {
            return None;
        }
        self.handed_out += 1;
        Some(self.handed_out - 1)
    }

    /// Takes back what `handle` named; its element must be on the [next
    /// generation](Handle::next_generation). An element whose generations are used up is retired,
    /// so that no old handle ever fits again.
    pub(crate) fn give_back(&mut self, handle: Handle) {
        if handle.next_generation() != 0 {
            self.returned.push(handle.index);
        }
    }
}

/// Names one use of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle {
    index: u32,
    generation: NonZeroU32,
}

impl Handle {
    /// The use of the element at `index` that `generation` counts; `None` for generation 0, which
    /// is no use.
    pub(crate) fn new(index: u32, generation: u32) -> Option<Self> {
        Some(Self { index, generation: NonZeroU32::new(generation)? })
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// The generation of the element while this handle is current; never 0.
    #[inline]
    pub(crate) fn generation(self) -> u32 {
        self.generation.get()
    }

    /// The generation of the element after this use; 0 after the last.
    pub(crate) fn next_generation(self) -> u32 {
        self.generation.get().wrapping_add(1)
    }

    pub(crate) const fn to_bits(self) -> NonZeroU64 {
        // The lower half is not zero, so neither is the whole.
        NonZeroU64::MIN.saturating_add(((self.index as u64) << 32 | self.generation.get() as u64) - 1)
    }

    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU32::new(bits as u32) {
            Some(generation) => Some(Self { index: (bits >> 32) as u32, generation }),
            None => None,
        }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_its_bits() {
        for (index, generation) in [(0, 1), (u32::MAX, u32::MAX), (7, 9), (u32::MAX, 1), (0, u32::MAX)] {
            let handle = Handle::new(index, generation).unwrap();
            assert_eq!(Handle::from_bits(handle.to_bits().get()), Some(handle));
        }
        assert_eq!(Handle::from_bits(5 << 32), None);
    }

    #[test]
    fn elements_are_created_a_segment_at_a_time_and_only_as_far_as_there_is_room() {
        let segments = Segments::<u8, 2>::new(6);
        let mut places = Places::default();
        let create = |start| {
            let len = segments.room(start, 100);
            segments.create(start, len, || 1);
            len
        };
        assert!(segments.get(0).is_none());
        for index in 0..6 {
            assert_eq!(places.take(create), Some(index));
            assert_eq!(places.created(), if index < 4 { 4 } else { 6 });
            assert!(segments.get(index).is_some());
        }
        assert_eq!(places.take(create), None);
        assert!(segments.get(6).is_none());
    }

    #[test]
    fn a_segment_cut_short_is_the_last() {
        let segments = Segments::<u8, 2>::new(100);
        segments.create(0, segments.room(0, 3), || 1);
        assert_eq!(segments.room(3, 100), 0);
        assert!(segments.get(3).is_none());
    }

    #[test]
    fn an_element_is_used_again_until_its_generations_are_used_up() {
        let mut places = Places::default();
        assert_eq!(places.take(|_| 1), Some(0));
        places.give_back(Handle::new(0, 1).unwrap());
        assert_eq!(places.take(|_| 0), Some(0));
        places.give_back(Handle::new(0, u32::MAX).unwrap());
        assert_eq!(places.take(|_| 0), None);
        assert_eq!(places.in_use(), 1);
    }
}
