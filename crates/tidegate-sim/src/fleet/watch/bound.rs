//! The most that may ever be admitted, by definition and not by the code that keeps to it.
//!
//! For a bucket of rate R and burst B, "at most `R·W + B` in any span W" says the same as: a vessel
//! that leaks at R and into which everything admitted is poured never holds more than B. So one
//! level and one instant for each key check every span at once. For windows it is a count.

use crate::fleet::scenario::Numbers;
use crate::kit::SECOND;

/// A vessel or a count for each key: 16 bytes.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    of: Kind,
    keys: Vec<Filled>,
    /// The fullest any was.
    pub(crate) fullest: PeakLevel,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The leak in a nanosecond, and the most that fits, in parts; and how many parts a unit has:
    /// a nanosecond of a rate of one unit in the limit's seconds, in hundredths.
    Vessel {
        leak: u64,
        most: u64,
        unit: u64,
    },
    Count {
        window: u64,
        most: u64,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    /// Parts in the vessel, or units in the window.
    level: u64,
    /// When, or which window.
    at: u64,
}

/// The fullest that a vessel or window was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeakLevel {
    pub(crate) key: u32,
    pub(crate) at: u64,
    pub(crate) units: u64,
    pub(crate) most: u64,
}

impl Bound {
    /// For `keys` keys with these numbers. Time runs up to `drift_percent` faster for some than it
    /// is counted here, and a tenth of a second of the rate comes on top if `leased`.
    pub(crate) fn new(numbers: Numbers, keys: usize, drift_percent: u64, leased: bool) -> Self {
        let of = match numbers {
            Numbers::Bucket { units, seconds, burst } => {
                let unit = 100 * SECOND * u64::from(seconds);
                let leak = u64::from(units) * (100 + drift_percent);
                let gathered = if leased { leak * (SECOND / 10) } else { 0 };
                // With the largest numbers there are, this is little more than half of what fits.
                Kind::Vessel { leak, most: u64::from(burst) * unit + gathered, unit }
            }
            Numbers::Window { units, seconds } => {
                Kind::Count { window: u64::from(seconds) * SECOND, most: units.into() }
            }
        };
        Self { of, keys: vec![Filled::default(); keys], fullest: PeakLevel::default() }
    }

    /// Units of this cost were admitted at `now`. By how much that is too much; what is too much is
    /// then left out.
    pub(crate) fn admit(&mut self, key: u32, cost: u64, now: u64) -> Option<u64> {
        let (level, most) = self.level(key, now);
        let filled = &mut self.keys[key as usize];
        filled.level = level.saturating_add(cost.saturating_mul(self.of.parts()));
        let over = filled.level.saturating_sub(most);
        filled.level -= over;
        let units = (filled.level + over).div_ceil(self.of.parts());
        if units > self.fullest.units {
            self.fullest = PeakLevel { key, at: now, units, most: most / self.of.parts() };
        }
        (over > 0).then(|| over.div_ceil(self.of.parts()))
    }

    /// Whether there is room at `now` for a cost and a unit more, which covers what is rounded.
    pub(crate) fn has_room(&mut self, key: u32, cost: u64, now: u64) -> bool {
        let (level, most) = self.level(key, now);
        level.saturating_add((cost + 1).saturating_mul(self.of.parts())) <= most
    }

    /// Units that were admitted are not counted any more: the store has lost them, or undone the
    /// charge.
    pub(crate) fn forgive(&mut self, key: u32, cost: u64) {
        let parts = self.of.parts();
        let filled = &mut self.keys[key as usize];
        filled.level = filled.level.saturating_sub(cost.saturating_mul(parts));
    }

    /// Nothing of this key need be counted any more.
    pub(crate) fn forget(&mut self, key: u32) {
        self.keys[key as usize] = Filled::default();
    }

    /// The level at `now`, and the level that is allowed.
    fn level(&mut self, key: u32, now: u64) -> (u64, u64) {
        let filled = &mut self.keys[key as usize];
        match self.of {
            Kind::Vessel { leak, most, .. } => {
                let leaked = u128::from(now.saturating_sub(filled.at)) * u128::from(leak);
                filled.level = filled.level.saturating_sub(u64::try_from(leaked).unwrap_or(u64::MAX));
                filled.at = filled.at.max(now);
                (filled.level, most)
            }
            Kind::Count { window, most } => {
                let index = now / window;
                if index > filled.at {
                    *filled = Filled { level: 0, at: index };
                }
                (filled.level, most)
            }
        }
    }
}

impl Kind {
    const fn parts(self) -> u64 {
        match self {
            Self::Vessel { unit, .. } => unit,
            Self::Count { .. } => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_bucket_may_admit_passes_and_one_unit_more_does_not() {
        let numbers = Numbers::per_second(10, 5);
        let mut bound = Bound::new(numbers, 2, 0, false);
        assert_eq!(bound.admit(1, 5, 0), None);
        assert_eq!(bound.admit(1, 1, SECOND / 10), None);
        assert_eq!(bound.admit(1, 2, SECOND * 2 / 10), Some(1));
        assert_eq!(bound.admit(1, 5, 10 * SECOND), None);
        assert!(!bound.has_room(1, 1, 10 * SECOND + SECOND / 10));
        assert!(bound.has_room(1, 1, 10 * SECOND + SECOND / 5));
        assert_eq!(bound.fullest, PeakLevel { key: 1, at: SECOND * 2 / 10, units: 6, most: 5 });
    }

    #[test]
    fn clocks_that_run_apart_and_leases_are_allowed_for() {
        let numbers = Numbers::per_second(100, 5);
        let mut bound = Bound::new(numbers, 1, 1, true);
        assert_eq!(bound.admit(0, 15, 0), None);
        assert_eq!(bound.admit(0, 10, SECOND / 10), None);
        assert_eq!(bound.admit(0, 1, SECOND / 10), Some(1));
    }

    #[test]
    fn a_window_counts_anew_when_the_next_begins() {
        let mut bound = Bound::new(Numbers::Window { units: 3, seconds: 2 }, 1, 1, true);
        assert_eq!(bound.admit(0, 3, SECOND), None);
        assert_eq!(bound.admit(0, 1, 2 * SECOND - 1), Some(1));
        assert_eq!(bound.admit(0, 3, 2 * SECOND), None);
        bound.forgive(0, 1);
        assert_eq!(bound.admit(0, 2, 3 * SECOND), Some(1));
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let numbers = Numbers::per_second(10_000_000, 100_000_000);
        let mut bound = Bound::new(numbers, 1, 1, true);
        assert_eq!(bound.admit(0, 100_000_000, 0), None);
        assert_eq!(bound.admit(0, 1 << 20, 1 << 60), None);
    }
}
