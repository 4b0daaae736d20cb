//! The table under every interleaving of two or three threads.

use core::time::Duration;
use std::sync::Arc;

use ::loom::thread;

use super::*;
use crate::algorithm::{Algorithm, Bucket, Counter, Verdict};
use crate::cost::Cost;
use crate::rate::Rate;
use crate::shares::Owner;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// One line of four words, which both choices of every key fall on.
fn table() -> Arc<KeyTable> {
    let config = TableConfig { ring_share_percent: 0, ..TableConfig::seeded([1, 2, 3, 4]) };
    Arc::new(KeyTable::with_lines(1, 0, config))
}

fn bucket(units: u64) -> Bucket {
    Bucket::new(Rate::per_minute(units).unwrap(), units).unwrap()
}

fn spec(table: &KeyTable, units: u64) -> SpecNumber {
    let pin = table
        .specs
        .intern(Spec::Algorithm(Algorithm::Bucket(bucket(units))), SpecOwner::policy(Owner::NONE))
        .unwrap();
    let number = pin.id().number();
    // Pinned for as long as the test runs.
    core::mem::forget(pin);
    number
}

fn charge(table: &KeyTable, key: KeyHash, units: u64, id: SpecNumber, now: Timestamp) -> Option<bool> {
    loop {
        let entry = table.look(key);
        let (verdict, next) = bucket(units).decide(entry.state(), Cost::ONE, now);
        if verdict != Verdict::Admit {
            return Some(false);
        }
        match table.write(key, entry, id, next, now) {
            Ok(_) => return Some(true),
            Err(Unwritten::Moved) => {}
            Err(Unwritten::Full { .. }) => return None,
        }
    }
}

fn words_with_tag(table: &KeyTable, key: KeyHash) -> usize {
    (0..LINE as u32)
        .filter(|slot| table.word(*slot).load(Ordering::Acquire) >> TAG_SHIFT == key.tag())
        .count()
}

#[test]
fn loom_two_threads_that_bring_the_same_key_insert_it_once_and_both_count() {
    model(|| {
        let table = table();
        let id = spec(&table, 5);
        let other = Arc::clone(&table);
        let thread = thread::spawn(move || charge(&other, KeyHash(77), 5, id, NOW));
        assert_eq!(charge(&table, KeyHash(77), 5, id, NOW), Some(true));
        assert_eq!(thread.join().unwrap(), Some(true));
        assert_eq!(words_with_tag(&table, KeyHash(77)), 1);
        assert_eq!(bucket(5).used(table.look(KeyHash(77)).state(), NOW), 2);
    });
}

#[test]
fn loom_a_key_that_spills_into_a_further_line_is_inserted_once_and_both_charges_count() {
    let mut builder = ::loom::model::Builder::new();
    // One less than elsewhere: a look reads up to six lines here.
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let config = TableConfig { ring_share_percent: 0, ..TableConfig::seeded([1, 2, 3, 4]) };
        let table = Arc::new(KeyTable::with_lines(2, 0, config));
        let id = spec(&table, 5);
        let near_first = |key: &KeyHash| table.lines_of(*key) == [0, 0];
        let mut keys = (1..).map(|number| KeyHash(number << 57 | number)).filter(near_first);
        for key in keys.by_ref().take(LINE) {
            assert_eq!(charge(&table, key, 5, id, NOW), Some(true));
        }
        let key = keys.find(|key| table.further_lines_of(*key).contains(&(LINE as u32))).unwrap();
        let other = Arc::clone(&table);
        let thread = thread::spawn(move || charge(&other, key, 5, id, NOW));
        assert_eq!(charge(&table, key, 5, id, NOW), Some(true));
        assert_eq!(thread.join().unwrap(), Some(true));
        let entry = table.look(key);
        assert!(entry.slot >= LINE as u32, "it is in the further line");
        assert_eq!(bucket(5).used(entry.state(), NOW), 2);
    });
}

