//! The largest of many items, without sorting the others.

use core::cmp::Ordering;

/// The largest items that were added, at most `max`, in the order that `order` gives them.
#[derive(Debug)]
pub(crate) struct LargestItems<T, O> {
    max: usize,
    order: O,
    /// The largest first.
    kept: Vec<T>,
}

impl<T, O: Fn(&T, &T) -> Ordering> LargestItems<T, O> {
    pub(crate) const fn new(max: usize, order: O) -> Self {
        Self { max, order, kept: Vec::new() }
    }

    /// Most items are compared with the least kept one alone.
    pub(crate) fn add(&mut self, item: T) {
        let is_full = self.kept.len() >= self.max;
        let is_above = |least| (self.order)(&item, least).is_gt();
        if is_full && !self.kept.last().is_some_and(is_above) {
            return;
        }
        let at = self.kept.partition_point(|kept| (self.order)(kept, &item).is_ge());
        self.kept.insert(at, item);
        self.kept.truncate(self.max);
    }

    /// The items, the largest first.
    pub(crate) fn into_sorted(self) -> impl Iterator<Item = T> {
        self.kept.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_items_remain_in_order() {
        let largest = |max: usize, items: &[u32]| {
            let mut largest = LargestItems::new(max, u32::cmp);
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
