use core::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_nanos(u64::try_from(instant.as_nanosecond()).unwrap())
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn calendar(unit: CivilUnit, zone: &str) -> Calendar {
    Calendar::new(10, unit, zone).unwrap()
}

/// The window that holds the instant, as seen from outside: from and until when it counts.
fn until(calendar: &Calendar, now: &str) -> Timestamp {
    calendar.reset_at(calendar.charge(State::EMPTY, Cost::ONE, at(now)), at(now))
}

#[test]
fn days_have_23_24_or_25_hours_where_clocks_change() {
    for (zone, noon, end) in [
        ("Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-28T23:00:00Z"),
        ("Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29T22:00:00Z"),
        ("Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-25T23:00:00Z"),
        ("America/New_York", "2026-11-01T12:00:00Z", "2026-11-02T05:00:00Z"),
        ("Asia/Kathmandu", "2026-06-01T12:00:00Z", "2026-06-01T18:15:00Z"),
        ("Australia/Lord_Howe", "2026-04-05T00:00:00Z", "2026-04-05T13:30:00Z"),
        // The day after 2011-12-29 was 2011-12-31.
        ("Pacific/Apia", "2011-12-30T05:00:00Z", "2011-12-30T10:00:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"),
        // Clocks go back at 00:01 to 23:01: midnight is passed twice, and the day begins the first
        // time.
        ("America/St_Johns", "2006-10-28T12:00:00Z", "2006-10-29T02:30:00Z"),
        ("America/St_Johns", "2006-10-29T03:00:00Z", "2006-10-30T03:30:00Z"),
    ] {
        assert_eq!(until(&calendar(CivilUnit::Day, zone), noon), at(end), "{zone} {noon}");
    }
}

#[test]
fn an_hour_ends_at_the_next_full_hour_and_where_clocks_are_set() {
    let berlin = calendar(CivilUnit::Hour, "Europe/Berlin");
    let (_, state) = berlin.decide(State::EMPTY, cost(10), at("2026-10-25T00:10:00Z"));
    let end = at("2026-10-25T01:00:00Z");
    for now in ["2026-10-25T00:10:00Z", "2026-10-25T00:59:59.999999999Z"] {
        assert_eq!(berlin.decide(state, Cost::ONE, at(now)).0, Verdict::Wait { until: end });
    }
    assert_eq!(berlin.decide(state, Cost::ONE, end).0, Verdict::Admit);
    for (zone, borders) in [
        // 2 to 3 is shown twice.
        ("Europe/Berlin", &["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"][..]),
        // At 3 it is 1 again.
        (
            "Antarctica/Troll",
            &[
                "2026-10-24T23:00:00Z",
                "2026-10-25T00:00:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T02:00:00Z",
                "2026-10-25T03:00:00Z",
            ],
        ),
        // At 2 it is half past 1 again, and half a year later half past 2.
        (
            "Australia/Lord_Howe",
            &["2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z", "2026-04-04T16:30:00Z"],
        ),
        (
            "Australia/Lord_Howe",
            &["2026-10-03T14:30:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z", "2026-10-03T17:00:00Z"],
        ),
        // A minute past midnight it is a minute past 11 of the day before.
        (
            "America/St_Johns",
            &["2006-10-29T01:30:00Z", "2006-10-29T02:30:00Z", "2006-10-29T02:31:00Z", "2006-10-29T03:30:00Z"],
        ),
    ] {
        let calendar = calendar(CivilUnit::Hour, zone);
        for window in borders.windows(2) {
            let last = Timestamp::from_nanos(at(window[1]).as_nanos() - 1);
            for now in [at(window[0]), last] {
                let bounds = calendar.clone().window_bounds(now);
                assert_eq!(bounds, (at(window[0]), at(window[1])), "{zone}");
            }
        }
    }
}

/// As written before an hour that is shown twice was two windows: the first of them held the units
/// of both.
#[test]
fn the_state_of_an_hour_that_was_one_window_of_two_hours_ends_with_the_first_of_them() {
    let berlin = calendar(CivilUnit::Hour, "Europe/Berlin");
    // Ten units in the window that begins at 2026-10-25T00:00:00Z.
    let (_, state) = berlin.decide(State::EMPTY, cost(10), at("2026-10-25T00:00:00Z"));
    let second = at("2026-10-25T01:30:00Z");
    assert_eq!(berlin.used(state, second), 0);
    assert_eq!(berlin.decide(state, cost(10), second).0, Verdict::Admit);
    assert_eq!(berlin.used(state, at("2026-10-25T00:30:00Z")), 10);
}

#[test]
fn a_minute_is_sixty_seconds_also_while_an_hour_is_repeated() {
    for now in ["2026-10-25T00:30:07Z", "2026-10-25T01:30:07Z"] {
        let end = at(now).saturating_add(Duration::from_secs(53));
        assert_eq!(until(&calendar(CivilUnit::Minute, "Europe/Berlin"), now), end);
    }
}

