//! The demand of each level as far as it counts for the admission cursor.
//!
//! One tenant that asks for a hundred times as much as each of the others is a matter for the
//! queue, which serves the tenants of a class in equal parts and sheds what is too much of that
//! one. The cursor could only shed levels: all those below the level of that tenant, whose own
//! tenants ask for no more than their part. The demand of a level therefore counts up to a multiple
//! of the median of its class.

use tidegate_core::Class;

use crate::cursor::{COHORTS, LEVELS};

/// The demand of a level counts up to this multiple of the median over the levels of its class that
/// have any. Tenants spread over the levels by chance: of a hundred, some level has five.
const MEDIANS_MAX: f32 = 8.0;

/// The demand of each class.
pub(crate) type ClassDemand = [f64; Class::ALL.len()];

/// The demand of each level, smoothed, and how much of it counts.
#[derive(Debug)]
pub(crate) struct FairDemand {
    /// The offered cost per tick, smoothed from 0 on.
    smoothed: Box<[f32; LEVELS]>,
    /// The most that counts of a level of each class, in the order of [`Class::ALL`].
    most: [f32; Class::ALL.len()],
}

impl FairDemand {
    /// No demand.
    pub(crate) fn new() -> Self {
        Self { smoothed: Box::new([0.0; LEVELS]), most: [f32::INFINITY; Class::ALL.len()] }
    }

    /// Takes in the cost that one tick offered at each level, with the weight `gain`. Returns the
    /// part of it that counts, by class.
    pub(crate) fn learn(&mut self, offered: &[u64; LEVELS], gain: f32) -> ClassDemand {
        for (smoothed, cost) in self.smoothed.iter_mut().zip(offered) {
            *smoothed += (*cost as f32 - *smoothed) * gain;
        }
        for (most, levels) in self.most.iter_mut().zip(self.smoothed.chunks(usize::from(COHORTS))) {
            *most = median(levels).map_or(f32::INFINITY, |median| MEDIANS_MAX * median);
        }
        let cohorts = usize::from(COHORTS);
        let counted = |level: usize| offered[level] as f64 * self.counted_part(level);
        core::array::from_fn(|class| (class * cohorts..(class + 1) * cohorts).map(counted).sum())
    }

    /// The demand of a level that counts.
    pub(crate) fn at(&self, level: usize) -> f64 {
        f64::from(self.smoothed[level].min(self.most[level / usize::from(COHORTS)]))
    }

    /// The part of the cost offered at a level that counts: 1.0 unless its demand is above the
    /// bound.
    fn counted_part(&self, level: usize) -> f64 {
        let most = self.most[level / usize::from(COHORTS)];
        if self.smoothed[level] > most { f64::from(most / self.smoothed[level]) } else { 1.0 }
    }
}

/// The median of those that are above 0; `None` if none is.
fn median(levels: &[f32]) -> Option<f32> {
    let mut sorted: Vec<f32> = levels.iter().copied().filter(|demand| *demand > 0.0).collect();
    let middle = sorted.len().checked_sub(1)? / 2;
    Some(*sorted.select_nth_unstable_by(middle, f32::total_cmp).1)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
#[expect(clippy::float_cmp, reason = "products of small integers are exact")]
mod tests {
    use super::*;

    fn sum(fair: &FairDemand) -> f64 {
        (0..LEVELS).map(|level| fair.at(level)).sum()
    }

    /// A demand of these costs in each tick, and the part of a tick's cost that counts.
    fn fair(levels: impl IntoIterator<Item = (usize, u64)>) -> (FairDemand, f64) {
        let mut offered = [0; LEVELS];
        for (level, cost) in levels {
            offered[level] = cost;
        }
        let mut fair = FairDemand::new();
        let counted = fair.learn(&offered, 1.0).iter().sum();
        (fair, counted)
    }

    #[test]
    fn a_level_far_above_the_others_of_its_class_counts_up_to_a_multiple_of_the_median() {
        let others = (0..100).map(|level| (level, 2));
        let (fair, counted) = fair(others.chain([(100, 800), (384, 500)]));
        assert_eq!((fair.at(0), fair.at(100), fair.at(384)), (2.0, 16.0, 500.0));
        assert_eq!(sum(&fair), 200.0 + 16.0 + 500.0);
        assert!((fair.counted_part(100) - 0.02).abs() < 1e-6);
        assert_eq!(fair.counted_part(0), 1.0);
        assert!((counted - sum(&fair)).abs() < 1e-3, "{counted}");
    }

    #[test]
    fn a_level_that_is_alone_in_its_class_or_one_of_two_counts_whole() {
        let (alone, _) = fair([(5, 800)]);
        assert_eq!(sum(&alone), 800.0);
        let (two, _) = fair([(5, 800), (6, 700)]);
        assert_eq!(sum(&two), 1500.0);
        assert_eq!(sum(&FairDemand::new()), 0.0);
    }
}
