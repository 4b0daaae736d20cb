//! Tables on demand: a limit that follows the throughput that was used.
//!
//! The *peak* is the highest average over a minute of *admitted* units: units that were only asked
//! for raise nothing. The limit is twice the peak, at least the initial one, at most the configured
//! one. The peak at most doubles within any growth period, however long no tick came. The peak
//! halves in a week without use, so a table returns to a former peak without a refusal.
//!
//! A provisioned table has a peak too. It raises no limit.

use core::time::Duration;

use tidegate_core::Timestamp;

use crate::bucket::BucketSpec;
use crate::units::Units;

/// The time over which admitted units are averaged.
const AVERAGE: Duration = Duration::from_mins(1);

/// The bounds of a table on demand, for one direction, in units a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnDemand {
    /// The least limit; default [`OnDemand::READ_INITIAL`] or [`OnDemand::WRITE_INITIAL`].
    pub initial: Units,
    /// The highest limit; `None`: that of any table, [`crate::TableConfig::UNITS_PER_SECOND_MAX`].
    pub max: Option<Units>,
    /// The time in which the peak at most doubles; default a minute. `DynamoDB` has half an hour.
    /// Less than a minute is a minute, over which the peak is averaged.
    pub growth: Duration,
    /// The time in which an unused peak halves; default [`OnDemand::HALF_LIFE`].
    pub half_life: Duration,
}

impl OnDemand {
    /// The limit of reads of a new table.
    pub const READ_INITIAL: Units = Units::whole(12_000);
    /// The limit of writes of a new table.
    pub const WRITE_INITIAL: Units = Units::whole(4_000);
    /// The time in which an unused peak halves, unless configured: a week.
    pub const HALF_LIFE: Duration = Duration::from_hours(7 * 24);

    /// At least `initial` units a second, without a maximum.
    pub fn new(initial: Units) -> Self {
        Self { initial, max: None, growth: Duration::from_mins(1), half_life: Self::HALF_LIFE }
    }

    /// Bounds the limit.
    #[must_use]
    pub fn max(mut self, max: Units) -> Self {
        self.max = Some(max);
        self
    }

    /// Lets the peak double at most once in this time.
    #[must_use]
    pub fn growth(mut self, growth: Duration) -> Self {
        self.growth = growth;
        self
    }

    /// Lets an unused peak halve in this time.
    #[must_use]
    pub fn half_life(mut self, half_life: Duration) -> Self {
        self.half_life = half_life;
        self
    }

    /// The highest limit, in units a second.
    fn most(&self) -> Units {
        let any = Units::whole(BucketSpec::UNITS_PER_SECOND_MAX);
        self.max.map_or(any, |max| max.min(any))
    }
}

/// The terms of a table on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnDemandTerms {
    /// Of reads.
    pub read: OnDemand,
    /// Of writes.
    pub write: OnDemand,
}

impl Default for OnDemandTerms {
    /// Those of a new table of `DynamoDB`.
    fn default() -> Self {
        Self { read: OnDemand::new(OnDemand::READ_INITIAL), write: OnDemand::new(OnDemand::WRITE_INITIAL) }
    }
}

/// The peaks of the last growth period that are remembered.
const MARKS: usize = 16;

/// The peak of one direction of a table, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratchet {
    peak: Units,
    /// The peak at instants of the last growth period and at its beginning, the latest last.
    marks: [(Timestamp, Units); MARKS],
    decayed_at: Timestamp,
    /// The admitted units of the average that has begun.
    admitted: Units,
    since: Timestamp,
}

impl Ratchet {
    /// A new table at `now`.
    pub fn new(terms: &OnDemand, now: Timestamp) -> Self {
        let peak = half(terms.initial);
        Self { peak, marks: [(now, peak); MARKS], decayed_at: now, admitted: Units::ZERO, since: now }
    }

    /// The peak: half of the limit, unless the initial limit is higher or the maximum lower.
    pub const fn peak(&self) -> Units {
        self.peak
    }

    /// The units a second that the table may use.
    pub fn limit(&self, terms: &OnDemand) -> Units {
        twice(self.peak).max(terms.initial).min(terms.most())
    }

    /// Whether the limit is the highest, so that more use does not raise it.
    pub fn is_at_max(&self, terms: &OnDemand) -> bool {
        self.limit(terms) >= terms.most()
    }

    /// Counts a throughput that the table had until `now`, other than on demand, as its peak.
    pub fn begin_from(&mut self, throughput: Units, now: Timestamp) {
        self.peak = self.peak.max(throughput);
        self.marks = [(now, self.peak); MARKS];
    }

    /// Whether the average of a minute ends by `now`, or begins anew after a step back.
    pub fn is_due(&self, now: Timestamp) -> bool {
        now < self.since || now.saturating_since(self.since) >= AVERAGE
    }

    /// Counts units admitted since the last call, and follows them at the end of each minute. A
    /// call that comes late counts as one average over all of the time; a step back starts anew.
    pub fn observe(&mut self, terms: &OnDemand, admitted: Units, now: Timestamp) {
        if let Some(average) = self.average(admitted, now) {
            self.decay(terms, average, now);
            self.follow(average.min(self.bound(terms, now)).min(terms.most()));
            self.mark(terms, now);
        }
    }

