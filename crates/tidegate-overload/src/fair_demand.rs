//! The demand of each level as far as it counts for the admission cursor.
//!
//! One tenant that asks for a hundred times as much as each of the others is a matter for the
//! queue, which serves the tenants of a class in equal parts and sheds what is too much of that
//! one. The cursor could only shed levels: all those below the level of that tenant, whose own
//! tenants ask for no more than their part. The demand of a level therefore counts up to a multiple
//! of the median of its class.

use tidegate_core::Class;

use crate::cursor::{COHORTS, LEVELS};

/// The demand of a level counts up to this multiple of the median of the levels of its class that
/// have any. Tenants spread over the levels by chance: of a hundred, some level has five.
const MEDIANS_MAX: f32 = 8.0;

/// The demand of each level, bounded for each class.
#[derive(Debug)]
pub(crate) struct FairDemand {
    demand: Box<[f32; LEVELS]>,
    /// The most that counts of a level of each class, in the order of [`Class::ALL`].
    most: [f32; Class::ALL.len()],
}

impl FairDemand {
    /// No demand.
    pub(crate) fn new() -> Self {
        Self { demand: Box::new([0.0; LEVELS]), most: [f32::INFINITY; Class::ALL.len()] }
    }

    /// Takes in the demand of each level.
    pub(crate) fn update(&mut self, demand: &[f32; LEVELS]) {
        for (most, levels) in self.most.iter_mut().zip(demand.chunks(usize::from(COHORTS))) {
            *most = median(levels).map_or(f32::INFINITY, |median| MEDIANS_MAX * median);
        }
        for (level, (fair, demand)) in self.demand.iter_mut().zip(demand).enumerate() {
            *fair = demand.min(self.most[level / usize::from(COHORTS)]);
        }
    }

    /// The demand of a level that counts.
    pub(crate) fn at(&self, level: usize) -> f64 {
        f64::from(self.demand[level])
    }

    /// The demand that counts of all levels from `level` on.
    pub(crate) fn from(&self, level: usize) -> f64 {
        self.demand[level..].iter().map(|demand| f64::from(*demand)).sum()
    }

    /// The part of a cost offered at a level that counts: 1.0 unless the demand of the level, as it
    /// was last taken in, is above the bound.
    pub(crate) fn counted_part(&self, level: usize, demand: f32) -> f64 {
        if demand > self.demand[level] { f64::from(self.demand[level] / demand) } else { 1.0 }
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

    fn fair(levels: impl IntoIterator<Item = (usize, f32)>) -> (FairDemand, [f32; LEVELS]) {
        let mut demand = [0.0; LEVELS];
        for (level, cost) in levels {
            demand[level] = cost;
        }
        let mut fair = FairDemand::new();
        fair.update(&demand);
        (fair, demand)
    }

    #[test]
    fn a_level_far_above_the_others_of_its_class_counts_up_to_a_multiple_of_the_median() {
        let others = (0..100).map(|level| (level, 2.0));
        let (fair, demand) = fair(others.chain([(100, 800.0), (384, 500.0)]));
        assert_eq!((fair.at(0), fair.at(100), fair.at(384)), (2.0, 16.0, 500.0));
        assert_eq!(fair.from(0), 200.0 + 16.0 + 500.0);
        assert!((fair.counted_part(100, demand[100]) - 0.02).abs() < 1e-6);
        assert_eq!(fair.counted_part(0, demand[0]), 1.0);
    }

    #[test]
    fn a_level_that_is_alone_in_its_class_or_one_of_two_counts_whole() {
        let (alone, _) = fair([(5, 800.0)]);
        assert_eq!(alone.from(0), 800.0);
        let (two, _) = fair([(5, 800.0), (6, 700.0)]);
        assert_eq!(two.from(0), 1500.0);
        assert_eq!(FairDemand::new().from(0), 0.0);
    }
}
