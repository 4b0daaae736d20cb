//! Limits that arrive with the request.

use core::time::Duration;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use crate::algorithm::{Bucket, Concurrency, Fixed, Rolling, Verdict, WindowStart};
use crate::{
    Algorithm, Carried, CarriedLimit, CarryError, Charging, KeyTable, Rate, TableConfig, Timestamp, WhenFull,
};

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn table() -> KeyTable {
    KeyTable::new(TableConfig { bytes: 1 << 20, ..TableConfig::seeded([1, 2, 3, 4]) })
}

fn bucket(units: u64, per: Duration, burst: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::new(units, per).unwrap(), burst).unwrap())
}

fn fixed(limit: u64, seconds: u64) -> Algorithm {
    Algorithm::Fixed(Fixed::new(limit, Duration::from_secs(seconds), WindowStart::Epoch).unwrap())
}

fn limit<'a>(key: &'a [&'a [u8]], algorithm: &'a Algorithm, cost: u64) -> CarriedLimit<'a> {
    CarriedLimit { key: Cow::Borrowed(key), algorithm: Cow::Borrowed(algorithm), cost }
}

fn one(table: &KeyTable, key: &str, algorithm: &Algorithm, cost: u64, now: Timestamp) -> Carried {
    table.carry("n", &[limit(&[key.as_bytes()], algorithm, cost)], Charging::AllOrNone, now).unwrap()
}

#[test]
fn what_is_used_drains_when_it_would_have_drained_whatever_rate_comes_next() {
    let table = table();
    let (slow, fast) = (bucket(1, Duration::from_secs(1), 10), bucket(100, Duration::from_secs(1), 10));
    assert!(one(&table, "a", &slow, 5, NOW).is_admitted);
    let status = one(&table, "a", &fast, 0, NOW).limits[0];
    assert_eq!((status.used, status.remaining), (500, 0), "five seconds at a hundred a second");
    assert_eq!(status.reset_at, NOW.saturating_add(Duration::from_secs(5)));
    let later = NOW.saturating_add(Duration::from_millis(4_950));
    assert_eq!(one(&table, "a", &fast, 0, later).limits[0].used, 5);
    assert!(one(&table, "a", &fast, 5, later).is_admitted);
    assert_eq!(one(&table, "a", &slow, 0, later).limits[0].used, 1, "a tenth of a second at one a second");
}

#[test]
fn two_limits_of_one_window_share_its_count_and_another_window_has_its_own() {
    let table = table();
    assert!(one(&table, "a", &fixed(10, 60), 4, NOW).is_admitted);
    let status = one(&table, "a", &fixed(5, 60), 1, NOW).limits[0];
    assert_eq!((status.used, status.remaining, status.verdict), (5, 0, Verdict::Admit));
    assert!(!one(&table, "a", &fixed(5, 60), 1, NOW).is_admitted);
    assert!(one(&table, "a", &fixed(10, 60), 5, NOW).is_admitted);
    assert_eq!(one(&table, "a", &fixed(10, 3600), 0, NOW).limits[0].used, 0);
    assert_eq!(one(&table, "b", &fixed(10, 60), 0, NOW).limits[0].used, 0);
}

#[test]
fn parts_of_a_key_and_namespaces_cannot_be_mistaken_for_one_another() {
    let table = table();
    let algorithm = fixed(1, 60);
    let carry = |namespace: &str, key: &[&[u8]]| {
        table.carry(namespace, &[limit(key, &algorithm, 1)], Charging::AllOrNone, NOW).unwrap().is_admitted
    };
    for (namespace, key) in [
        ("n", &[b"a" as &[u8], b"bc"] as &[&[u8]]),
        ("n", &[b"ab", b"c"]),
        ("n", &[b"abc"]),
        ("n", &[b"abc", b""]),
        ("na", &[b"bc"]),
        ("n", &[b"\xff\0"]),
        ("n", &[]),
    ] {
        assert!(carry(namespace, key), "{namespace} {key:?}");
        assert!(!carry(namespace, key), "{namespace} {key:?}");
    }
}

#[test]
fn a_refused_request_leaves_every_carried_counter_as_it_was() {
    let table = table();
    let algorithms = [
        fixed(10, 60),
        bucket(7, Duration::from_secs(1), 10),
        Algorithm::Rolling(Rolling::new(10, Duration::from_mins(1)).unwrap()),
        fixed(3, 3600),
    ];
    let limits: Vec<_> = algorithms.iter().map(|algorithm| limit(&[b"k"], algorithm, 2)).collect();
    let carry = || table.carry("n", &limits, Charging::AllOrNone, NOW).unwrap();
    let first = carry();
    assert!(first.is_admitted);
    assert_eq!(first.limits.iter().map(|one| one.used).collect::<Vec<_>>(), [2, 2, 2, 2]);
    let before = table.fingerprint();
    let refused = carry();
    assert!(!refused.is_admitted);
    assert_eq!(table.fingerprint(), before);
    assert_eq!(refused.limits.iter().map(|one| one.used).collect::<Vec<_>>(), [2, 2, 2, 2]);
    assert!(matches!(refused.limits[3].verdict, Verdict::Wait { .. }));
    assert_eq!(refused.limits[0].verdict, Verdict::Admit);
}

