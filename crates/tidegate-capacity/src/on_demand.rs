//! Tables on demand: a limit that follows the throughput that was used.
//!
//! The *peak* is the highest average over a minute of *admitted* units: units that were only asked
//! for raise nothing. The limit is twice the peak, at least the initial one, at most the configured
//! one. The peak at most doubles in each growth period, however long no tick came. It is kept as an
//! entitlement that halves in a week, so a table returns to a former peak without a refusal.

use core::time::Duration;

use tidegate_core::Timestamp;

use crate::units::Units;

/// The time over which admitted units are averaged.
const AVERAGE: Duration = Duration::from_mins(1);

/// The bounds of a table on demand, for one direction, in units a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnDemand {
    /// The least limit; default [`OnDemand::READ_INITIAL`] or [`OnDemand::WRITE_INITIAL`].
    pub initial: Units,
    /// The highest limit; `None`: that of any table.
    pub max: Option<Units>,
    /// The time in which the peak at most doubles; default a minute. `DynamoDB` has half an hour.
    pub growth: Duration,
    /// The time in which an unused peak halves; default a week.
    pub half_life: Duration,
}

impl OnDemand {
    /// The limit of reads of a new table.
    pub const READ_INITIAL: Units = Units::whole(12_000);
    /// The limit of writes of a new table.
    pub const WRITE_INITIAL: Units = Units::whole(4_000);

    /// At least `initial` units a second, without a maximum.
    pub fn new(initial: Units) -> Self {
        Self { initial, max: None, growth: Duration::from_mins(1), half_life: Duration::from_hours(7 * 24) }
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

/// The peak of one direction of a table, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratchet {
    peak: Units,
    /// The highest average of this growth period, which the peak may follow.
    grown_from: Units,
    grown_at: Timestamp,
    decayed_at: Timestamp,
    /// The admitted units of the average that has begun.
    admitted: Units,
    since: Timestamp,
}

impl Ratchet {
    /// A new table at `now`.
    pub fn new(terms: &OnDemand, now: Timestamp) -> Self {
        let peak = Units::from_thousandths(terms.initial.as_thousandths() / 2);
        Self { peak, grown_from: peak, grown_at: now, decayed_at: now, admitted: Units::ZERO, since: now }
    }

    /// The peak: half of the limit, unless the maximum is lower.
    pub const fn peak(&self) -> Units {
        self.peak
    }

    /// The units a second that the table may use.
    pub fn limit(&self, terms: &OnDemand) -> Units {
        let twice = Units::from_thousandths(self.peak.as_thousandths().saturating_mul(2));
        let limit = twice.max(terms.initial);
        terms.max.map_or(limit, |max| limit.min(max))
    }

    /// Whether the limit is the configured maximum, so that more use does not raise it.
    pub fn is_at_max(&self, terms: &OnDemand) -> bool {
        terms.max.is_some_and(|max| self.limit(terms) >= max)
    }

    /// Counts units admitted since the last call, and follows them at the end of each minute. A
    /// call that comes late counts as one average over all of the time; a step back starts anew.
    pub fn observe(&mut self, terms: &OnDemand, admitted: Units, now: Timestamp) {
        if now < self.since {
            (self.since, self.grown_at, self.decayed_at) = (now, now, now);
            self.admitted = Units::ZERO;
            return;
        }
        self.admitted = self.admitted + admitted;
        let elapsed = now.saturating_since(self.since);
        if elapsed < AVERAGE {
            return;
        }
        let nanos = i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX);
        let average = i128::from(self.admitted.as_thousandths()) * 1_000_000_000 / nanos;
        // At most what was admitted, since more than a second has passed.
        self.follow(terms, Units::from_thousandths(average as i64), now);
        (self.admitted, self.since) = (Units::ZERO, now);
    }

    fn follow(&mut self, terms: &OnDemand, average: Units, now: Timestamp) {
        self.decay(terms, average, now);
        if now.saturating_since(self.grown_at) >= terms.growth {
            (self.grown_from, self.grown_at) = (self.peak, now);
        }
        let bound = Units::from_thousandths(self.grown_from.as_thousandths().saturating_mul(2));
        let most = terms.max.map_or(bound, |max| bound.min(max));
        self.peak = self.peak.max(average.min(most));
    }

    /// Lets the peak fall towards the average by the half-life, in whole hours.
    fn decay(&mut self, terms: &OnDemand, average: Units, now: Timestamp) {
        let hours = now.saturating_since(self.decayed_at).as_secs() / 3600;
        if hours == 0 {
            return;
        }
        self.decayed_at = self.decayed_at.saturating_add(Duration::from_secs(hours * 3600));
        let unused = Duration::from_secs(hours * 3600);
        let half_lives = unused.as_secs_f64() / terms.half_life.as_secs_f64().max(1.0);
        let kept = self.peak.as_f64() * (-half_lives).exp2();
        let floor = average.max(Units::from_thousandths(terms.initial.as_thousandths() / 2));
        // Far below 2^53 thousandths, and never negative.
        self.peak = Units::from_thousandths((kept * 1000.0) as i64).max(floor).min(self.peak);
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

/// The peaks of a table on demand, and the units it had admitted when they were last followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) ratchets: [Ratchet; 2],
    pub(crate) admitted: [Units; 2],
}

impl Demand {
    pub(crate) fn new(terms: &OnDemandTerms, now: Timestamp) -> Self {
        let ratchets = [Ratchet::new(&terms.read, now), Ratchet::new(&terms.write, now)];
        Self { ratchets, admitted: [Units::ZERO; 2] }
    }
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
        let terms = OnDemand::new(Units::whole(4_000));
        let mut ratchet = Ratchet::new(&terms, at(0));
        let (seconds, refused) = climb(&mut ratchet, &terms, 0, 4_000_000);
        // Ten doublings of a minute; the first is begun at once.
        assert!((9 * 60..=11 * 60).contains(&seconds), "{seconds}");
        assert!(refused > 0);
        // Back to a tenth for a day, and up again.
        let mut second = seconds;
        for _ in 0..24 * 60 {
            second += 60;
            ratchet.observe(&terms, Units::whole(400_000 * 60), at(second));
        }
        let (_, refused) = climb(&mut ratchet, &terms, second, 3_500_000);
        assert_eq!(refused, 0);
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
