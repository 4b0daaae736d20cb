//! Several gates over one table, one after the other: what a change of limits keeps, and what
//! permits of the earlier one give back under the later.

use super::*;
use crate::algorithm::{Calendar, CivilUnit};
use crate::limit::{Limit, Override};

const X: [(&str, &str); 1] = [("k", "x")];

fn on(table: &Arc<KeyTable>, algorithm: Algorithm) -> Gate {
    Gate::builder("api")
        .limit(Limit::new("limit", algorithm).key(["k"]))
        .table(Arc::clone(table))
        .build()
        .unwrap()
}

fn admitted(gate: &Gate, units: u64, now: Timestamp) -> Permit {
    match gate.check(&X, cost(units), now) {
        Decision::Admit(permit) => permit,
        Decision::Refuse(refusal) => panic!("{refusal}"),
    }
}

fn left(gate: &Gate, now: Timestamp) -> u64 {
    gate.peek(&X, Cost::ONE, now).limits[0].remaining
}

/// Every algorithm with this many units.
fn every(units: u64) -> Vec<Algorithm> {
    let minute = Duration::from_mins(1);
    vec![
        bucket(units, minute),
        Algorithm::Rolling(Rolling::new(units, minute).unwrap()),
        Algorithm::SlidingCounter(SlidingCounter::new(units, minute).unwrap()),
        Algorithm::Fixed(Fixed::new(units, minute, WindowStart::Epoch).unwrap()),
        Algorithm::Fixed(Fixed::new(units, minute, WindowStart::FirstHit).unwrap()),
        Algorithm::Calendar(Calendar::new(units, CivilUnit::Hour, "UTC").unwrap()),
        Algorithm::Concurrency(Concurrency::new(units, minute).unwrap()),
    ]
}

#[test]
fn a_used_up_limit_admits_the_difference_when_raised_and_nothing_when_lowered() {
    let raised_and_lowered = every(15).into_iter().zip(every(5)).zip(every(20));
    for (ten, ((fifteen, five), twenty)) in every(10).into_iter().zip(raised_and_lowered) {
        let name = ten.name();
        let table = table();
        let first = on(&table, ten);
        let mut held: Vec<_> = (0..10).map(|_| admitted(&first, 1, NOW)).collect();
        assert!(!first.check(&X, Cost::ONE, NOW).is_admit(), "{name}");
        let raised = on(&table, fifteen);
        let more = |gate: &Gate, held: &mut Vec<Permit>| {
            let before = held.len();
            while let Decision::Admit(permit) = gate.check(&X, Cost::ONE, NOW) {
                held.push(permit);
            }
            held.len() - before
        };
        assert_eq!(more(&raised, &mut held), 5, "{name}, raised from 10 to 15");
        let lowered = on(&table, five);
        assert_eq!(more(&lowered, &mut held), 0, "{name}, lowered to 5");
        assert_eq!(more(&on(&table, twenty), &mut held), 5, "{name}, 15 of 20 are used");
    }
}

#[test]
fn a_charge_taken_back_after_the_numbers_changed_gives_back_only_what_has_not_drained() {
    let minute = Duration::from_mins(1);
    let table = table();
    // Ten a minute: one drains every six seconds.
    let first = on(&table, bucket(10, minute));
    let permit = admitted(&first, 10, NOW);
    let second = on(&table, bucket(20, minute));
    // Thirty seconds later five of the ten have drained under the numbers they were charged by.
    let later = after(Duration::from_secs(30));
    drop(admitted(&second, 4, later));
    assert_eq!(left(&second, later), 11, "5 of the ten and these 4 are used");
    second.take_back(permit, later);
    assert_eq!(left(&second, later), 16, "the 5 came back, the 4 stay");
}

#[test]
fn a_charge_of_another_window_has_nothing_to_give_back() {
    let fixed = |window| Algorithm::Fixed(Fixed::new(10, window, WindowStart::Epoch).unwrap());
    let table = table();
    let first = on(&table, fixed(Duration::from_mins(1)));
    let permit = admitted(&first, 6, NOW);
    let second = on(&table, fixed(Duration::from_hours(1)));
    drop(admitted(&second, 3, NOW));
    first.take_back(permit, NOW);
    assert_eq!(left(&second, NOW), 7, "the 6 were never part of the hour");
}

#[test]
fn a_permit_is_settled_by_the_numbers_in_force_and_leaves_them_in_force() {
    let fixed = |units, window| Algorithm::Fixed(Fixed::new(units, window, WindowStart::Epoch).unwrap());
    let table = table();
    let first = on(&table, fixed(10, Duration::from_mins(1)));
    let permit = admitted(&first, 5, NOW);
    let second = on(&table, fixed(100, Duration::from_hours(1)));
    drop(admitted(&second, 40, NOW));
    // Two more than reserved: they count in the hour, and booking them does not bring the minute
    // back.
    second.settle(permit, 7, NOW);
    assert_eq!(left(&second, NOW), 58);
}

#[test]
fn a_permit_is_settled_when_its_limit_is_gone() {
    let table = table();
    let concurrency = || Algorithm::Concurrency(Concurrency::new(1, Duration::from_mins(1)).unwrap());
    let first = on(&table, concurrency());
    let permit = admitted(&first, 1, NOW);
    drop(first);
    let other = Gate::builder("other").table(Arc::clone(&table)).build().unwrap();
    other.settle(permit, 3, NOW);
    assert!(on(&table, concurrency()).check(&X, Cost::ONE, NOW).is_admit(), "the place came back");
}

