//! A bucket of units, stored as the instant at which it will be full again.
//!
//! Time is counted in the units that have flowed in since 1970: at a rate of `r` a second, the
//! instant `t` is `r * t`. The bucket's whole state is the reading of that clock at which it is
//! full; the missing units are the difference to its reading now. Nothing is rounded twice, so
//! refilling does not depend on how often the level is read, and a charge that is taken back
//! restores the same word. A word of zero is a full bucket.

use core::time::Duration;
use tidegate_core::Timestamp;

use crate::sync::{AtomicU64, Ordering};
use crate::units::Units;

const NANOS: u64 = 1_000_000_000;

/// The largest step back of the clock after which a bucket waits for the clock to catch up.
///
/// After a smaller step a bucket does not refill until the clock is where it was. After a larger
/// one the bucket counts as being in its deepest debt at the new time, so that a clock that was
/// years ahead does not close it for years.
const STEP_BACK_MAX: Duration = Duration::from_mins(1);

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

/// The state of a bucket. All calls for one bucket take the same spec, except for the debt.
#[derive(Debug)]
pub(crate) struct Bucket {
    // Relaxed throughout: the word says everything about the bucket, and nothing else is published
    // through it.
    full_at: AtomicU64,
}

impl Default for Bucket {
    /// A full bucket.
    fn default() -> Self {
        Self { full_at: AtomicU64::new(0) }
    }
}

impl Bucket {
    /// Thousandths left; negative in debt.
    pub(crate) fn level(&self, spec: BucketSpec, now: Timestamp) -> Units {
        let missing = self.full_at.load(Ordering::Relaxed).saturating_sub(spec.clock(now));
        Units::from_thousandths(spec.depth.cast_signed().saturating_sub_unsigned(missing))
    }

    /// The first instant at which something is left; `None` if something is.
    pub(crate) fn closed_until(&self, spec: BucketSpec, now: Timestamp) -> Option<Timestamp> {
        let clock = spec.clock(now);
        let full_at = plausible(spec, self.full_at.load(Ordering::Relaxed), clock);
        (full_at.saturating_sub(clock) >= spec.depth).then(|| spec.opening(full_at))
    }

    /// The first instant at which the bucket is full if nothing is charged before; `now` if it is
    /// full.
    pub(crate) fn full_from(&self, spec: BucketSpec, now: Timestamp) -> Timestamp {
        let full_at = plausible(spec, self.full_at.load(Ordering::Relaxed), spec.clock(now));
        spec.instant_of(full_at).max(now)
    }

    /// Charges `cost` if anything is left, even if it is less than `cost`; otherwise changes
    /// nothing and returns the first instant at which something is left.
    pub(crate) fn take(
        &self,
        spec: BucketSpec,
        cost: u64,
        now: Timestamp,
    ) -> Result<BucketCharge, Timestamp> {
        let (clock, begun) = spec.reading(now);
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let before = plausible(spec, full_at, clock);
            let missing = before.saturating_sub(clock);
            let (next, result) = if missing < spec.depth {
                let after = before.max(clock.saturating_add(begun)).saturating_add(cost);
                (after, Ok(BucketCharge { before, after, cost }))
            } else {
                (before, Err(spec.opening(before)))
            };
            if next == full_at {
                return result;
            }
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return result,
                Err(seen) => full_at = seen,
            }
        }
    }

    /// Charges `cost` even if nothing is left. The debt is at most the spec's; the part of the cost
    /// that would exceed it is not booked.
    pub(crate) fn charge(&self, spec: BucketSpec, cost: u64, now: Timestamp) -> BucketCharge {
        let (clock, begun) = spec.reading(now);
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let before = plausible(spec, full_at, clock);
            let deepest = clock.saturating_add(spec.depth).saturating_add(spec.debt_max);
            let start = before.max(clock.saturating_add(begun));
            let after = start.saturating_add(cost).min(deepest.max(start));
            match self.full_at.compare_exchange_weak(full_at, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return BucketCharge { before, after, cost: after - start },
                Err(seen) => full_at = seen,
            }
        }
    }

    /// Takes back `units` of a charge, at most all of it.
    ///
    /// If all of it is taken back and nothing was charged since, the word is the same as before the
    /// charge. Otherwise no more is left than if those units had not been charged, provided that
    /// instants came in order.
    pub(crate) fn give_back(&self, spec: BucketSpec, charged: BucketCharge, units: u64, now: Timestamp) {
        let units = units.min(charged.cost);
        // Had these units not been charged, the bucket would have been full from here on and would
        // have let units flow past. As many as may have flowed past since are not given back.
        let flowed_past = spec.clock_up(now).saturating_sub(charged.after - units);
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = if full_at != charged.after {
                full_at.saturating_sub(units.saturating_sub(flowed_past))
            } else if units == charged.cost {
                charged.before
            } else {
                full_at - units
            };
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => full_at = seen,
            }
        }
    }

    /// The thousandths that are missing from a full bucket.
    pub(crate) fn missing(&self, spec: BucketSpec, now: Timestamp) -> u64 {
        let clock = spec.clock(now);
        plausible(spec, self.full_at.load(Ordering::Relaxed), clock).saturating_sub(clock)
    }

    /// Lets at least so many thousandths be missing; no debt comes of it.
    pub(crate) fn lack_at_least(&self, spec: BucketSpec, missing: u64, now: Timestamp) {
        if missing > 0 {
            let full_at = spec.clock_up(now).saturating_add(missing.min(spec.depth));
            self.full_at.fetch_max(full_at, Ordering::Relaxed);
        }
    }

    /// The whole state.
    pub(crate) fn word(&self) -> u64 {
        self.full_at.load(Ordering::Relaxed)
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
