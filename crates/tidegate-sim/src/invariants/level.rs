//! Exact levels, in billionths of a thousandth of a unit, so that nothing is rounded.
//!
//! They are computed by other formulas than those of the plane: a level is an amount at an instant,
//! not the instant at which a bucket is full.
//!
//! A level is a span from the least to the most that the trace allows. Both ends are the same until
//! something happens that a trace does not show: the begun thousandth of a partition after a cut,
//! or the part of units that came back late and that the bucket would have let flow past.

use tidegate_capacity::Units;

/// Billionths of a thousandth in a thousandth.
pub(super) const FINE: i128 = 1_000_000_000;

/// The deepest debt of partitions, ceilings and tokens, in thousandths.
pub(super) const DEBT_MAX: i64 = Units::LARGEST_REQUEST.as_thousandths();

/// Two levels of a bucket that differ by no more are the same: the plane keeps them as instants,
/// and begun thousandths may be rounded either way.
pub(super) const ROUNDING: i128 = 3 * FINE;

/// Thousandths to billionths of them.
pub(super) const fn fine(thousandths: i64) -> i128 {
    thousandths as i128 * FINE
}

/// Whole thousandths, rounded down.
pub(super) const fn coarse(amount: i128) -> i64 {
    amount.div_euclid(FINE) as i64
}

/// Units with three digits, as messages show them.
pub(super) fn units(amount: i128) -> Units {
    Units::from_thousandths(coarse(amount))
}

/// The amount that flows at `rate` thousandths a second over `nanos`.
pub(super) const fn flow(rate: i64, nanos: u64) -> i128 {
    rate as i128 * nanos as i128
}

/// The least and the most that a level may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelSpan {
    pub(super) least: i128,
    pub(super) most: i128,
}

impl LevelSpan {
    pub(super) const fn exact(amount: i128) -> Self {
        Self { least: amount, most: amount }
    }

    #[cfg(test)]
    const fn is_exact(self) -> bool {
        self.least == self.most
    }

    #[inline]
    fn each(self, change: impl Fn(i128) -> i128) -> Self {
        Self { least: change(self.least), most: change(self.most) }
    }

    /// The part of the span between `least` and `most`; `None` if they do not meet.
    fn within(self, least: i128, most: i128) -> Option<Self> {
        let both = Self { least: self.least.max(least), most: self.most.min(most) };
        (both.least <= both.most).then_some(both)
    }

    pub(super) fn distance(self, amount: i128) -> i128 {
        (self.least - amount).max(amount - self.most).max(0)
    }
}

impl core::fmt::Display for LevelSpan {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if coarse(self.least) == coarse(self.most) {
            return units(self.least).fmt(f);
        }
        write!(f, "{} to {}", units(self.least), units(self.most))
    }
}

/// A level that refills up to a depth. It falls below zero exactly if in some span that ends now
/// more than the rate over the span and the depth was charged.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefillingLevel {
    pub(super) rate: i64,
    pub(super) depth: i64,
    amount: LevelSpan,
    at: u64,
}

impl RefillingLevel {
    /// One that has `left` at `now`.
    pub(super) const fn shown(rate: i64, depth: i64, left: i64, now: u64) -> Self {
        Self { rate, depth, amount: LevelSpan::exact(fine(left)), at: now }
    }

    #[inline]
    pub(super) fn at(&self, now: u64) -> LevelSpan {
        let (flowed, depth) = (flow(self.rate, now.saturating_sub(self.at)), fine(self.depth));
        self.amount.each(|amount| (amount + flowed).min(depth))
    }

    #[inline]
    fn set(&mut self, amount: LevelSpan, now: u64) {
        (self.amount, self.at) = (amount, self.at.max(now));
    }

    /// Takes `cost`, and returns the level after it.
    #[inline]
    pub(super) fn charge(&mut self, cost: i64, now: u64) -> LevelSpan {
        let cost = fine(cost);
        let after = self.at(now).each(|amount| amount - cost);
        self.set(after, now);
        after
    }

