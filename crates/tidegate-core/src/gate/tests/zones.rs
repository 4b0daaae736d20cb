//! Calendar limits that take their time zone from an attribute.

use super::*;
use crate::algorithm::{Calendar, CivilUnit};
use crate::display::CivilInstant;
use crate::gate::zone_specs::ZONE_SPECS_MAX;
use crate::limit::{Override, Plans};

/// 2027-01-15T20:00:00Z: the 16th in Tokyo, the 15th in Berlin and Los Angeles.
const EVENING: Timestamp = Timestamp::from_secs(1_800_000_000 + 12 * 3600);

fn day(limit: u64, zone: &str) -> Algorithm {
    Algorithm::Calendar(Calendar::new(limit, CivilUnit::Day, zone).unwrap())
}

fn daily() -> Limit {
    Limit::new("daily", day(3, "Europe/Berlin")).key(["account"]).zone_from("zone")
}

/// When the window of a request ends, on the clocks of its zone.
fn resets(gate: &Gate, attributes: &[(&str, &str)]) -> String {
    let permit = gate.check(attributes, Cost::ONE, EVENING).into_result().unwrap();
    let status = gate.statuses(&permit).next().unwrap();
    CivilInstant { at: status.reset_at, zone: status.civil_zone.unwrap() }.to_string()
}

#[test]
fn the_window_is_that_of_the_zone_that_the_request_names() {
    let gate = gate([daily()]);
    for (account, zone, expected) in [
        ("a", Some("Asia/Tokyo"), "2027-01-17 00:00 Asia/Tokyo"),
        ("b", Some("America/Los_Angeles"), "2027-01-16 00:00 America/Los_Angeles"),
        ("c", Some("Europe/Berlin"), "2027-01-16 00:00 Europe/Berlin"),
        ("d", Some("asia/tokyo"), "2027-01-17 00:00 Asia/Tokyo"),
        ("e", None, "2027-01-16 00:00 Europe/Berlin"),
        ("f", Some("Mars/Olympus_Mons"), "2027-01-16 00:00 Europe/Berlin"),
        ("g", Some(""), "2027-01-16 00:00 Europe/Berlin"),
    ] {
        let zone = zone.map(|zone| ("zone", zone));
        let attributes: Vec<_> = [("account", account)].into_iter().chain(zone).collect();
        assert_eq!(resets(&gate, &attributes), expected, "{attributes:?}");
    }
}

#[test]
fn usage_is_kept_when_the_zone_of_a_key_changes() {
    let gate = gate([daily()]);
    let check =
        |zone: &str| gate.check(&[("account", "a"), ("zone", zone)], Cost::ONE, EVENING).into_result();
    for zone in ["Asia/Tokyo", "America/Los_Angeles", "Pacific/Auckland"] {
        assert!(check(zone).is_ok(), "{zone}");
    }
    for zone in ["Asia/Tokyo", "Europe/Berlin", "Pacific/Pago_Pago", "no zone"] {
        let refusal = check(zone).unwrap_err();
        assert_eq!(refusal.violated[0].remaining, 0, "{zone}");
    }
}

#[test]
fn a_permit_is_settled_in_the_zone_it_was_charged_in() {
    let gate = gate([daily()]);
    let tokyo = [("account", "a"), ("zone", "Asia/Tokyo")];
    let permit = gate.check(&tokyo, cost(3), EVENING).into_result().unwrap();
    gate.settle(permit, 1, EVENING);
    assert_eq!(gate.peek(&tokyo, Cost::ONE, EVENING).limits[0].remaining, 2);
    gate.take_back(gate.check(&tokyo, cost(2), EVENING).into_result().unwrap(), EVENING);
    assert_eq!(gate.peek(&tokyo, Cost::ONE, EVENING).limits[0].remaining, 2);
}