    /// As [`Ratchet::observe`], for a provisioned table: its peak is whatever it used.
    pub(crate) fn observe_provisioned(&mut self, admitted: Units, now: Timestamp) {
        if let Some(average) = self.average(admitted, now) {
            self.decay(&OnDemand::new(Units::ZERO), average, now);
            self.follow(average);
            self.marks = [(now, self.peak); MARKS];
        }
    }

    /// The average since the last one, if at least a minute has passed.
    fn average(&mut self, admitted: Units, now: Timestamp) -> Option<Units> {
        if now < self.since {
            (self.since, self.decayed_at, self.admitted) = (now, now, Units::ZERO);
            self.marks = [(now, self.peak); MARKS];
            return None;
        }
        self.admitted = self.admitted + admitted;
        let elapsed = now.saturating_since(self.since);
        if elapsed < AVERAGE {
            return None;
        }
        let nanos = i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX);
        let average = i128::from(self.admitted.as_thousandths()) * 1_000_000_000 / nanos;
        (self.admitted, self.since) = (Units::ZERO, now);
        // At most what was admitted, since more than a second has passed.
        Some(Units::from_thousandths(average as i64))
    }

    fn follow(&mut self, average: Units) {
        self.peak = self.peak.max(average);
    }

    /// Twice the least peak since a growth period ago: within any growth period, wherever it
    /// begins, the peak at most doubles.
    fn bound(&self, terms: &OnDemand, now: Timestamp) -> Units {
        let begin = now.saturating_sub(terms.growth);
        let first = self.marks.partition_point(|(at, _)| *at <= begin).saturating_sub(1);
        let least = self.marks[first..].iter().map(|(_, peak)| *peak).min();
        twice(least.unwrap_or(self.peak))
    }

    /// Remembers the peak. The marks are far enough apart to reach over a growth period; between
    /// two of them the earlier, lower peak counts.
    fn mark(&mut self, terms: &OnDemand, now: Timestamp) {
        let apart = terms.growth / (MARKS as u32 - 1);
        if now.saturating_since(self.marks[MARKS - 1].0) >= apart {
            self.marks.rotate_left(1);
            self.marks[MARKS - 1] = (now, self.peak);
        }
    }

    /// Lets the peak fall towards the average by the half-life, in whole hours.
    fn decay(&mut self, terms: &OnDemand, average: Units, now: Timestamp) {
        let kept = decayed(self.peak, terms.half_life, &mut self.decayed_at, now);
        let floor = average.max(half(terms.initial));
        self.peak = kept.max(floor).min(self.peak);
    }

    /// The partitions that the limits of reads and writes need at once, by the ceilings of one
    /// partition.
    pub fn partitions_for(read: Units, write: Units, read_ceiling: Units, write_ceiling: Units) -> u32 {
        let share = |limit: Units, ceiling: Units| {
            let ceiling = i128::from(ceiling.as_thousandths().max(1));
            // In millionths of a partition.
            (i128::from(limit.as_thousandths().max(0)) * 1_000_000).div_euclid(ceiling)
        };
        let millionths = share(read, read_ceiling) + share(write, write_ceiling);
        u32::try_from((millionths + 999_999) / 1_000_000).unwrap_or(u32::MAX).max(1)
    }
}

const fn half(units: Units) -> Units {
    Units::from_thousandths(units.as_thousandths() / 2)
}

const fn twice(units: Units) -> Units {
    Units::from_thousandths(units.as_thousandths().saturating_mul(2))
}

