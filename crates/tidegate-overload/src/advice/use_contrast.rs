//! A comparison of the requests of a few seconds that were admitted at fewer places in use with
//! those that were admitted at more.

use tidegate_core::Timestamp;

use crate::advice::times_by_use::UseSum;

/// Each side of a comparison has at least so many requests: the mean of fewer is mostly chance.
const REQUESTS_MIN: u64 = 8;
/// The places in use of the two sides are this factor apart at least: nearer ones say nothing.
const FACTOR_MIN: f64 = 1.2;

/// The mean of a group of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UseMean {
    /// The places in use when they were admitted.
    pub(crate) in_use: f64,
    /// For how long they kept their places, in seconds.
    pub(crate) seconds: f64,
}

/// The two sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UseContrast {
    pub(crate) at: Timestamp,
    pub(crate) fewer: UseMean,
    pub(crate) more: UseMean,
    /// How much it says: half the harmonic mean of the numbers of requests on its sides.
    pub(crate) weight: f64,
}

impl UseContrast {
    /// Splits the sums, which are in order of the places in use, into two sides of numbers as equal
    /// as possible; `None` if they would be too few or too near.
    pub(crate) fn new(sums: &[UseSum], at: Timestamp) -> Option<Self> {
        let all: u64 = sums.iter().map(|sum| sum.count).sum();
        let smaller_side = |split: &usize| {
            let below: u64 = sums[..*split].iter().map(|sum| sum.count).sum();
            below.min(all - below)
        };
        let split = (1..sums.len()).max_by_key(smaller_side)?;
        if smaller_side(&split) < REQUESTS_MIN {
            return None;
        }
        let below: u64 = sums[..split].iter().map(|sum| sum.count).sum();
        let weight = below as f64 * (all - below) as f64 / all as f64;
        let contrast = Self { at, fewer: mean(&sums[..split]), more: mean(&sums[split..]), weight };
        (contrast.more.in_use >= FACTOR_MIN * contrast.fewer.in_use).then_some(contrast)
    }

    /// How the time rises with the places in use, as the exponent of a power: 0 where it does not
    /// depend on them, 1 where it rises in proportion, as in a queue of the service.
    pub(crate) fn rise(&self) -> f64 {
        self.log_ratio() / (self.more.in_use / self.fewer.in_use).ln()
    }

    /// How surely the times of the two sides differ: the squared logarithm of their ratio, in
    /// variances of the mean. The deviation of these times is taken to be their mean.
    pub(crate) fn evidence(&self) -> f64 {
        self.log_ratio().powi(2) * self.weight
    }

    fn log_ratio(&self) -> f64 {
        (self.more.seconds / self.fewer.seconds).ln()
    }

    /// The contrast of the weighted means, with the sum of the weights: unlike a median of their
    /// rises, a few very long times do not move it.
    pub(crate) fn pooled(contrasts: &[&Self]) -> Option<Self> {
        let weight: f64 = contrasts.iter().map(|one| one.weight).sum();
        let pooled = |side: fn(&Self) -> UseMean| {
            let sum =
                |of: fn(UseMean) -> f64| contrasts.iter().map(|one| one.weight * of(side(one))).sum::<f64>();
            UseMean { in_use: sum(|mean| mean.in_use) / weight, seconds: sum(|mean| mean.seconds) / weight }
        };
        let at = contrasts.last()?.at;
        Some(Self { at, fewer: pooled(|one| one.fewer), more: pooled(|one| one.more), weight })
    }
}

fn mean(sums: &[UseSum]) -> UseMean {
    let count: u64 = sums.iter().map(|sum| sum.count).sum();
    let micros: u64 = sums.iter().map(|sum| sum.micros).sum();
    let in_use: f64 = sums.iter().map(|sum| sum.in_use * sum.count as f64).sum();
    // A time of zero would have no logarithm.
    UseMean { in_use: in_use / count as f64, seconds: micros.max(1) as f64 / count as f64 / 1e6 }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    /// The sums of so many requests at each number of places in use, of a service that takes this
    /// many microseconds at it.
    fn sums(counts: &[(u32, u64)], micros: impl Fn(u64) -> u64) -> Vec<UseSum> {
        let sum = |(in_use, count): &(u32, u64)| UseSum {
            in_use: f64::from(*in_use),
            count: *count,
            micros: micros(u64::from(*in_use)) * count,
        };
        counts.iter().map(sum).collect()
    }

    #[test]
    fn the_rise_is_zero_with_enough_workers_and_one_in_a_queue() {
        let counts = [(4, 50), (8, 60), (16, 50), (32, 60)];
        let flat = UseContrast::new(&sums(&counts, |_| 40_000), NOW).unwrap();
        assert!(flat.rise().abs() < 0.001, "{flat:?}");
        let queue = UseContrast::new(&sums(&counts, |n| n * 10_000), NOW).unwrap();
        assert!((queue.rise() - 1.0).abs() < 0.001, "{queue:?}");
        assert!((queue.fewer.in_use, queue.more.in_use) > (6.0, 24.0), "the sides are about equal");
    }

    #[test]
    fn sides_with_few_requests_or_near_numbers_are_not_compared() {
        let contrast = |counts: &[(u32, u64)]| UseContrast::new(&sums(counts, |_| 40_000), NOW);
        assert_eq!(contrast(&[]), None);
        assert_eq!(contrast(&[(2, 1000)]), None);
        assert_eq!(contrast(&[(1, 7), (2, 1000)]), None);
        assert!(contrast(&[(1, 8), (2, 1000)]).is_some());
        assert_eq!(contrast(&[(38, 500), (40, 500)]), None);
        let zero = UseContrast::new(&sums(&[(1, 8), (2, 8)], |_| 0), NOW).unwrap();
        assert!(zero.rise().abs() < 0.001);
    }
}
