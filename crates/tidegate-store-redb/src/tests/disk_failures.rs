//! A disk that is full for a while, or for good.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::{Algorithm, Cost};
use tidegate_store::{Batch, Key, Kind, Operation, Outcome, RequestId, Store, StoreError};

use super::simulated::SimulatedDisk;
use super::{START, config, wait};
use crate::config::{Durability, RedbConfig};
use crate::format::MIGRATIONS;
use crate::store::RedbStore;

fn open(disk: &SimulatedDisk, durability: Durability) -> RedbStore {
    let config = RedbConfig { durability, ..config() };
    RedbStore::open_on(Box::new(disk.clone()), &config, MIGRATIONS, || START).unwrap()
}

fn run(store: &RedbStore, id: u128, name: &[u8], kind: Kind) -> Result<Outcome, StoreError> {
    let two = Algorithm::Fixed(Fixed::new(2, Duration::from_hours(1), WindowStart::FirstHit).unwrap());
    let operation = Operation::new(Key::new("api", b"limit", name).unwrap(), two, kind);
    Ok(wait(store.run(&Batch::all_or_nothing(RequestId(id), [operation])))?.outcomes[0])
}

const CHECK: Kind = Kind::Check { cost: Cost::ONE };
const PEEK: Kind = Kind::Peek { cost: Cost::ONE };

fn is_unknown(result: &Result<Outcome, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable { sent: true, .. }))
}

fn is_certain(result: &Result<Outcome, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable { sent: false, .. }))
}

#[test]
fn while_the_disk_is_full_nothing_is_charged_in_vain_and_afterwards_all_is_well() {
    let disk = SimulatedDisk::formatted();
    let store = open(&disk, Durability::Sync);
    assert_eq!(run(&store, 1, b"ada", CHECK).unwrap().used, 1);
    disk.fill(true);
    let unknown = run(&store, 2, b"ada", CHECK);
    assert!(is_unknown(&unknown), "{unknown:?}");
    // New callers fail at once, and nothing is charged for them.
    for id in 3..10 {
        let refused = run(&store, id, b"ada", CHECK);
        assert!(is_certain(&refused), "{refused:?}");
    }
    // A peek is answered as the check that it stands for.
    let peeked = run(&store, 10, b"ada", PEEK);
    assert!(is_certain(&peeked), "{peeked:?}");
    assert!(wait(store.flush()).is_err());
    let stats = store.stats();
    assert!(stats.failing && stats.failures >= 2 && stats.unsaved == 1, "{stats:?}");
    assert!(stats.last_error.is_some_and(|error| !error.is_empty()));

    disk.fill(false);
    wait(store.flush()).unwrap();
    assert!(!store.stats().failing);
    // An unknown outcome counts as charged. Asked again under its id it learns what happened.
    assert_eq!(run(&store, 2, b"ada", CHECK).unwrap().used, 2);
    assert_eq!(run(&store, 11, b"bob", CHECK).unwrap().used, 1);
    store.close().unwrap();
    let store = open(&disk, Durability::Sync);
    for (name, used) in [(b"ada", 2), (b"bob", 1)] {
        assert_eq!(run(&store, 1, name, PEEK).unwrap().used, used);
    }
}

#[test]
fn a_disk_that_recovers_by_itself_is_found_out_without_being_asked() {
    let disk = SimulatedDisk::formatted();
    let store = Arc::new(open(&disk, Durability::Sync));
    disk.fill(true);
    assert!(is_unknown(&run(&store, 1, b"ada", CHECK)));
    disk.fill(false);
    let again = (2..1_000_000).find_map(|id| {
        std::thread::yield_now();
        run(&store, id, b"ada", CHECK).ok()
    });
    assert_eq!(again.map(|outcome| outcome.used), Some(2));
}

#[test]
fn an_interval_that_cannot_be_kept_is_not_passed_over_in_silence() {
    let disk = SimulatedDisk::formatted();
    let store = open(&disk, Durability::Interval(Duration::from_hours(1)));
    disk.fill(true);
    assert_eq!(run(&store, 1, b"ada", CHECK).unwrap().used, 1);
    assert!(wait(store.flush()).is_err());
    let refused = run(&store, 2, b"ada", CHECK);
    assert!(is_certain(&refused), "{refused:?}");
    disk.fill(false);
    wait(store.flush()).unwrap();
    assert_eq!(run(&store, 3, b"ada", CHECK).unwrap().used, 2);
}

#[test]
fn closing_on_a_disk_that_fails_ends_and_says_so() {
    let disk = SimulatedDisk::formatted();
    let store = open(&disk, Durability::Interval(Duration::from_hours(1)));
    assert_eq!(run(&store, 1, b"ada", CHECK).unwrap().used, 1);
    disk.fill(true);
    assert!(matches!(store.close(), Err(StoreError::Unavailable { sent: true, .. })));
    disk.fill(false);
    let store = open(&disk, Durability::Sync);
    assert_eq!(run(&store, 1, b"ada", PEEK).unwrap().used, 0);
}

#[test]
fn what_has_drained_is_removed_from_the_disk_by_the_way() {
    let disk = SimulatedDisk::formatted();
    let clock = Arc::new(std::sync::atomic::AtomicU64::new(START.as_nanos()));
    let now = Arc::clone(&clock);
    let now = move || tidegate_core::Timestamp::from_nanos(now.load(std::sync::atomic::Ordering::Relaxed));
    let store = RedbStore::open_on(Box::new(disk.clone()), &config(), MIGRATIONS, now).unwrap();
    for name in 0..500_u32 {
        run(&store, u128::from(name), &name.to_be_bytes(), CHECK).unwrap();
    }
    let later = START.saturating_add(Duration::from_hours(3));
    clock.store(later.as_nanos(), std::sync::atomic::Ordering::Relaxed);
    for turn in 0..20_u32 {
        run(&store, 1000 + u128::from(turn), &[b"alive", &turn.to_be_bytes()[..]].concat(), CHECK).unwrap();
    }
    let stats = store.stats();
    assert_eq!(stats.swept, 500, "{stats:?}");
    // Those that the sweep has removed are none when they are asked for.
    assert_eq!(run(&store, 2000, &7_u32.to_be_bytes(), PEEK).unwrap().used, 0);
    store.close().unwrap();
    assert_eq!(super::formats::counters(&disk), 20);
}
