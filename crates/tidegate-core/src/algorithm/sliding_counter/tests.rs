use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_800_000_000 * SECOND;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn counter(limit: u64, window: Duration) -> SlidingCounter {
    SlidingCounter::new(limit, window).unwrap()
}

#[test]
fn the_window_before_weighs_as_much_as_the_sliding_window_still_covers_of_it() {
    let counter = counter(10, Duration::from_mins(1));
    let state = counter.charge(State::EMPTY, cost(10), at(START));
    for (second, used) in
        [(59, 10), (60, 10), (61, 10), (66, 9), (67, 9), (72, 8), (90, 5), (119, 1), (120, 0)]
    {
        let now = at(START + second * SECOND);
        assert_eq!((counter.used(state, now), counter.remaining(state, now)), (used, 10 - used), "{second}");
    }
    assert_eq!(counter.reset_at(state, at(START)), at(START + 120 * SECOND));
    assert!(counter.is_drained(state, at(START + 120 * SECOND)));
    assert!(!counter.is_drained(state, at(START + 120 * SECOND - 1)));
}

#[test]
fn a_step_back_counts_as_if_the_window_had_just_begun() {
    let counter = counter(10, Duration::from_mins(1));
    let state = counter.charge(State::EMPTY, cost(10), at(START));
    let (_, state) = counter.decide(state, cost(5), at(START + 90 * SECOND));
    assert_eq!(counter.used(state, at(START + 90 * SECOND)), 10);
    for back in [START + 60 * SECOND, START, START - 3600 * SECOND, 0] {
        assert_eq!(counter.used(state, at(back)), 15);
        assert!(matches!(counter.decide(state, Cost::ONE, at(back)).0, Verdict::Wait { .. }));
    }
}

#[test]
fn the_largest_limit_is_what_half_the_bits_beside_the_window_hold() {
    for (window, bits) in [
        (Duration::from_micros(1), 4),
        (Duration::from_millis(1), 9),
        (Duration::from_secs(1), 14),
        (Duration::from_mins(1), 17),
        (Duration::from_hours(1), 20),
        (Duration::from_hours(24), 23),
        (Duration::from_hours(366 * 24), 27),
    ] {
        let largest = (1_u64 << bits) - 1;
        assert!(SlidingCounter::new(largest, window).is_ok());
        let limit = largest + 1;
        let refused = SlidingCounter::new(limit, window);
        assert_eq!(refused, Err(AlgorithmError::LimitTooLarge { limit, largest }), "{window:?}");
    }
    let window = Duration::from_nanos(999);
    assert_eq!(SlidingCounter::new(1, window), Err(AlgorithmError::Window(window)));
}

#[test]
fn a_limit_of_zero_admits_nothing_and_a_larger_cost_never() {
    let nothing = counter(0, Duration::from_secs(1));
    assert_eq!(nothing.decide(State::EMPTY, Cost::ONE, at(START)).0, Verdict::Never { largest: 0 });
    let five = counter(5, Duration::from_secs(1));
    assert_eq!(five.decide(State::EMPTY, cost(6), at(START)), (Verdict::Never { largest: 5 }, State::EMPTY));
}

#[test]
fn a_report_goes_into_debt_that_fades_over_the_next_window() {
    let counter = counter(10, Duration::from_mins(1));
    let state = counter.charge(State::EMPTY, cost(u64::MAX), at(START));
    assert_eq!(counter.used(state, at(START)), 1010);
    let Verdict::Wait { until } = counter.decide(state, Cost::ONE, at(START)).0 else {
        panic!("it is in debt")
    };
    // 1010 weigh at most 9 when 9/1010 of the next window are left.
    assert_eq!(until, at(START + 60 * SECOND + (60 * SECOND * 1001).div_ceil(1010)));
}

