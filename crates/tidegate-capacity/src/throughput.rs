//! One direction of a partition's throughput: its allocation, its burst credit and its ceilings.
//!
//! An access is charged on one of three paths. On the *allocated* path anything left of the
//! allocation admits it, even a large one; the debt, at most [`Units::LARGEST_REQUEST`], is repaid
//! before anything else. On the *burst* path the burst credit must cover all of it. On the *spare*
//! path, that of tables with global admission, the partition has no say. Each path is bounded by
//! the ceiling of the member that serves it.

use tidegate_core::Timestamp;

use crate::bucket::{BucketCharge, BucketSpec, BucketWord};
use crate::fault::Fault;
use crate::levels::{Inflow, Levels, Part, Share};
use crate::meter::Meter;
use crate::status::DirectionStatus;
use crate::units::Units;

/// The most nodes that hold replicas of one partition.
pub(crate) const MEMBERS_MAX: usize = 3;

const DEBT_MAX: u64 = Units::LARGEST_REQUEST.as_thousandths().cast_unsigned();

/// In debt, an allocation admits an access when so many times its units have flowed in since the
/// last admitted one: a hundredth of the rate is for small accesses, and the rest repays the debt.
/// Otherwise large accesses that each come as soon as the debt of the last one is repaid would keep
/// small ones out for ever.
const DEBT_TURN: u64 = 100;

/// The rates of one direction of a partition, in thousandths a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rates {
    /// The share of the table's provisioned throughput.
    pub(crate) base: u64,
    /// The allocation: the base, or more while the partition is boosted.
    pub(crate) allocated: u64,
    /// The bound of everything that a member admits.
    pub(crate) ceiling: u64,
    /// The seconds of the base that the burst credit keeps.
    pub(crate) burst_seconds: u32,
}

impl Rates {
    const fn inflow(self) -> Inflow {
        Inflow {
            rate: self.allocated,
            allocation_max: self.allocated.cast_signed(),
            // At most 10^9 thousandths for 2^32 seconds.
            burst_max: (self.base * self.burst_seconds as u64).cast_signed(),
        }
    }

    fn ceiling(self) -> BucketSpec {
        BucketSpec::new(self.ceiling, self.ceiling, DEBT_MAX)
    }
}

/// The levels of one direction of a partition, and what passed through it.
#[derive(Clone, Debug)]
pub(crate) struct Throughput {
    pub(crate) rates: Rates,
    levels: Levels,
    ceilings: [BucketWord; MEMBERS_MAX],
    /// The number of changes of rates, so that a charge knows whether it was made under the same.
    epoch: u32,
    pub(crate) meter: Meter,
}

/// The level that an access is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChargePath {
    /// The allocation.
    Allocated,
    /// The burst credit.
    Burst,
    /// Nothing but the ceiling.
    Spare,
}

/// A charge; its owner keeps it to be able to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThroughputCharge {
    before: Levels,
    ceiling_before: BucketWord,
    at: Timestamp,
    epoch: u32,
    pub(crate) path: ChargePath,
    /// The position of the member that serves the access.
    pub(crate) member: u8,
}

impl ThroughputCharge {
    pub(crate) const fn at(&self) -> Timestamp {
        self.at
    }
}

/// The levels at an instant, as they are for the next access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelsNow {
    levels: Levels,
    lost: u64,
}

impl LevelsNow {
    pub(crate) const fn allocation(self) -> i64 {
        self.levels.allocation
    }

    pub(crate) const fn burst(self) -> i64 {
        self.levels.burst
    }
}

impl Throughput {
    /// A full allocation, no burst credit, full ceilings.
    pub(crate) fn new(rates: Rates, now: Timestamp) -> Self {
        Self {
            rates,
            levels: Levels::without_burst(rates.inflow(), now),
            ceilings: [BucketWord::default(); MEMBERS_MAX],
            epoch: 0,
            meter: Meter::default(),
        }
    }

    #[inline]
    pub(crate) fn now(&self, now: Timestamp) -> LevelsNow {
        let (levels, lost) = self.levels.refilled(self.rates.inflow(), now);
        LevelsNow { levels, lost }
    }

    /// The state of this member's ceiling after a charge of `cost`; or the first instant at which
    /// it has anything left, if it has nothing.
    #[inline]
    pub(crate) fn ceiling_taken(
        &self,
        member: usize,
        cost: u64,
        now: Timestamp,
    ) -> Result<BucketWord, Timestamp> {
        let charged = self.ceilings[member].taken(self.rates.ceiling(), cost, now)?;
        Ok(BucketWord(charged.after))
    }

