//! A bucket of units, stored as the instant at which it will be full again.
//!
//! Time is counted in the units that have flowed in since 1970: at a rate of `r` a second, the
//! instant `t` is `r * t`. The bucket's whole state is the reading of that clock at which it is
//! full; the missing units are the difference to its reading now. Nothing is rounded twice, so
//! refilling does not depend on how often the level is read, and a charge that is taken back
//! restores the same word. A word of zero is a full bucket.

use tidegate_core::Timestamp;

use crate::levels::STEP_BACK_MAX;
use crate::sync::{AtomicU64, Ordering};
use crate::units::Units;

const NANOS: u64 = 1_000_000_000;

/// The rate, depth and deepest debt of a bucket, in thousandths of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketSpec {
    /// Thousandths a second. At most one a nanosecond, so that a clock reading is never above the
    /// time in nanoseconds and fits 64 bits.
    rate: u64,
    /// Thousandths when full.
    depth: u64,
    /// The most thousandths that the bucket is ever below zero.
    debt_max: u64,
}

impl BucketSpec {
    /// The highest rate: a million units a second.
    pub(crate) const UNITS_PER_SECOND_MAX: u64 = NANOS / 1000;

    /// `rate` is in thousandths a second, at least 1 and at most `UNITS_PER_SECOND_MAX` units.
    pub(crate) fn new(rate: u64, depth: u64, debt_max: u64) -> Self {
        assert!(
            (1..=Self::UNITS_PER_SECOND_MAX * 1000).contains(&rate),
            "the builder checks the rates of tables and nodes"
        );
        Self { rate, depth, debt_max }
    }

    pub(crate) const fn rate(self) -> u64 {
        self.rate
    }

    pub(crate) const fn depth(self) -> u64 {
        self.depth
    }

    pub(crate) const fn with_debt_max(self, debt_max: u64) -> Self {
        Self { debt_max, ..self }
    }

    /// The clock at `now`, rounded down, so that the missing units are never understated.
    #[inline]
    const fn clock(self, now: Timestamp) -> u64 {
        self.reading(now).0
    }

    /// The clock at `now`, rounded up: a charge to a full bucket never starts before now.
    #[inline]
    const fn clock_up(self, now: Timestamp) -> u64 {
        let (down, begun) = self.reading(now);
        down.saturating_add(begun)
    }

    /// The clock at `now`, rounded down, and 1 if a thousandth has begun to flow in since.
    #[inline]
    const fn reading(self, now: Timestamp) -> (u64, u64) {
        let (seconds, nanos) = (now.as_nanos() / NANOS, now.as_nanos() % NANOS);
        let flowed = self.rate * nanos;
        let whole = flowed / NANOS;
        (self.rate * seconds + whole, (whole * NANOS != flowed) as u64)
    }

    /// The reading at which a charge at `now` begins: now if the bucket was full.
    #[inline]
    pub(crate) const fn start(self, before: u64, now: Timestamp) -> u64 {
        let clock = self.clock_up(now);
        if before > clock { before } else { clock }
    }

    /// The first instant at which something is left of a bucket that is full at `full_at` and empty
    /// now; saturates.
    fn opening(self, full_at: u64) -> Timestamp {
        self.instant_of((full_at - self.depth).saturating_add(1))
    }

    /// The first instant at which the clock has this reading; saturates.
    fn instant_of(self, reading: u64) -> Timestamp {
        let nanos = (u128::from(reading) * u128::from(NANOS)).div_ceil(u128::from(self.rate));
        Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A charge; its owner keeps it to be able to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketCharge {
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) cost: u64,
}

/// The state of a bucket, which begins full. All calls for one bucket take the same spec, except
/// for the debt.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    // Relaxed throughout: the word says everything about the bucket, and nothing else is published
    // through it.
    full_at: AtomicU64,
}

impl Bucket {
    /// Thousandths left; negative in debt.
    pub(crate) fn level(&self, spec: BucketSpec, now: Timestamp) -> Units {
        self.read().level(spec, now)
    }

