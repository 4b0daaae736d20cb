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