    /// Whether an access of `cost` may be charged to the allocation: anything is left of it, or the
    /// access has its turn while a debt is repaid. The debt is smaller then than when the last
    /// access was admitted, so it stays within its bound.
    #[inline]
    pub(crate) fn admits(&self, at: LevelsNow, cost: u64, now: Timestamp) -> bool {
        at.allocation() > 0 || self.has_turn(cost, now)
    }

    #[inline]
    fn has_turn(&self, cost: u64, now: Timestamp) -> bool {
        let turn = turn_of(cost);
        // A smaller debt is repaid before the turn comes.
        self.levels.allocation <= -turn && self.levels.has_gained(self.rates.inflow(), turn, now)
    }

    /// The first instant at which the allocation admits an access of `cost`; `None` if it never
    /// does.
    pub(crate) fn admits_from(&self, at: LevelsNow, cost: u64, now: Timestamp) -> Option<Timestamp> {
        let turn = self.levels.reaches(self.rates.inflow(), self.levels.allocation + turn_of(cost), now);
        Some(self.opens(at, now)?.min(turn?))
    }

    /// Whether each of so many members has less than half of its ceiling left and has used as much
    /// in the last second: after a step back of the clock the levels are not known.
    #[inline]
    pub(crate) fn is_pressed(&self, members: usize, now: Timestamp) -> bool {
        let half = self.rates.ceiling / 2;
        (0..members).all(|member| self.ceiling_level(member, now).as_thousandths() < half.cast_signed())
            && self.meter.consumed(now) >= half
    }

    /// The first instant at which anything is left of the allocation; `None` if it never fills.
    pub(crate) fn opens(&self, at: LevelsNow, now: Timestamp) -> Option<Timestamp> {
        at.levels.reaches(self.rates.inflow(), 1, now)
    }

    /// The first instant at which the allocation is full; `None` if it never fills.
    pub(crate) fn full_from(&self, at: LevelsNow, now: Timestamp) -> Option<Timestamp> {
        at.levels.reaches(self.rates.inflow(), self.rates.inflow().allocation_max, now)
    }

    /// Charges `cost` on `path`, whose level the caller has looked at, served by `member`, whose
    /// ceiling is `ceiling` after it.
    #[inline]
    pub(crate) fn charge(
        &mut self,
        at: LevelsNow,
        path: ChargePath,
        (member, ceiling): (usize, BucketWord),
        cost: u64,
        now: Timestamp,
    ) -> ThroughputCharge {
        let charge = ThroughputCharge {
            before: self.levels,
            ceiling_before: self.ceilings[member],
            at: now,
            epoch: self.epoch,
            path,
            member: member as u8,
        };
        self.levels = charged(at.levels, path, cost);
        if !Fault::CeilingNotCharged.is_planted() {
            self.ceilings[member] = ceiling;
        }
        self.meter.lose(at.lost);
        self.meter.admit(cost, now);
        charge
    }

    fn ceiling_after(&self, before: BucketWord, cost: u64, now: Timestamp) -> BucketWord {
        BucketWord(before.charged(self.rates.ceiling(), cost, now).after)
    }

    /// Keeps what a step back of the clock by more than a minute has made of the levels. Nothing
    /// else is changed by a look.
    #[inline]
    pub(crate) fn note_time(&mut self, at: LevelsNow, now: Timestamp) {
        if at.levels.is_before(self.levels) {
            self.levels = at.levels;
        }
        let ceiling = self.rates.ceiling();
        for word in &mut self.ceilings {
            *word = word.plausible_at(ceiling, now);
        }
    }

    /// Charges `more` units to an access that was admitted on `path` by `member`; returns the units
    /// booked. The debt is at most the largest request.
    pub(crate) fn charge_more(&mut self, path: ChargePath, member: usize, more: u64, now: Timestamp) -> u64 {
        let at = self.now(now);
        let (burst, room) = match path {
            ChargePath::Allocated => (0, debt_room(at.levels)),
            ChargePath::Burst => (at.levels.burst.max(0).cast_unsigned(), debt_room(at.levels)),
            ChargePath::Spare => (0, DEBT_MAX),
        };
        let booked = more.min(burst + room);
        let from_burst = booked.min(burst);
        let levels = charged(at.levels, ChargePath::Burst, from_burst);
        let rest_path = if path == ChargePath::Spare { path } else { ChargePath::Allocated };
        self.levels = charged(levels, rest_path, booked - from_burst);
        self.ceilings[member] = self.ceiling_after(self.ceilings[member], booked, now);
        self.meter.lose(at.lost);
        self.meter.admit(booked, now);
        booked
    }

