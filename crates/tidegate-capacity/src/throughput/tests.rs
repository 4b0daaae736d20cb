use proptest::prelude::*;

use super::*;

const START: Timestamp = Timestamp::from_nanos(1_795_210_800_123_456_789);

fn after(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(START.as_nanos() + nanos)
}

fn rates(base: u64, ceiling: u64) -> Rates {
    Rates { base, allocated: base, ceiling, burst_seconds: 300 }
}

/// A charge by the only member.
fn charge(throughput: &mut Throughput, path: ChargePath, cost: u64, now: Timestamp) -> ThroughputCharge {
    let ceiling = throughput.ceiling_after(throughput.ceilings[0], cost, now);
    throughput.charge(throughput.now(now), path, (0, ceiling), cost, now)
}

/// The path of the next access in burst mode.
fn path(throughput: &Throughput, cost: u64, now: Timestamp) -> Option<ChargePath> {
    let at = throughput.now(now);
    if throughput.ceiling_taken(0, 0, now).is_err() {
        None
    } else if throughput.admits(at, cost, now) {
        Some(ChargePath::Allocated)
    } else {
        (at.burst() >= cost.cast_signed()).then_some(ChargePath::Burst)
    }
}

proptest! {
    /// I2 and I3: over every window what is admitted is bounded by the rate and both buckets, and
    /// by the ceiling and a second of it.
    #[test]
    fn no_window_admits_more_than_rate_burst_and_ceiling_allow(
        base in 100_u64..50_000,
        ceiling in 60_000_u64..200_000,
        steps in prop::collection::vec((0_u64..400_000_000, 1_u64..800_000), 1..80),
    ) {
        let rates = rates(base, ceiling);
        let mut throughput = Throughput::new(rates, START);
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        let mut nanos = 0;
        for (gap, cost) in steps {
            nanos += gap;
            let now = after(nanos);
            if let Some(path) = path(&throughput, cost, now) {
                charge(&mut throughput, path, cost, now);
                admitted.push((nanos, cost));
            }
            for first in 0..admitted.len() {
                let sum: u64 = admitted[first..].iter().map(|(_, cost)| cost).sum();
                let window = u128::from(nanos - admitted[first].0);
                let flow = |rate: u64| (u128::from(rate) * window).div_ceil(1_000_000_000) as u64;
                prop_assert!(sum <= flow(base) + base + 300 * base + DEBT_MAX + 1, "I2");
                prop_assert!(sum <= flow(ceiling) + ceiling + DEBT_MAX + 1, "I3");
            }
        }
    }

    #[test]
    fn a_charge_taken_back_at_once_or_later_leaves_the_words_as_they_were(
        base in 1_u64..1_000_000,
        used in 0_u64..800_000,
        cost in 1_u64..800_000,
        gaps in (0_u64..2_000_000_000, 0_u64..2_000_000_000),
        path in prop::sample::select(vec![ChargePath::Allocated, ChargePath::Burst, ChargePath::Spare]),
    ) {
        let mut throughput = Throughput::new(rates(base, base.max(1000)), START);
        charge(&mut throughput, ChargePath::Allocated, used, START);
        let words: Vec<u64> = throughput.words().collect();
        let now = after(gaps.0);
        let charge = charge(&mut throughput, path, cost, now);
        let lost = throughput.give_back(&charge, cost, cost, after(gaps.0 + gaps.1));
        prop_assert_eq!(lost, 0);
        prop_assert_eq!(throughput.words().collect::<Vec<_>>(), words);
    }

    #[test]
    fn cuts_and_joins_keep_rates_levels_and_counts(
        base in 2_u64..1_000_000,
        idle_seconds in 0_u64..400,
        used in 0_u64..800_000,
        parts in prop::collection::vec((0_u64..100, 0_u64..100), 1..6),
    ) {
        let mut whole = Throughput::new(rates(base, base.max(1000)), START);
        let now = after(idle_seconds * 1_000_000_000);
        charge(&mut whole, ChargePath::Allocated, used, now);
        let sums = |parts: &[Throughput]| {
            let sum = |of: fn(&Throughput) -> i64| parts.iter().map(of).sum::<i64>();
            [
                sum(|one| one.rates.base.cast_signed()),
                sum(|one| one.rates.allocated.cast_signed()),
                sum(|one| one.levels.allocation),
                sum(|one| one.levels.burst),
                sum(|one| one.meter.admitted),
                sum(|one| one.meter.lost.cast_signed()),
            ]
        };
        let before = sums(core::slice::from_ref(&whole));
        let mut pieces = vec![whole];
        for (part, rest) in parts {
            let [left, right] = pieces.remove(0).cut(Share::from_parts(part, rest), now);
            pieces.extend([left, right]);
        }
        prop_assert_eq!(sums(&pieces), before);
        prop_assert!(pieces.iter().all(|one| one.meter.overflow == 0));
        let joined = pieces.into_iter().reduce(|a, b| a.joined(b, now)).unwrap();
        prop_assert_eq!(sums(core::slice::from_ref(&joined)), before);
        prop_assert_eq!(joined.meter.overflow, 0);
    }
}