#[test]
fn a_counter_that_is_named_twice_is_charged_twice_or_not_at_all() {
    let table = table();
    let algorithm = fixed(3, 60);
    let twice = [limit(&[b"k"], &algorithm, 2), limit(&[b"k"], &algorithm, 2)];
    let refused = table.carry("n", &twice, Charging::AllOrNone, NOW).unwrap();
    assert!(!refused.is_admitted);
    assert_eq!(one(&table, "k", &algorithm, 0, NOW).limits[0].used, 0);
    let each = table.carry("n", &twice, Charging::Each, NOW).unwrap();
    assert_eq!(each.limits.iter().map(|one| one.used).collect::<Vec<_>>(), [2, 2]);
    assert!(!each.is_admitted);
}

#[test]
fn a_look_behind_a_charge_of_the_same_counter_sees_the_charge() {
    let table = table();
    let algorithm = fixed(3, 60);
    let [charge, look] = [2, 0].map(|cost| limit(&[b"k"], &algorithm, cost));
    let each = table.carry("n", &[charge, look], Charging::Each, NOW).unwrap();
    assert_eq!(each.limits[1].used, 2);
}

#[test]
fn a_refused_charge_is_booked_where_it_is_always_charged() {
    let rolling = Algorithm::Rolling(Rolling::new(5, Duration::from_mins(1)).unwrap());
    for algorithm in [fixed(5, 60), bucket(5, Duration::from_mins(1), 5), rolling] {
        let table = table();
        let charge = |cost| {
            let limits = [limit(&[b"k"], &algorithm, cost)];
            table.carry("n", &limits, Charging::Always, NOW).unwrap().limits[0]
        };
        assert_eq!((charge(3).verdict, charge(0).used), (Verdict::Admit, 3));
        let over = charge(4);
        assert_ne!(over.verdict, Verdict::Admit, "{algorithm:?}");
        assert_eq!((over.used, over.remaining), (7, 0), "{algorithm:?}");
        assert_ne!(charge(0).verdict, Verdict::Admit, "more is used than the limit");
        assert_ne!(charge(1).verdict, Verdict::Admit);
        let refunded = table.refund_carried("n", &limit(&[b"k"], &algorithm, 3), NOW).unwrap();
        assert_eq!(
            (refunded.used, charge(0).verdict),
            (5, Verdict::Admit),
            "as much as the limit is not over"
        );
    }
}

#[test]
fn a_refund_gives_back_what_is_used_and_no_more_and_a_reset_all_of_it() {
    let table = table();
    let algorithm = bucket(1, Duration::from_secs(1), 10);
    assert!(one(&table, "k", &algorithm, 4, NOW).is_admitted);
    let refund = |cost| table.refund_carried("n", &limit(&[b"k"], &algorithm, cost), NOW).unwrap().used;
    assert_eq!((refund(1), refund(100), refund(1)), (3, 0, 0));
    assert!(one(&table, "k", &algorithm, 10, NOW).is_admitted);
    assert!(table.reset_carried("n", &limit(&[b"k"], &algorithm, 0), NOW));
    assert!(!table.reset_carried("n", &limit(&[b"k"], &algorithm, 0), NOW));
    assert!(one(&table, "k", &algorithm, 10, NOW).is_admitted);
}

#[test]
fn a_cost_that_never_fits_says_so_and_a_concurrency_limit_is_an_error() {
    let table = table();
    let status = one(&table, "k", &fixed(5, 60), 6, NOW).limits[0];
    assert_eq!(status.verdict, Verdict::Never { largest: 5 });
    assert_eq!(one(&table, "k", &fixed(0, 60), 1, NOW).limits[0].verdict, Verdict::Never { largest: 0 });
    let concurrency = Algorithm::Concurrency(Concurrency::new(1, Duration::from_secs(1)).unwrap());
    let refused = table.carry("n", &[limit(&[b"k"], &concurrency, 1)], Charging::Each, NOW);
    assert_eq!(refused, Err(CarryError::Concurrency));
}

#[test]
fn a_full_table_says_so_or_admits_uncounted() {
    for when_full in [WhenFull::Refuse, WhenFull::Admit] {
        let table =
            KeyTable::new(TableConfig { bytes: 4096, when_full, ..TableConfig::seeded([1, 2, 3, 4]) });
        let algorithm = fixed(5, 3600);
        let full: Vec<Carried> =
            (0..2000).map(|key| one(&table, &format!("k{key}"), &algorithm, 1, NOW)).collect();
        let refused = full.iter().filter(|one| one.limits[0].is_table_full && !one.is_admitted).count();
        let uncounted = full.iter().filter(|one| one.is_admitted && one.limits[0].used == 0).count();
        match when_full {
            WhenFull::Refuse => assert!(refused > 1000 && uncounted == 0, "{refused} {uncounted}"),
            WhenFull::Admit => assert!(refused == 0 && uncounted > 1000, "{refused} {uncounted}"),
        }
        assert!(table.stats(NOW).full_refusals + table.stats(NOW).full_admissions > 1000);
    }
}