    /// Takes back `units` of a charge of `cost` that this partition was charged; returns those that
    /// found no room. If nothing was charged since, the state is bit for bit that before.
    pub(crate) fn give_back(
        &mut self,
        charge: &ThroughputCharge,
        cost: u64,
        units: u64,
        now: Timestamp,
    ) -> u64 {
        if charge.epoch != self.epoch {
            return self.give_back_anew(charge.path, units, now);
        }
        let inflow = self.rates.inflow();
        let (before, lost_before) = charge.before.refilled(inflow, charge.at);
        let after = charged(before, charge.path, cost);
        let member = charge.member as usize;
        let ceiling_after = self.ceiling_after(charge.ceiling_before, cost, charge.at);
        self.meter.return_units(units, now);
        if units == cost && self.levels == after && self.ceilings[member] == ceiling_after {
            self.levels = charge.before;
            self.ceilings[member] = charge.ceiling_before;
            // Counted again when the levels are next refilled.
            self.meter.lost = self.meter.lost.saturating_sub(lost_before);
            return 0;
        }
        let on_ceiling = BucketCharge { before: charge.ceiling_before.0, after: ceiling_after.0, cost };
        self.ceilings[member] = self.ceilings[member].returned(self.rates.ceiling(), on_ceiling, units, now);
        let at = self.now(now);
        let amount = units.cast_signed();
        let (levels, lost) = match charge.path {
            ChargePath::Allocated => at.levels.with_charge_undone(inflow, amount, after),
            ChargePath::Burst => at.levels.with_burst(inflow, amount),
            ChargePath::Spare => (at.levels, 0),
        };
        self.levels = levels;
        self.meter.lose(at.lost);
        self.meter.overflow(lost);
        lost
    }

    /// Takes back `units` that another partition, or this one at other rates, was charged on
    /// `path`; returns those that found no room.
    ///
    /// Nothing returns to the ceiling, which may have been cut or joined since: that admits less
    /// for at most a second, and never more.
    pub(crate) fn give_back_anew(&mut self, path: ChargePath, units: u64, now: Timestamp) -> u64 {
        let inflow = self.rates.inflow();
        let at = self.now(now);
        let amount = units.cast_signed();
        let (levels, lost) = match path {
            ChargePath::Allocated => at.levels.filled(inflow, amount),
            ChargePath::Burst => at.levels.with_burst(inflow, amount),
            ChargePath::Spare => (at.levels, 0),
        };
        self.levels = levels;
        self.meter.return_units(units, now);
        self.meter.lose(at.lost);
        self.meter.overflow(lost);
        lost
    }

    /// Changes the rates at `now`. Levels are kept; what no longer fits overflows.
    pub(crate) fn set_rates(&mut self, rates: Rates, now: Timestamp) {
        let at = self.now(now);
        let (levels, lost) = at.levels.filled(rates.inflow(), 0);
        let before = self.rates.ceiling();
        if self.rates.ceiling != rates.ceiling {
            for word in &mut self.ceilings {
                // The missing part of a ceiling goes on missing.
                let missing = before.depth().cast_signed() - word.level(before, now).as_thousandths();
                let spec = rates.ceiling();
                *word = BucketWord::with_level(spec, spec.depth().cast_signed() - missing, now);
            }
        }
        self.levels = levels;
        self.rates = rates;
        self.epoch = self.epoch.wrapping_add(1);
        self.meter.lose(at.lost);
        self.meter.overflow(lost);
    }

