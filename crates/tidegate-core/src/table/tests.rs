use core::time::Duration;
use std::collections::HashMap;

use super::*;
use crate::algorithm::{Algorithm, Bucket, Counter};
use crate::cost::Cost;
use crate::rate::Rate;
use crate::shares::Owner;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn table(bytes: usize) -> KeyTable {
    let config = TableConfig { bytes, ring_share_percent: 0, ..TableConfig::seeded([1, 2, 3, 4]) };
    KeyTable::new(config)
}

fn per_second(units: u64) -> Bucket {
    Bucket::new(Rate::per_second(units).unwrap(), units).unwrap()
}

fn spec(table: &KeyTable, owner: Owner, bucket: Bucket) -> SpecNumber {
    let owner = SpecOwner::policy(owner);
    let pin = table.specs.intern(Spec::Algorithm(Algorithm::Bucket(bucket)), owner).unwrap();
    let number = pin.id().number();
    // Pinned for as long as the test runs.
    core::mem::forget(pin);
    number
}

fn key(table: &KeyTable, name: u64) -> KeyHash {
    let mut hasher = table.hasher();
    hasher.write_u64(name);
    KeyHash(hasher.finish())
}

/// Charges one unit to a key; `None` if the table has no room.
fn charge(table: &KeyTable, bucket: &Bucket, name: u64, now: Timestamp) -> Option<bool> {
    charge_for(table, Owner::NONE, bucket, name, now)
}

/// The same for a namespace.
fn charge_for(table: &KeyTable, owner: Owner, bucket: &Bucket, name: u64, now: Timestamp) -> Option<bool> {
    let id = spec(table, owner, bucket.clone());
    let key = key(table, name);
    loop {
        let entry = table.look(key);
        let (verdict, next) = bucket.decide(entry.state(), Cost::ONE, now);
        if verdict != crate::algorithm::Verdict::Admit {
            return Some(false);
        }
        match table.write(key, entry, id, next, now) {
            Ok(_) => return Some(true),
            Err(Unwritten::Moved) => {}
            Err(Unwritten::Full { .. }) => return None,
        }
    }
}

#[test]
fn a_key_is_found_again_and_its_state_with_it() {
    let table = table(64 << 10);
    let bucket = per_second(2);
    for name in 0..500 {
        assert_eq!(charge(&table, &bucket, name, NOW), Some(true));
        assert_eq!(charge(&table, &bucket, name, NOW), Some(true));
        assert_eq!(charge(&table, &bucket, name, NOW), Some(false));
    }
    for name in 0..500 {
        assert_eq!(charge(&table, &bucket, name, NOW), Some(false), "key {name} was forgotten");
    }
}

#[test]
fn seven_words_in_ten_are_taken_before_the_first_key_is_turned_away() {
    let table = table(1 << 20);
    let slots = table.stats(NOW).slots as u64;
    let bucket = Bucket::new(Rate::per_hour(1).unwrap(), 1).unwrap();
    let turned_away = (0..slots).find(|name| charge(&table, &bucket, *name, NOW).is_none());
    let load = turned_away.unwrap_or(slots) * 100 / slots;
    assert!(load >= 70, "first key turned away at {load} % load");
}

#[test]
fn a_full_table_turns_newcomers_away_and_keeps_what_it_has() {
    let table = table(TableConfig::BYTES_MIN);
    let bucket = Bucket::new(Rate::per_minute(1).unwrap(), 1).unwrap();
    let kept: Vec<u64> = (0..2000).filter(|name| charge(&table, &bucket, *name, NOW) == Some(true)).collect();
    assert!(kept.len() <= 256 && kept.len() > 240, "{} keys in 256 words", kept.len());
    for name in &kept {
        assert_eq!(
            charge(&table, &bucket, *name, NOW),
            Some(false),
            "key {name} lost its charge to a newcomer"
        );
    }
}

