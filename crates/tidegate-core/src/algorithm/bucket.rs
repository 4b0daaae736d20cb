//! Token bucket, as GCRA: a bucket of `burst` units that refills at `rate`.
//!
//! **Promise.** The units admitted between any two instants are at most `burst` plus what `rate`
//! gives between them, and a request that keeps this is admitted: to the nanosecond for most rates,
//! to a third of one for the others (see *Ticks*). Rates are exact ratios: nothing is lost or won
//! over a year of traffic.
//!
//! **State.** One instant, counted from 1970 in *ticks*: the time at which the used units will have
//! drained (GCRA's theoretical arrival time, `tat` below). The usage is the distance from `now` to
//! `tat`. A tick is a fixed part of a unit, so a charge moves the instant by a whole number of
//! ticks whatever the rate, and no rounding adds up.
//!
//! **Ticks.** Let the rate be `n` units each `p` nanoseconds in lowest terms. A unit is `S` ticks;
//! the clock makes `n * S / p` ticks a nanosecond.
//!
//! * `n <= 4`: `S = p`, and the clock makes `n` ticks a nanosecond. Every figure is exact to the
//!   nanosecond. Most rates that people write are of this kind: 100/s is 1 each 10 ms, 75/s is 3
//!   each 40 ms, 5/10m is 1 each 2 minutes.
//! * `n > 4`: `S = floor(4p / n)`, and the clock makes between 3 and 4 ticks a nanosecond. It reads
//!   an instant, as a clock does, as the last tick before it. On that clock the bucket is exact;
//!   against instants of whole nanoseconds it is never late, and early by less than one tick, which
//!   is a third of a nanosecond.
//!
//! More is not to be had in 64 bits: with `n` different remainders within each nanosecond, and 61
//! bits needed to say which nanosecond, either a burst made at one instant loses its last unit or a
//! client that comes back may be admitted a fraction of a nanosecond early. The burst is what
//! people count.
//!
//! **Time.** An instant that lies earlier than one already seen finds more used, never less. A word
//! that a refusal must not change cannot both never admit more after a step back and bound every
//! wait by a drain: the instants passed while waiting are the ones another step back would land on.
//! So the wait is bounded by a write of its own, before a decision ([`Counter::brought_back`]).
//!
//! Ticks run out in the year 2116 at the earliest (four a nanosecond; 2554 at one). From then on
//! nothing is admitted.
//!
//! Reference: ITU-T I.371 annex A and ATM Forum Traffic Management 4.1, section 4.4 (the virtual
//! scheduling form).

use core::time::Duration;

use super::counter::{Charged, Counter, REPORT_DEBT_LIMITS, Room, State, Verdict, rounded_up};
use super::error::{AlgorithmError, WINDOW_MAX};
use super::ratio::Ratio;
use crate::cost::Cost;
use crate::rate::{Rate, gcd};
use crate::time::{Timestamp, duration_nanos};

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

/// A bucket of `burst` units that refills at `rate`, with an optional bounded debt.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::algorithm::{Bucket, Counter, State, Verdict};
/// # use tidegate_core::{Cost, Rate, Timestamp};
/// let bucket = Bucket::new(Rate::per_second(10)?, 50)?;
/// let now = Timestamp::from_secs(1_800_000_000);
/// // A caller that was quiet uses the whole burst at once, and then has the rate.
/// let (verdict, state) = bucket.decide(State::EMPTY, Cost::new(50).unwrap(), now);
/// assert_eq!(verdict, Verdict::Admit);
/// let until = now.saturating_add(Duration::from_millis(100));
/// assert_eq!(bucket.decide(state, Cost::ONE, now), (Verdict::Wait { until }, state));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    rate: Rate,
    burst: u64,
    debt: u64,
    scale: Scale,
    /// `burst` in ticks.
    full: u64,
    /// `burst + debt` in ticks.
    overdrawn: u64,
    /// The most that may be used, after reports, in ticks.
    deepest: u64,
}

impl Bucket {
    /// A bucket that holds `burst` units and refills at `rate`.
    ///
    /// `burst` is at least 1 and at most what `rate` refills in 366 days.
    pub fn new(rate: Rate, burst: u64) -> Result<Self, AlgorithmError> {
        Self::checked(rate, burst, 0)
    }