    /// Cuts it into two, the left one with `share` of the rates and levels; sums are exact. Both
    /// keep the ceiling and what is missing of it, so that no key is admitted more by a cut.
    pub(crate) fn cut(mut self, share: Share, now: Timestamp) -> [Self; 2] {
        self.set_rates(self.rates, now);
        let base = share.of(self.rates.base);
        let allocated = share.of(self.rates.allocated);
        let of_allocation = Part { part: allocated, whole: self.rates.allocated };
        let of_burst = Part { part: base, whole: self.rates.base };
        let [left_levels, right_levels] = if Fault::TwoBalances.is_planted() {
            [self.levels; 2]
        } else {
            self.levels.cut(of_allocation, of_burst)
        };
        if Fault::CeilingCut.is_planted() {
            self.rates.ceiling /= 2;
        }
        let [left_meter, right_meter] = self.meter.cut(share);
        let right = Self {
            rates: Rates {
                base: self.rates.base - base,
                allocated: self.rates.allocated - allocated,
                ..self.rates
            },
            levels: right_levels,
            meter: right_meter,
            ..self
        };
        let left = Self {
            rates: Rates { base, allocated, ..right.rates },
            levels: left_levels,
            meter: left_meter,
            ..right.clone()
        };
        [left, right]
    }

    /// Joins two; rates, levels and what is missing of the ceilings add up.
    pub(crate) fn joined(mut self, mut other: Self, now: Timestamp) -> Self {
        self.set_rates(self.rates, now);
        other.set_rates(other.rates, now);
        let spec = self.rates.ceiling();
        for (word, beside) in self.ceilings.iter_mut().zip(other.ceilings) {
            let level = word.level(spec, now).as_thousandths() + beside.level(spec, now).as_thousandths();
            let deepest = -DEBT_MAX.cast_signed();
            *word = BucketWord::with_level(spec, (level - spec.depth().cast_signed()).max(deepest), now);
        }
        self.levels = self.levels.joined(other.levels);
        self.rates.base += other.rates.base;
        self.rates.allocated += other.rates.allocated;
        self.meter = self.meter.joined(other.meter, now);
        self.set_rates(self.rates, now);
        // Neither of the charges of both knows this state.
        self.epoch = self.epoch.max(other.epoch).wrapping_add(1);
        self
    }

    pub(crate) fn status(&self, now: Timestamp) -> DirectionStatus {
        let (at, recent) = (self.now(now), self.meter.recent(now));
        DirectionStatus {
            base: Units::from_rate(self.rates.base),
            rate: Units::from_rate(self.rates.allocated),
            ceiling: Units::from_rate(self.rates.ceiling),
            left: Units::from_thousandths(at.allocation()),
            burst_left: Units::from_thousandths(at.burst()),
            consumed: Units::from_rate(self.meter.consumed(now)),
            recently_consumed: Units::from_rate(recent.consumed),
            recently_throttled: Units::from_rate(recent.throttled),
            admitted: Units::from_thousandths(self.meter.admitted),
            offered: Units::from_rate(self.meter.offered),
            throttled: Units::from_rate(self.meter.throttled),
            throttled_at_ceiling: Units::from_rate(self.meter.at_ceiling),
            overflow: Units::from_rate(self.meter.overflow),
        }
    }

    /// The level of this member's ceiling.
    pub(crate) fn ceiling_level(&self, member: usize, now: Timestamp) -> Units {
        self.ceilings[member].level(self.rates.ceiling(), now)
    }

    /// Everything that flowed in and was not charged, in thousandths times 10^9: levels, what is
    /// begun, and what was lost or overflowed.
    #[cfg(test)]
    #[cfg(not(tidegate_loom))]
    pub(crate) fn account(&self, now: Timestamp) -> i128 {
        let at = self.now(now);
        let whole = i128::from(at.allocation())
            + i128::from(at.burst())
            + i128::from(at.lost)
            + i128::from(self.meter.lost)
            + i128::from(self.meter.overflow);
        whole * 1_000_000_000 + i128::from(at.levels.words()[3])
    }

    /// The whole state that decides, as words.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        let rates = [self.rates.base, self.rates.allocated, self.rates.ceiling];
        let ceilings = self.ceilings.map(|word| word.0);
        self.levels.words().into_iter().chain(ceilings).chain(rates)
    }
}

const fn turn_of(cost: u64) -> i64 {
    cost.saturating_mul(DEBT_TURN).cast_signed()
}

fn debt_room(levels: Levels) -> u64 {
    levels.allocation.saturating_add_unsigned(DEBT_MAX).max(0).cast_unsigned()
}

const fn charged(levels: Levels, path: ChargePath, cost: u64) -> Levels {
    let cost = cost.cast_signed();
    match path {
        ChargePath::Allocated => levels.with_allocation(levels.allocation - cost),
        ChargePath::Burst => levels.without_burst_units(cost),
        ChargePath::Spare => levels,
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