#[test]
fn weeks_months_and_years_end_at_midnight_where_the_zone_is() {
    let berlin = |unit| calendar(unit, "Europe/Berlin");
    let now = "2026-11-20T20:40:00Z";
    assert_eq!(until(&berlin(CivilUnit::Week), now), at("2026-11-22T23:00:00Z"));
    let sunday = berlin(CivilUnit::Week).with_week_start(Weekday::Sunday);
    assert_eq!(until(&sunday, now), at("2026-11-21T23:00:00Z"));
    let friday = berlin(CivilUnit::Week).with_week_start(Weekday::Friday);
    assert_eq!(until(&friday, now), at("2026-11-26T23:00:00Z"));
    assert_eq!(until(&friday, "2026-11-19T22:59:59Z"), at("2026-11-19T23:00:00Z"));
    assert_eq!(until(&berlin(CivilUnit::Month), now), at("2026-11-30T23:00:00Z"));
    assert_eq!(until(&berlin(CivilUnit::Year), now), at("2026-12-31T23:00:00Z"));
    assert_eq!(until(&berlin(CivilUnit::Month), "2024-02-10T00:00:00Z"), at("2024-02-29T23:00:00Z"));
    assert_eq!(until(&berlin(CivilUnit::Month), "2100-02-10T00:00:00Z"), at("2100-02-28T23:00:00Z"));
    assert_eq!(until(&berlin(CivilUnit::Month), "2026-03-31T22:30:00Z"), at("2026-04-30T22:00:00Z"));
}

#[test]
fn the_window_that_holds_the_epoch_and_the_last_one_are_windows_like_others() {
    for unit in [CivilUnit::Hour, CivilUnit::Day, CivilUnit::Week, CivilUnit::Month, CivilUnit::Year] {
        for zone in ["UTC", "America/Los_Angeles", "Pacific/Kiritimati"] {
            let calendar = calendar(unit, zone);
            for now in [Timestamp::MIN, Timestamp::from_secs(1), Timestamp::MAX] {
                let (_, state) = calendar.decide(State::EMPTY, cost(10), now);
                assert_ne!(state, State::EMPTY);
                assert!(
                    matches!(calendar.decide(state, Cost::ONE, now).0, Verdict::Wait { until } if until >= now)
                );
            }
        }
    }
    // 1970 began at 08:00 in UTC on that coast.
    let angeles = calendar(CivilUnit::Year, "America/Los_Angeles");
    let (_, state) = angeles.decide(State::EMPTY, cost(10), Timestamp::MIN);
    let until = at("1970-01-01T08:00:00Z");
    assert_eq!(angeles.decide(state, Cost::ONE, Timestamp::MIN).0, Verdict::Wait { until });
    assert_eq!(angeles.decide(state, Cost::ONE, until).0, Verdict::Admit);
}

#[test]
fn a_step_back_stays_in_the_window_it_came_from() {
    let calendar = calendar(CivilUnit::Month, "Europe/Berlin");
    let (_, state) = calendar.decide(State::EMPTY, cost(10), at("2026-11-01T00:00:00Z"));
    let end = at("2026-11-30T23:00:00Z");
    for earlier in ["2026-10-31T22:59:59Z", "2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z"] {
        assert_eq!(calendar.decide(state, Cost::ONE, at(earlier)), (Verdict::Wait { until: end }, state));
        assert_eq!(calendar.remaining(state, at(earlier)), 0);
        assert!(!calendar.is_drained(state, at(earlier)));
    }
    assert!(calendar.is_drained(state, end));
}

#[test]
fn the_same_instants_are_answered_the_same_whatever_was_asked_before() {
    // The window found last is only a cache.
    let asked = calendar(CivilUnit::Day, "America/New_York");
    let hours = (0..2_000_u64)
        .map(|step| at("2026-01-01T00:00:00Z").saturating_add(Duration::from_hours(step * 37 % 9_000)));
    for now in hours {
        let fresh = calendar(CivilUnit::Day, "America/New_York");
        assert_eq!(asked.decide(State::EMPTY, Cost::ONE, now), fresh.decide(State::EMPTY, Cost::ONE, now));
        assert_eq!(asked.clone().number_at(now), fresh.number_at(now));
    }
}

