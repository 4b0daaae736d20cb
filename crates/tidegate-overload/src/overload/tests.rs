use std::sync::Arc;

use super::*;
use crate::cursor::COHORTS;

const START: Timestamp = Timestamp::from_secs(1_800_000_000);

fn overload(in_flight_max: u64) -> Overload {
    Overload::new(OverloadConfig { in_flight_max, seed: 7 }).unwrap()
}

fn tick_at(number: u64) -> Timestamp {
    START.saturating_add(TICK * u32::try_from(number).unwrap())
}

/// Offers one unit for each of `tenants` tenants in every class; how many of each class were
/// served.
fn offer(overload: &Overload, tenants: u32, now: Timestamp) -> [u32; 4] {
    Class::ALL.map(|class| {
        let served = (0..tenants).filter(|tenant| {
            overload.admit_read_only(class, Some(&tenant.to_string()), Cost::ONE, now).is_none()
        });
        u32::try_from(served.count()).unwrap()
    })
}

#[test]
fn a_class_is_shed_only_after_all_lower_ones_are() {
    let overload = overload(100);
    for step in 0..12 {
        let now = tick_at(step);
        let served = offer(&overload, 1000, now);
        for (class, pair) in served.windows(2).enumerate() {
            assert!(
                pair[0] == 0 || pair[1] == 1000,
                "step {step}: {served:?}, class {class} before a lower one"
            );
        }
        assert_eq!(served[3], 1000, "the cursor sheds nothing of the most important class");
        overload.event(Signal { pressure: 1.5 }, now);
        overload.tick(now);
    }
    assert_eq!(offer(&overload, 1000, tick_at(12)), [0, 0, 0, 1000]);
}

#[test]
fn the_cursor_moves_further_the_further_pressure_is_over_target() {
    let shed_after_one_tick = |pressure: f64| {
        let overload = overload(100);
        offer(&overload, 1000, START);
        overload.event(Signal { pressure }, START);
        overload.tick(START);
        overload.cursor().level()
    };
    assert_eq!(shed_after_one_tick(1.0), 0, "at target nothing is shed");
    assert!(shed_after_one_tick(1.1) > 0);
    assert!(shed_after_one_tick(1.5) > shed_after_one_tick(1.1));
    let half = shed_after_one_tick(1000.0);
    assert!((2 * COHORTS - 8..=2 * COHORTS + 8).contains(&half), "at most half in one tick, was {half}");
}

#[test]
fn the_cursor_opens_in_one_step_when_two_ticks_were_calm() {
    let overload = overload(100);
    for step in 0..10 {
        offer(&overload, 100, tick_at(step));
        overload.event(Signal { pressure: 3.0 }, tick_at(step));
        overload.tick(tick_at(step));
    }
    assert_eq!(overload.cursor(), Cursor::CLOSED);
    overload.event(Signal { pressure: 0.5 }, tick_at(10));
    overload.tick(tick_at(10));
    assert_ne!(overload.cursor(), Cursor::OPEN, "one calm tick may be chance");
    overload.tick(tick_at(11));
    assert_eq!(overload.cursor(), Cursor::OPEN);
}

#[test]
fn a_signal_that_nobody_renews_is_forgotten() {
    let overload = overload(100);
    overload.event(Signal { pressure: 3.0 }, START);
    for step in 0..10 {
        offer(&overload, 100, tick_at(step));
        overload.tick(tick_at(step));
    }
    assert_eq!(overload.cursor(), Cursor::OPEN);
    overload.event(Signal { pressure: f64::NAN }, tick_at(10));
    offer(&overload, 100, tick_at(10));
    overload.tick(tick_at(10));
    assert_eq!(overload.cursor(), Cursor::OPEN, "what is not a number is no pressure");
}

