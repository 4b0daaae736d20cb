//! How much is asked for: units a second, each counting half as much with every second that has passed.

use core::time::Duration;

use crate::time::Timestamp;

/// An average of what is asked for, in integers so that it is the same everywhere.
///
/// The half-life is 2^30 nanoseconds, 1.07 s. Within one of them the decay is a parabola that has the true curve's slope at
/// its beginning and meets it at its end; it lies above it by less than half a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Demand {
    /// Millionths of a unit a second.
    micro: u64,
    at: Timestamp,
}

const HALF_LIFE_BITS: u32 = 30;

/// What a unit adds, so that a steady stream of them averages to itself: the slope of the decay, in millionths a second.
const UNIT: u64 = 645_533;

/// ln 2 and what the parabola is curved by (ln 2 less a half), in parts of 2^30.
const SLOPE: u64 = 744_261_118;
const CURVE: u64 = SLOPE - (1 << (HALF_LIFE_BITS - 1));

/// Beyond what any lease can give; keeps sums from wrapping.
const MICRO_MAX: u64 = 1 << 62;

impl Demand {
    pub(super) const NONE: Self = Self { micro: 0, at: Timestamp::MIN };

    /// Counts `units` asked for at `now`.
    pub(super) fn add(&mut self, units: u64, now: Timestamp) {
        self.micro = self.at(now).saturating_add(units.saturating_mul(UNIT)).min(MICRO_MAX);
        self.at = self.at.max(now);
    }

    /// Units in each `period` at the pace of `now`.
    pub(super) fn each(&self, period: Duration, now: Timestamp) -> u32 {
        let units = u128::from(self.at(now)) * period.as_micros() / 1_000_000_000_000;
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// Units in `span_us` microseconds, at the pace when last counted.
    pub(super) fn parts(&self, span_us: u64) -> u64 {
        (u128::from(self.micro) * u128::from(span_us) / 1_000_000_000_000) as u64
    }

    fn at(&self, now: Timestamp) -> u64 {
        let passed = now.as_nanos().saturating_sub(self.at.as_nanos());
        let halves = passed >> HALF_LIFE_BITS;
        if halves >= 64 {
            return 0;
        }
        let micro = self.micro >> halves;
        let part = passed & ((1 << HALF_LIFE_BITS) - 1);
        let bent = SLOPE - ((CURVE * part) >> HALF_LIFE_BITS);
        // 2^30 twice; rounded up, so that many small steps never keep a demand alive.
        let lost = (u128::from(micro) * u128::from(part * bent)).div_ceil(1 << (2 * HALF_LIFE_BITS));
        micro - (lost as u64).min(micro)
    }
}
