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

fn fixed(limit: u64, seconds: u64, start: WindowStart) -> Fixed {
    Fixed::new(limit, Duration::from_secs(seconds), start).unwrap()
}

#[test]
fn an_aligned_window_ends_at_a_whole_multiple_of_its_length() {
    let fixed = fixed(5, 60, WindowStart::Epoch);
    let now = at(START + 42 * SECOND);
    let (verdict, state) = fixed.decide(State::EMPTY, cost(4), now);
    assert_eq!(verdict, Verdict::Admit);
    assert_eq!((fixed.used(state, now), fixed.remaining(state, now)), (4, 1));
    let end = at(START + 60 * SECOND);
    assert_eq!(fixed.decide(state, cost(2), now), (Verdict::Wait { until: end }, state));
    assert_eq!(fixed.decide(state, cost(2), at(end.as_nanos() - 1)), (Verdict::Wait { until: end }, state));
    assert_eq!(fixed.decide(state, cost(5), end).0, Verdict::Admit);
    assert_eq!(fixed.reset_at(state, now), end);
    assert!(fixed.is_drained(state, end) && !fixed.is_drained(state, at(end.as_nanos() - 1)));
}

#[test]
fn a_window_from_the_first_hit_is_never_shorter_and_at_most_a_thousandth_longer() {
    for seconds in [1, 60, 3600, 86_400 * 366] {
        let fixed = fixed(3, seconds, WindowStart::FirstHit);
        for offset in [0, 1, 2, 999, 123_456_789, 59 * SECOND] {
            let now = at(START + offset);
            let (_, state) = fixed.decide(State::EMPTY, cost(3), now);
            let Verdict::Wait { until } = fixed.decide(state, Cost::ONE, now).0 else { panic!("it is full") };
            let length = until.saturating_since(now);
            assert!(length >= fixed.window() && length < fixed.window() + fixed.window() / 1000);
            assert_eq!(fixed.decide(state, cost(3), until).0, Verdict::Admit);
        }
    }
}

#[test]
fn a_step_back_stays_in_the_window_it_came_from() {
    for start in [WindowStart::Epoch, WindowStart::FirstHit] {
        let fixed = fixed(2, 60, start);
        let (_, state) = fixed.decide(State::EMPTY, cost(2), at(START));
        let end = fixed.reset_at(state, at(START));
        let earlier = at(START - 3600 * SECOND);
        assert_eq!(fixed.decide(state, Cost::ONE, earlier), (Verdict::Wait { until: end }, state));
        assert_eq!(fixed.remaining(state, earlier), 0);
        assert!(!fixed.is_drained(state, earlier));
    }
}

#[test]
fn the_largest_limit_is_what_fits_beside_the_window() {
    for (window, epoch, first_hit) in [
        (Duration::from_micros(1), 9, 0),
        (Duration::from_millis(1), 19, 9),
        (Duration::from_secs(1), 29, 19),
        (Duration::from_mins(1), 35, 25),
        (Duration::from_hours(24), 46, 36),
        (Duration::from_hours(366 * 24), 54, 44),
    ] {
        for (start, bits) in [(WindowStart::Epoch, epoch), (WindowStart::FirstHit, first_hit)] {
            let largest = (1_u64 << bits) - 1;
            assert!(Fixed::new(largest, window, start).is_ok(), "{window:?} {start:?}");
            let limit = largest + 1;
            let refused = Fixed::new(limit, window, start);
            assert_eq!(
                refused,
                Err(AlgorithmError::LimitTooLarge { limit, largest }),
                "{window:?} {start:?}"
            );
        }
    }
}

#[test]
fn reports_go_into_debt_up_to_a_hundred_limits_or_what_the_bits_hold() {
    let now = at(START);
    let small = fixed(10, 1, WindowStart::Epoch);
    let reported = small.charge(State::EMPTY, cost(u64::MAX), now);
    assert_eq!(small.used(reported, now), 1010);
    assert_eq!(small.remaining(reported, now), 0);
    let large = fixed((1 << 29) - 1, 1, WindowStart::Epoch);
    let reported = large.charge(State::EMPTY, cost(u64::MAX), now);
    assert_eq!(large.used(reported, now), (1 << 29) - 1);
    assert_eq!(large.read(reported).window, 1_800_000_000);
}

#[test]
fn a_limit_of_zero_admits_nothing_and_a_larger_cost_never() {
    let nothing = fixed(0, 1, WindowStart::Epoch);
    assert_eq!(nothing.decide(State::EMPTY, Cost::ONE, at(START)).0, Verdict::Never { largest: 0 });
    let five = fixed(5, 1, WindowStart::FirstHit);
    assert_eq!(five.decide(State::EMPTY, cost(6), at(START)), (Verdict::Never { largest: 5 }, State::EMPTY));
}