#[test]
fn a_newcomer_is_told_about_when_the_first_word_drains_and_is_taken_then() {
    let table = table(TableConfig::BYTES_MIN);
    let bucket = Bucket::new(Rate::per_minute(4).unwrap(), 1).unwrap();
    let id = spec(&table, Owner::NONE, bucket.clone());
    let turned_away: Vec<_> =
        (0..2000).filter(|name| charge(&table, &bucket, *name, NOW).is_none()).take(100).collect();
    let (_, next) = bucket.decide(State::EMPTY, Cost::ONE, NOW);
    let told = |name: u64| {
        let key = key(&table, name);
        match table.write(key, table.look(key), id, next, NOW) {
            Err(Unwritten::Full { until }) => until,
            other => panic!("{other:?}"),
        }
    };
    let mut instants: Vec<_> = turned_away.iter().map(|name| told(*name)).collect();
    let drained = NOW.saturating_add(Duration::from_secs(15));
    let last = drained.saturating_add(Duration::from_millis(7500));
    assert!(instants.iter().all(|until| (drained..last).contains(until)), "{instants:?}");
    assert_eq!(told(turned_away[0]), instants[0], "the same key comes back at the same instant");
    instants.sort_unstable();
    instants.dedup();
    assert!(instants.len() > 95, "the keys of a moment come back in {} moments", instants.len());
    let key = key(&table, turned_away[0]);
    assert!(table.write(key, table.look(key), id, next, drained).is_ok());
}

/// A namespace at its share is refused while there are words that nobody has; that they are free is
/// no reason to come back at once.
#[test]
fn a_namespace_at_its_share_is_told_when_its_own_words_drain() {
    let table = table(1 << 20);
    let bucket = Bucket::new(Rate::per_minute(10).unwrap(), 10).unwrap();
    let (orders, _) = (table.join("orders"), table.join("search"));
    let id = spec(&table, orders, bucket.clone());
    let (_, next) = bucket.decide(State::EMPTY, Cost::ONE, NOW);
    let mut instants = Vec::new();
    let mut taken = 0;
    for name in 0..60_000 {
        let key = key(&table, name);
        match table.write(key, table.look(key), id, next, NOW) {
            Ok(_) => taken += 1,
            Err(Unwritten::Full { until }) => instants.push(until),
            Err(Unwritten::Moved) => panic!("nobody else writes"),
        }
    }
    let stats = table.stats(NOW);
    assert_eq!(stats.keys_max, stats.slots / 16 * 11);
    assert_eq!(taken, stats.keys_max / 4 * 3, "half, and its share of the other half");
    let (first, last) = (instants.iter().min().unwrap(), instants.iter().max().unwrap());
    let drain = NOW.saturating_add(Duration::from_secs(6));
    assert!(*first >= drain && *last <= NOW.saturating_add(Duration::from_secs(9)), "{first} to {last}");
}

/// `TIDEGATE_FLOOD_KEYS=10000000` brings more keys, as an acceptance suite does.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test that takes longer when it is told to")]
fn a_flood_of_unique_keys_stays_inside_the_table_and_forgets_nothing_that_counts() {
    let flood: u64 = std::env::var("TIDEGATE_FLOOD_KEYS").map_or(3_000_000, |count| count.parse().unwrap());
    let table = table(1 << 20);
    let slow = Bucket::new(Rate::per_hour(1).unwrap(), 1).unwrap();
    let fast = per_second(1);
    assert_eq!(charge(&table, &slow, u64::MAX, NOW), Some(true));
    // A million unique keys a second: each second fifteen times what the table holds.
    let mut turned_away = 0;
    for name in 0..flood {
        let now = NOW.saturating_add(Duration::from_micros(name));
        turned_away += u64::from(charge(&table, &fast, name, now).is_none());
    }
    let end = NOW.saturating_add(Duration::from_micros(flood));
    assert_eq!(
        charge(&table, &slow, u64::MAX, end),
        Some(false),
        "the flood pushed out a key that was refused"
    );
    assert!(turned_away > 0, "the flood was larger than the table");
    let stats = table.stats(end);
    assert!(stats.keys <= stats.slots && stats.slots * 16 <= stats.bytes);
}

