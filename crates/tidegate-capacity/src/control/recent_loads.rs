//! The loads of a range of keys over the last ten minutes, and their peaks.
//!
//! A peak is remembered with its age, so that the look for merges reads two numbers of a partition
//! and not sixty windows. The windows are searched when a peak has left them.

use std::collections::VecDeque;

use crate::control::merge::COOL;
use crate::control::sketch::WINDOW;
use crate::units::Units;

/// The windows of which the load is kept, so that together they cover [`COOL`].
const WINDOWS: usize = (COOL.as_secs() / WINDOW.as_secs()) as usize;

/// Thousandths of reads and of writes a second, at most 2^32 of them: no ceiling is as high.
type RangeRates = [u32; 2];

/// The loads of the last windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentLoads {
    /// The latest last; at most [`WINDOWS`].
    loads: VecDeque<RangeRates>,
    /// The highest of them.
    peaks: RangeRates,
    /// The windows since the latest one with the peak.
    ages: [u8; 2],
}

impl RecentLoads {
    /// Adds the units a second of a window.
    pub(crate) fn push(&mut self, load: [Units; 2]) {
        self.push_thousandths(
            load.map(|units| u32::try_from(units.as_thousandths().max(0)).unwrap_or(u32::MAX)),
        );
    }

    fn push_thousandths(&mut self, load: RangeRates) {
        if self.loads.capacity() == 0 {
            self.loads.reserve_exact(WINDOWS);
        }
        if self.loads.len() == WINDOWS {
            self.loads.pop_front();
        }
        self.loads.push_back(load);
        for (direction, thousandths) in load.into_iter().enumerate() {
            self.ages[direction] += 1;
            if thousandths >= self.peaks[direction] {
                (self.peaks[direction], self.ages[direction]) = (thousandths, 0);
            } else if usize::from(self.ages[direction]) == WINDOWS {
                self.search(direction);
            }
        }
    }

    /// Finds the peak among all windows.
    fn search(&mut self, direction: usize) {
        let of_direction = self.loads.iter().rev().map(|load| load[direction]);
        let ((peak, _), age) = of_direction
            .zip(0_u8..)
            .map(|(load, age)| ((load, core::cmp::Reverse(age)), age))
            .max()
            .unwrap_or_default();
        (self.peaks[direction], self.ages[direction]) = (peak, age);
    }

    /// How many windows are known.
    pub(crate) fn len(&self) -> usize {
        self.loads.len()
    }

    /// Thousandths a second of reads (0) or writes (1) in one of the windows, the first the oldest.
    pub(crate) fn thousandths(&self, window: usize, direction: usize) -> i64 {
        self.loads[window][direction].into()
    }

    /// The highest reads and writes a second; `None` while the windows do not cover [`COOL`].
    pub(crate) fn peaks(&self) -> Option<[Units; 2]> {
        (self.loads.len() == WINDOWS).then(|| self.peaks.map(|peak| Units::from_thousandths(peak.into())))
    }

    /// The loads of two ranges together, as far as both are known.
    pub(crate) fn joined(&self, other: &Self) -> Self {
        let windows = self.loads.len().min(other.loads.len());
        let [mine, others] =
            [&self.loads, &other.loads].map(|loads| loads.iter().skip(loads.len() - windows));
        let mut joined = Self::default();
        for (mine, others) in mine.zip(others) {
            joined.push_thousandths([0, 1].map(|one| mine[one].saturating_add(others[one])));
        }
        joined
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn units(load: [i64; 2]) -> [Units; 2] {
        load.map(Units::from_thousandths)
    }

    proptest! {
        #[test]
        fn the_peaks_are_the_highest_of_the_last_sixty_windows(
            loads in prop::collection::vec([0_i64..9, 0_i64..5_000_000_000], 0..200),
        ) {
            let mut recent = RecentLoads::default();
            for (index, load) in loads.iter().enumerate() {
                recent.push(units(*load));
                let seen = &loads[..=index];
                let expected = (seen.len() >= WINDOWS).then(|| {
                    let last = &seen[seen.len() - WINDOWS..];
                    let most = |one: usize| last.iter().map(|load| load[one].min(u32::MAX.into())).max().unwrap();
                    units([most(0), most(1)])
                });
                prop_assert_eq!(recent.peaks(), expected);
            }
        }
    }

    #[test]
    fn a_falling_load_has_the_peak_of_the_oldest_window() {
        let mut recent = RecentLoads::default();
        for load in (0..200).rev() {
            recent.push(units([load, 2 * load]));
        }
        assert_eq!(recent.peaks(), Some(units([59, 118])));
        recent.push(units([-5, i64::MAX]));
        assert_eq!(recent.peaks(), Some(units([58, u32::MAX.into()])));
    }

    #[test]
    fn the_loads_of_both_add_up_as_far_as_both_are_known() {
        let [mut long, mut short] = [RecentLoads::default(), RecentLoads::default()];
        for load in 0..90 {
            long.push(units([1_000 - load, load]));
        }
        for _ in 0..WINDOWS - 1 {
            short.push(units([7, 0]));
        }
        assert_eq!(long.joined(&short).peaks(), None);
        short.push(units([0, 1]));
        let joined = long.joined(&short);
        assert_eq!((short.joined(&long).peaks(), joined.peaks()), (joined.peaks(), Some(units([977, 90]))));
    }
}