#[test]
fn a_refund_gives_back_what_is_newest_first() {
    let counter = counter(10, Duration::from_mins(1));
    let now = at(START + 60 * SECOND);
    let state = counter.charge(counter.charge(State::EMPTY, cost(4), at(START)), cost(3), now);
    assert_eq!(counter.used(state, now), 7);
    assert_eq!(counter.used(counter.refund(state, cost(2), now), now), 5);
    assert_eq!(counter.used(counter.refund(state, cost(5), now), now), 2);
    assert_eq!(counter.used(counter.refund(state, cost(u64::MAX), now), now), 0);
}

#[test]
fn a_charge_is_taken_back_from_under_others_in_its_own_window_and_the_next() {
    let counter = counter(10, Duration::from_mins(1));
    let first = Charged {
        before: State::EMPTY,
        after: counter.charge(State::EMPTY, cost(4), at(START)),
        cost: cost(4),
    };
    for later in [START, START + 30 * SECOND, START + 70 * SECOND, START + 110 * SECOND, START + 150 * SECOND]
    {
        let both = counter.charge(first.after, cost(3), at(later));
        let without = counter.charge(State::EMPTY, cost(3), at(later));
        assert_eq!(counter.undo(both, &first, at(later)), without);
    }
    assert_eq!(counter.undo(first.after, &first, at(START)), State::EMPTY);
}

#[test]
fn another_limit_or_window_keeps_what_is_used() {
    let from = counter(10, Duration::from_mins(1));
    let now = at(START + 90 * SECOND);
    let state = from.charge(State::EMPTY, cost(8), at(START));
    assert_eq!(from.used(state, now), 4);
    let raised = counter(20, Duration::from_mins(1));
    assert_eq!(raised.remaining(raised.carry_over(state, &from, now), now), 16);
    let longer = counter(20, Duration::from_mins(10));
    assert_eq!(longer.remaining(longer.carry_over(state, &from, now), now), 16);
    assert_eq!(longer.carry_over(state, &from, at(START + 200 * SECOND)), State::EMPTY);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn waiting_exactly_as_told_is_enough_and_one_nanosecond_less_is_not(
        window in 1_000..u64::from(u32::MAX), limit in 1..32_u64, units: u64,
        charges in prop::collection::vec((1..40_u64, any::<u64>()), 0..6),
    ) {
        let counter = counter(limit, Duration::from_nanos(window));
        let (mut state, mut now) = (State::EMPTY, START);
        for (units, gap) in charges {
            now += gap % (window * 3 / 2);
            state = counter.charge(state, cost(units), at(now));
        }
        let cost = cost(units % limit + 1);
        if let (Verdict::Wait { until }, next) = counter.decide(state, cost, at(now)) {
            prop_assert_eq!(next, state);
            prop_assert!(until > at(now));
            prop_assert_eq!(counter.decide(state, cost, until).0, Verdict::Admit);
            let before = at(until.as_nanos() - 1);
            prop_assert_eq!(counter.decide(state, cost, before), (Verdict::Wait { until }, state));
        }
    }

    #[test]
    fn nothing_that_comes_from_outside_panics(
        limit: u64, window: u64, bits: [u64; 3], units in 1..=u64::MAX, now: u64,
    ) {
        let other = counter(3, Duration::from_secs(1));
        for window in [window >> 8, window >> 20, window >> 44] {
            for limit in [limit >> 40, limit >> 50, limit >> 62] {
                let Ok(counter) = SlidingCounter::new(limit, Duration::from_nanos(window)) else { continue };
                let [state, before, after] = bits.map(State::from_bits);
                for now in [now, 0, u64::MAX].map(at) {
                    for cost in [units, 1, u64::MAX].map(cost) {
                        let (verdict, next) = counter.decide(state, cost, now);
                        prop_assert!(verdict == Verdict::Admit || next == state);
                        let _ = counter.charge(state, cost, now);
                        let _ = counter.refund(state, cost, now);
                        let _ = counter.undo(state, &Charged { before, after, cost }, now);
                    }
                    prop_assert!(counter.remaining(state, now) <= limit);
                    let _ = (counter.reset_at(state, now), counter.is_drained(state, now));
                    let _ = other.carry_over(state, &counter, now);
                }
            }
        }
    }
}