    /// Takes `cost` down to a debt of at most `debt_max`.
    pub(super) fn correct(&mut self, cost: i64, debt_max: i64, now: u64) {
        let (cost, floor) = (fine(cost), -fine(debt_max));
        let after = self.at(now).each(|amount| (amount - cost).max(amount.min(floor)));
        self.set(after, now);
    }

    /// Gets `units` back, of which up to `flowed_past` may not have found room.
    pub(super) fn give(&mut self, units: i64, flowed_past: i128, now: u64) {
        let (units, depth) = (fine(units), fine(self.depth));
        let LevelSpan { least, most } = self.at(now);
        let least = (least + (units - flowed_past).max(0)).min(depth);
        self.set(LevelSpan { least, most: (most + units).min(depth) }, now);
    }

    /// The level under other terms: what is there is kept, up to the new depth.
    pub(super) fn with_terms(mut self, rate: i64, depth: i64, now: u64) -> Self {
        let LevelSpan { least, most } = self.at(now).each(|amount| amount.min(fine(depth)));
        // The plane may round the level down, and begins with a begun thousandth.
        self.set(LevelSpan { least: least - FINE, most: most + FINE }, now);
        Self { rate, depth, ..self }
    }

    /// Takes over the terms of a level that is shown; true if they differ.
    pub(super) fn adopt_terms(&mut self, shown: &Self, now: u64) -> bool {
        let is_changed = (self.rate, self.depth) != (shown.rate, shown.depth);
        if is_changed {
            *self = self.with_terms(shown.rate, shown.depth, now);
        }
        is_changed
    }

    /// The level of another depth that lacks as much.
    pub(super) fn with_missing(mut self, rate: i64, depth: i64, now: u64) -> Self {
        let more = fine(depth - self.depth);
        let LevelSpan { least, most } = self.at(now);
        // The plane rounds the level down, and begins with a begun thousandth.
        self.set(LevelSpan { least: least + more - FINE, most: most + more + FINE }, now);
        Self { rate, depth, ..self }
    }

    /// The level of a bucket that lacks what both lack, of the same rate and depth, down to a debt
    /// of `debt_max`.
    pub(super) fn joined(mut self, other: &Self, debt_max: i64, now: u64) -> Self {
        let (mine, theirs, depth) = (self.at(now), other.at(now), fine(self.depth));
        let sum = |mine: i128, theirs: i128| (mine + theirs - depth).max(-fine(debt_max));
        // Both may differ from the plane's by the rounding, and a thousandth begins.
        let least = sum(mine.least, theirs.least) - ROUNDING;
        self.set(LevelSpan { least, most: sum(mine.most, theirs.most) + FINE }, now);
        self
    }

    /// Takes note that it is shown as `left`, give or take `rounding`; the level by the trace if
    /// that cannot be.
    pub(super) fn narrow(&mut self, left: i64, rounding: i128, now: u64) -> Result<(), LevelSpan> {
        let (by_trace, shown) = (self.at(now), fine(left));
        let narrowed = by_trace.within(shown - rounding, shown + rounding);
        self.set(narrowed.unwrap_or(LevelSpan::exact(shown)), now);
        narrowed.map(|_| ()).ok_or(by_trace)
    }
}

/// The levels of an allocation and of the burst credit that it spills into.
#[derive(Clone, Copy, Debug)]
struct LevelPair {
    allocation: i128,
    burst: i128,
}

/// The allocation of a partition and the burst credit that it spills into. The begun thousandth of
/// a full allocation stays with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpillingLevels {
    pub(super) rate: i64,
    pub(super) burst_max: i64,
    is_exact: bool,
    least: LevelPair,
    most: LevelPair,
    at: u64,
}