    /// Charges `cost` if that leaves at least `floor`; otherwise changes nothing and returns the
    /// first instant at which it would, the last one there is if the bucket never holds as much.
    pub(crate) fn take_above(
        &self,
        spec: BucketSpec,
        cost: u64,
        floor: u64,
        now: Timestamp,
    ) -> Result<BucketCharge, Timestamp> {
        self.update(|word| match word.taken_above(spec, cost, floor, now) {
            Ok(charged) => (BucketWord(charged.after), Ok(charged)),
            Err(retry) => (word.plausible_at(spec, now), Err(retry)),
        })
    }

    /// Charges `cost` if anything is left, even if it is less than `cost`; otherwise changes
    /// nothing and returns the first instant at which something is left.
    #[cfg(test)]
    pub(crate) fn take(
        &self,
        spec: BucketSpec,
        cost: u64,
        now: Timestamp,
    ) -> Result<BucketCharge, Timestamp> {
        self.update(|word| match word.taken(spec, cost, now) {
            Ok(charged) => (BucketWord(charged.after), Ok(charged)),
            Err(retry) => (word.plausible_at(spec, now), Err(retry)),
        })
    }

    /// Charges `cost` even if nothing is left. The debt is at most the spec's; the part of the cost
    /// that would exceed it is not booked.
    pub(crate) fn charge(&self, spec: BucketSpec, cost: u64, now: Timestamp) -> BucketCharge {
        self.update(|word| {
            let charged = word.charged(spec, cost, now);
            (BucketWord(charged.after), charged)
        })
    }

    /// Takes back `units` of a charge, at most all of it; returns those that found no room.
    ///
    /// If all of it is taken back and nothing was charged since, the word is the same as before the
    /// charge. Otherwise no more is left than if those units had not been charged, provided that
    /// instants came in order.
    pub(crate) fn give_back(
        &self,
        spec: BucketSpec,
        charged: BucketCharge,
        units: u64,
        now: Timestamp,
    ) -> u64 {
        let clock = spec.clock(now);
        self.update(|word| {
            let next = word.returned(spec, charged, units, now);
            let gained = word.0.max(clock) - next.0.max(clock).min(word.0.max(clock));
            (next, units.min(charged.cost).saturating_sub(gained))
        })
    }

    /// The answer of [`Bucket::take_above`]; charges nothing.
    pub(crate) fn has_above(
        &self,
        spec: BucketSpec,
        cost: u64,
        floor: u64,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        self.read().taken_above(spec, cost, floor, now).map(|_| ())
    }

    /// Gives back `units` of a charge to an earlier bucket; returns those that found no room.
    pub(crate) fn refund(&self, spec: BucketSpec, units: u64, now: Timestamp) -> u64 {
        self.update(|word| {
            let back = word.0.saturating_sub(spec.clock(now)).min(units);
            (BucketWord(word.0 - back), units - back)
        })
    }

    fn read(&self) -> BucketWord {
        BucketWord(self.full_at.load(Ordering::Relaxed))
    }

    /// Replaces the word by the one that `change` makes of it.
    #[inline]
    fn update<T>(&self, change: impl Fn(BucketWord) -> (BucketWord, T)) -> T {
        let mut seen = self.full_at.load(Ordering::Relaxed);
        loop {
            let (BucketWord(next), answer) = change(BucketWord(seen));
            if next == seen {
                return answer;
            }
            match self.full_at.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return answer,
                Err(other) => seen = other,
            }
        }
    }

    /// A bucket with this level.
    pub(crate) fn with_level(spec: BucketSpec, level: i64, now: Timestamp) -> Self {
        Self { full_at: AtomicU64::new(BucketWord::with_level(spec, level, now).0) }
    }

    /// The whole state.
    pub(crate) fn word(&self) -> u64 {
        self.full_at.load(Ordering::Relaxed)
    }
}

/// The state of a bucket as a value: the reading of its clock at which it is full. Zero is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct BucketWord(pub(crate) u64);

impl BucketWord {
    /// The word of this level, debts included.
    pub(crate) fn with_level(spec: BucketSpec, level: i64, now: Timestamp) -> Self {
        let missing = spec.depth.cast_signed().saturating_sub(level).max(0).cast_unsigned();
        Self(if missing == 0 { 0 } else { spec.clock(now).saturating_add(missing) })
    }

