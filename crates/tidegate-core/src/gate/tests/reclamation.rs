//! Numbers of specs are used again once nothing refers to them, and no key notices.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::algorithm::{Calendar, CivilUnit};
use crate::limit::{Limit, Override};
use crate::table::Specs;

const DAY: Duration = Duration::from_hours(24);

fn small_table() -> Arc<KeyTable> {
    Arc::new(KeyTable::new(TableConfig { bytes: 256 << 10, ..TableConfig::seeded([5, 6, 7, 8]) }))
}

/// 1000 units in a day, by numbers that no other `change` has.
fn changed(change: u64) -> Algorithm {
    let rate = Rate::new(1000, DAY + Duration::from_nanos(change)).unwrap();
    Algorithm::Bucket(Bucket::new(rate, 1000).unwrap())
}

fn gate_of(table: &Arc<KeyTable>, algorithm: Algorithm) -> Gate {
    let limit = Limit::new("limit", algorithm).key(["k"]);
    Gate::builder("api").limit(limit).table(Arc::clone(table)).build().unwrap()
}

fn overridden(table: &Arc<KeyTable>, namespace: &str, change: u64) -> Result<Gate, GateError> {
    let when = vec![("k".to_owned(), "x".to_owned())];
    Gate::builder(namespace)
        .limit(Limit::new("limit", changed(0)).key(["k"]))
        .override_at_run_time("limit", Override::new(when, changed(change)), Timestamp::MAX)
        .table(Arc::clone(table))
        .build()
}

fn charge(gate: &Gate, key: &str, units: u64, now: Timestamp) -> Permit {
    match gate.check(&[("k", key)], cost(units), now) {
        Decision::Admit(permit) => permit,
        Decision::Refuse(refusal) => panic!("{refusal}"),
    }
}

fn used(gate: &Gate, key: &str, now: Timestamp) -> u64 {
    let attributes = [("k", key)];
    let peek = gate.peek(&attributes, Cost::ONE, now);
    peek.limits[0].limit - peek.limits[0].remaining
}

fn whole_pass(table: &KeyTable, now: Timestamp) {
    table.specs.make_short();
    while table.reclaim_spec_numbers(now) {}
}

/// `TIDEGATE_OVERRIDE_CHANGES=3000000` makes more changes, as an acceptance suite does.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test that takes longer when it is told to")]
fn many_changes_of_one_override_leave_numbers_for_more_and_keep_usage() {
    let changes = std::env::var("TIDEGATE_OVERRIDE_CHANGES").map_or(500_000, |count| count.parse().unwrap());
    let table = small_table();
    let mut charged = 0;
    for change in 1..=changes {
        let gate = overridden(&table, "api", change).unwrap();
        if change % 100_000 == 1 {
            let _ = charge(&gate, "x", 10, NOW);
            charged += 10;
        }
        if change % 10_000 == 0 {
            let used = used(&gate, "x", NOW);
            assert!((charged..=charged + 1).contains(&used), "{used} of {charged} after {change} changes");
        }
        if change % 1024 == 0 {
            table.reclaim_spec_numbers(NOW);
        }
    }
    assert!(table.specs.len() < Specs::MAX / 16, "{} numbers in use", table.specs.len());
    gate_of(&table, changed(4_000_000));
}

#[test]
fn keys_that_were_charged_under_numbers_of_their_own_are_kept_by_few_numbers() {
    let table = Arc::new(KeyTable::new(TableConfig { bytes: 4 << 20, ..TableConfig::seeded([5, 6, 7, 8]) }));
    for change in 0..50_000_u64 {
        let rate = Rate::new(1 + change, DAY).unwrap();
        let bucket = Algorithm::Bucket(Bucket::new(rate, 1000.min(1 + change)).unwrap());
        let _ = charge(&gate_of(&table, bucket), &change.to_string(), 1, NOW);
    }
    assert!(table.specs.len() > 50_000);
    whole_pass(&table, NOW);
    assert!(table.specs.len() < 3_000, "{} numbers for 50 000 keys", table.specs.len());
    let gate = gate_of(&table, changed(0));
    let kept = (0..50_000_u64).filter(|change| used(&gate, &change.to_string(), NOW) == 1).count();
    assert_eq!(kept, 50_000);
}

#[test]
fn one_namespace_cannot_take_the_numbers_of_another_and_gets_its_own_back() {
    let table = small_table();
    let refused = (1..=100_000).find(|change| overridden(&table, "hostile", *change).is_err()).unwrap();
    assert_eq!(refused, Specs::AT_RUN_TIME_MAX as u64 + 1);
    let error = overridden(&table, "hostile", refused).unwrap_err().to_string();
    assert_eq!(
        error,
        "limit \"limit\": run-time overrides of this namespace hold 65536 different sets of numbers, in force or not \
         yet reclaimed; retry in a few seconds, or use numbers that another override has"
    );
    overridden(&table, "hostile", 7).expect("numbers that have a spec need none");
    overridden(&table, "honest", refused).expect("another namespace has a share of its own");
    gate_of(&table, changed(refused + 1));
    while table.reclaim_spec_numbers(NOW) {}
    overridden(&table, "hostile", refused + 2).expect("its retired numbers were reclaimed");
}

#[test]
fn numbers_that_a_gate_uses_are_never_reclaimed() {
    let table = small_table();
    let in_force = gate_of(&table, changed(1));
    let _ = charge(&in_force, "x", 100, NOW);
    for _ in 0..3 {
        whole_pass(&table, NOW);
        assert_eq!(used(&in_force, "x", NOW), 100);
    }
    let _ = charge(&in_force, "x", 100, NOW);
    assert_eq!(used(&in_force, "x", NOW), 200);
}