impl SpillingLevels {
    /// Levels as they are shown at `now`, in whole thousandths; of the allocation up to `begun`
    /// more.
    pub(super) const fn shown(
        (rate, burst_max): (i64, i64),
        (allocation, burst): (i64, i64),
        begun: i128,
        now: u64,
    ) -> Self {
        let least = LevelPair { allocation: fine(allocation), burst: fine(burst) };
        let most = LevelPair { allocation: fine(allocation) + begun, burst: fine(burst) };
        Self { rate, burst_max, is_exact: begun == 0, least, most, at: now }
    }

    #[inline]
    fn refilled(&self, before: LevelPair, flowed: i128) -> LevelPair {
        let allocation = before.allocation + flowed;
        let beyond = allocation - fine(self.rate);
        if beyond < FINE {
            return LevelPair { allocation, ..before };
        }
        let spill = whole(beyond);
        LevelPair { allocation: allocation - spill, burst: (before.burst + spill).min(fine(self.burst_max)) }
    }

    #[inline]
    fn both_at(&self, now: u64) -> [LevelPair; 2] {
        let flowed = flow(self.rate, now.saturating_sub(self.at));
        let least = self.refilled(self.least, flowed);
        if self.is_exact { [least; 2] } else { self.ordered([least, self.refilled(self.most, flowed)]) }
    }

    /// Two ends whose begun thousandths differ: a full allocation has any begun thousandth, since
    /// whole ones have spilled.
    fn ordered(&self, [mut least, mut most]: [LevelPair; 2]) -> [LevelPair; 2] {
        let full = fine(self.rate);
        let differ = (most.allocation - least.allocation) % FINE != 0;
        if differ && most.allocation >= full {
            most.allocation = full + FINE - 1;
            least.allocation = least.allocation.min(full);
        }
        [least, most]
    }

    fn set(&mut self, both: [LevelPair; 2], now: u64) {
        let [least, most] = self.ordered(both);
        (self.least, self.most, self.at) = (least, most, self.at.max(now));
        self.is_exact = least.allocation == most.allocation && least.burst == most.burst;
    }

    #[inline]
    pub(super) fn allocation(&self, now: u64) -> LevelSpan {
        self.at(now).0
    }

    /// The allocation and the burst credit at `now`.
    #[inline]
    pub(super) fn at(&self, now: u64) -> (LevelSpan, LevelSpan) {
        let [least, most] = self.both_at(now);
        (
            LevelSpan { least: least.allocation, most: most.allocation },
            LevelSpan { least: least.burst, most: most.burst },
        )
    }

    #[inline]
    pub(super) fn charge(&mut self, from_allocation: i64, from_burst: i64, now: u64) {
        let (from_allocation, from_burst) = (fine(from_allocation), fine(from_burst));
        let both = self.both_at(now).map(|pair| LevelPair {
            allocation: pair.allocation - from_allocation,
            burst: pair.burst - from_burst,
        });
        (self.least, self.most, self.at) = (both[0], both[1], self.at.max(now));
    }

    /// A charge of which the trace does not say to what it was.
    pub(super) fn charge_either(&mut self, cost: i64, asks_burst: bool, now: u64) {
        let [mut least, most] = self.both_at(now);
        least.allocation -= fine(cost);
        least.burst -= if asks_burst { fine(cost) } else { 0 };
        self.set([least, most], now);
    }

    /// Charges a correction: first the burst credit, if it is to be asked, then the allocation.
    pub(super) fn correct(&mut self, cost: i64, asks_burst: bool, now: u64) {
        let corrected = self.both_at(now).map(|pair| {
            let from_burst = if asks_burst { fine(cost).min(pair.burst.max(0)) } else { 0 };
            LevelPair {
                allocation: pair.allocation - (fine(cost) - from_burst),
                burst: pair.burst - from_burst,
            }
        });
        self.set(corrected, now);
    }

    /// Gives `units` back to the allocation, and what it has no room for to the burst credit. Up to
    /// `spilled` of them may have gone to the burst credit at once.
    pub(super) fn give_to_allocation(&mut self, units: i64, spilled: i128, now: u64) {
        let [least, most] = self.both_at(now);
        let spilled = spilled.min(fine(units));
        let least = self.refilled(least, fine(units) - spilled);
        let mut most = self.refilled(most, fine(units));
        most.burst = (most.burst + spilled).min(fine(self.burst_max));
        self.set([least, most], now);
    }