    /// The same bucket, in which a check may overdraw by at most `units` as long as at least one
    /// unit is left.
    ///
    /// 0 (the default) allows no debt; `burst` and debt together drain within 366 days.
    pub fn with_debt(self, units: u64) -> Result<Self, AlgorithmError> {
        Self::checked(self.rate, self.burst, units)
    }

    fn checked(rate: Rate, burst: u64, debt: u64) -> Result<Self, AlgorithmError> {
        if burst == 0 {
            return Err(AlgorithmError::BurstZero);
        }
        let held = burst.saturating_add(debt);
        if drain_ns(held, rate) > u128::from(duration_nanos(WINDOW_MAX)) {
            return Err(AlgorithmError::DrainTooLong { burst: held, rate });
        }
        Ok(Self::on_scale(rate, burst, debt, Scale::from_rate(rate)))
    }

    fn on_scale(rate: Rate, burst: u64, debt: u64, scale: Scale) -> Self {
        // At most 366 days of 4 ticks a nanosecond, below 2^57; the report debt is 101 times that,
        // below 2^64.
        let full = scale.ticks(burst);
        let overdrawn = scale.ticks(burst.saturating_add(debt));
        let deepest = full.saturating_add(full.saturating_mul(REPORT_DEBT_LIMITS)).max(overdrawn);
        Self { rate, burst, debt, scale, full, overdrawn, deepest }
    }

    /// When `cost` units fit, given that the bucket is full again at `reset_at` and nothing is
    /// charged before: as much earlier as the rest takes to refill, and never a nanosecond too
    /// early. 0 units fit as soon as no more is used than it holds.
    pub fn room_at(&self, cost: u64, reset_at: Timestamp) -> Timestamp {
        let rest = u128::from(self.burst.saturating_sub(cost)) * u128::from(self.rate.per_ns());
        let nanos = u64::try_from(rest / u128::from(self.rate.units())).unwrap_or(u64::MAX);
        reset_at.saturating_sub(Duration::from_nanos(nanos))
    }

    /// How its state tells time.
    pub(crate) const fn clock(&self) -> Clock {
        self.scale.clock
    }

    /// The same bucket on a clock of four ticks a nanosecond, which buckets of every rate can
    /// share. A unit is rounded up to a whole tick, so the bucket refills slower by less than a
    /// quarter of a nanosecond for each unit, and never faster.
    pub(crate) fn on_shared_clock(&self) -> Self {
        Self::on_scale(self.rate, self.burst, self.debt, Scale::shared(self.rate))
    }

    /// The bucket that keeps states of buckets whose specs are retired: usage is kept, and drains
    /// at this bucket's rate or at most 1/128 slower. It holds more units than any bucket of its
    /// rate may.
    ///
    /// It depends on nothing but the time a unit takes, in eight significant bits: there are fewer
    /// than 7 000 of them.
    pub(crate) fn at_rest(&self) -> Self {
        // A unit in quarters of a nanosecond: at most 2^57.
        let unit = (u128::from(self.scale.unit) * 4 * u128::from(self.scale.clock.per_ns))
            .div_ceil(u128::from(self.scale.clock.ticks));
        let unit = rounded_up(u64::try_from(unit).unwrap_or(u64::MAX / 2).max(1));
        let per = Duration::from_nanos(unit.div_ceil(4)).min(Rate::PER_MAX);
        let rate = Rate::new(1, per).unwrap_or(self.rate);
        let largest_drain = 4 * duration_nanos(WINDOW_MAX);
        let burst = (largest_drain + largest_drain / 64).div_ceil(unit);
        Self::on_scale(rate, burst, 0, Scale { unit, clock: Clock::new(4, 1) })
    }

    /// The state under these numbers of a key that was counted by `from`, keeping the instant at
    /// which the bucket is full again: the used units are as many as drain until then.
    ///
    /// [`Counter::carry_over`] keeps the used units instead, and the instant follows from them.
    /// Neither changes a state under the same numbers. The instant is kept to the tick, and to a
    /// nanosecond and a tick later where both rates have more than four units a span (see *Ticks*
    /// above).
    pub fn carry_instant(&self, state: State, from: &Self, now: Timestamp) -> State {
        self.keep_instant(state, from.scale.clock, now)
    }

