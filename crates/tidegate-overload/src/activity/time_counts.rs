//! Counts of durations, and their percentiles.

use core::time::Duration;
use std::collections::BTreeMap;

/// Each power of two of microseconds has so many steps.
const STEPS: u64 = 8;
/// The exponent of [`STEPS`].
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Longer durations count as this long: two hours.
const MICROS_MAX: u64 = 1 << 33;
/// The number of different counts.
pub(crate) const BINS: usize = bin(MICROS_MAX) as usize + 1;

/// Counts of durations, told apart to an eighth; longer ones than two hours count as two hours.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_overload::TimeCounts;
/// let mut counts = TimeCounts::default();
/// (1..=100).for_each(|ms| counts.add(Duration::from_millis(ms)));
/// let p99 = counts.percentile(99).expect("there are durations");
/// assert!((99..=112).contains(&p99.as_millis()), "{p99:?}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeCounts(BTreeMap<u16, u64>);

impl TimeCounts {
    /// Counts a duration.
    pub fn add(&mut self, time: Duration) {
        self.add_bin(bin_of(time), 1);
    }

    pub(crate) fn add_bin(&mut self, bin: u16, count: u64) {
        *self.0.entry(bin).or_default() += count;
    }

    /// Counts what others have counted, too.
    pub fn merge(&mut self, others: &Self) {
        for (bin, count) in &others.0 {
            self.add_bin(*bin, *count);
        }
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// A duration that at least `percent` of a hundred do not exceed, at most an eighth longer than
    /// the shortest such one; `None` without durations.
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.count() * percent.min(100)).div_ceil(100).max(1);
        let mut passed = 0;
        let mut reached = self.0.iter().filter(|(_, count)| {
            passed += **count;
            passed >= rank
        });
        reached.next().map(|(bin, _)| Duration::from_micros(largest_of(*bin)))
    }
}

/// The bin of a duration.
#[inline]
pub(crate) fn bin_of(time: Duration) -> u16 {
    let micros = time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into());
    bin(if micros < MICROS_MAX { micros } else { MICROS_MAX })
}

#[inline]
const fn bin(micros: u64) -> u16 {
    if micros < STEPS {
        return micros as u16;
    }
    let power = micros.ilog2() - STEP_BITS;
    ((power as u64) * STEPS + (micros >> power)) as u16
}

/// The longest duration in a bin, in microseconds.
const fn largest_of(bin: u16) -> u64 {
    let (power, step) = (bin as u64 / STEPS, bin as u64 % STEPS);
    if power == 0 { step } else { ((STEPS + step + 1) << (power - 1)) - 1 }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_one_bin_whose_longest_is_at_most_an_eighth_longer() {
        let mut before = 0;
        for micros in (0..5_000).chain((13..33).flat_map(|power| {
            [(1_u64 << power) - 1, 1 << power, (1 << power) + 1, (1 << power) + (1 << (power - 1))]
        })) {
            let bin = bin(micros);
            let longest = largest_of(bin);
            assert!(longest >= micros && longest - micros <= micros / 8, "{micros} in {bin} to {longest}");
            assert!(bin >= before, "{micros}");
            before = bin;
        }
        assert_eq!(usize::from(bin_of(Duration::MAX)), BINS - 1);
    }

    #[test]
    fn percentiles_are_of_all_that_were_counted() {
        let mut counts = TimeCounts::default();
        assert_eq!(counts.percentile(50), None);
        counts.add(Duration::from_micros(5));
        let mut others = TimeCounts::default();
        (0..99).for_each(|_| others.add(Duration::from_secs(1)));
        counts.merge(&others);
        assert_eq!((counts.count(), counts.percentile(1)), (100, Some(Duration::from_micros(5))));
        let p50 = counts.percentile(50).unwrap();
        assert!((1.0..1.13).contains(&p50.as_secs_f64()), "{p50:?}");
        assert_eq!(counts.percentile(0), Some(Duration::from_micros(5)));
    }
}