    pub(super) fn give_to_burst(&mut self, units: i64, now: u64) {
        let burst_max = fine(self.burst_max);
        let given = self
            .both_at(now)
            .map(|pair| LevelPair { burst: (pair.burst + fine(units)).min(burst_max), ..pair });
        self.set(given, now);
    }

    /// Gives back `units` of which the trace does not say to what they were charged.
    pub(super) fn give_to_either(&mut self, units: i64, now: u64) {
        let [least, most] = self.both_at(now);
        let most = LevelPair { burst: (most.burst + fine(units)).min(fine(self.burst_max)), ..most };
        let most = self.refilled(most, fine(units));
        self.set([least, most], now);
    }

    /// The same levels under other rates: what no longer fits spills and is lost.
    pub(super) fn with_rates(mut self, rate: i64, burst_max: i64, now: u64) -> Self {
        let both = self.both_at(now);
        (self.rate, self.burst_max) = (rate, burst_max);
        let fitting = both.map(|pair| {
            let pair = self.refilled(pair, 0);
            LevelPair { burst: pair.burst.min(fine(burst_max)), ..pair }
        });
        self.set(fitting, now);
        self
    }

    /// Takes note that the levels are shown as these, in whole thousandths; the levels by the trace
    /// if that cannot be.
    pub(super) fn narrow(
        &mut self,
        allocation: i64,
        burst: i64,
        now: u64,
    ) -> Result<(), (LevelSpan, LevelSpan)> {
        let by_trace = self.at(now);
        let shown = (
            by_trace.0.within(fine(allocation), fine(allocation) + FINE - 1),
            by_trace.1.within(fine(burst), fine(burst)),
        );
        let (Some(of_allocation), Some(of_burst)) = shown else {
            *self = Self::shown((self.rate, self.burst_max), (allocation, burst), FINE - 1, self.at.max(now));
            return Err(by_trace);
        };
        if !self.is_exact {
            let least = LevelPair { allocation: of_allocation.least, burst: of_burst.least };
            let most = LevelPair { allocation: of_allocation.most, burst: of_burst.most };
            self.set([least, most], now);
        }
        Ok(())
    }
}