    /// The word; or the one of the deepest debt at `now`, if the clock has stepped back by more
    /// than [`STEP_BACK_MAX`].
    pub(crate) fn plausible_at(self, spec: BucketSpec, now: Timestamp) -> Self {
        Self(plausible(spec, self.0, spec.clock(now)))
    }

    pub(crate) fn level(self, spec: BucketSpec, now: Timestamp) -> Units {
        let clock = spec.clock(now);
        let missing = plausible(spec, self.0, clock).saturating_sub(clock);
        Units::from_thousandths(spec.depth.cast_signed().saturating_sub_unsigned(missing))
    }

    /// A charge if anything is left; otherwise the first instant at which something is.
    #[inline]
    pub(crate) fn taken(
        self,
        spec: BucketSpec,
        cost: u64,
        now: Timestamp,
    ) -> Result<BucketCharge, Timestamp> {
        let (clock, begun) = spec.reading(now);
        let before = plausible(spec, self.0, clock);
        if before.saturating_sub(clock) >= spec.depth {
            return Err(spec.opening(before));
        }
        let after = before.max(clock.saturating_add(begun)).saturating_add(cost);
        Ok(BucketCharge { before, after, cost })
    }

    /// A charge that leaves at least `floor`; otherwise the first instant at which one would.
    #[inline]
    fn taken_above(
        self,
        spec: BucketSpec,
        cost: u64,
        floor: u64,
        now: Timestamp,
    ) -> Result<BucketCharge, Timestamp> {
        let (clock, begun) = spec.reading(now);
        let before = plausible(spec, self.0, clock);
        let wanted = cost.saturating_add(floor);
        if wanted > spec.depth {
            return Err(Timestamp::from_nanos(u64::MAX));
        }
        let start = before.max(clock.saturating_add(begun));
        if start.saturating_sub(clock).saturating_add(wanted) > spec.depth {
            // Rounded up: a begun thousandth at that instant must not count as missing.
            return Err(spec.instant_of(start.saturating_add(wanted) - spec.depth));
        }
        Ok(BucketCharge { before, after: start.saturating_add(cost), cost })
    }

    /// A charge even if nothing is left, down to the deepest debt.
    #[inline]
    pub(crate) fn charged(self, spec: BucketSpec, cost: u64, now: Timestamp) -> BucketCharge {
        let (clock, begun) = spec.reading(now);
        let before = plausible(spec, self.0, clock);
        let deepest = clock.saturating_add(spec.depth).saturating_add(spec.debt_max);
        let start = before.max(clock.saturating_add(begun));
        let after = start.saturating_add(cost).min(deepest.max(start));
        BucketCharge { before, after, cost: after - start }
    }

    /// The word without `units` of a charge.
    pub(crate) fn returned(
        self,
        spec: BucketSpec,
        charged: BucketCharge,
        units: u64,
        now: Timestamp,
    ) -> Self {
        let units = units.min(charged.cost);
        if self.0 == charged.after && units == charged.cost {
            return Self(charged.before);
        }
        // Had these units not been charged, the bucket would have been full from here on and would
        // have let units flow past. As many as may have flowed past since are not given back.
        let flowed_past = spec.clock_up(now).saturating_sub(charged.after - units).min(units);
        if self.0 == charged.after {
            return Self(self.0 - units);
        }
        Self(self.0.saturating_sub(units - flowed_past))
    }
}

/// `full_at`; or its latest possible value at `clock`, if it is further ahead than a step back of
/// [`STEP_BACK_MAX`] can explain.
const fn plausible(spec: BucketSpec, full_at: u64, clock: u64) -> u64 {
    let deepest = clock.saturating_add(spec.depth).saturating_add(spec.debt_max);
    let slack = spec.rate * STEP_BACK_MAX.as_secs();
    if full_at > deepest.saturating_add(slack) { deepest } else { full_at }
}

#[cfg(test)]
#[cfg(tidegate_loom)]
mod loom;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
