//! The load levels of a resource, and their thresholds.

use core::time::Duration;

/// How loaded a resource is, by the use of what it has. Features, deferral and scaling follow it;
/// the admission cursor does not.
///
/// ```
/// # use tidegate_overload::LoadLevel;
/// assert!(LoadLevel::Soft < LoadLevel::Emergency);
/// assert_eq!(LoadLevel::Brownout.as_str(), "brownout");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LoadLevel {
    /// There is room.
    #[default]
    Normal,
    /// Time to ask for more capacity.
    Soft,
    /// Features degrade.
    Brownout,
    /// Low classes are deferred.
    Hard,
    /// A part of the places is kept for the highest class.
    Emergency,
}

impl LoadLevel {
    /// All levels, the lowest first.
    pub const ALL: [Self; 5] = [Self::Normal, Self::Soft, Self::Brownout, Self::Hard, Self::Emergency];

    /// The name in metrics: `normal`, `soft`, `brownout`, `hard` or `emergency`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Soft => "soft",
            Self::Brownout => "brownout",
            Self::Hard => "hard",
            Self::Emergency => "emergency",
        }
    }
}

/// When the load levels of a resource are entered and left.
///
/// ```
/// # use tidegate_overload::{LevelThresholds, LoadLevel};
/// let levels = LevelThresholds { brownout: 0.85, ..LevelThresholds::DEFAULT };
/// levels.check()?;
/// assert_eq!(levels.threshold(LoadLevel::Brownout), 0.85);
/// # Ok::<(), tidegate_overload::LevelThresholdsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelThresholds {
    /// The pressure at which [`LoadLevel::Soft`] is entered, default 0.70. The thresholds ascend,
    /// are above 0 and at most [`LevelThresholds::PRESSURE_MAX`].
    pub soft: f64,
    /// The pressure at which [`LoadLevel::Brownout`] is entered and features degrade, default 0.80.
    pub brownout: f64,
    /// The pressure at which [`LoadLevel::Hard`] is entered, default 0.90.
    pub hard: f64,
    /// The pressure at which [`LoadLevel::Emergency`] may be entered, default 0.97.
    pub emergency: f64,
    /// A level is held until the mean pressure is so far below its threshold: 0 to
    /// [`LevelThresholds::MARGIN_MAX`] and below `soft`, default 0.10.
    pub margin: f64,
    /// The time without a tick at the level after which it is left, and for which there must be
    /// room before a feature gets a better level: [`LevelThresholds::SETTLE_MIN`] to
    /// [`LevelThresholds::SETTLE_MAX`], default 5 s.
    pub settle: Duration,
}

impl LevelThresholds {
    /// The highest threshold: 2.
    pub const PRESSURE_MAX: f64 = 2.0;
    /// The largest margin: 0.5.
    pub const MARGIN_MAX: f64 = 0.5;
    /// The shortest settle time: 100 ms.
    pub const SETTLE_MIN: Duration = Duration::from_millis(100);
    /// The longest settle time: an hour.
    pub const SETTLE_MAX: Duration = Duration::from_hours(1);

    /// The thresholds of a resource unless told otherwise.
    pub const DEFAULT: Self = Self {
        soft: 0.70,
        brownout: 0.80,
        hard: 0.90,
        emergency: 0.97,
        margin: 0.10,
        settle: Duration::from_secs(5),
    };

    /// The pressure at which a level is entered; 0 for [`LoadLevel::Normal`].
    pub const fn threshold(&self, level: LoadLevel) -> f64 {
        match level {
            LoadLevel::Normal => 0.0,
            LoadLevel::Soft => self.soft,
            LoadLevel::Brownout => self.brownout,
            LoadLevel::Hard => self.hard,
            LoadLevel::Emergency => self.emergency,
        }
    }

    /// The pressures at which the levels above normal are entered, ascending.
    pub(crate) const fn enter(&self) -> [f64; 4] {
        [self.soft, self.brownout, self.hard, self.emergency]
    }

    /// Checks the settings. Fails with the first problem found.
    pub fn check(&self) -> Result<(), LevelThresholdsError> {
        let mut below = 0.0;
        for level in &LoadLevel::ALL[1..] {
            let threshold = self.threshold(*level);
            // Not a number is not above.
            if !(threshold > below && threshold <= Self::PRESSURE_MAX) {
                return Err(LevelThresholdsError::Threshold { level: *level, threshold, below });
            }
            below = threshold;
        }
        if !((0.0..=Self::MARGIN_MAX).contains(&self.margin) && self.margin < self.soft) {
            return Err(LevelThresholdsError::Margin { margin: self.margin, soft: self.soft });
        }
        if !(Self::SETTLE_MIN..=Self::SETTLE_MAX).contains(&self.settle) {
            return Err(LevelThresholdsError::Settle { settle: self.settle });
        }
        Ok(())
    }
}

impl Default for LevelThresholds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Thresholds that a resource cannot have.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LevelThresholdsError {
    /// A threshold is not above the one below it, or too high.
    #[error("{} {threshold} is not above {below} and at most 2; use thresholds that ascend", level.as_str())]
    Threshold {
        /// The level.
        level: LoadLevel,
        /// Its threshold.
        threshold: f64,
        /// The threshold below it, or 0.
        below: f64,
    },
    /// The margin is negative, too large, or takes a level below zero.
    #[error("margin {margin} is not between 0 and 0.5 and below soft {soft}; use one of about 0.1")]
    Margin {
        /// The margin.
        margin: f64,
        /// The lowest threshold.
        soft: f64,
    },
    /// The settle time is too short or too long.
    #[error("settle {settle:?} is not between 100ms and 1h; use one of some seconds")]
    Settle {
        /// The settle time.
        settle: Duration,
    },
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn thresholds_ascend_and_a_margin_fits_below_the_lowest() {
        const DEFAULT: LevelThresholds = LevelThresholds::DEFAULT;
        assert_eq!(DEFAULT.check(), Ok(()));
        let refused = [
            LevelThresholds { soft: 0.0, ..DEFAULT },
            LevelThresholds { soft: f64::NAN, ..DEFAULT },
            LevelThresholds { brownout: 0.70, ..DEFAULT },
            LevelThresholds { hard: 0.5, ..DEFAULT },
            LevelThresholds { emergency: f64::INFINITY, ..DEFAULT },
            LevelThresholds { emergency: 2.1, ..DEFAULT },
            LevelThresholds { margin: -0.1, ..DEFAULT },
            LevelThresholds { margin: 0.51, ..DEFAULT },
            LevelThresholds { soft: 0.05, ..DEFAULT },
            LevelThresholds { margin: f64::NAN, ..DEFAULT },
            LevelThresholds { settle: Duration::ZERO, ..DEFAULT },
            LevelThresholds { settle: Duration::from_secs(3601), ..DEFAULT },
        ];
        for levels in refused {
            assert!(levels.check().is_err(), "{levels:?}");
        }
        let error = LevelThresholds { hard: 0.5, ..DEFAULT }.check().unwrap_err();
        assert_eq!(error.to_string(), "hard 0.5 is not above 0.8 and at most 2; use thresholds that ascend");
    }
}