#[test]
fn turning_away_at_the_bound_is_pressure_of_its_own() {
    let overload = overload(10);
    let held: Vec<_> = (0..10).map(|_| overload.acquire(START).unwrap()).collect();
    for _ in 0..10 {
        let shed = overload.acquire(START).unwrap_err();
        assert_eq!((shed.name(), shed.limit()), ("in_flight", 10));
    }
    offer(&overload, 1000, START);
    overload.tick(START);
    assert!(overload.cursor() > Cursor::OPEN);
    for permit in held {
        overload.give_back(permit);
    }
    assert_eq!(overload.in_flight(), 0);
}

#[test]
fn what_limits_deny_is_no_demand_and_sheds_nobody() {
    let cursor_after = |withdrawn: bool| {
        let overload = overload(100);
        for _ in 0..100_000 {
            let flood = (Class::Critical, Some("over its limits"), Cost::ONE);
            assert_eq!(overload.admit_read_only(flood.0, flood.1, flood.2, START), None);
            if withdrawn {
                overload.withdraw(flood.0, flood.1, flood.2, START);
            }
        }
        offer(&overload, 1000, START);
        overload.event(Signal { pressure: 1.2 }, START);
        overload.tick(START);
        overload.cursor()
    };
    assert!(cursor_after(true).class() < Class::Critical);
    assert!(cursor_after(false).class() == Class::Critical, "a flood that counts sheds all lower classes");
}

#[test]
fn withdrawing_after_the_tick_changes_nothing() {
    let cursor_after = |withdrawn: bool| {
        let overload = overload(100);
        if withdrawn {
            overload.withdraw(Class::Critical, None, Cost::new(7).unwrap(), START);
        }
        offer(&overload, 1000, START);
        overload.event(Signal { pressure: 1.2 }, START);
        overload.tick(START);
        overload.cursor()
    };
    assert_eq!(cursor_after(true), cursor_after(false));
}

#[test]
fn the_largest_costs_do_not_wrap_what_was_offered() {
    let overload = overload(100);
    // Two of these would add up to nothing.
    let largest = Cost::new(1 << 63).unwrap();
    for _ in 0..2 {
        assert_eq!(overload.admit_read_only(Class::Critical, None, largest, START), None);
    }
    assert_eq!(overload.admit_read_only(Class::Sheddable, None, Cost::ONE, START), None);
    overload.event(Signal { pressure: 1.5 }, START);
    overload.tick(START);
    assert!(overload.cursor().class() >= Class::Critical, "{:?}", overload.cursor());
}

#[test]
fn a_tick_that_comes_early_changes_nothing_and_a_clock_that_steps_back_is_followed() {
    let overload = overload(10);
    let due = overload.tick(START);
    assert_eq!(due, START.saturating_add(TICK));
    assert_eq!(overload.tick(START.saturating_add(Duration::from_millis(40))), due);
    let back = START.saturating_sub(Duration::from_hours(1));
    assert_eq!(overload.tick(back), back.saturating_add(TICK));
}

#[test]
fn the_same_requests_and_signals_give_the_same_cursor() {
    let run = || {
        let overload = overload(50);
        let mut seen = Vec::new();
        for step in 0..50 {
            offer(&overload, 200, tick_at(step));
            overload.event(Signal { pressure: 0.8 + f64::from((step % 7) as u32) / 10.0 }, tick_at(step));
            overload.tick(tick_at(step));
            seen.push(overload.cursor());
        }
        seen
    };
    assert_eq!(run(), run());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "threads are what is tested")]
fn under_threads_never_more_than_the_bound_are_in_flight_and_all_places_come_back() {
    let overload = Arc::new(overload(3));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let overload = Arc::clone(&overload);
            std::thread::spawn(move || {
                for _ in 0..20_000 {
                    if let Ok(permit) = overload.acquire(START) {
                        let count = overload.in_flight();
                        assert!((1..=3).contains(&count), "{count} in flight");
                        overload.give_back(permit);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(overload.in_flight(), 0);
}

#[test]
fn a_bound_that_is_none_is_named() {
    let error = Overload::new(OverloadConfig { in_flight_max: 0, seed: 1 }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "in_flight_max 0 is not between 1 and 1000000; use how many requests the system works on at once"
    );
}
