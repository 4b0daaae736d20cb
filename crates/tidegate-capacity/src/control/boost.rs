//! Boosts: rates above their shares for partitions that are throttled while their table is not.
//!
//! A proportional control without memory, for reads and writes apart. Partitions that are throttled
//! are brought towards their demand while the table as a whole is within its throughput, together
//! by at most as much as the table leaves unused. When the table exceeds it, boosts are halved. A
//! boost that is no longer used decays. Rates stay between share and ceiling, so nothing winds up.

use core::time::Duration;

use crate::units::Units;

/// The time between two decisions. A decision that comes later counts the time that has passed.
pub const PERIOD: Duration = Duration::from_secs(5);

/// The time in which an unused boost falls to 37 hundredths.
const DECAY: Duration = Duration::from_mins(5);

/// One direction of a partition since the last decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoostLoad {
    /// Its share of the table, in units a second.
    pub base: Units,
    /// Its rate, in units a second.
    pub rate: Units,
    /// The bound of its rate.
    pub ceiling: Units,
    /// Units a second that first attempts asked for, smoothed.
    pub offered: Units,
    /// Whether its own buckets refused anything.
    pub is_throttled: bool,
}

/// The rates of a table's partitions for the next period, in their order.
///
/// `consumed` is what the table consumed and `provisioned` what it may, in units a second;
/// `elapsed` the time since the last decision, at most a minute of which counts.
pub fn boosted_rates(
    loads: &[BoostLoad],
    consumed: Units,
    provisioned: Units,
    elapsed: Duration,
) -> Vec<Units> {
    let elapsed = elapsed.min(Duration::from_mins(1));
    let mut rates: Vec<Units> =
        loads.iter().map(|load| boosted_rate(load, consumed > provisioned, elapsed)).collect();
    let before = |load: &BoostLoad| load.rate.max(load.base);
    let raise = |(load, rate): (&BoostLoad, &Units)| (*rate - before(load)).as_thousandths().max(0);
    let raised: i64 = loads.iter().zip(&rates).map(raise).fold(0, i64::saturating_add);
    let unused = (provisioned - consumed).as_thousandths().max(0);
    if raised > unused {
        // All by the same part.
        for (load, rate) in loads.iter().zip(&mut rates).filter(|(load, rate)| **rate > before(load)) {
            let part = i128::from(raise((load, rate))) * i128::from(unused) / i128::from(raised);
            // At most the raise.
            *rate = before(load) + Units::from_thousandths(part as i64);
        }
    }
    rates
}

fn boosted_rate(load: &BoostLoad, is_table_exceeded: bool, elapsed: Duration) -> Units {
    let [base, rate, ceiling, offered] =
        [load.base, load.rate, load.ceiling, load.offered].map(Units::as_thousandths);
    let next = if is_table_exceeded {
        rate - (rate - base) / 2
    } else if load.is_throttled {
        // A tenth above the demand, so that the partition can catch up.
        let wanted = (offered.saturating_mul(11) / 10).min(ceiling);
        // Demand that is below the rate has been throttled by a burst: it keeps its rate.
        rate + (wanted - rate).max(0) * 7 / 10
    } else if offered < rate.saturating_mul(7) / 10 {
        // A step of the decay, first order: exact enough for steps far below its time.
        let share = i128::from(elapsed.as_millis() as i64) * i128::from(rate - base);
        // At most the boost itself, since `elapsed` is below the time of the decay.
        rate - (share / i128::from(DECAY.as_millis() as i64)) as i64
    } else {
        rate
    };
    Units::from_thousandths(next.clamp(base, ceiling.max(base)))
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load(rate: u64, offered: u64, is_throttled: bool) -> BoostLoad {
        let [base, rate, ceiling, offered] = [100, rate, 1000, offered].map(Units::whole);
        BoostLoad { base, rate, ceiling, offered, is_throttled }
    }

    fn next(load: BoostLoad, consumed: u64) -> u64 {
        boosted_rates(&[load], Units::whole(consumed), Units::whole(400), PERIOD)[0].whole_left()
    }

    #[test]
    fn a_throttled_partition_has_its_demand_within_three_periods() {
        let mut hot = load(100, 150, true);
        for _ in 0..3 {
            hot.rate = boosted_rates(&[hot], Units::whole(300), Units::whole(400), PERIOD)[0];
        }
        // 1.1 times 150, but for 3 hundredths of the way.
        assert!(hot.rate >= Units::whole(163) && hot.rate <= Units::whole(165), "{}", hot.rate);
    }

    #[test]
    fn a_table_above_its_throughput_halves_boosts_and_takes_no_share() {
        assert_eq!(next(load(500, 900, true), 401), 300);
        assert_eq!(next(load(100, 900, true), 401), 100);
        assert_eq!(next(load(500, 900, true), 400), 500, "nothing is unused");
        assert_eq!(next(load(500, 900, true), 300), 600, "a hundred units are unused");
    }

    #[test]
    fn the_raises_of_all_partitions_together_are_at_most_what_the_table_leaves_unused() {
        let loads = [load(100, 900, true), load(100, 500, true), load(100, 90, false)];
        let rates = boosted_rates(&loads, Units::whole(280), Units::whole(400), PERIOD);
        let raised: Vec<i64> =
            rates.iter().map(|rate| (*rate - Units::whole(100)).as_thousandths()).collect();
        let sum: i64 = raised.iter().sum();
        assert!((119_998..=120_000).contains(&sum), "{raised:?}");
        // 1.1 times 900 and 500 are 890 and 450 more than their rates.
        assert!(raised[0] > raised[1] && raised[1] > 0 && raised[2] == 0, "{raised:?}");
    }

    #[test]
    fn a_boost_that_is_not_used_decays_and_one_that_is_used_stays() {
        let mut idle = load(1000, 0, false);
        for _ in 0..60 {
            idle.rate = boosted_rates(&[idle], Units::ZERO, Units::whole(400), PERIOD)[0];
        }
        // 37 hundredths of 900 above the share.
        assert!((420..=440).contains(&idle.rate.whole_left()), "{}", idle.rate);
        assert_eq!(next(load(500, 360, false), 300), 500);
        assert_eq!(next(load(500, 300, true), 300), 500, "a burst within the rate raises nothing");
    }

    proptest! {
        #[test]
        fn rates_stay_between_share_and_ceiling_whatever_happens(
            base in 0_i64..10_000_000,
            extra in 0_i64..10_000_000,
            rate in 0_i64..20_000_000,
            offered in 0_i64..i64::MAX / 16,
            is_throttled: bool,
            consumed in 0_i64..100_000_000,
            millis in 0_u64..100_000_000,
        ) {
            let [base, ceiling, rate, offered, consumed] =
                [base, base + extra, rate, offered, consumed].map(Units::from_thousandths);
            let load = BoostLoad { base, rate, ceiling, offered, is_throttled };
            let provisioned = Units::from_thousandths(50_000_000);
            let next = boosted_rates(&[load], consumed, provisioned, Duration::from_millis(millis))[0];
            prop_assert!(next >= base && next <= ceiling);
        }
    }
}