#[test]
fn a_state_written_under_other_numbers_still_counts() {
    let table = table(64 << 10);
    let old = per_second(10);
    for _ in 0..10 {
        assert_eq!(charge(&table, &old, 7, NOW), Some(true));
    }
    let raised = per_second(20);
    let id = spec(&table, Owner::NONE, raised.clone());
    let entry = table.look(key(&table, 7));
    let from = table.specs.get(entry.spec().unwrap()).unwrap();
    let carried = from.spec().unwrap().carry_over(entry.state(), &Algorithm::Bucket(raised.clone()), NOW);
    assert_eq!(raised.used(carried, NOW), 10);
    assert!(table.write(key(&table, 7), entry, id, carried, NOW).is_ok());
    assert_eq!(table.look(key(&table, 7)).spec(), Some(id));
}

#[test]
fn specs_with_the_same_numbers_are_one() {
    let table = table(64 << 10);
    assert_eq!(spec(&table, Owner::NONE, per_second(5)), spec(&table, Owner::NONE, per_second(5)));
    assert_ne!(spec(&table, Owner::NONE, per_second(5)), spec(&table, Owner::NONE, per_second(6)));
}

#[test]
fn the_table_agrees_with_a_map_that_forgets_nothing() {
    let table = table(1 << 20);
    let bucket = per_second(3);
    let mut model: HashMap<u64, State> = HashMap::new();
    let mut random = 0x1234_5678_9ABC_DEF0_u64;
    for step in 0..200_000_u64 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let name = random % 5000;
        let now = NOW.saturating_add(Duration::from_micros(step * 7));
        let state = model.entry(name).or_default();
        let (verdict, next) = bucket.decide(*state, Cost::ONE, now);
        *state = next;
        let expected = verdict == crate::algorithm::Verdict::Admit;
        assert_eq!(charge(&table, &bucket, name, now), Some(expected), "step {step}, key {name}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "threads are what is tested")]
fn threads_that_bring_the_same_new_keys_insert_each_once() {
    let table = std::sync::Arc::new(table(128 << 10));
    let bucket = per_second(1000);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (table, bucket) = (std::sync::Arc::clone(&table), bucket.clone());
            std::thread::spawn(move || {
                (0..20_000_u64).filter(|name| charge(&table, &bucket, name % 2000, NOW) == Some(true)).count()
            })
        })
        .collect();
    let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(admitted, 80_000);
    for name in 0..2000 {
        let entry = table.look(key(&table, name));
        assert_eq!(bucket.used(entry.state(), NOW), 40, "key {name} lost a charge or was inserted again");
    }
    assert_eq!(table.stats(NOW).keys, 2000);
}

#[test]
fn a_large_table_counts_its_first_keys_exactly() {
    let table = table(256 << 20);
    let bucket = Bucket::new(Rate::per_hour(1).unwrap(), 1).unwrap();
    assert_eq!(table.stats(NOW).keys, 0);
    for name in 0..FirstSlots::MAX {
        assert_eq!(charge(&table, &bucket, name as u64, NOW), Some(true));
        if name.is_power_of_two() || name < 3 {
            assert_eq!(table.stats(NOW).keys, name + 1);
        }
    }
    assert_eq!(table.stats(NOW).keys, FirstSlots::MAX);
    let later = NOW.saturating_add(Duration::from_hours(1));
    assert_eq!(table.stats(later).keys, 0, "drained keys do not count");
    // A table with more keys is sampled, and never shows fewer than those it can count.
    for name in FirstSlots::MAX..50_000 {
        charge(&table, &bucket, name as u64, NOW);
    }
    let keys = table.stats(NOW).keys;
    assert!((25_000..=75_000).contains(&keys), "{keys}");
}

#[test]
fn a_cleared_key_that_comes_back_counts_once() {
    let table = table(64 << 20);
    let bucket = Bucket::new(Rate::per_hour(1).unwrap(), 1).unwrap();
    for _ in 0..3 {
        charge(&table, &bucket, 7, NOW);
        assert_eq!(table.stats(NOW).keys, 1);
        table.clear(table.look(key(&table, 7))).unwrap();
        assert_eq!(table.stats(NOW).keys, 0);
    }
}

