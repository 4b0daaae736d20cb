//! Exact levels, in billionths of a thousandth of a unit, so that nothing is rounded.
//!
//! They are computed by other formulas than those of the plane: a level is an amount at an instant,
//! not the instant at which a bucket is full.

/// Billionths of a thousandth in a thousandth.
pub(super) const FINE: i128 = 1_000_000_000;

/// Thousandths to billionths of them.
pub(super) const fn fine(thousandths: i64) -> i128 {
    thousandths as i128 * FINE
}

/// Whole thousandths, rounded down, as messages show them.
pub(super) const fn coarse(amount: i128) -> i64 {
    amount.div_euclid(FINE) as i64
}

/// Units with three digits.
pub(super) fn units(amount: i128) -> String {
    tidegate_capacity::Units::from_thousandths(coarse(amount)).to_string()
}

/// The amount that flows at `rate` thousandths a second over `nanos`.
const fn flow(rate: i64, nanos: u64) -> i128 {
    rate as i128 * nanos as i128
}

/// A level that refills up to a depth.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefillingLevel {
    pub(super) rate: i64,
    pub(super) depth: i64,
    amount: i128,
    at: u64,
}

impl RefillingLevel {
    /// A full one.
    pub(super) const fn full(rate: i64, depth: i64) -> Self {
        Self { rate, depth, amount: fine(depth), at: 0 }
    }

    #[inline]
    pub(super) fn at(&self, now: u64) -> i128 {
        (self.amount + flow(self.rate, now.saturating_sub(self.at))).min(fine(self.depth))
    }

    #[inline]
    pub(super) fn charge(&mut self, cost: i64, now: u64) {
        self.amount = self.at(now) - fine(cost);
        self.at = now;
    }

    /// The level of a bucket that lacks what both lack, of the same rate and depth.
    pub(super) fn joined(mut self, other: &Self, now: u64) -> Self {
        self.amount = self.at(now) + other.at(now) - fine(self.depth);
        self.at = now;
        self
    }
}

/// The allocation of a partition and the burst credit that it spills into. The begun thousandth of
/// a full allocation stays with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpillingLevels {
    pub(super) rate: i64,
    pub(super) burst_max: i64,
    allocation: i128,
    burst: i128,
    at: u64,
}

impl SpillingLevels {
    /// Full ones, as after a long idle time.
    pub(super) const fn full(rate: i64, burst_max: i64) -> Self {
        Self { rate, burst_max, allocation: fine(rate), burst: fine(burst_max), at: 0 }
    }

    /// Levels as they are told, at `now`.
    pub(super) const fn told(rate: i64, burst_max: i64, allocation: i64, burst: i64, now: u64) -> Self {
        Self { rate, burst_max, allocation: fine(allocation), burst: fine(burst), at: now }
    }

    /// The allocation and the burst credit at `now`.
    #[inline]
    pub(super) fn at(&self, now: u64) -> (i128, i128) {
        let allocation = self.allocation + flow(self.rate, now.saturating_sub(self.at));
        let beyond = allocation - fine(self.rate);
        if beyond < FINE {
            return (allocation, self.burst);
        }
        let spill = beyond - beyond % FINE;
        (allocation - spill, (self.burst + spill).min(fine(self.burst_max)))
    }

    #[inline]
    pub(super) fn charge(&mut self, from_allocation: i64, from_burst: i64, now: u64) {
        let (allocation, burst) = self.at(now);
        self.allocation = allocation - fine(from_allocation);
        self.burst = burst - fine(from_burst);
        self.at = now;
    }

    /// The inflow since the last charge.
    #[inline]
    pub(super) fn gained(&self, now: u64) -> i128 {
        flow(self.rate, now.saturating_sub(self.at))
    }

    /// The same levels under another rate.
    pub(super) fn with_rate(mut self, rate: i64, now: u64) -> Self {
        self.charge(0, 0, now);
        self.rate = rate;
        self
    }
}

/// Admitted units that have not drained at a rate. The fill never exceeds a bound exactly if in no
/// span more than the rate over the span and the bound were admitted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrainingFill {
    amount: i128,
    at: u64,
}

impl DrainingFill {
    /// Adds `cost` and returns the fill.
    #[inline]
    pub(super) fn add(&mut self, cost: i64, rate: i64, now: u64) -> i128 {
        let drained = flow(rate, now.saturating_sub(self.at));
        self.amount = (self.amount - drained).max(0) + fine(cost);
        self.at = now;
        self.amount
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::SECOND;

    #[test]
    fn unused_allocation_spills_into_the_burst_credit_and_nothing_else_does() {
        let mut levels = SpillingLevels::full(1000, 5000);
        assert_eq!(levels.at(7 * SECOND), (fine(1000), fine(5000)));
        levels.charge(1000, 3000, 7 * SECOND);
        assert_eq!(levels.at(7 * SECOND), (0, fine(2000)));
        assert_eq!(levels.at(8 * SECOND), (fine(1000), fine(2000)));
        assert_eq!(levels.at(10 * SECOND), (fine(1000), fine(4000)));
        assert_eq!(levels.at(100 * SECOND), (fine(1000), fine(5000)));
    }

    #[test]
    fn a_fill_exceeds_its_bound_exactly_if_some_span_admits_more_than_the_rate_and_the_bound() {
        // Every sequence of three admissions of 1 at instants 0 to 3 s, at a rate of 1 a second.
        for times in (0..64_u64).map(|code| [code % 4, code / 4 % 4, code / 16]).filter(|t| t.is_sorted()) {
            let mut fill = DrainingFill::default();
            let most = times.iter().map(|at| fill.add(1000, 1000, at * SECOND)).max().unwrap();
            let span = |from: usize, to: usize| {
                fine(1000) * (to - from + 1) as i128 - fine(1000) * i128::from(times[to] - times[from])
            };
            let spans = (0..3).flat_map(|from| (from..3).map(move |to| (from, to)));
            assert_eq!(most, spans.map(|(from, to)| span(from, to)).max().unwrap(), "{times:?}");
        }
    }

    #[test]
    fn a_level_refills_to_its_depth() {
        let mut level = RefillingLevel::full(2000, 500);
        level.charge(700, SECOND);
        assert_eq!(level.at(SECOND), fine(-200));
        assert_eq!(level.at(SECOND + SECOND / 10), 0);
        assert_eq!(level.at(9 * SECOND), fine(500));
    }
}