#[test]
fn numbers_that_make_no_window_are_refused() {
    for window in
        [Duration::ZERO, Duration::from_nanos(999), WINDOW_MAX + Duration::from_nanos(1), Duration::MAX]
    {
        assert_eq!(Fixed::new(1, window, WindowStart::Epoch), Err(AlgorithmError::Window(window)));
    }
}

#[test]
fn another_limit_keeps_the_count_and_another_window_starts_fresh() {
    let now = at(START);
    let from = fixed(10, 60, WindowStart::Epoch);
    let state = from.charge(State::EMPTY, cost(8), now);
    let raised = fixed(20, 60, WindowStart::Epoch);
    assert_eq!(raised.remaining(raised.carry_over(state, &from, now), now), 12);
    let lowered = fixed(5, 60, WindowStart::Epoch);
    assert_eq!(lowered.remaining(lowered.carry_over(state, &from, now), now), 0);
    for other in [fixed(10, 61, WindowStart::Epoch), fixed(10, 60, WindowStart::FirstHit)] {
        assert_eq!(other.carry_over(state, &from, now), State::EMPTY);
    }
}

#[test]
fn a_charge_that_opened_a_window_is_taken_back_as_if_another_had_opened_it() {
    let fixed = fixed(10, 60, WindowStart::FirstHit);
    let charge = |state, units, now| fixed.charge(state, cost(units), at(now));
    let first = Charged { before: State::EMPTY, after: charge(State::EMPTY, 4, START), cost: cost(4) };
    let later = START + 10 * SECOND;
    let both = charge(first.after, 3, later);
    let left = fixed.undo(both, &first, at(later));
    assert_eq!(left, charge(State::EMPTY, 3, later));
    assert_eq!(fixed.undo(first.after, &first, at(later)), State::EMPTY);
    // In another window there is nothing left of it.
    let next = charge(first.after, 3, START + 61 * SECOND);
    assert_eq!(fixed.undo(next, &first, at(START + 61 * SECOND)), next);
}

#[test]
fn what_a_window_held_does_not_come_back_when_its_first_charge_is_taken_back_after_its_end() {
    let fixed = fixed(10, 60, WindowStart::FirstHit);
    let charge = |state, units, now| fixed.charge(state, cost(units), at(now));
    let first = Charged { before: State::EMPTY, after: charge(State::EMPTY, 4, START), cost: cost(4) };
    let both = charge(first.after, 3, START + 10 * SECOND);
    // A window begins on a step of its clock, so that it ends up to one later.
    let end = fixed.reset_at(both, at(START + 10 * SECOND)).as_nanos();
    for now in [end, end + SECOND, end + 61 * SECOND] {
        let left = fixed.undo(both, &first, at(now));
        assert_eq!((fixed.used(left, at(now)), fixed.remaining(left, at(now))), (0, 10), "at {now}");
    }
    let almost = fixed.undo(both, &first, at(end - 1));
    assert_eq!(fixed.used(almost, at(end - 1)), 3, "until its end it is one of those on top that opened it");
}

#[test]
fn the_last_window_of_time_does_not_open_again_and_again() {
    for start in [WindowStart::Epoch, WindowStart::FirstHit] {
        let fixed = fixed(2, 60, start);
        let (_, state) = fixed.decide(State::EMPTY, cost(2), Timestamp::MAX);
        let wait = Verdict::Wait { until: Timestamp::MAX };
        assert_eq!(fixed.decide(state, Cost::ONE, Timestamp::MAX), (wait, state));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn nothing_that_comes_from_outside_panics(
        limit: u64, window: u64, bits: [u64; 3], units in 1..=u64::MAX, now: u64, first_hit: bool,
    ) {
        let start = if first_hit { WindowStart::FirstHit } else { WindowStart::Epoch };
        for window in [window, window >> 8, window >> 20, window >> 44] {
            for limit in [limit, limit >> 20, limit >> 40, limit >> 62] {
                let Ok(fixed) = Fixed::new(limit, Duration::from_nanos(window), start) else { continue };
                let [state, before, after] = bits.map(State::from_bits);
                for now in [now, 0, u64::MAX].map(at) {
                    for cost in [units, 1, u64::MAX].map(cost) {
                        let (verdict, next) = fixed.decide(state, cost, now);
                        prop_assert!(verdict == Verdict::Admit || next == state);
                        let _ = fixed.charge(state, cost, now);
                        let _ = fixed.refund(state, cost, now);
                        let _ = fixed.undo(state, &Charged { before, after, cost }, now);
                    }
                    let used = (fixed.used(state, now), fixed.remaining(state, now));
                    prop_assert!(used.1 <= limit);
                    let _ = (fixed.reset_at(state, now), fixed.is_drained(state, now));
                }
            }
        }
    }
}