#[test]
fn a_namespace_below_its_share_finds_room_beside_others_that_take_all_they_can() {
    for namespaces in [2, 5, 20_u64] {
        let table = table(1 << 20);
        let owners: Vec<Owner> = (0..namespaces).map(|name| table.join(&name.to_string())).collect();
        let year = Bucket::new(Rate::per_hour(1).unwrap(), 8766).unwrap();
        let slots = table.stats(NOW).slots as u64;
        for (hostile, names) in owners[1..].iter().zip(1..) {
            for name in 0..slots {
                charge_for(&table, *hostile, &year, names << 32 | name, NOW);
            }
        }
        let share = table.shares.guaranteed();
        assert!(share * namespaces * 2 >= slots * 11 / 16 - namespaces * 2, "{share} of {slots}");
        let refused =
            (0..share).filter(|name| charge_for(&table, owners[0], &year, *name, NOW).is_none()).count();
        // A key has 24 words; at two thirds of all words taken, one key in some thousands finds all
        // of its own taken.
        assert!(refused as u64 <= share / 1000, "{refused} of {share} with {namespaces} namespaces");
    }
}

#[test]
fn a_namespace_at_its_share_gets_back_the_places_of_its_keys_that_have_drained() {
    let table = table(1 << 20);
    let (hostile, honest) = (table.join("hostile"), table.join("honest"));
    let hour = Bucket::new(Rate::per_hour(1).unwrap(), 1).unwrap();
    let second = per_second(1);
    let slots = table.stats(NOW).slots as u64;
    for name in 0..slots {
        charge_for(&table, hostile, &hour, 1 << 40 | name, NOW);
    }
    let share = table.shares.guaranteed();
    let mut now = NOW;
    let mut refused = 0;
    // Half of its share live at a time, forty times over.
    for round in 0..40 {
        for name in 0..share / 2 {
            refused += u64::from(charge_for(&table, honest, &second, round << 20 | name, now).is_none());
        }
        now = now.saturating_add(Duration::from_secs(2));
    }
    // At six words in ten taken, one key in 100 000 finds all of its own taken.
    assert!(refused <= 5, "{refused} refused, and it never used more than half of its share of {share}");
    assert!(table.shares.held(honest) <= share + slots / 2);
}

#[test]
fn the_words_that_are_counted_are_those_that_are_there() {
    let table = table(64 << 10);
    let owners = [table.join("a"), table.join("b")];
    let bucket = per_second(1);
    let mut now = NOW;
    for step in 0..20_000_u64 {
        let owner = (step % 3 / 2) as usize;
        charge_for(&table, owners[owner], &bucket, (step * 7919) % 9000 * 2 + owner as u64, now);
        if step % 64 == 0 {
            now = now.saturating_add(Duration::from_millis(300));
        }
        if step % 11 == 0 {
            let _ = table.clear(table.look(key(&table, (step * 104_729) % 9000)));
        }
    }
    let mut held = HashMap::new();
    for slot in 0..table.stats(now).slots as u32 {
        let word = table.word(slot).load(Ordering::Relaxed);
        if (Entry { slot, word }).spec().is_some() {
            *held.entry(table.owner_of(word)).or_insert(0) += 1;
        }
    }
    for owner in owners {
        assert_eq!(table.shares.held(owner), held.get(&owner).copied().unwrap_or(0));
    }
}

#[test]
fn a_table_of_one_namespace_is_not_divided() {
    let table = table(TableConfig::BYTES_MIN);
    let only = table.join("only");
    let minute = Bucket::new(Rate::per_minute(1).unwrap(), 1).unwrap();
    let kept = (0..2000).filter(|name| charge_for(&table, only, &minute, *name, NOW).is_some()).count();
    assert!(kept > 240, "{kept} keys in 256 words");
}