#[test]
fn loom_two_keys_that_want_the_last_word_do_not_share_it() {
    model(|| {
        let table = table();
        let id = spec(&table, 1);
        for key in 1..=3 {
            assert_eq!(charge(&table, KeyHash(key), 1, id, NOW), Some(true));
        }
        let other = Arc::clone(&table);
        let thread = thread::spawn(move || charge(&other, KeyHash(50), 1, id, NOW));
        let mine = charge(&table, KeyHash(60), 1, id, NOW);
        let theirs = thread.join().unwrap();
        assert!(
            matches!((mine, theirs), (Some(true), None) | (None, Some(true))),
            "exactly one gets the last word: {mine:?} {theirs:?}"
        );
        for key in 1..=3 {
            assert_eq!(charge(&table, KeyHash(key), 1, id, NOW), Some(false), "a bystander lost its charge");
        }
    });
}

#[test]
fn loom_a_drained_word_is_either_charged_or_taken_never_both() {
    model(|| {
        let table = table();
        let id = spec(&table, 1);
        for key in 1..=4 {
            // Keys 2 to 4 are charged late enough to still matter a minute later.
            let at = if key == 1 { NOW } else { NOW.saturating_add(Duration::from_secs(59)) };
            assert_eq!(charge(&table, KeyHash(key), 1, id, at), Some(true));
        }
        let later = NOW.saturating_add(Duration::from_mins(1));
        let other = Arc::clone(&table);
        let thread = thread::spawn(move || charge(&other, KeyHash(9), 1, id, later));
        let old = charge(&table, KeyHash(1), 1, id, later);
        let new = thread.join().unwrap();
        let both = [(old, KeyHash(1)), (new, KeyHash(9))];
        assert_eq!(
            both.iter().filter(|(answer, _)| *answer == Some(true)).count(),
            1,
            "one word, one charge"
        );
        for (answer, key) in both {
            let used = bucket(1).used(table.look(key).state(), later);
            assert_eq!(used, u64::from(answer == Some(true)), "what was admitted is counted");
        }
    });
}

#[test]
fn loom_a_charge_and_a_pass_at_the_same_time_leave_every_charge_counted_once() {
    model(|| {
        let table = table();
        let key = KeyHash(7 << 20);
        let retired = table
            .specs
            .intern(Spec::Algorithm(Algorithm::Bucket(bucket(10))), SpecOwner::policy(Owner::NONE))
            .unwrap();
        assert_eq!(charge(&table, key, 10, retired.id().number(), NOW), Some(true));
        drop(retired);
        let in_force = spec(&table, 20);
        let other = Arc::clone(&table);
        let pass = thread::spawn(move || {
            other.specs.make_short();
            while other.reclaim_spec_numbers(NOW) {}
        });
        let to = Algorithm::Bucket(bucket(20));
        loop {
            let entry = table.look(key);
            let found = entry.spec().and_then(|number| table.specs.get(number));
            // A number that was freed since the word was read: what is decided here is not written.
            let state = found.as_ref().and_then(|found| found.spec());
            let state = state.map_or(State::EMPTY, |from| from.carry_over(entry.state(), &to, NOW));
            let (_, next) = bucket(20).decide(state, Cost::ONE, NOW);
            if table.write(key, entry, in_force, next, NOW).is_ok() {
                break;
            }
        }
        pass.join().unwrap();
        let entry = table.look(key);
        assert_eq!(entry.spec(), Some(in_force));
        assert_eq!(bucket(20).used(entry.state(), NOW), 2);
        assert_eq!(words_with_tag(&table, key), 1);
    });
}

#[test]
fn loom_a_number_that_is_pinned_during_a_pass_stays_in_use() {
    model(|| {
        let table = table();
        let key = KeyHash(7 << 20);
        let first = table
            .specs
            .intern(Spec::Algorithm(Algorithm::Bucket(bucket(10))), SpecOwner::policy(Owner::NONE))
            .unwrap();
        drop(first);
        let other = Arc::clone(&table);
        let pass = thread::spawn(move || {
            other.specs.make_short();
            while other.reclaim_spec_numbers(NOW) {}
        });
        let again = table
            .specs
            .intern(Spec::Algorithm(Algorithm::Bucket(bucket(10))), SpecOwner::policy(Owner::NONE))
            .unwrap();
        assert_eq!(charge(&table, key, 10, again.id().number(), NOW), Some(true));
        pass.join().unwrap();
        let found = table.specs.get(table.look(key).spec().unwrap()).unwrap();
        assert_eq!(found.spec(), Some(again.spec()));
    });
}
