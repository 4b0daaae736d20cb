use proptest::prelude::*;

use super::*;

const START: u64 = 1_800_000_000_000_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn bucket(rate: &str, burst: u64) -> Bucket {
    Bucket::new(rate.parse().unwrap(), burst).unwrap()
}

/// How many single units are admitted at `now`, and the state afterwards.
fn drain(bucket: &Bucket, mut state: State, now: Timestamp) -> (u64, State) {
    let mut admitted = 0;
    while let (Verdict::Admit, next) = bucket.decide(state, Cost::ONE, now) {
        (state, admitted) = (next, admitted + 1);
    }
    (admitted, state)
}

/// Any rate: spans from a nanosecond to a year, in powers of ten as people write them or not.
fn rates() -> impl Strategy<Value = Rate> {
    let span = prop_oneof![
        prop::sample::select(vec![1_000_000_000_u64, 60_000_000_000, 3_600_000_000_000, 86_400_000_000_000]),
        (0..55_u32).prop_flat_map(|bits| 1..=(1_u64 << bits).min(duration_nanos(Rate::PER_MAX))),
    ];
    let written = prop::sample::select(vec![
        "299999999/s",
        "7/s",
        "999983/s",
        "1/365d",
        "1000000000/s",
        "999999999/s",
        "3/7ns",
        "100/s",
        "5/10m",
    ]);
    prop_oneof![
        written.prop_map(|text| text.parse().unwrap()),
        (span, 0..64_u32, any::<u64>()).prop_map(|(per, shift, units)| {
            let units = (units >> shift) % per + 1;
            Rate::new(units, Duration::from_nanos(per)).unwrap()
        }),
    ]
}