#[test]
fn another_limit_zone_or_week_start_keeps_what_is_used_and_another_unit_starts_fresh() {
    let now = at("2026-11-20T20:40:00Z");
    let from = calendar(CivilUnit::Week, "Europe/Berlin");
    let state = from.charge(State::EMPTY, cost(8), now);
    let raised = Calendar::new(20, CivilUnit::Week, "Europe/Berlin").unwrap();
    assert_eq!(raised.remaining(raised.carry_over(state, &from, now), now), 12);
    for other in [calendar(CivilUnit::Week, "Asia/Tokyo"), from.clone().with_week_start(Weekday::Sunday)] {
        let carried = other.carry_over(state, &from, now);
        assert_eq!(other.remaining(carried, now), 2);
        assert_eq!(other.reset_at(carried, now), until(&other, "2026-11-20T20:40:00Z"));
    }
    assert_eq!(calendar(CivilUnit::Day, "Europe/Berlin").carry_over(state, &from, now), State::EMPTY);
}

#[test]
fn equality_is_by_numbers_and_names() {
    let (one, other) = (calendar(CivilUnit::Day, "Europe/Berlin"), calendar(CivilUnit::Day, "europe/berlin"));
    let _ = one.decide(State::EMPTY, Cost::ONE, at("2026-11-20T20:40:00Z"));
    assert_eq!(one, other);
    assert_eq!(other.zone(), "Europe/Berlin");
    assert_ne!(one, one.clone().with_week_start(Weekday::Sunday));
    assert_ne!(one, calendar(CivilUnit::Day, "Europe/Paris"));
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

#[test]
fn names_that_do_not_exist_say_what_to_do() {
    for zone in ["", "Europe/Atlantis", "+01:00", "../etc/passwd", "CET-1CEST"] {
        assert_eq!(Calendar::new(1, CivilUnit::Day, zone), Err(AlgorithmError::Zone(zone.to_owned())));
    }
    let message = "fortnight".parse::<CivilUnit>().unwrap_err().to_string();
    assert!(message.contains("\"fortnight\"") && message.contains("week"), "{message}");
    let message = "Funday".parse::<Weekday>().unwrap_err().to_string();
    assert!(message.contains("\"Funday\"") && message.contains("monday"), "{message}");
    for unit in ["minute", "hour", "day", "week", "month", "year"] {
        assert_eq!(unit.parse::<CivilUnit>().unwrap().to_string(), unit);
    }
    for day in Weekday::ALL {
        assert_eq!(day.as_str().parse(), Ok(day));
    }
}

#[test]
fn the_largest_limit_is_what_fits_beside_the_window() {
    for (unit, bits) in [
        (CivilUnit::Minute, 35),
        (CivilUnit::Hour, 35),
        (CivilUnit::Day, 45),
        (CivilUnit::Week, 48),
        (CivilUnit::Month, 50),
        (CivilUnit::Year, 54),
    ] {
        let largest = (1_u64 << bits) - 1;
        assert!(Calendar::new(largest, unit, "UTC").is_ok());
        let limit = largest + 1;
        let refused = Calendar::new(limit, unit, "UTC");
        assert_eq!(refused, Err(AlgorithmError::LimitTooLarge { limit, largest }), "{unit}");
    }
    let nothing = Calendar::new(0, CivilUnit::Day, "UTC").unwrap();
    assert_eq!(nothing.decide(State::EMPTY, Cost::ONE, Timestamp::MIN).0, Verdict::Never { largest: 0 });
}

#[test]
fn reports_go_into_debt_up_to_a_hundred_limits() {
    let (calendar, now) = (calendar(CivilUnit::Day, "UTC"), at("2026-11-20T20:40:00Z"));
    let state = calendar.charge(State::EMPTY, cost(u64::MAX), now);
    assert_eq!(calendar.used(state, now), 1010);
    assert_eq!(calendar.used(calendar.refund(state, cost(1005), now), now), 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn nothing_that_comes_from_outside_panics(
        unit in 0..6_usize, bits: [u64; 3], units in 1..=u64::MAX, now: u64,
        zone in prop::sample::select(vec!["UTC", "Pacific/Apia", "America/New_York"]),
    ) {
        let unit = ["minute", "hour", "day", "week", "month", "year"][unit].parse().unwrap();
        let calendar = calendar(unit, zone);
        let other = Calendar::new(3, unit, "Asia/Tokyo").unwrap();
        let [state, before, after] = bits.map(State::from_bits);
        for now in [now, 0, u64::MAX].map(Timestamp::from_nanos) {
            for cost in [units, 1, u64::MAX].map(cost) {
                let (verdict, next) = calendar.decide(state, cost, now);
                prop_assert!(verdict == Verdict::Admit || next == state);
                let _ = calendar.charge(state, cost, now);
                let _ = calendar.refund(state, cost, now);
                let _ = calendar.undo(state, &Charged { before, after, cost }, now);
            }
            prop_assert!(calendar.remaining(state, now) <= 10);
            let _ = (calendar.reset_at(state, now), calendar.is_drained(state, now));
            let _ = other.carry_over(state, &calendar, now);
        }
    }
}
