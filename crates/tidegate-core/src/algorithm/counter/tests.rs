use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::algorithm::{Bucket, Calendar, CivilUnit, Fixed, SlidingCounter, WindowStart};

/// 2026-11-23, in the middle of a day.
const NOW: u64 = 1_795_435_200_000_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// Uses a key, sees the clock step back, and gives everything or a part of it back.
fn state<C: Counter>(counter: &C, charges: &[(u64, u64)], back: u64, refund: u64) -> (State, Timestamp) {
    let (mut state, mut now) = (State::EMPTY, NOW);
    for (units, gap) in charges {
        now += gap;
        state = counter.charge(state, Cost::new(*units).unwrap(), at(now));
    }
    now -= back;
    if let Some(cost) = Cost::new(refund) {
        state = counter.refund(state, cost, at(now));
    }
    (state, at(now))
}

fn drains_exactly<C: Counter>(counter: &C, (state, now): (State, Timestamp)) -> Result<(), TestCaseError> {
    let drained_at = counter.drained_at(state, now);
    prop_assert!(drained_at >= now.max(counter.reset_at(state, now)));
    prop_assert!(counter.is_drained(state, drained_at), "drained at {drained_at:?}");
    if drained_at > now {
        prop_assert!(!counter.is_drained(state, at(drained_at.as_nanos() - 1)), "before {drained_at:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_state_is_drained_at_the_instant_it_says_and_not_a_nanosecond_earlier(
        limit in 1..50_u64,
        window in 1_000_000..200_000_000_000_000_u64,
        charges in prop::collection::vec((1..20_u64, 0..300_000_000_000_000_u64), 0..5),
        back in 0..400_000_000_000_000_u64,
        refund in 0..120_u64,
        unit in prop::sample::select(vec![CivilUnit::Minute, CivilUnit::Day, CivilUnit::Month]),
    ) {
        let length = Duration::from_nanos(window);
        for start in [WindowStart::Epoch, WindowStart::FirstHit] {
            let fixed = Fixed::new(limit, length, start).unwrap();
            drains_exactly(&fixed, state(&fixed, &charges, back, refund))?;
        }
        let sliding = SlidingCounter::new(limit, length).unwrap();
        drains_exactly(&sliding, state(&sliding, &charges, back, refund))?;
        let calendar = Calendar::new(limit, unit, "Europe/Berlin").unwrap();
        drains_exactly(&calendar, state(&calendar, &charges, back, refund))?;
        let bucket = Bucket::new("7/s".parse().unwrap(), limit).unwrap();
        drains_exactly(&bucket, state(&bucket, &charges, back, refund))?;
    }
}

#[test]
fn an_empty_window_that_lies_ahead_is_drained_when_the_clock_reaches_it() {
    let sliding = SlidingCounter::new(10, Duration::from_mins(1)).unwrap();
    let (later, now) = (at(NOW + 120_000_000_000), at(NOW));
    let state = sliding.refund(sliding.charge(State::EMPTY, Cost::ONE, later), Cost::ONE, now);
    assert_eq!(sliding.reset_at(state, now), now, "nothing is used");
    assert!(!sliding.is_drained(state, now));
    assert_eq!(sliding.drained_at(state, now), later);
}

/// How far the clock was ahead when a key was used: an hour, 40 days, four years.
const AHEAD: [Duration; 3] =
    [Duration::from_hours(1), Duration::from_hours(40 * 24), Duration::from_hours(4 * 366 * 24)];

/// Uses a key with a limit of 5 under a clock that is ahead, and brings it back `now`. The wait
/// that is told then is kept, and no key waits longer than `longest`.
fn comes_back<C: Counter>(counter: &C, longest: Duration) {
    let now = at(NOW);
    for ahead in AHEAD {
        for units in [1, 5] {
            let cost = Cost::new(units).unwrap();
            let charged_at = now.saturating_add(ahead);
            let state = counter.charge(State::EMPTY, cost, charged_at);
            let back = counter.brought_back(state, charged_at, now);
            assert!(counter.used(back, now) >= units, "nothing is forgotten");
            assert_eq!(counter.brought_back(back, charged_at, now), back);
            assert!(counter.reset_at(back, now).saturating_since(now) <= longest, "{ahead:?}, {units} used");
            let full = Cost::new(5).unwrap();
            let Verdict::Wait { until } = counter.decide(back, full, now).0 else {
                panic!("{units} of 5 are used")
            };
            assert!(until.saturating_since(now) <= longest, "{ahead:?}, {units} used");
            // Read again at any instant before, it is as it was.
            for part in 0..8 {
                let earlier = now.saturating_add(until.saturating_since(now) * part / 8);
                assert_eq!(counter.brought_back(back, charged_at, earlier), back);
                assert_eq!(counter.decide(back, full, earlier).0, Verdict::Wait { until });
            }
            assert_eq!(counter.decide(back, full, until).0, Verdict::Admit);
        }
    }
}

#[test]
fn a_clock_that_was_ahead_locks_no_key_for_more_than_two_windows_or_one_drain() {
    let window = Duration::from_mins(10);
    for start in [WindowStart::Epoch, WindowStart::FirstHit] {
        comes_back(&Fixed::new(5, window, start).unwrap(), 2 * window);
    }
    comes_back(&SlidingCounter::new(5, window).unwrap(), 2 * window);
    comes_back(&Calendar::new(5, CivilUnit::Minute, "UTC").unwrap(), 2 * Duration::from_mins(1));
    comes_back(&Bucket::new("5/10m".parse().unwrap(), 5).unwrap(), window);
    comes_back(&Bucket::new("5/h".parse().unwrap(), 5).unwrap(), Duration::from_hours(1));
    let (day, week) = (Duration::from_hours(24), Duration::from_hours(7 * 24));
    for (unit, length) in [(CivilUnit::Day, day), (CivilUnit::Week, week), (CivilUnit::Month, 31 * day)] {
        comes_back(&Calendar::new(5, unit, "Europe/Berlin").unwrap(), 2 * length);
    }
}

#[test]
fn what_was_used_at_most_one_window_ahead_stays() {
    fn stays<C: Counter>(counter: &C, window: Duration) {
        for ahead in [Duration::ZERO, window / 2, window] {
            let state = counter.charge(State::EMPTY, Cost::new(5).unwrap(), at(NOW).saturating_add(ahead));
            assert_eq!(counter.brought_back(state, Timestamp::MIN, at(NOW)), state, "{ahead:?}");
        }
    }
    let window = Duration::from_mins(10);
    stays(&Fixed::new(5, window, WindowStart::Epoch).unwrap(), window);
    stays(&Fixed::new(5, window, WindowStart::FirstHit).unwrap(), window);
    stays(&SlidingCounter::new(5, window).unwrap(), window);
    stays(&Bucket::new("5/10m".parse().unwrap(), 5).unwrap(), window);
    stays(&Calendar::new(5, CivilUnit::Day, "Europe/Berlin").unwrap(), Duration::from_hours(24));
}
