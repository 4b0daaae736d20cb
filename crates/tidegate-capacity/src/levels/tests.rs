use proptest::prelude::*;

use super::*;

const START: u64 = 1_795_210_800_123_456_789;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(START + nanos)
}

fn inflow(rate: u64, allocation_max: i64, burst_max: i64) -> Inflow {
    Inflow { rate, allocation_max, burst_max }
}

/// The same levels as a line of single thousandths, each of which arrives at an instant of its own.
/// Shares no formula with the levels.
struct Arrivals {
    inflow: Inflow,
    allocation: i64,
    burst: i64,
    lost: u64,
    /// Nanoseconds since the start, times the rate: a thousandth arrives with each 10^9 of them.
    seen: u128,
}

impl Arrivals {
    fn full(inflow: Inflow) -> Self {
        Self { inflow, allocation: inflow.allocation_max, burst: 0, lost: 0, seen: 0 }
    }

    fn run_until(&mut self, nanos: u64) {
        let until = u128::from(nanos) * u128::from(self.inflow.rate);
        while (self.seen / 1_000_000_000 + 1) * 1_000_000_000 <= until {
            self.seen = (self.seen / 1_000_000_000 + 1) * 1_000_000_000;
            if self.allocation < self.inflow.allocation_max {
                self.allocation += 1;
            } else if self.burst < self.inflow.burst_max {
                self.burst += 1;
            } else {
                self.lost += 1;
            }
        }
    }
}

proptest! {
    #[test]
    fn levels_are_those_of_single_thousandths_that_arrive_in_turn(
        rate in 1_u64..5000,
        allocation_max in 1_i64..50,
        burst_max in 0_i64..200,
        steps in prop::collection::vec((0_u64..40_000_000, 0_i64..60, any::<bool>()), 1..60),
    ) {
        let inflow = inflow(rate, allocation_max, burst_max);
        let mut levels = Levels::without_burst(inflow, at(0));
        let mut arrivals = Arrivals::full(inflow);
        let (mut nanos, mut lost) = (0, 0);
        for (gap, cost, is_burst) in steps {
            nanos += gap;
            arrivals.run_until(nanos);
            let (now, lost_now) = levels.refilled(inflow, at(nanos));
            lost += lost_now;
            levels = now;
            prop_assert_eq!((levels.allocation, levels.burst, lost), (arrivals.allocation, arrivals.burst, arrivals.lost));
            if is_burst && levels.burst >= cost {
                levels = levels.without_burst_units(cost);
                arrivals.burst -= cost;
            } else if levels.allocation > 0 {
                levels = levels.with_allocation(levels.allocation - cost);
                arrivals.allocation -= cost;
            }
        }
    }

    /// I16.
    #[test]
    fn a_million_looks_and_one_look_give_the_same_levels(
        rate in 1_u64..=1_000_000_000,
        gaps in prop::collection::vec(0_u64..3_000_000_000, 1..200),
        missing in 0_i64..10_000_000_000,
    ) {
        let inflow = inflow(rate, rate.cast_signed(), 300 * rate.cast_signed());
        let start = Levels::without_burst(inflow, at(0)).with_allocation(rate.cast_signed() - missing);
        let (mut often, mut nanos, mut lost) = (start, 0, 0);
        for gap in gaps {
            nanos += gap;
            let (next, lost_now) = often.refilled(inflow, at(nanos));
            often = next;
            lost += lost_now;
        }
        prop_assert_eq!((often, lost), start.refilled(inflow, at(nanos)));
    }

    /// A charge that is undone later leaves no more of the allocation than if it had not been made,
    /// and all that is not lost of both together.
    #[test]
    fn an_undone_charge_leaves_no_more_than_no_charge(
        rate in 1_u64..3000,
        burst_max in 0_i64..3000,
        cost in 1_i64..4000,
        others in prop::collection::vec((0_u64..800_000_000, 0_i64..1500), 0..8),
        last in 0_u64..2_000_000_000,
    ) {
        let inflow = inflow(rate, rate.cast_signed(), burst_max);
        let start = Levels::without_burst(inflow, at(0));
        let after = start.with_allocation(start.allocation - cost);
        let (mut with, mut without, mut nanos) = (after, start, 0);
        for (gap, cost) in others {
            nanos += gap;
            with = with.refilled(inflow, at(nanos)).0;
            without = without.refilled(inflow, at(nanos)).0;
            // Admitted by the levels with the charge, and so by those without.
            if with.allocation > 0 {
                with = with.with_allocation(with.allocation - cost);
                without = without.with_allocation(without.allocation - cost);
            }
        }
        nanos += last;
        let (with, _) = with.refilled(inflow, at(nanos));
        let (without, _) = without.refilled(inflow, at(nanos));
        let (undone, lost) = with.with_charge_undone(inflow, cost, after);
        prop_assert!(undone.allocation <= without.allocation, "{undone:?} {without:?}");
        let (all, all_without) = (undone.allocation + undone.burst, without.allocation + without.burst);
        prop_assert!(all <= all_without, "{undone:?} {without:?}");
        prop_assert!(all + lost.cast_signed() >= all_without, "{undone:?} {without:?} {lost}");
    }

    #[test]
    fn a_cut_and_a_join_keep_every_thousandth(
        allocation in -800_000_i64..1_000_000,
        burst in 0_i64..300_000_000,
        part in 0_u64..=1000,
        elapsed in 0_u64..1_000_000_000,
    ) {
        let inflow = inflow(1000, 1_000_000, 300_000_000);
        let whole = Levels { burst, ..Levels::without_burst(inflow, at(0)).with_allocation(allocation) };
        let (whole, _) = whole.refilled(inflow, at(elapsed));
        let part = Part { part, whole: 1000 };
        let [left, right] = whole.cut(part, part);
        prop_assert_eq!(left.joined(right), whole);
        // Each part fits the bounds of its rate.
        prop_assert!(left.burst <= part.part.cast_signed() * 300_000);
        prop_assert!(right.burst <= (1000 - part.part).cast_signed() * 300_000);
    }
}

