//! The loop over seeds, and what it keeps.

use std::collections::BTreeMap;

/// Seeds in order: every one, or every so manyth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    first: u64,
    step: u64,
    count: u64,
}

impl Seeds {
    /// So many seeds from `first` on. After the largest comes 0.
    pub const fn new(first: u64, count: u64) -> Self {
        Self { first, step: 1, count }
    }

    /// Of every `parts` seeds the one at `part`, which is below `parts`: so several tests share the
    /// work.
    #[must_use]
    pub const fn part(self, part: u64, parts: u64) -> Self {
        let count = (self.count.saturating_sub(part)).div_ceil(parts);
        Self { first: self.first.wrapping_add(part * self.step), step: self.step * parts, count }
    }

    /// How many seeds there are.
    pub const fn count(self) -> u64 {
        self.count
    }

    /// The seed at a place, from 0.
    pub const fn at(self, place: u64) -> u64 {
        self.first.wrapping_add(place.wrapping_mul(self.step))
    }

    /// The seeds.
    pub fn iter(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |place| self.at(place))
    }

    /// Runs `simulate` with each seed and keeps what it returns for seeds that failed, at most
    /// `kept_max`.
    pub fn run<V>(self, kept_max: usize, mut simulate: impl FnMut(u64) -> Option<V>) -> FailedSeeds<V> {
        let mut failed = FailedSeeds::new(kept_max);
        for seed in self.iter() {
            if let Some(found) = simulate(seed) {
                failed.add(seed, found);
            }
        }
        failed
    }

    /// The first seed for which `shows` is true.
    pub fn find(self, mut shows: impl FnMut(u64) -> bool) -> Option<u64> {
        self.iter().find(|seed| shows(*seed))
    }
}

/// The seeds that failed, with what was found; the lowest seeds are kept, and all are counted.
#[derive(Clone, Debug)]
pub struct FailedSeeds<V> {
    kept: BTreeMap<u64, V>,
    kept_max: usize,
    total: u64,
}

impl<V> FailedSeeds<V> {
    /// No seed has failed yet. At most `kept_max` will be kept.
    pub const fn new(kept_max: usize) -> Self {
        Self { kept: BTreeMap::new(), kept_max, total: 0 }
    }

    /// A seed has failed. Threads may report seeds in any order.
    pub fn add(&mut self, seed: u64, found: V) {
        self.total += 1;
        self.kept.insert(seed, found);
        if self.kept.len() > self.kept_max {
            self.kept.pop_last();
        }
    }

    /// How many seeds failed.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The findings of the seeds that were kept, in the order of the seeds.
    pub fn kept(&self) -> impl Iterator<Item = &V> {
        self.kept.values()
    }

    /// As [`FailedSeeds::kept`].
    pub fn into_kept(self) -> Vec<V> {
        self.kept.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_seeds_are_all_of_them_once() {
        for count in 0..20 {
            let all = Seeds::new(7, count);
            let mut seeds: Vec<u64> = (0..4).flat_map(|part| all.part(part, 4).iter()).collect();
            seeds.sort_unstable();
            assert!(seeds.iter().copied().eq(all.iter()), "{count}: {seeds:?}");
        }
        assert_eq!(Seeds::new(u64::MAX, 2).iter().collect::<Vec<_>>(), [u64::MAX, 0]);
    }

    #[test]
    fn the_lowest_failed_seeds_are_kept_in_whatever_order_they_come() {
        let mut failed = FailedSeeds::new(3);
        for seed in [9, 4, 8, 1, 7] {
            failed.add(seed, seed * 10);
        }
        assert_eq!((failed.total(), failed.into_kept()), (5, vec![10, 40, 70]));
        let odd = |seed| (seed % 2 == 1).then_some(seed);
        assert_eq!(Seeds::new(0, 10).run(2, odd).into_kept(), [1, 3]);
        assert_eq!(Seeds::new(0, 10).find(|seed| seed > 6), Some(7));
    }
}