#[test]
fn a_block_outlives_a_change_also_when_it_is_set_on_the_gate_of_before() {
    let table = table();
    let minute = Duration::from_mins(1);
    let first = on(&table, bucket(10, minute));
    let second = on(&table, bucket(20, minute));
    assert!(second.check(&X, Cost::ONE, NOW).is_admit());
    assert!(first.block(&X, "limit", after(minute), NOW).unwrap());
    let refusal = second.check(&X, Cost::ONE, NOW).into_result().unwrap_err();
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::Blocked, Retry::At(after(minute))));
    let third = on(&table, bucket(30, minute));
    assert_eq!(third.check(&X, Cost::ONE, NOW).into_result().unwrap_err().reason(), Reason::Blocked);
    assert!(third.check(&X, Cost::ONE, after(minute)).is_admit());
}

#[test]
fn a_limit_that_counts_under_its_old_name_goes_on_counting() {
    let table = table();
    let minute = Duration::from_mins(1);
    let old = on(&table, bucket(10, minute));
    drop(admitted(&old, 10, NOW));
    let builder = |name: &str| {
        Gate::builder("api").limit(Limit::new(name, bucket(10, minute)).key(["k"])).table(Arc::clone(&table))
    };
    let renamed = builder("new").counts_as("new", "limit").build().unwrap();
    assert_eq!(left(&renamed, NOW), 0);
    assert_eq!(left(&builder("new").build().unwrap(), NOW), 10);
}

#[test]
fn an_override_set_at_run_time_wins_over_the_policy_until_the_very_instant_it_ends() {
    let minute = Duration::from_mins(1);
    let when = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let limit = Limit::new("limit", bucket(10, minute))
        .key(["account", "stream"])
        .override_for([("account", "a"), ("stream", "s")], bucket(20, minute))
        .override_for([("account", "a")], bucket(30, minute));
    let gate = Gate::builder("api")
        .limit(limit)
        .override_at_run_time(
            "limit",
            Override::new(when(&[("account", "a")]), bucket(40, minute)),
            after(Duration::from_secs(5)),
        )
        .override_at_run_time(
            "limit",
            Override::new(when(&[("stream", "t"), ("account", "a")]), bucket(50, minute)),
            Timestamp::MAX,
        )
        .build()
        .unwrap();
    let limit_of = |account, stream, now| {
        gate.peek(&[("account", account), ("stream", stream)], Cost::ONE, now).limits[0].limit
    };
    assert_eq!(limit_of("a", "s", NOW), 40, "set at run time, though the policy names more attributes");
    assert_eq!(limit_of("a", "t", NOW), 50, "of two set at run time the one that names more");
    assert_eq!(limit_of("b", "s", NOW), 10);
    let end = after(Duration::from_secs(5));
    assert_eq!(limit_of("a", "s", end.saturating_sub(Duration::from_nanos(1))), 40);
    assert_eq!(limit_of("a", "s", end), 20, "then that of the policy with the most attributes");
    assert_eq!(limit_of("a", "other", end), 30);
    assert_eq!(limit_of("a", "t", end), 50);
}

#[test]
fn a_zone_that_changes_keeps_what_was_used() {
    let calendar = |zone| Algorithm::Calendar(Calendar::new(10, CivilUnit::Day, zone).unwrap());
    let table = table();
    drop(admitted(&on(&table, calendar("UTC")), 8, NOW));
    assert_eq!(left(&on(&table, calendar("Europe/Berlin")), NOW), 2);
}

#[test]
fn rings_are_resized_while_threads_charge_them() {
    use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let rolling = |units| Algorithm::Rolling(Rolling::new(units, Duration::from_hours(1)).unwrap());
    let table = table();
    let gates = [100, 1000, 10].map(|units| on(&table, rolling(units)));
    let (admissions, is_over, current) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let gate = &gates[current.load(Ordering::Acquire) as usize];
                    if gate.check(&X, Cost::ONE, NOW).is_admit() {
                        admissions.fetch_add(1, Ordering::AcqRel);
                    }
                }
            });
        }
        // Each limit is used up before it changes. The calls that began before a change may still
        // end after it.
        let used_up = |units| {
            while admissions.load(Ordering::Acquire) < units {
                core::hint::spin_loop();
            }
        };
        used_up(100);
        current.store(1, Ordering::Release);
        used_up(1000);
        current.store(2, Ordering::Release);
        for _ in 0..10_000 {
            core::hint::spin_loop();
        }
        is_over.store(true, Ordering::Release);
    });
    assert_eq!(admissions.load(Ordering::Acquire), 1000, "the largest limit, and not one more");
    assert_eq!(left(&gates[1], NOW), 0);
    assert!(!gates[2].check(&X, Cost::ONE, NOW).is_admit());
    // When they have left the window, the lowered limit admits its own.
    let later = after(Duration::from_hours(2));
    let again = (0..20).filter(|_| gates[2].check(&X, Cost::ONE, later).is_admit()).count();
    assert_eq!(again, 10);
}