#[test]
pub(crate) fn five_idle_minutes_of_150_last_for_900_seconds_at_200() {
    let inflow = inflow(150_000, 150_000, 45_000_000);
    let mut levels = Levels::without_burst(inflow, at(0));
    levels = levels.refilled(inflow, at(300 * NANOS)).0;
    assert_eq!((levels.allocation, levels.burst), (150_000, 45_000_000));
    // A unit each 5 ms, from the allocation while anything is left of it.
    let mut seconds = 0;
    'spent: for step in 1_u64..=400_000 {
        levels = levels.refilled(inflow, at(300 * NANOS + step * 5_000_000)).0;
        if levels.allocation > 0 {
            levels = levels.with_allocation(levels.allocation - 1000);
        } else if levels.burst >= 1000 {
            levels = levels.without_burst_units(1000);
        } else {
            break 'spent;
        }
        seconds = step / 200;
    }
    // Beside the burst credit there is one second of allocation at first.
    assert!((900..=904).contains(&seconds), "{seconds}");
}

#[test]
fn a_step_back_changes_no_level_and_after_a_minute_the_inflow_goes_on() {
    let inflow = inflow(1000, 1000, 5000);
    let used = Levels::without_burst(inflow, at(100 * NANOS)).with_allocation(-500);
    let (after, lost) = used.refilled(inflow, at(50 * NANOS));
    assert_eq!((after, lost), (used, 0));
    assert_eq!(after.refilled(inflow, at(101 * NANOS)).0.allocation, 500, "as if it had not stepped");
    let years_back = Timestamp::from_nanos(START - 100_000_000 * NANOS);
    let (after, _) = used.refilled(inflow, years_back);
    assert_eq!(after.allocation, -500);
    let later = Timestamp::from_nanos(years_back.as_nanos() + NANOS);
    assert_eq!(after.refilled(inflow, later).0.allocation, 500);
}

#[test]
fn a_step_forward_of_years_fills_no_more_than_everything() {
    let inflow = inflow(1_000_000_000, 1_000_000_000, 300_000_000_000);
    let (levels, lost) = Levels::without_burst(inflow, Timestamp::from_nanos(0))
        .refilled(inflow, Timestamp::from_nanos(u64::MAX));
    assert_eq!((levels.allocation, levels.burst), (1_000_000_000, 300_000_000_000));
    assert!(lost > 0);
}

#[test]
fn a_level_is_reached_at_that_instant_and_not_a_nanosecond_before() {
    for rate in [1, 7, 33_333, 999_999_937] {
        let inflow = inflow(rate, 10_000, 0);
        let (levels, _) = Levels::without_burst(inflow, at(0)).with_allocation(-123).refilled(inflow, at(17));
        let opens = levels.reaches(inflow, 1, at(17)).unwrap();
        assert!(levels.refilled(inflow, opens).0.allocation >= 1);
        let before = opens.saturating_sub(Duration::from_nanos(1));
        assert!(levels.refilled(inflow, before).0.allocation < 1, "{rate}");
    }
    let closed = inflow(0, 0, 0);
    assert_eq!(Levels::without_burst(closed, at(0)).reaches(closed, 1, at(0)), None);
}