#[test]
fn an_override_changes_the_zone_only_where_it_says_so_and_a_plan_never() {
    let when = |account: &str| vec![("account".to_owned(), account.to_owned())];
    let mut limit = daily().plan("pro", day(100, "Europe/Berlin"));
    limit.overrides.push(Override::new(when("numbers"), day(50, "Europe/Berlin")));
    let fixed = Override { fixes_zone: true, ..Override::new(when("zone"), day(3, "America/New_York")) };
    limit.overrides.push(fixed);
    let gate = Gate::builder("api").plans(Plans::new(["pro"])).limit(limit).table(table()).build().unwrap();
    for (attributes, limit, zone, counts) in [
        (&[("account", "numbers"), ("zone", "Asia/Tokyo")][..], 50, "Asia/Tokyo", ZoneOf::Attribute),
        (&[("account", "zone"), ("zone", "Asia/Tokyo")], 3, "America/New_York", ZoneOf::Override),
        (&[("account", "x"), ("plan", "pro"), ("zone", "Asia/Tokyo")], 100, "Asia/Tokyo", ZoneOf::Attribute),
        (&[("account", "x"), ("plan", "pro")], 100, "Europe/Berlin", ZoneOf::LimitMissing),
        (&[("account", "x"), ("zone", "CET-1")], 3, "Europe/Berlin", ZoneOf::LimitUnknown),
    ] {
        let Standing::Counts(counting) = gate.explain(attributes, Cost::ONE, EVENING).remove(0).standing
        else {
            panic!("{attributes:?} is not counted");
        };
        let found = (counting.algorithm.limit(), counting.algorithm.civil_zone().unwrap());
        assert_eq!(found, (limit, zone), "{attributes:?}");
        assert_eq!(counting.zone.unwrap().counts, counts, "{attributes:?}");
    }
}

#[test]
fn an_explanation_agrees_with_a_check_in_every_zone() {
    let gate = gate([daily()]);
    for zone in ["Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin", "nowhere"] {
        let attributes = [("account", zone), ("zone", zone)];
        for _ in 0..5 {
            let refuses = gate.explain(&attributes, Cost::ONE, EVENING).iter().any(Explanation::refuses);
            assert_eq!(gate.check(&attributes, Cost::ONE, EVENING).is_admit(), !refuses, "{zone}");
        }
    }
}

#[test]
fn names_that_are_no_zone_take_no_memory_and_zones_have_a_bound() {
    // More sets of numbers than fit with all zones.
    let zones = jiff_zones();
    let overrides = ZONE_SPECS_MAX / zones.len() + 2;
    let mut limit = daily();
    for at in 0..overrides {
        let when = vec![("account".to_owned(), at.to_string())];
        limit.overrides.push(Override::new(when, day(at as u64 + 1_000, "UTC")));
    }
    let gate = gate([limit]);
    let mut counted_elsewhere = 0;
    for at in 0..overrides {
        for zone in &zones {
            let attributes = [("account", &*at.to_string()), ("zone", zone)];
            let Standing::Counts(counting) = gate.explain(&attributes, Cost::ONE, EVENING).remove(0).standing
            else {
                panic!("{attributes:?} is not counted");
            };
            assert_eq!(counting.algorithm.limit(), at as u64 + 1_000);
            counted_elsewhere += usize::from(counting.zone.unwrap().counts == ZoneOf::LimitTooMany);
            assert!(gate.check(&attributes, Cost::ONE, EVENING).is_admit());
        }
    }
    assert!(counted_elsewhere > 0);
    let kept = gate.table.specs.len();
    assert!(kept <= ZONE_SPECS_MAX + overrides + 3, "{kept}");
    for at in 0..1_000 {
        gate.explain(&[("account", "x"), ("zone", &format!("Area/City{at}"))], Cost::ONE, EVENING);
    }
    assert_eq!(gate.table.specs.len(), kept);
}

/// Zones that differ from each other by name.
fn jiff_zones() -> Vec<String> {
    let names = jiff::tz::TimeZoneDatabase::bundled();
    names.available().map(|name| name.to_string()).filter(|name| name != "UTC").collect()
}

#[test]
fn the_calendars_of_zones_outlive_no_gate() {
    let table = table();
    let build = |units: u64| {
        let limit = Limit::new("daily", day(units, "UTC")).key(["account"]).zone_from("zone");
        Gate::builder("api").limit(limit).table(Arc::clone(&table)).build().unwrap()
    };
    let tokyo = [("account", "a"), ("zone", "Asia/Tokyo")];
    let before = build(3);
    assert!(before.check(&tokyo, cost(2), EVENING).is_admit());
    let after = build(5);
    drop(before);
    assert_eq!(after.peek(&tokyo, Cost::ONE, EVENING).limits[0].remaining, 3, "usage is kept by a reload");
    table.specs.make_short();
    table.reclaim_spec_numbers(EVENING);
    assert_eq!(after.peek(&tokyo, Cost::ONE, EVENING).limits[0].remaining, 3);
    assert!(after.check(&tokyo, cost(3), EVENING).is_admit());
    assert!(!after.check(&tokyo, Cost::ONE, EVENING).is_admit());
}

#[test]
fn a_zone_belongs_to_a_calendar() {
    let limit = per_second("user", 1).zone_from("zone");
    let error = Gate::builder("api").limit(limit).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "limit \"user\": a time zone from an attribute belongs to `calendar`, not to `rate`; remove it"
    );
}
