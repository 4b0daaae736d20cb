//! The largest of many items, without sorting the others.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// The largest items that were added, at most `max`.
#[derive(Debug)]
pub(crate) struct Largest<T> {
    max: usize,
    /// Its first item is the least.
    kept: BinaryHeap<Reverse<T>>,
}

impl<T: Ord> Largest<T> {
    pub(crate) const fn new(max: usize) -> Self {
        Self { max, kept: BinaryHeap::new() }
    }

    pub(crate) fn add(&mut self, item: T) {
        if self.kept.len() < self.max {
            self.kept.push(Reverse(item));
        } else if let Some(mut least) = self.kept.peek_mut()
            && item > least.0
        {
            least.0 = item;
        }
    }

    /// The items, the largest first.
    pub(crate) fn into_sorted(self) -> impl Iterator<Item = T> {
        self.kept.into_sorted_vec().into_iter().map(|Reverse(item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_items_remain_in_order() {
        let largest = |max: usize, items: &[u32]| {
            let mut largest = Largest::new(max);
            for item in items {
                largest.add(*item);
            }
            largest.into_sorted().collect::<Vec<_>>()
        };
        assert_eq!(largest(3, &[5, 1, 9, 9, 2, 7]), [9, 9, 7]);
        assert_eq!(largest(3, &[4, 6]), [6, 4]);
        assert_eq!(largest(0, &[4, 6]), [0; 0]);
    }
}
