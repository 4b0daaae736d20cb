//! Simulated clocks, which were set apart and run apart from true time.

use tidegate_core::Timestamp;

use super::chance::Chance;

/// The reading of the clocks of a world when it begins, give or take how far they were set apart,
/// in nanoseconds.
pub const WORLD_BEGIN: u64 = 1_800_000_000 * SECOND;
/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;

/// Nanoseconds as seconds.
pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / SECOND as f64
}

/// How far apart clocks are set, at most: half a second either way.
const SKEW_MAX: u64 = SECOND / 2;
/// How much clocks run apart from true time, at most: a hundredth either way.
pub const DRIFT_MAX_PERCENT: u64 = 1;

/// A clock. True time is counted in nanoseconds since the world began.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The reading when the world begins.
    begin: u64,
    /// How much faster it runs than true time, in parts of a million.
    drift: i64,
}

impl Clock {
    /// True time.
    pub const TRUE: Self = Self { begin: WORLD_BEGIN, drift: 0 };

    /// One that is set and runs apart from true time, within the promise of leases.
    pub fn drawn(chance: &mut Chance) -> Self {
        let most = DRIFT_MAX_PERCENT.cast_signed() * 10_000;
        // The extremes are what is most likely to break anything, so they are drawn often.
        let drift = match chance.below(4) {
            0 => -most,
            1 => most,
            _ => chance.below(2 * most.unsigned_abs() + 1).cast_signed() - most,
        };
        Self { begin: WORLD_BEGIN - SKEW_MAX + chance.below(2 * SKEW_MAX + 1), drift }
    }

    /// The reading at a true instant.
    pub fn at(&self, now: u64) -> Timestamp {
        let passed = u128::from(now) * u128::from(self.speed()) / 1_000_000;
        Timestamp::from_nanos(self.begin.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)))
    }

    /// The first true instant at which it shows `shown` or more; 0 if it did when the world began.
    pub fn when(&self, shown: Timestamp) -> u64 {
        let passed = shown.as_nanos().saturating_sub(self.begin);
        let when = (u128::from(passed) * 1_000_000).div_ceil(u128::from(self.speed()));
        u64::try_from(when).unwrap_or(u64::MAX)
    }

    /// The time that passes on the clock in a million parts of true time.
    fn speed(&self) -> u64 {
        1_000_000_u64.saturating_add_signed(self.drift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_an_instant_when_it_says_it_does_and_not_before() {
        let mut chance = Chance::new(3, 3);
        for _ in 0..10_000 {
            let clock = Clock::drawn(&mut chance);
            let now = 1 + chance.below(1000 * SECOND);
            let shown = clock.at(now);
            let when = clock.when(shown);
            assert!(when <= now && clock.at(when) >= shown, "{clock:?} {now} {when}");
            assert!(when == 0 || clock.at(when - 1) < shown, "{clock:?} {now} {when}");
        }
    }
}