/// I15.
#[test]
fn units_that_come_back_to_a_part_which_admitted_fewer_leave_the_sum_of_admitted_units_exact() {
    let mut whole = Throughput::new(rates(1_000_000, 1_000_000), START);
    charge(&mut whole, ChargePath::Allocated, 10_000, START);
    let [mut left, right] = whole.cut(Share::from_parts(1, 99), START);
    left.give_back_anew(ChargePath::Allocated, 4000, START);
    assert_eq!((left.meter.admitted, right.meter.admitted), (100 - 4000, 9900));
    assert_eq!(left.joined(right, START).meter.admitted, 6000);
}

#[test]
fn a_cut_gives_no_key_more_of_its_ceiling() {
    let mut whole = Throughput::new(rates(1_000_000, 1_000_000), START);
    charge(&mut whole, ChargePath::Allocated, 900_000, START);
    let left = whole.ceiling_level(0, START);
    let halves = whole.cut(Share::HALF, START);
    assert!(halves.iter().all(|half| half.ceiling_level(0, START) == left));
    assert!(halves.iter().all(|half| half.rates.ceiling == 1_000_000));
}

#[test]
fn a_read_that_weighed_40_instead_of_1_is_felt_by_the_next() {
    let mut throughput = Throughput::new(rates(10_000, 3_000_000), START);
    let charge = charge(&mut throughput, ChargePath::Allocated, 1000, START);
    assert_eq!(throughput.charge_more(charge.path, 0, 39_000, START), 39_000);
    assert_eq!(throughput.now(START).allocation(), -30_000);
    let opens = throughput.opens(throughput.now(START), START).unwrap();
    assert_eq!(opens, after(3_000_100_000));
    // Far more than one request may owe.
    assert_eq!(throughput.charge_more(charge.path, 0, u64::MAX / 2, START), DEBT_MAX - 30_000);
    assert_eq!(throughput.now(START).allocation(), -DEBT_MAX.cast_signed());
    assert_eq!(throughput.charge_more(charge.path, 0, 1, START), 0);
}

#[test]
fn more_units_of_a_burst_come_from_the_burst_credit_first() {
    let now = after(10_000_000_000);
    let mut throughput = Throughput::new(rates(10_000, 3_000_000), START);
    charge(&mut throughput, ChargePath::Allocated, 10_000, now);
    let charge = charge(&mut throughput, ChargePath::Burst, 1000, now);
    assert_eq!(throughput.charge_more(charge.path, 0, 109_000, now), 109_000);
    let at = throughput.now(now);
    assert_eq!((at.allocation(), at.burst()), (-10_000, 0));
}

#[test]
fn a_lower_rate_turns_surplus_into_burst_credit_and_the_rest_overflows() {
    let mut throughput = Throughput::new(Rates { burst_seconds: 1, ..rates(10_000, 3_000_000) }, START);
    throughput.set_rates(Rates { burst_seconds: 1, ..rates(4_000, 3_000_000) }, START);
    let at = throughput.now(START);
    assert_eq!((at.allocation(), at.burst(), throughput.meter.overflow), (4_000, 4_000, 2_000));
    throughput.set_rates(Rates { burst_seconds: 1, ..rates(10_000, 3_000_000) }, START);
    let at = throughput.now(START);
    assert_eq!((at.allocation(), at.burst()), (4_000, 4_000), "a higher rate makes no units");
}

#[test]
fn charges_of_another_rate_are_given_back_without_their_words() {
    let mut throughput = Throughput::new(rates(10_000, 3_000_000), START);
    let charge = charge(&mut throughput, ChargePath::Allocated, 6_000, START);
    throughput.set_rates(Rates { allocated: 20_000, ..throughput.rates }, START);
    assert_eq!(throughput.give_back(&charge, 6_000, 6_000, START), 0);
    assert_eq!(throughput.now(START).allocation(), 10_000);
}