    /// [`Counter::undo`] of a charge that was made under `from`, to a state that keeps its instant:
    /// takes back the time that the charge moved it by.
    pub fn undo_instant(&self, state: State, charged: &Charged, from: &Self, now: Timestamp) -> State {
        let carry = |state| self.carry_instant(state, from, now);
        let (before, after) = (carry(charged.before), carry(charged.after));
        // The charge moved the instant from one to the other, whatever a unit is by now.
        let cost = Cost::new(u64::MAX).unwrap_or(charged.cost);
        self.undo(state, &Charged { before, after, cost }, now)
    }

    /// [`Bucket::carry_instant`] from a bucket of which only the clock is known.
    pub(crate) fn keep_instant(&self, state: State, from: Clock, now: Timestamp) -> State {
        if from == self.scale.clock {
            return state;
        }
        if from.instant(state.to_bits()) <= now {
            return State::EMPTY;
        }
        State::from_bits(self.scale.clock.read_from(from, state.to_bits()))
    }

    /// The rate it refills at.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Units it holds when full, at least 1.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Units a check may overdraw; 0 unless [`Bucket::with_debt`] allowed more.
    pub const fn debt(&self) -> u64 {
        self.debt
    }

    /// The time in which an empty bucket is full again, rounded up to the nanosecond; at most 366
    /// days.
    pub fn full_drain(&self) -> Duration {
        Duration::from_nanos(u64::try_from(drain_ns(self.burst, self.rate)).unwrap_or(u64::MAX))
    }

    /// The largest `used` in ticks at which a charge of that many ticks is admitted. The charge
    /// fits when the bucket is as the limit allows at all.
    fn used_at_most(&self, charge: u64) -> u64 {
        let within_burst = self.full.saturating_sub(charge);
        if self.debt == 0 {
            return within_burst;
        }
        // One unit must be left before, and no more than the debt be missing after.
        let into_debt = (self.full - self.scale.unit).min(self.overdrawn - charge);
        within_burst.max(into_debt)
    }

    /// [`Counter::decide`] as far as it needs no division.
    #[expect(clippy::inline_always, reason = "as `Counter::decide` of a bucket")]
    #[inline(always)]
    pub(crate) fn room(&self, state: State, cost: Cost, now: Timestamp) -> Room {
        let tat = state.to_bits();
        let level = self.scale.level(now);
        let used = tat.saturating_sub(level);
        let charge = self.scale.ticks(cost.units());
        if self.fits(used, charge) {
            let next = tat.max(level).checked_add(charge);
            return next.map_or(Room::Unclear, |next| Room::Enough(State::from_bits(next)));
        }
        let wait = used.saturating_sub(self.full.saturating_sub(charge));
        // No bucket asks for more than the time in which it is full again.
        if wait <= self.full { Room::Lacking } else { Room::Unclear }
    }

    /// The answer of [`Counter::decide`] in a state that has no room.
    pub(crate) fn refusal(&self, state: State, cost: Cost, now: Timestamp) -> Verdict {
        let charge = self.scale.ticks(cost.units());
        self.refuse(state.to_bits(), (charge, self.scale.level(now)), cost, now)
    }

    /// Whether there is room for a charge of so many ticks where `used` are.
    #[inline]
    fn fits(&self, used: u64, charge: u64) -> bool {
        used.saturating_add(charge) <= self.full
            || (self.debt > 0 && charge <= self.overdrawn && used <= self.used_at_most(charge))
    }

    /// The answer where there is no room for a charge of so many ticks, at `now`, which reads
    /// `level`. Kept apart because it divides.
    #[inline(never)]
    fn refuse(&self, tat: u64, (charge, level): (u64, u64), cost: Cost, now: Timestamp) -> Verdict {
        let largest = self.burst.saturating_add(self.debt);
        if cost.units() > largest {
            return Verdict::Never { largest };
        }
        let until = self.scale.instant(tat.saturating_sub(self.used_at_most(charge))).max(now);
        // Past the end of the ticks there is no instant at which it would be admitted. `until`
        // reads at most `tat` or `level`, and a tick or few more.
        let in_range = (tat | level | charge) < 1 << 62
            || tat.max(self.scale.level(until)).checked_add(charge).is_some();
        Verdict::Wait { until: if in_range { until } else { Timestamp::MAX } }
    }
}