/// The whole thousandths of an amount that is not negative.
#[inline]
fn whole(amount: i128) -> i128 {
    // A division of 64 bits is many times faster, and nearly all amounts fit.
    match u64::try_from(amount) {
        Ok(small) => i128::from(small - small % FINE as u64),
        Err(_) => amount - amount % FINE,
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
    /// A fill of so many thousandths.
    pub(super) const fn from_thousandths(thousandths: i64, now: u64) -> Self {
        Self { amount: fine(thousandths), at: now }
    }

    /// Drains it until `now`, before the rate changes.
    #[inline]
    pub(super) fn drain(&mut self, rate: i64, now: u64) {
        self.amount = (self.amount - flow(rate, now.saturating_sub(self.at))).max(0);
        self.at = self.at.max(now);
    }

    /// Adds `cost` and returns the fill.
    #[inline]
    pub(super) fn add(&mut self, cost: i64, rate: i64, now: u64) -> i128 {
        self.drain(rate, now);
        self.amount += fine(cost);
        self.amount
    }

    /// Adds `cost`, which fills it to `most` thousandths and no further.
    pub(super) fn correct(&mut self, cost: i64, most: i64, rate: i64, now: u64) {
        self.drain(rate, now);
        self.amount = (self.amount + fine(cost)).min(self.amount.max(fine(most)));
    }

    /// Takes back `units` that were added.
    pub(super) fn give(&mut self, units: i64, rate: i64, now: u64) {
        self.drain(rate, now);
        self.amount = (self.amount - fine(units)).max(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn full(rate: i64, burst_max: i64) -> SpillingLevels {
        SpillingLevels::shown((rate, burst_max), (rate, burst_max), 0, 0)
    }

    fn exact(levels: &SpillingLevels, now: u64) -> (i128, i128) {
        let (allocation, burst) = levels.at(now);
        assert!(allocation.is_exact() && burst.is_exact());
        (allocation.least, burst.least)
    }

    #[test]
    fn unused_allocation_spills_into_the_burst_credit_and_nothing_else_does() {
        let mut levels = full(1000, 5000);
        assert_eq!(exact(&levels, 7 * SECOND), (fine(1000), fine(5000)));
        levels.charge(1000, 3000, 7 * SECOND);
        assert_eq!(exact(&levels, 7 * SECOND), (0, fine(2000)));
        assert_eq!(exact(&levels, 8 * SECOND), (fine(1000), fine(2000)));
        assert_eq!(exact(&levels, 10 * SECOND), (fine(1000), fine(4000)));
        assert_eq!(exact(&levels, 100 * SECOND), (fine(1000), fine(5000)));
    }

    #[test]
    fn units_that_come_back_at_once_restore_the_level_and_later_ones_leave_a_span() {
        let mut levels = full(1000, 5000);
        levels.charge(800, 2000, SECOND);
        levels.give_to_allocation(800, 0, SECOND);
        assert_eq!(exact(&levels, SECOND), (fine(1000), fine(3000)));
        levels.charge(800, 0, SECOND);
        // Half a second later up to 500 may have spilled.
        levels.give_to_allocation(800, fine(500), SECOND + SECOND / 2);
        let (allocation, burst) = levels.at(SECOND + SECOND / 2);
        assert_eq!(allocation, LevelSpan { least: fine(1000), most: fine(1000) });
        assert_eq!(burst, LevelSpan { least: fine(3000), most: fine(3000 + 500 + 500) });
        assert_eq!(levels.narrow(1000, 3500, SECOND + SECOND / 2), Ok(()));
        assert_eq!(exact(&levels, SECOND + SECOND / 2), (fine(1000), fine(3500)));
        assert!(levels.narrow(1000, 3501, SECOND + SECOND / 2).is_err());
    }

    #[test]
    fn a_fill_exceeds_its_bound_exactly_if_some_span_admits_more_than_the_rate_and_the_bound() {
        // Every sequence of three admissions of 1 at instants 0 to 3 s, at a rate of 1 a second.
        for times in (0..64_u64).map(|code| [code % 4, code / 4 % 4, code / 16]).filter(|t| t.is_sorted()) {
            let mut fill = DrainingFill::default();
            let mut level = RefillingLevel::shown(1000, 2000, 2000, 0);
            let mut lowest = i128::MAX;
            let most = times.iter().map(|at| {
                lowest = lowest.min(level.charge(1000, at * SECOND).most);
                fill.add(1000, 1000, at * SECOND)
            });
            let most = most.max().unwrap();
            let span = |from: usize, to: usize| {
                fine(1000) * (to - from + 1) as i128 - fine(1000) * i128::from(times[to] - times[from])
            };
            let spans = (0..3).flat_map(|from| (from..3).map(move |to| (from, to)));
            assert_eq!(most, spans.map(|(from, to)| span(from, to)).max().unwrap(), "{times:?}");
            assert_eq!(lowest, fine(2000) - most, "{times:?}");
        }
    }

    #[test]
    fn a_level_refills_to_its_depth_and_shows_what_it_may_not_be() {
        let mut level = RefillingLevel::shown(2000, 500, 500, 0);
        level.charge(700, SECOND);
        assert_eq!(level.at(SECOND), LevelSpan::exact(fine(-200)));
        assert_eq!(level.at(SECOND + SECOND / 10), LevelSpan::exact(0));
        assert_eq!(level.at(9 * SECOND), LevelSpan::exact(fine(500)));
        assert_eq!(level.narrow(499, FINE, 9 * SECOND), Ok(()));
        assert_eq!(level.narrow(498, FINE, 9 * SECOND), Err(LevelSpan::exact(fine(500))));
    }
}