/// Clients choose these numbers, so the numbers must not use up the spec numbers that the policy
/// needs.
#[test]
fn more_rates_than_are_told_apart_share_a_clock_at_last_and_leave_room_for_windows() {
    let table = table();
    // Spans that are prime: about half of the rates over each have a clock of their own.
    for span in [7, 9, 21, 33, 87, 93, 97, 103, 123, 181].map(|above| 1_000_000_000 + above) {
        for units in 5..20_005 {
            assert!(one(&table, "k", &bucket(units, Duration::from_nanos(span), units), 0, NOW).is_admitted);
        }
    }
    // A rate beyond the bound is exact in its burst and no faster than it says.
    let late = bucket(999_983, Duration::from_nanos(999_999_937), 100);
    assert!(one(&table, "late", &late, 100, NOW).is_admitted);
    let Verdict::Wait { until } = one(&table, "late", &late, 1, NOW).limits[0].verdict else {
        panic!("the burst is used up")
    };
    let waits = until.saturating_since(NOW).as_nanos();
    assert_eq!(waits, 1001, "1000.02 ns a unit, which a clock of its own would round down");
    let window = |nanos| Fixed::new(1, Duration::from_nanos(nanos), WindowStart::Epoch).unwrap();
    let ask = |nanos| one_window(&table, &Algorithm::Fixed(window(nanos)));
    // The shared clock took the first of the 4096 places that are left.
    assert!((0..4095).all(|step| ask(1_000_000 + step).is_ok()));
    assert_eq!(ask(2_000_000).unwrap_err(), CarryError::TooManyWindows);
    assert!(ask(1_000_000).is_ok(), "a window that came before is still known");
}

fn one_window(table: &KeyTable, window: &Algorithm) -> Result<Carried, CarryError> {
    table.carry("n", &[limit(&[b"k"], window, 0)], Charging::Each, NOW)
}

#[test]
fn exactly_as_many_as_the_limit_are_admitted_while_threads_take_turns() {
    for charging in [Charging::AllOrNone, Charging::Each, Charging::Always] {
        let table = table();
        let (wide, narrow) = (fixed(900, 3600), bucket(500, Duration::from_hours(1), 500));
        let admitted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..400 {
                        let limits = [limit(&[b"w"], &wide, 1), limit(&[b"n"], &narrow, 1)];
                        let carried = table.carry("n", &limits, charging, NOW).unwrap();
                        admitted.fetch_add(u64::from(carried.is_admitted), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 500, "{charging:?}");
        let used = |algorithm, key| one(&table, key, algorithm, 0, NOW).limits[0].used;
        let expected = match charging {
            Charging::AllOrNone => (500, 500),
            Charging::Each => (900, 500),
            Charging::Always => (1600, 1600),
        };
        assert_eq!((used(&wide, "w"), used(&narrow, "n")), expected, "{charging:?}");
    }
}

/// The generic cell rate algorithm as redis-cell's readers know it: an instant for each key, in
/// nanoseconds.
#[derive(Default)]
struct Reference {
    tat: u64,
}

impl Reference {
    fn ask(&mut self, emission: u64, burst: u64, cost: u64, now: u64) -> (bool, u64) {
        let tolerance = emission * burst;
        let next = self.tat.max(now) + emission * cost;
        let is_admitted = next - now <= tolerance;
        if is_admitted && cost > 0 {
            self.tat = next;
        }
        let used = self.tat.saturating_sub(now).div_ceil(emission);
        (is_admitted, burst.saturating_sub(used))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_bucket_whose_numbers_change_with_every_call_answers_as_one_that_keeps_an_instant(
        calls in prop::collection::vec((1_u64..2_000_000_000, 1_u64..50, 1_u64..20, 0_u64..3_000_000_000), 1..60),
    ) {
        let table = table();
        let mut reference = Reference::default();
        let mut now = NOW;
        for (emission, burst, cost, pause) in calls {
            now = now.saturating_add(Duration::from_nanos(pause));
            let algorithm = bucket(1, Duration::from_nanos(emission), burst);
            let carried = one(&table, "k", &algorithm, cost, now);
            let (is_admitted, remaining) = reference.ask(emission, burst, cost, now.as_nanos());
            prop_assert_eq!(carried.is_admitted, is_admitted);
            prop_assert_eq!(carried.limits[0].remaining, remaining);
            if let Verdict::Wait { until } = carried.limits[0].verdict {
                prop_assert!(one(&table, "k", &algorithm, 0, until).is_admitted);
                let mut then = Reference { tat: reference.tat };
                prop_assert!(then.ask(emission, burst, cost, until.as_nanos()).0);
                prop_assert!(!then.ask(emission, burst, cost, until.as_nanos() - 1).0 || until == now);
            }
        }
    }
}