impl Counter for Bucket {
    #[expect(clippy::inline_always, reason = "the usual limit is decided in registers")]
    #[inline(always)]
    fn decide(&self, state: State, cost: Cost, now: Timestamp) -> (Verdict, State) {
        let tat = state.to_bits();
        let level = self.scale.level(now);
        let used = tat.saturating_sub(level);
        let charge = self.scale.ticks(cost.units());
        if self.fits(used, charge)
            && let Some(next) = tat.max(level).checked_add(charge)
        {
            return (Verdict::Admit, State::from_bits(next));
        }
        (self.refuse(tat, (charge, level), cost, now), state)
    }

    fn charge(&self, state: State, cost: Cost, now: Timestamp) -> State {
        let tat = state.to_bits();
        let level = self.scale.level(now);
        let next = tat.max(level).saturating_add(self.scale.ticks(cost.units()));
        // Never below what is booked already, which after a step back may lie beyond the bound.
        State::from_bits(next.min(level.saturating_add(self.deepest)).max(tat))
    }

    fn refund(&self, state: State, cost: Cost, now: Timestamp) -> State {
        let tat = state.to_bits();
        let drained = tat.min(self.scale.level(now));
        State::from_bits(tat.saturating_sub(self.scale.ticks(cost.units())).max(drained))
    }

    /// Why this never gives back too much: let the charge have been `c` ticks, and let charges of
    /// `C` ticks together have been made on top, at instants no later than `now`. GCRA's state is
    /// the largest of "start plus everything since" over all starts: the state before, or the clock
    /// at any of the charges. Without the charge taken back it would therefore be at most the
    /// larger of `before + C` and `level(now) + C`. With it, the state moved from `after` to
    /// `state` by at least `C`, and `after` is at least `before + c`; so the first is at most
    /// `state - c` and the second at most `level(now) + (state - after)`.
    ///
    /// Where that is not so, because `now` is earlier than a charge on top or because something
    /// else was given back in between, this may give back what refilled in between, and never more
    /// than the cost.
    fn undo(&self, state: State, charged: &Charged, now: Timestamp) -> State {
        if state == charged.after {
            return charged.before;
        }
        let (tat, after) = (state.to_bits(), charged.after.to_bits());
        // A report may have been booked only in part.
        let booked =
            self.scale.ticks(charged.cost.units()).min(after.saturating_sub(charged.before.to_bits()));
        let on_top = self.scale.level(now).saturating_add(tat.saturating_sub(after));
        State::from_bits(tat.saturating_sub(booked).max(on_top).min(tat))
    }

    fn limit(&self) -> u64 {
        self.burst
    }

    fn used(&self, state: State, now: Timestamp) -> u64 {
        state.to_bits().saturating_sub(self.scale.level(now)).div_ceil(self.scale.unit)
    }

    fn reset_at(&self, state: State, now: Timestamp) -> Timestamp {
        self.scale.instant(state.to_bits()).max(now)
    }

    #[inline]
    fn is_drained(&self, state: State, now: Timestamp) -> bool {
        state.to_bits() <= self.scale.level(now)
    }

    fn carry_over(&self, state: State, from: &Self, now: Timestamp) -> State {
        let tat = state.to_bits();
        let level = self.scale.level(now);
        if self.scale == from.scale {
            return State::from_bits(tat.min(level.saturating_add(self.deepest)));
        }
        let used = tat.saturating_sub(from.scale.level(now));
        if used == 0 {
            return State::EMPTY;
        }
        let ticks = (u128::from(used) * u128::from(self.scale.unit)).div_ceil(u128::from(from.scale.unit));
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX).min(self.deepest);
        State::from_bits(level.saturating_add(ticks))
    }

    fn brought_back(&self, state: State, charged_at: Timestamp, now: Timestamp) -> State {
        let (tat, level) = (state.to_bits(), self.scale.level(now));
        let used = tat.saturating_sub(level);
        let is_ahead = if charged_at == Timestamp::MIN {
            used > self.deepest
        } else {
            // Charged so far ahead that the next unit would take longer than a full drain, and
            // further than clocks are set back to be exact.
            let next_unit = self.scale.level(charged_at).saturating_add(self.scale.unit);
            used > self.overdrawn
                && charged_at > now.saturating_add(STEP_MAX)
                && next_unit > level.saturating_add(self.full)
        };
        if is_ahead { State::from_bits(level.saturating_add(self.full)) } else { state }
    }
}