/// A bucket of any rate with a burst of up to a thousand, or what drains in a year, and the charges
/// made on it.
fn buckets() -> impl Strategy<Value = (Bucket, State, u64)> {
    let charges = prop::collection::vec((any::<u64>(), any::<u64>()), 0..8);
    (rates(), 1..1000_u64, charges).prop_map(|(rate, burst, charges)| {
        let largest =
            u128::from(duration_nanos(WINDOW_MAX)) * u128::from(rate.units()) / u128::from(rate.per_ns());
        let bucket = Bucket::new(rate, burst.min(largest as u64)).unwrap();
        let (mut state, mut now) = (State::EMPTY, START);
        for (units, gap) in charges {
            now += gap % (duration_nanos(bucket.full_drain()) / 4 + 1);
            state = bucket.charge(state, cost(units % bucket.burst() + 1), at(now));
        }
        (bucket, state, now)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]
    #[test]
    fn waiting_exactly_as_told_is_enough_and_one_nanosecond_less_is_not(
        (bucket, state, now) in buckets(), units: u64,
    ) {
        let cost = cost(units % bucket.burst() + 1);
        let (verdict, next) = bucket.decide(state, cost, at(now));
        if let Verdict::Wait { until } = verdict {
            prop_assert_eq!(next, state);
            prop_assert!(until > at(now));
            prop_assert_eq!(bucket.decide(state, cost, until).0, Verdict::Admit);
            let before = at(until.as_nanos() - 1);
            prop_assert_eq!(bucket.decide(state, cost, before), (Verdict::Wait { until }, state));
        } else {
            prop_assert_eq!(verdict, Verdict::Admit);
        }
    }

    #[test]
    fn a_burst_made_at_one_instant_is_the_burst_whatever_the_rate(rate in rates(), burst in 1..50_u64, now: u32) {
        let Ok(bucket) = Bucket::new(rate, burst) else { return Ok(()) };
        let now = at(START + u64::from(now));
        let (admitted, state) = drain(&bucket, State::EMPTY, now);
        prop_assert_eq!(admitted, burst);
        prop_assert_eq!(bucket.used(state, now), burst);
        prop_assert_eq!(bucket.remaining(state, now), 0);
    }

    #[test]
    fn what_remains_is_admitted_and_one_unit_more_is_not((bucket, state, now) in buckets()) {
        let remaining = bucket.remaining(state, at(now));
        let admits = |units| bucket.decide(state, cost(units), at(now)).0 == Verdict::Admit;
        prop_assert!(remaining == 0 || admits(remaining));
        prop_assert!(!admits(remaining + 1));
    }

    #[test]
    fn after_reset_and_not_before_a_state_is_as_good_as_none((bucket, state, now) in buckets()) {
        let reset = bucket.reset_at(state, at(now));
        prop_assert!(bucket.is_drained(state, reset));
        prop_assert_eq!(bucket.used(state, reset), 0);
        let full = cost(bucket.burst());
        prop_assert_eq!(bucket.decide(state, full, reset), bucket.decide(State::EMPTY, full, reset));
        if reset > at(now) {
            prop_assert!(!bucket.is_drained(state, at(reset.as_nanos() - 1)));
        }
    }

    #[test]
    fn nothing_that_comes_from_outside_panics(
        rate in rates(), burst: u64, debt: u64, bits: u64, after: u64, units in 1..=u64::MAX, now: u64,
    ) {
        let other = self::bucket("7/s", 3);
        for (burst, debt) in [(burst, debt), (burst % 64 + 1, debt % 64)] {
            let Ok(bucket) = Bucket::new(rate, burst).and_then(|bucket| bucket.with_debt(debt)) else { continue };
            for bits in [bits, bits >> 8, 0, 1, u64::MAX] {
                for (now, units) in [(now, units), (u64::MAX, u64::MAX), (0, u64::MAX), (START, 1), (u64::MAX, 1)] {
                    let (state, cost, now) = (State::from_bits(bits), cost(units), at(now));
                    let (verdict, next) = bucket.decide(state, cost, now);
                    prop_assert!(verdict == Verdict::Admit || next == state);
                    prop_assert!(bucket.charge(state, cost, now).to_bits() >= bits);
                    prop_assert!(bucket.refund(state, cost, now).to_bits() <= bits);
                    let charged = Charged { before: state, after: State::from_bits(after), cost };
                    prop_assert!(bucket.undo(state, &charged, now).to_bits() <= bits || after == bits);
                    for charged_at in [Timestamp::MIN, at(after), Timestamp::MAX] {
                        prop_assert!(bucket.brought_back(state, charged_at, now).to_bits() <= bits);
                    }
                    let _ = (bucket.used(state, now), bucket.reset_at(state, now), bucket.is_drained(state, now));
                    let _ = (bucket.carry_over(state, &other, now), bucket.carry_instant(state, &other, now));
                    let undone = bucket.undo_instant(state, &charged, &other, now);
                    prop_assert!(undone.to_bits() <= bits || undone == bucket.carry_instant(state, &other, now));
                }
            }
        }
    }

    #[test]
    fn another_rate_keeps_what_is_used((bucket, state, now) in buckets(), rate in rates(), burst in 1..2000_u64) {
        let Ok(next) = Bucket::new(rate, burst) else { return Ok(()) };
        let carried = next.carry_over(state, &bucket, at(now));
        let (before, after) = (bucket.used(state, at(now)), next.used(carried, at(now)));
        let deepest = next.burst() * (1 + REPORT_DEBT_LIMITS);
        prop_assert_eq!(after, before.min(deepest));
    }
}

proptest! {
    /// To the nanosecond, and a nanosecond and a tick later where neither clock makes a whole
    /// number of ticks a nanosecond.
    #[test]
    fn another_rate_that_keeps_the_instant_is_full_when_it_would_have_been(
        (bucket, state, now) in buckets(), rate in rates(), burst in 1..2000_u64,
    ) {
        let Ok(next) = Bucket::new(rate, burst) else { return Ok(()) };
        let carried = next.carry_instant(state, &bucket, at(now));
        let (before, after) = (bucket.reset_at(state, at(now)), next.reset_at(carried, at(now)));
        let later = after.as_nanos().checked_sub(before.as_nanos());
        prop_assert!(later.is_some_and(|later| later <= 2), "{before} became {after}");
    }

    #[test]
    fn a_charge_of_before_the_numbers_changed_is_taken_back_as_the_time_it_took(
        (bucket, state, now) in buckets(), rate in rates(), burst in 1..2000_u64, units in 1..50_u64,
    ) {
        let Ok(next) = Bucket::new(rate, burst) else { return Ok(()) };
        let now = at(now);
        let after = bucket.charge(state, cost(units), now);
        let charged = Charged { before: state, after, cost: cost(units) };
        let carry = |state| next.carry_instant(state, &bucket, now);
        prop_assert_eq!(next.undo_instant(carry(after), &charged, &bucket, now), carry(state));
        let more = next.charge(carry(after), Cost::ONE, now);
        let undone = next.undo_instant(more, &charged, &bucket, now);
        prop_assert!(undone.to_bits() <= more.to_bits());
    }
}

#[test]
fn a_year_of_traffic_at_the_limit_loses_and_wins_nothing() {
    // Rounding the interval to whole nanoseconds would win 11 % at the first.
    let hour = 3_600_000_000_000;
    for rate in ["299999999/s", "999999999/s", "999983/s", "7/s", "11/13ns"] {
        let rate: Rate = rate.parse().unwrap();
        let given = |span: u64| u128::from(span) * u128::from(rate.units()) / u128::from(rate.per_ns());
        let burst = given(2 * hour) as u64;
        let bucket = Bucket::new(rate, burst).unwrap();
        let mut state = bucket.decide(State::EMPTY, cost(burst), at(START)).1;
        let mut admitted = u128::from(burst);
        for hours in 1..=365 * 24 {
            let now = at(START + hours * (hour - 7));
            let remaining = bucket.remaining(state, now);
            let (verdict, next) = bucket.decide(state, cost(remaining), now);
            assert_eq!(verdict, Verdict::Admit);
            state = next;
            admitted += u128::from(remaining);
            let due = given(now.as_nanos() - START) + u128::from(burst);
            // The last unit may come a fraction of a nanosecond early.
            assert!(admitted == due || admitted == due + 1, "{rate}: {admitted} rather than {due}");
        }
    }
}

#[test]
fn a_saturated_bucket_admits_what_the_rate_gives_to_the_unit() {
    for rate in ["299999999/s", "7/s", "999983/s", "999999999/s", "100/s"] {
        let bucket = bucket(rate, 4);
        let rate = bucket.rate();
        let (_, mut state) = drain(&bucket, State::EMPTY, at(START));
        // A client that always waits until the instant in the refusal.
        let mut until = START;
        for admitted in 1..=100_000_u128 {
            let (verdict, _) = bucket.decide(state, Cost::ONE, at(until));
            if let Verdict::Wait { until: told } = verdict {
                until = told.as_nanos();
            }
            let (verdict, next) = bucket.decide(state, Cost::ONE, at(until));
            assert_eq!(verdict, Verdict::Admit);
            state = next;
            let due = (admitted * u128::from(rate.per_ns())).div_ceil(u128::from(rate.units()));
            let told = u128::from(until - START);
            assert!(told == due || told + 1 == due, "{rate}: unit {admitted} at {told} rather than {due}");
        }
    }
}

#[test]
fn rates_of_small_numbers_are_exact_to_the_nanosecond() {
    for (text, interval, units) in
        [("100/s", 10_000_000, 1), ("3/7ns", 7, 3), ("75/s", 40_000_000, 3), ("4/s", 250_000_000, 1)]
    {
        let bucket = bucket(text, 3);
        let full = drain(&bucket, State::EMPTY, at(START)).1;
        let until = at(START + interval);
        if units == 3 {
            assert_eq!(bucket.decide(full, cost(3), at(START)).0, Verdict::Wait { until }, "{text}");
        } else {
            assert_eq!(bucket.decide(full, Cost::ONE, at(START)).0, Verdict::Wait { until }, "{text}");
        }
        assert_eq!(bucket.decide(full, cost(units), at(START + interval)).0, Verdict::Admit);
    }
}

#[test]
fn a_cost_above_the_burst_is_refused_for_ever_unless_debt_allows_it() {
    let plain = bucket("1/s", 5);
    assert_eq!(plain.decide(State::EMPTY, cost(6), at(START)), (Verdict::Never { largest: 5 }, State::EMPTY));
    let lending = plain.with_debt(10).unwrap();
    assert_eq!(lending.decide(State::EMPTY, cost(16), at(START)).0, Verdict::Never { largest: 15 });
    let (verdict, indebted) = lending.decide(State::EMPTY, cost(15), at(START));
    assert_eq!(verdict, Verdict::Admit);
    assert_eq!((lending.used(indebted, at(START)), lending.remaining(indebted, at(START))), (15, 0));
    // One unit is left again after 11 seconds.
    let second = 1_000_000_000;
    assert_eq!(
        lending.decide(indebted, Cost::ONE, at(START)).0,
        Verdict::Wait { until: at(START + 11 * second) }
    );
    // A large one has to wait until no more than the debt would be missing.
    assert_eq!(
        lending.decide(indebted, cost(14), at(START)).0,
        Verdict::Wait { until: at(START + 14 * second) }
    );
}

#[test]
fn a_report_goes_into_debt_up_to_a_hundred_limits_and_no_further() {
    let bucket = bucket("10/s", 10);
    let reported = bucket.charge(State::EMPTY, cost(500), at(START));
    assert_eq!(bucket.used(reported, at(START)), 500);
    let more = bucket.charge(reported, cost(u64::MAX), at(START));
    assert_eq!(bucket.used(more, at(START)), 1010);
    assert_eq!(bucket.charge(more, Cost::ONE, at(START)), more);
    assert_eq!(
        bucket.decide(more, Cost::ONE, at(START)).0,
        Verdict::Wait { until: at(START + 100_100_000_000) }
    );
}

#[test]
fn a_refund_gives_back_no_more_than_is_used() {
    let bucket = bucket("1/s", 5);
    let charged = bucket.charge(State::EMPTY, cost(3), at(START));
    let refunded = bucket.refund(charged, cost(2), at(START));
    assert_eq!(bucket.used(refunded, at(START)), 1);
    let refunded = bucket.refund(refunded, cost(u64::MAX), at(START));
    assert_eq!(bucket.used(refunded, at(START)), 0);
    assert_eq!(drain(&bucket, refunded, at(START)).0, 5);
}

#[test]
fn a_charge_is_taken_back_from_under_others_made_at_the_same_instant() {
    for rate in ["1/s", "7/s"] {
        let bucket = bucket(rate, 9);
        let make = |state, units| bucket.charge(state, cost(units), at(START));
        let first = Charged { before: State::EMPTY, after: make(State::EMPTY, 4), cost: cost(4) };
        let both = make(first.after, 3);
        assert_eq!(bucket.undo(first.after, &first, at(START)), State::EMPTY);
        assert_eq!(bucket.undo(both, &first, at(START)), make(State::EMPTY, 3));
    }
}

#[test]
fn a_charge_taken_back_late_gives_back_only_what_has_not_refilled() {
    let (bucket, second) = (bucket("1/s", 9), 1_000_000_000);
    let first = Charged {
        before: State::EMPTY,
        after: bucket.charge(State::EMPTY, cost(2), at(START)),
        cost: cost(2),
    };
    let both = bucket.charge(first.after, cost(3), at(START + second));
    // Without the first, three are used. Giving back two would leave two.
    assert_eq!(bucket.used(both, at(START + second)), 4);
    assert_eq!(bucket.used(bucket.undo(both, &first, at(START + second)), at(START + second)), 3);
}

#[test]
fn a_clock_that_was_ten_years_ahead_keeps_no_key_out_longer_than_a_drain() {
    let bucket = bucket("100/s", 100);
    let ten_years = 3_653 * 86_400_000_000_000;
    let ahead = drain(&bucket, State::EMPTY, at(START + ten_years)).1;
    assert_eq!(bucket.decide(ahead, Cost::ONE, at(START)), bucket.decide(ahead, Cost::ONE, at(START)));
    assert_eq!(bucket.remaining(ahead, at(START)), 0);
    let back = bucket.brought_back(ahead, Timestamp::MIN, at(START));
    assert_eq!(bucket.remaining(back, at(START)), 0);
    assert_eq!(bucket.reset_at(back, at(START)), at(START + 1_000_000_000));
    // Use that explains it is not changed, wherever it was charged.
    let used = drain(&bucket, State::EMPTY, at(START)).1;
    for charged_at in [START, START + 1, START + ten_years] {
        assert_eq!(bucket.brought_back(used, at(charged_at), at(START)), used);
    }
}

#[test]
fn debt_is_told_from_a_clock_that_was_ahead_by_when_it_was_charged() {
    let bucket = bucket("100/10s", 100);
    let (now, a_drain) = (at(START), at(START + 10_000_000_000));
    let used_up = drain(&bucket, State::EMPTY, now).1;
    // Clocks wander: a drain without a unit is not brought back, so that the next unit takes a
    // drain at most. More is.
    let nearly_a_drain = at(START + 9_900_000_000);
    let ahead = drain(&bucket, State::EMPTY, nearly_a_drain).1;
    assert_eq!(bucket.brought_back(ahead, nearly_a_drain, now), ahead);
    assert_eq!(bucket.decide(ahead, Cost::ONE, now).0, Verdict::Wait { until: a_drain });
    let longer = at(START + 9_900_000_001);
    let ahead = drain(&bucket, State::EMPTY, longer).1;
    assert_eq!(bucket.brought_back(ahead, longer, now), used_up);
    assert_eq!(bucket.brought_back(ahead, Timestamp::MIN, now), ahead, "it may be debt");
    // Reports of ten bursts are debt, also where the clock has stepped back by nearly a drain.
    let in_debt = bucket.charge(State::EMPTY, cost(1_000), now);
    for charged_at in [Timestamp::MIN, now, nearly_a_drain] {
        assert_eq!(bucket.brought_back(in_debt, charged_at, now), in_debt);
    }
    // By more than that, nobody can tell how much of it has drained.
    assert_eq!(bucket.brought_back(in_debt, longer, now), used_up);
}

#[test]
fn numbers_that_make_no_bucket_say_what_to_do() {
    let rate: Rate = "1/d".parse().unwrap();
    assert_eq!(Bucket::new(rate, 0), Err(AlgorithmError::BurstZero));
    assert!(Bucket::new(rate, 366).is_ok());
    assert_eq!(Bucket::new(rate, 367), Err(AlgorithmError::DrainTooLong { burst: 367, rate }));
    assert!(Bucket::new(rate, 300).unwrap().with_debt(66).is_ok());
    let error = Bucket::new(rate, 300).unwrap().with_debt(67);
    assert_eq!(error, Err(AlgorithmError::DrainTooLong { burst: 367, rate }));
    let error = Bucket::new(rate, 300).unwrap().with_debt(u64::MAX);
    assert_eq!(error, Err(AlgorithmError::DrainTooLong { burst: u64::MAX, rate }));
    assert_eq!(bucket("3/s", 1).full_drain(), Duration::from_nanos(333_333_334));
}

#[test]
fn past_the_end_of_its_ticks_a_bucket_admits_nothing() {
    // Four ticks a nanosecond: the year 2116.
    let bucket = bucket("4/9ns", 10);
    let last = at(u64::MAX / 4);
    assert_eq!(drain(&bucket, State::EMPTY, at(last.as_nanos() - 1_000)).0, 10);
    let wait = Verdict::Wait { until: Timestamp::MAX };
    for now in [at(u64::MAX / 4 + 1), Timestamp::MAX] {
        assert_eq!(bucket.decide(State::EMPTY, Cost::ONE, now), (wait, State::EMPTY));
    }
}