#[test]
fn a_permit_whose_numbers_were_reclaimed_is_settled_without_touching_what_others_used() {
    let table = small_table();
    let before = gate_of(&table, changed(1));
    let (permit, other) = (charge(&before, "x", 100, NOW), charge(&before, "x", 50, NOW));
    drop(before);
    whole_pass(&table, NOW);
    // The number is free; use all free numbers, so that it belongs to another spec.
    let taken: Vec<_> = (0..10).map(|change| gate_of(&table, changed(100 + change))).collect();
    permit.take_back(&table, NOW);
    let now = used(&taken[0], "x", NOW);
    assert!((50..=151).contains(&now), "{now}");
    other.settle(&table, 20, NOW);
    let now = used(&taken[0], "x", NOW);
    assert!((20..=121).contains(&now), "{now}");
}

/// Every algorithm with this many units in a day.
fn every(units: u64) -> Vec<Algorithm> {
    let rate = Rate::new(units, DAY).unwrap();
    vec![
        Algorithm::Bucket(Bucket::new(rate, units).unwrap()),
        Algorithm::Rolling(Rolling::new(units, DAY).unwrap()),
        Algorithm::SlidingCounter(SlidingCounter::new(units, DAY).unwrap()),
        Algorithm::Fixed(Fixed::new(units, DAY, WindowStart::Epoch).unwrap()),
        Algorithm::Fixed(Fixed::new(units, DAY, WindowStart::FirstHit).unwrap()),
        Algorithm::Calendar(Calendar::new(units, CivilUnit::Month, "UTC").unwrap()),
    ]
}

#[test]
fn no_charge_is_lost_or_doubled_by_passes_while_threads_charge_and_numbers_change() {
    for algorithm in 0..every(1).len() {
        let table = small_table();
        let gate = RwLock::new(Arc::new(gate_of(&table, every(100_000)[algorithm].clone())));
        let admitted: Vec<AtomicU64> = (0..16).map(|_| AtomicU64::new(0)).collect();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2_usize {
                let (gate, admitted) = (&gate, &admitted);
                scope.spawn(move || {
                    for round in 0..40_000_usize {
                        let gate = Arc::clone(&gate.read().unwrap());
                        let key = (round * 7 + thread) % 16;
                        if let Decision::Admit(permit) =
                            gate.check(&[("k", key.to_string().as_str())], Cost::ONE, NOW)
                        {
                            if round % 5 == 0 {
                                gate.take_back(permit, NOW);
                            } else {
                                admitted[key].fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
            let passes = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    whole_pass(&table, NOW);
                }
            });
            for change in 0..10_000 {
                let next = every(100_001 + change)[algorithm].clone();
                *gate.write().unwrap() = Arc::new(gate_of(&table, next));
            }
            is_over.store(true, Ordering::Relaxed);
            passes.join().unwrap();
        });
        let last = gate_of(&table, every(900_000)[algorithm].clone());
        for (key, admitted) in admitted.iter().enumerate() {
            let (used, admitted) = (used(&last, &key.to_string(), NOW), admitted.load(Ordering::Relaxed));
            // A bucket rounds up by a tick whenever its numbers change.
            let rounding = u64::from(algorithm == 0);
            assert!(
                (admitted..=admitted + rounding).contains(&used),
                "{}: {used} of {admitted}",
                last.limits().next().unwrap().algorithm.name()
            );
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Charge { key: u8, units: u64 },
    Refund { key: u8, units: u64 },
    Change { numbers: u64 },
    Pass,
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_u8, 1..50_u64).prop_map(|(key, units)| Step::Charge { key, units }),
        (0..4_u8, 1..50_u64).prop_map(|(key, units)| Step::Refund { key, units }),
        (1..2000_u64).prop_map(|numbers| Step::Change { numbers }),
        Just(Step::Pass),
        (0..3600_u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

proptest! {
    #[test]
    fn a_table_with_passes_says_what_one_without_says(steps in prop::collection::vec(step(), 1..60), kind in 0..6_usize) {
        let tables = [small_table(), small_table()];
        let mut gates = tables.each_ref().map(|table| gate_of(table, every(100_000)[kind].clone()));
        let mut now = NOW;
        let mut waited = 0;
        for step in steps {
            match step {
                Step::Charge { key, units } => {
                    for gate in &gates {
                        drop(gate.check(&[("k", key.to_string().as_str())], cost(units), now));
                    }
                }
                Step::Refund { key, units } => {
                    for gate in &gates {
                        gate.refund(&[("k", key.to_string().as_str())], cost(units), now);
                    }
                }
                Step::Change { numbers } => {
                    gates = tables.each_ref().map(|table| gate_of(table, every(100_000 + numbers)[kind].clone()));
                }
                Step::Pass => whole_pass(&tables[0], now),
                Step::Wait { seconds } => {
                    waited += seconds;
                    now = now.saturating_add(Duration::from_secs(seconds));
                }
            }
            for key in 0..4_u8 {
                let [with, without] = gates.each_ref().map(|gate| used(gate, &key.to_string(), now));
                // Every window counts the same at rest. A bucket is rounded by a tick and drains by
                // at most 1/128 slower.
                let (sooner, later) = if kind == 0 { (1, waited * 102_000 / 86_400 / 100 + 2) } else { (0, 0) };
                let kept = without.saturating_sub(sooner)..=without + later;
                prop_assert!(kept.contains(&with), "{} with, {} without", with, without);
            }
        }
    }
}
