//! The units that passed through one direction of a partition, counted for control loops and
//! reports. No decision reads them.

use tidegate_core::Timestamp;

use crate::levels::Share;

const NANOS: u64 = 1_000_000_000;

/// Sums since the partition was made, in thousandths; of a cut or a join their parts or sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    /// Asked for by first attempts, refused ones included.
    pub(crate) offered: u64,
    /// Admitted and not given back. Negative where units came back to a part of a cut that has not
    /// admitted as many, so that the sum over a table is exact.
    pub(crate) admitted: i64,
    /// Refused by the partition's own allocation, burst credit or ceiling.
    pub(crate) throttled: u64,
    /// The part of `throttled` that the ceiling refused, which a cut of the partition raises.
    pub(crate) at_ceiling: u64,
    /// Inflow that found everything full.
    pub(crate) lost: u64,
    /// Units that were given back, or no longer had room after a change of rates, and could not be
    /// kept. The only exception to the conservation of units.
    pub(crate) overflow: u64,
    /// The second, counted from 1970, of `this_second`.
    second: u64,
    this_second: u64,
    last_second: u64,
}

impl Meter {
    #[inline]
    pub(crate) fn admit(&mut self, cost: u64, now: Timestamp) {
        self.admitted += cost.cast_signed();
        self.roll(now);
        self.this_second += cost;
    }

    pub(crate) fn offer(&mut self, cost: u64) {
        self.offered += cost;
    }

    pub(crate) fn throttle(&mut self, cost: u64) {
        self.throttled += cost;
    }

    /// Counts a refusal by the ceiling, beside [`Meter::throttle`].
    pub(crate) fn throttle_at_ceiling(&mut self, cost: u64) {
        self.at_ceiling += cost;
    }

    pub(crate) fn return_units(&mut self, units: u64, now: Timestamp) {
        self.admitted -= units.cast_signed();
        self.roll(now);
        self.this_second = self.this_second.saturating_sub(units);
    }

    #[inline]
    pub(crate) fn lose(&mut self, units: u64) {
        self.lost += units;
    }

    pub(crate) fn overflow(&mut self, units: u64) {
        self.overflow += units;
    }

    /// The units of the last second, the whole one before counted by the part that still lies in
    /// it.
    pub(crate) fn consumed(&self, now: Timestamp) -> u64 {
        let mut rolled = *self;
        rolled.roll(now);
        let gone = now.as_nanos() % NANOS;
        let of_last = u128::from(rolled.last_second) * u128::from(NANOS - gone) / u128::from(NANOS);
        // At most `last_second`.
        rolled.this_second + of_last as u64
    }

    #[inline]
    fn roll(&mut self, now: Timestamp) {
        let second = now.as_secs();
        if second == self.second {
            return;
        }
        self.last_second = if second == self.second + 1 { self.this_second } else { 0 };
        self.this_second = 0;
        self.second = second;
    }

    pub(crate) fn cut(self, share: Share) -> [Self; 2] {
        let part = |whole: u64| share.of(whole);
        let left = Self {
            offered: part(self.offered),
            admitted: part(self.admitted.unsigned_abs()).cast_signed() * self.admitted.signum(),
            throttled: part(self.throttled),
            at_ceiling: part(self.at_ceiling),
            lost: part(self.lost),
            overflow: part(self.overflow),
            this_second: part(self.this_second),
            last_second: part(self.last_second),
            second: self.second,
        };
        let right = Self {
            offered: self.offered - left.offered,
            admitted: self.admitted - left.admitted,
            throttled: self.throttled - left.throttled,
            at_ceiling: self.at_ceiling - left.at_ceiling,
            lost: self.lost - left.lost,
            overflow: self.overflow - left.overflow,
            this_second: self.this_second - left.this_second,
            last_second: self.last_second - left.last_second,
            second: self.second,
        };
        [left, right]
    }

    pub(crate) fn joined(mut self, mut other: Self, now: Timestamp) -> Self {
        self.roll(now);
        other.roll(now);
        Self {
            offered: self.offered + other.offered,
            admitted: self.admitted + other.admitted,
            throttled: self.throttled + other.throttled,
            at_ceiling: self.at_ceiling + other.at_ceiling,
            lost: self.lost + other.lost,
            overflow: self.overflow + other.overflow,
            this_second: self.this_second + other.this_second,
            last_second: self.last_second + other.last_second,
            second: self.second,
        }
    }
}
