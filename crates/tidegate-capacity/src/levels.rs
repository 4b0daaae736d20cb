//! The levels of an allocation and of the burst credit behind it, with exact inflow.
//!
//! Units flow into the allocation at a rate; when the allocation is full, they spill into the burst
//! credit, and when that is full too, they are lost. Nothing else fills the burst credit.
//!
//! The inflow is counted in whole thousandths with the remainder carried along, so a level does not
//! depend on how often it was read: a million reads over an interval and one read give the same
//! number. A step back of the clock changes no level.

use core::time::Duration;

use tidegate_core::Timestamp;

use crate::fault::Fault;

const NANOS: u64 = 1_000_000_000;

/// The largest step back of the clock after which levels wait for the clock to catch up. After a
/// larger one the inflow goes on from the new time, so that a clock that was years ahead does not
/// stop it for years.
pub(crate) const STEP_BACK_MAX: Duration = Duration::from_mins(1);

/// The most thousandths that flow in at once: those of 146 years at the highest rate.
const FLOWED_MAX: u64 = 1 << 62;

/// The rate of the inflow and the largest levels, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inflow {
    /// A second; at most `10^9`.
    pub(crate) rate: u64,
    /// The allocation when it is full.
    pub(crate) allocation_max: i64,
    /// The burst credit when it is full; 0 where bursts are not kept.
    pub(crate) burst_max: i64,
}

/// The levels at the instant of their last change, in thousandths. The allocation is negative in
/// debt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Levels {
    pub(crate) allocation: i64,
    pub(crate) burst: i64,
    /// The instant of the levels in nanoseconds.
    at_ns: u64,
    /// The begun thousandth, in billionths.
    carry: u32,
}

impl Levels {
    /// A full allocation without burst credit.
    pub(crate) const fn without_burst(inflow: Inflow, now: Timestamp) -> Self {
        Self { allocation: inflow.allocation_max, burst: 0, at_ns: now.as_nanos(), carry: 0 }
    }

    /// The levels at `now`, and the thousandths that flowed in and found no room.
    #[inline]
    pub(crate) fn refilled(self, inflow: Inflow, now: Timestamp) -> (Self, u64) {
        let (flowed, begun) = self.flowed_until(inflow.rate, now);
        let carry = if Fault::BegunThousandthDropped.is_planted() { 0 } else { begun };
        let at_ns = if now.as_nanos() >= self.at_ns || is_far_behind(self.at_ns, now) {
            now.as_nanos()
        } else {
            self.at_ns
        };
        // More than all buckets hold together, and far below the largest `i64`.
        let flowed = flowed.min(FLOWED_MAX);
        let (levels, lost) = Self { at_ns, carry, ..self }.filled(inflow, flowed.cast_signed());
        if Fault::BurstFilledByRate.is_planted() {
            let burst = inflow.burst_max.min(self.burst + flowed.cast_signed());
            return (Self { burst, ..levels }, lost);
        }
        (levels, lost)
    }

    /// The thousandths that flow in from the instant of the levels until `now`, and the begun one.
    const fn flowed_until(self, rate: u64, now: Timestamp) -> (u64, u32) {
        let elapsed = now.as_nanos().saturating_sub(self.at_ns);
        let (seconds, nanos) = (elapsed / NANOS, elapsed % NANOS);
        let begun = rate * nanos + self.carry as u64;
        (rate * seconds + begun / NANOS, (begun % NANOS) as u32)
    }

    /// Whether `amount` has flowed in from the instant of the levels until `now`.
    pub(crate) fn has_gained(self, inflow: Inflow, amount: i64, now: Timestamp) -> bool {
        self.flowed_until(inflow.rate, now).0.min(FLOWED_MAX).cast_signed() >= amount
    }

    /// The levels with `amount` more in the allocation, its surplus in the burst credit; and the
    /// surplus of that.
    pub(crate) const fn filled(self, inflow: Inflow, amount: i64) -> (Self, u64) {
        let allocation = self.allocation + amount;
        if allocation <= inflow.allocation_max && self.burst <= inflow.burst_max {
            return (Self { allocation, ..self }, 0);
        }
        let spill = if allocation > inflow.allocation_max { allocation - inflow.allocation_max } else { 0 };
        Self { allocation: allocation - spill, ..self }.with_burst(inflow, spill)
    }

    /// The levels with `amount` more burst credit, and the surplus.
    pub(crate) const fn with_burst(self, inflow: Inflow, amount: i64) -> (Self, u64) {
        let burst = self.burst + amount;
        let lost = if burst > inflow.burst_max { burst - inflow.burst_max } else { 0 };
        (Self { burst: burst - lost, ..self }, lost.cast_unsigned())
    }