/// The rest of `amount`, which halves in each half-life, in whole hours since `decayed_at`.
pub(crate) fn decayed(
    amount: Units,
    half_life: Duration,
    decayed_at: &mut Timestamp,
    now: Timestamp,
) -> Units {
    // A step back of the clock.
    *decayed_at = now.min(*decayed_at);
    let hours = now.saturating_since(*decayed_at).as_secs() / 3600;
    if hours == 0 {
        return amount;
    }
    let unused = Duration::from_secs(hours * 3600);
    *decayed_at = decayed_at.saturating_add(unused);
    let half_lives = unused.as_secs_f64() / half_life.as_secs_f64().max(1.0);
    // Far below 2^53 thousandths, and never negative.
    Units::from_thousandths((amount.as_f64() * (-half_lives).exp2() * 1000.0) as i64).min(amount)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(1_795_210_800 + seconds)
    }

    /// E-OD: the demand of each second, of which the limit admits its part.
    fn climb(ratchet: &mut Ratchet, terms: &OnDemand, from: u64, demand: u64) -> (u64, u64) {
        let mut refused = 0;
        for second in from.. {
            let limit = ratchet.limit(terms).whole_left();
            refused += demand - demand.min(limit);
            ratchet.observe(terms, Units::whole(demand.min(limit)), at(second + 1));
            if limit >= demand || second > from + 36_000 {
                return (second - from, refused);
            }
        }
        unreachable!("a limit grows or an hour ends")
    }

    #[test]
    fn a_thousandfold_growth_takes_a_doubling_a_period_and_the_second_climb_nothing() {
        let terms = OnDemand::new(Units::whole(400));
        let mut ratchet = Ratchet::new(&terms, at(0));
        let (seconds, refused) = climb(&mut ratchet, &terms, 0, 400_000);
        // Ten doublings of a minute; the first is begun at once.
        assert!((9 * 60..=11 * 60).contains(&seconds), "{seconds}");
        assert!(refused > 0);
        // A minute there, back to a tenth for a day, and up again.
        let mut second = seconds + 60;
        ratchet.observe(&terms, Units::whole(400_000 * 60), at(second));
        for _ in 0..24 * 60 {
            second += 60;
            ratchet.observe(&terms, Units::whole(40_000 * 60), at(second));
        }
        let (_, refused) = climb(&mut ratchet, &terms, second, 400_000);
        assert_eq!(refused, 0);
    }

    /// The raises of half an hour, which fall on both sides of where a period would end.
    #[test]
    fn the_limit_at_most_doubles_within_any_growth_period_wherever_it_begins() {
        for growth in [1, 2, 5, 30] {
            let growth = Duration::from_mins(growth);
            let terms = OnDemand { growth, ..OnDemand::new(Units::whole(1_000)) };
            let mut ratchet = Ratchet::new(&terms, at(0));
            let mut limits = Vec::new();
            for minute in 1..=240_u64 {
                // A tiny raise, a pause, and everything that there is.
                let limit = ratchet.limit(&terms).whole_left();
                let used = if minute % 47 < 20 { limit / 2 + 1 } else { limit };
                ratchet.observe(&terms, Units::whole(used * 60), at(minute * 60));
                limits.push(ratchet.limit(&terms));
            }
            let period = growth.as_secs() as usize / 60;
            for (before, after) in limits.iter().zip(&limits[period..]) {
                assert!(*after <= twice(*before), "{before} and {after} within {growth:?}");
            }
            let doublings = limits[239].whole_left().ilog2() - 1000_u64.ilog2();
            let periods = u32::try_from(240 / period).unwrap();
            assert!(doublings >= periods.min(9) * 3 / 4, "{doublings} with {growth:?}");
        }
    }

    #[test]
    fn the_limit_never_exceeds_what_a_table_can_count() {
        let terms = OnDemand::new(Units::whole(600_000));
        let mut ratchet = Ratchet::new(&terms, at(0));
        ratchet.observe(&terms, Units::whole(600_000 * 60), at(60));
        assert_eq!(ratchet.limit(&terms), Units::whole(BucketSpec::UNITS_PER_SECOND_MAX));
        assert!(ratchet.is_at_max(&terms));
    }

    #[test]
    fn units_that_were_only_asked_for_raise_nothing_and_a_late_tick_doubles_once() {
        let terms = OnDemand::new(Units::whole(4_000));
        let mut ratchet = Ratchet::new(&terms, at(0));
        ratchet.observe(&terms, Units::ZERO, at(60));
        assert_eq!(ratchet.limit(&terms), Units::whole(4_000));
        // Ten minutes at the limit in one tick.
        ratchet.observe(&terms, Units::whole(4_000 * 600), at(660));
        assert_eq!(ratchet.limit(&terms), Units::whole(8_000));
        let before = ratchet;
        ratchet.observe(&terms, Units::whole(1_000_000), at(100));
        assert_eq!(ratchet.limit(&terms), before.limit(&terms), "a step back");
        ratchet.observe(&terms, Units::whole(60), at(160));
        assert_eq!(ratchet.limit(&terms), before.limit(&terms));
    }

    #[test]
    fn a_maximum_bounds_and_a_week_without_use_halves() {
        let terms = OnDemand { max: Some(Units::whole(10_000)), ..OnDemand::new(Units::whole(1_000)) };
        let mut ratchet = Ratchet::new(&terms, at(0));
        for minute in 1..=10 {
            ratchet.observe(&terms, Units::whole(9_000 * 60), at(minute * 60));
        }
        assert_eq!(ratchet.limit(&terms), Units::whole(10_000));
        assert!(ratchet.is_at_max(&terms));
        let peak = ratchet.peak().whole_left();
        for hour in 1..=7 * 24 {
            ratchet.observe(&terms, Units::ZERO, at(600 + hour * 3600));
        }
        let ratio = ratchet.peak().whole_left() * 100 / peak;
        assert!((49..=51).contains(&ratio), "{ratio}");
    }

    #[test]
    fn partitions_are_those_that_the_ceilings_need() {
        let [read, write] = [3000, 1000].map(Units::whole);
        let count =
            |reads, writes| Ratchet::partitions_for(Units::whole(reads), Units::whole(writes), read, write);
        assert_eq!(count(12_000, 4_000), 8);
        assert_eq!(count(3_000, 0), 1);
        assert_eq!(count(3_001, 0), 2);
        assert_eq!(count(0, 0), 1);
    }
}