/// How far a clock may be set back without its bucket being brought back, whatever its size.
const STEP_MAX: Duration = Duration::from_secs(1);

/// Nanoseconds in which `units` drain, rounded up.
fn drain_ns(units: u64, rate: Rate) -> u128 {
    (u128::from(units) * u128::from(rate.per_ns())).div_ceil(u128::from(rate.units()))
}

/// How instants and units are counted in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Scale {
    /// Ticks in a unit, at least 1.
    unit: u64,
    clock: Clock,
}

impl Scale {
    fn from_rate(rate: Rate) -> Self {
        let (units, per_ns) = lowest_terms(rate);
        // A span is below 2^55, so neither product overflows; `units <= per_ns`, so a unit is at
        // least 4 ticks.
        let unit = if units <= 4 { per_ns } else { 4 * per_ns / units };
        Self { unit, clock: Clock::new(units * unit, per_ns) }
    }

    /// Units of `rate` on a clock that does not depend on it.
    fn shared(rate: Rate) -> Self {
        let (units, per_ns) = lowest_terms(rate);
        Self { unit: (4 * per_ns).div_ceil(units), clock: Clock::new(4, 1) }
    }

    /// `units` in ticks, saturating.
    #[inline]
    fn ticks(&self, units: u64) -> u64 {
        units.saturating_mul(self.unit)
    }

    #[inline]
    fn level(&self, now: Timestamp) -> u64 {
        self.clock.level(now)
    }

    fn instant(&self, level: u64) -> Timestamp {
        self.clock.instant(level)
    }
}

/// How a state tells time. States on one clock can be read without knowing how much a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clock {
    /// Ticks it makes in `per_ns` nanoseconds; at most 4 and at least 1 a nanosecond.
    ticks: u64,
    per_ns: u64,
    ratio: Ratio,
}

impl Clock {
    fn new(ticks: u64, per_ns: u64) -> Self {
        let divisor = gcd(ticks.into(), per_ns.into()) as u64;
        let (ticks, per_ns) = (ticks / divisor, per_ns / divisor);
        Self { ticks, per_ns, ratio: Ratio::new(ticks, per_ns) }
    }

    /// The reading of the clock at `now`: ticks since 1970, saturating.
    #[inline]
    pub(crate) fn level(&self, now: Timestamp) -> u64 {
        self.ratio.of(now.as_nanos())
    }

    /// The first instant at which the clock reads at least `level`.
    #[inline]
    pub(crate) fn instant(&self, level: u64) -> Timestamp {
        let nanos = if self.per_ns == 1 { level.div_ceil(self.ticks) } else { self.nanos_of(level) };
        Timestamp::from_nanos(nanos)
    }

    /// The nanoseconds in which it makes so many ticks, rounded up. Apart, since it calls a
    /// division of 128 bits.
    #[inline(never)]
    fn nanos_of(&self, level: u64) -> u64 {
        // At least one tick a nanosecond: never more nanoseconds than ticks.
        (u128::from(level) * u128::from(self.per_ns)).div_ceil(u128::from(self.ticks)) as u64
    }

    /// The reading of this clock when `other` reads `level`, rounded up to a whole tick,
    /// saturating.
    fn read_from(self, other: Self, level: u64) -> u64 {
        if self.per_ns > 1 && other.per_ns > 1 {
            // The product of both does not fit; a nanosecond that is rounded up, and a tick, are
            // nothing to a bucket.
            return self.level(other.instant(level)).saturating_add(1);
        }
        // One of the two spans is 1 and the other below 2^55, and there are at most 4 ticks a
        // nanosecond.
        let (up, down) = (self.ticks * other.per_ns, u128::from(other.ticks) * u128::from(self.per_ns));
        u64::try_from((u128::from(level) * u128::from(up)).div_ceil(down)).unwrap_or(u64::MAX)
    }
}

/// A rate as units each so many nanoseconds, in lowest terms.
fn lowest_terms(rate: Rate) -> (u64, u64) {
    let divisor = gcd(rate.units().into(), rate.per_ns().into()) as u64;
    (rate.units() / divisor, rate.per_ns() / divisor)
}