    /// Takes back `units` of a charge on the allocation that left the levels `after` it; and the
    /// units that find no room. The inflow has not changed since the charge.
    ///
    /// Without the charge the allocation would have been full earlier, and units would have spilled
    /// into the burst credit. As many as would have spilled return there, so that no later access
    /// is admitted that would have been refused without the charge.
    pub(crate) fn with_charge_undone(self, inflow: Inflow, units: i64, after: Self) -> (Self, u64) {
        let (flowed, _) = after.flowed_until(inflow.rate, Timestamp::from_nanos(self.at_ns));
        let missing_before = inflow.allocation_max - after.allocation - units;
        let spilled = flowed.cast_signed().saturating_sub(missing_before).clamp(0, units);
        let (levels, lost) = self.filled(inflow, units - spilled);
        let (levels, lost_burst) = levels.with_burst(inflow, spilled);
        (levels, lost + lost_burst)
    }

    /// The first instant at which the allocation has at least `level`; `None` if the rate is zero
    /// and it does not.
    pub(crate) fn reaches(self, inflow: Inflow, level: i64, now: Timestamp) -> Option<Timestamp> {
        let missing = level.saturating_sub(self.allocation);
        if missing <= 0 {
            return Some(now);
        }
        if inflow.rate == 0 {
            return None;
        }
        let begun = u128::from(missing.cast_unsigned()) * u128::from(NANOS) - u128::from(self.carry);
        let wait = u64::try_from(begun.div_ceil(u128::from(inflow.rate))).unwrap_or(u64::MAX);
        Some(Timestamp::from_nanos(self.at_ns.saturating_add(wait)))
    }

    /// The same instant with another allocation.
    pub(crate) const fn with_allocation(self, allocation: i64) -> Self {
        Self { allocation, ..self }
    }

    /// The same instant with `units` less of burst credit.
    pub(crate) const fn without_burst_units(self, units: i64) -> Self {
        Self { burst: self.burst - units, ..self }
    }

    /// Whether these are of an earlier instant than `other`, after a step back of the clock.
    pub(crate) const fn is_before(self, other: Self) -> bool {
        self.at_ns < other.at_ns
    }

    /// Cuts the levels into two parts, the left one with these parts of the allocation and of the
    /// burst credit; sums are exact. The begun thousandth goes to the left.
    pub(crate) fn cut(self, allocation: Part, burst: Part) -> [Self; 2] {
        let (allocation, burst) = (allocation.of(self.allocation), burst.of(self.burst));
        let left = Self { allocation, burst, ..self };
        let right =
            Self { allocation: self.allocation - allocation, burst: self.burst - burst, carry: 0, ..self };
        [left, right]
    }

    /// The sum of two levels of the same instant. Two begun thousandths may make a whole one.
    pub(crate) fn joined(self, other: Self) -> Self {
        debug_assert_eq!(self.at_ns, other.at_ns, "both were refilled at the same instant");
        let begun = u64::from(self.carry) + u64::from(other.carry);
        let whole = i64::from(begun >= NANOS);
        Self {
            allocation: self.allocation + other.allocation + whole,
            burst: self.burst + other.burst,
            carry: (begun % NANOS) as u32,
            at_ns: self.at_ns,
        }
    }

    /// The whole state as words.
    pub(crate) const fn words(self) -> [u64; 4] {
        [self.allocation.cast_unsigned(), self.burst.cast_unsigned(), self.at_ns, self.carry as u64]
    }
}

const fn is_far_behind(at_ns: u64, now: Timestamp) -> bool {
    // Less than 2^64 nanoseconds are 584 years.
    at_ns.saturating_sub(now.as_nanos()) > STEP_BACK_MAX.as_nanos() as u64
}

/// A part of a whole, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    /// The half.
    pub const HALF: Self = Self(500_000);
    const WHOLE: u32 = 1_000_000;

    /// `part` of `part + rest`, at least a hundredth and at most 99 hundredths; half if both are 0.
    pub fn from_parts(part: u64, rest: u64) -> Self {
        let whole = u128::from(part) + u128::from(rest);
        if whole == 0 {
            return Self::HALF;
        }
        let millionths = u128::from(part) * u128::from(Self::WHOLE) / whole;
        // At most a million.
        Self((millionths as u32).clamp(Self::WHOLE / 100, Self::WHOLE / 100 * 99))
    }

    /// The part of `amount`, rounded down.
    pub(crate) fn of(self, amount: u64) -> u64 {
        // At most `amount`.
        (u128::from(amount) * u128::from(self.0) / u128::from(Self::WHOLE)) as u64
    }
}

/// A part of a whole as the ratio of two rates. A level within the bound of the whole rate is cut
/// into levels within those of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) part: u64,
    /// Half is taken of a whole of zero.
    pub(crate) whole: u64,
}

impl Part {
    /// The part of `amount`, rounded towards zero.
    fn of(self, amount: i64) -> i64 {
        if self.whole == 0 {
            return amount / 2;
        }
        // At most `amount`, since the part is at most the whole.
        (i128::from(amount) * i128::from(self.part) / i128::from(self.whole)) as i64
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
pub(crate) mod tests;
