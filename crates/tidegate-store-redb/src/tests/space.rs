//! The bound on what counters take on disk, and the shares of namespaces in it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::{Algorithm, Cost, Timestamp, WhenFull};
use tidegate_store::{Batch, Key, Kind, Operation, Outcome, RequestId, Store, StoreError};

use super::simulated::SimulatedDisk;
use super::{START, config, wait};
use crate::config::{Durability, RedbConfig};
use crate::format::MIGRATIONS;
use crate::store::RedbStore;

const DISK: u64 = 512 << 10;

struct World {
    disk: SimulatedDisk,
    now: Arc<AtomicU64>,
    ids: AtomicU64,
}

impl World {
    fn new() -> Self {
        let now = Arc::new(AtomicU64::new(START.as_nanos()));
        Self { disk: SimulatedDisk::formatted(), now, ids: AtomicU64::new(1) }
    }

    fn open(&self, change: impl FnOnce(&mut RedbConfig)) -> RedbStore {
        let interval = Durability::Interval(Duration::from_millis(1));
        let mut config = RedbConfig { disk: DISK, durability: interval, ..config() };
        change(&mut config);
        let now = Arc::clone(&self.now);
        let clock = move || Timestamp::from_nanos(now.load(Ordering::Relaxed));
        RedbStore::open_on(Box::new(self.disk.clone()), &config, MIGRATIONS, clock).unwrap()
    }

    fn set_now(&self, now: Timestamp) {
        self.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// One unit of two an hour.
    fn charge(&self, store: &RedbStore, namespace: &str, name: &str) -> Result<Outcome, StoreError> {
        self.ask(store, namespace, name, Kind::Check { cost: Cost::ONE })
    }

    fn ask(&self, store: &RedbStore, namespace: &str, name: &str, kind: Kind) -> Result<Outcome, StoreError> {
        let two = Algorithm::Fixed(Fixed::new(2, HOUR, WindowStart::FirstHit).unwrap());
        let key = Key::new(namespace, b"limit", name.as_bytes()).unwrap();
        let operation = Operation::new(key, two, kind);
        let id = RequestId(u128::from(self.ids.fetch_add(1, Ordering::Relaxed)));
        Ok(wait(store.run(&Batch::all_or_nothing(id, [operation])))?.outcomes[0])
    }

    /// Charges new keys until there is no room: how many, and when there may be some again.
    fn fill(&self, store: &RedbStore, namespace: &str) -> (usize, Timestamp) {
        for number in 0..100_000 {
            match self.charge(store, namespace, &format!("{number}{}", "x".repeat(number % 300))) {
                Ok(_) => {}
                Err(StoreError::Full { until }) => return (number, until),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("{:?} has no bound", store.stats());
    }
}

const HOUR: Duration = Duration::from_hours(1);

fn second_later(now: Timestamp) -> Timestamp {
    now.saturating_add(Duration::from_secs(1))
}

#[test]
fn one_namespace_cannot_take_the_share_of_another() {
    let world = World::new();
    let store = world.open(|config| config.namespaces = 2);
    let (hostile, _) = world.fill(&store, "hostile");
    let used = store.stats().space_used;
    assert!((DISK / 4 * 3 - 4096..=DISK / 4 * 3).contains(&used), "{used} of {DISK}");
    // Existing counters go on being counted.
    assert_eq!(world.charge(&store, "hostile", "0").unwrap().used, 2);
    let (honest, _) = world.fill(&store, "honest");
    assert!(honest * 4 >= hostile, "{honest} keys of a quarter, {hostile} of three quarters");
    wait(store.flush()).unwrap();
    assert!(store.stats().space_used <= DISK, "{:?}", store.stats());
}

/// An explanation reads by peeks, and must not say that the request would be admitted.
#[test]
fn a_peek_at_a_new_key_for_which_there_is_no_space_is_answered_as_a_check() {
    let world = World::new();
    let store = world.open(|_| {});
    world.fill(&store, "api");
    let new = "n".repeat(400);
    while !matches!(world.charge(&store, "api", &new), Err(StoreError::Full { .. })) {}
    wait(store.flush()).unwrap();
    let peek = |name: &str| world.ask(&store, "api", name, Kind::Peek { cost: Cost::ONE });
    assert!(
        matches!(peek(&new), Err(StoreError::Full { until }) if until >= second_later(START)),
        "{:?}",
        peek(&new)
    );
    assert_eq!(peek("0").unwrap().used, 1, "a counter that is there goes on");
}

#[test]
fn a_caller_that_finds_no_room_is_told_when_the_first_counter_drains_and_finds_some_then() {
    let world = World::new();
    let store = world.open(|_| {});
    let drained = world.charge(&store, "api", "0").unwrap().reset_at;
    world.fill(&store, "api");
    // As much as any that was charged so far: a smaller one may still find room.
    let new = "n".repeat(400);
    // A few rounds later the writer knows when the first one drains.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !matches!(world.charge(&store, "api", &new), Err(StoreError::Full { until }) if until == drained) {
        assert!(std::time::Instant::now() < deadline, "{:?}", world.charge(&store, "api", &new));
        std::thread::yield_now();
    }
    world.set_now(drained);
    while let Err(StoreError::Full { until }) = world.charge(&store, "api", &new) {
        assert!(std::time::Instant::now() < deadline);
        assert!(until <= second_later(drained), "{until}");
        std::thread::yield_now();
    }
    assert!(store.stats().swept > 0);
}

#[test]
fn where_the_policy_admits_a_charge_without_room_is_admitted_and_not_counted() {
    let world = World::new();
    let store = world.open(|config| config.when_full = WhenFull::Admit);
    for number in 0..10_000 {
        world.charge(&store, "api", &format!("{number}{}", "x".repeat(200))).unwrap();
    }
    wait(store.flush()).unwrap();
    let stats = store.stats();
    assert!(stats.full > 5_000 && stats.space_used <= DISK, "{stats:?}");
    assert!(!world.charge(&store, "api", &"another".repeat(99)).unwrap().counted);
    let counted = world.charge(&store, "api", &format!("0{}", "x".repeat(200))).unwrap();
    assert_eq!(counted.used, 2);
}

#[test]
fn what_counters_take_is_the_same_when_it_is_counted_anew() {
    let world = World::new();
    let store = world.open(|_| {});
    for number in 0..500 {
        world.charge(&store, ["a", "b"][number % 2], &number.to_string()).unwrap();
    }
    world.set_now(START.saturating_add(HOUR * 2));
    for number in 0..300 {
        world.charge(&store, "a", &format!("later {number}")).unwrap();
    }
    wait(store.flush()).unwrap();
    let before = store.stats().space_used;
    store.close().unwrap();
    assert_eq!(world.open(|_| {}).stats().space_used, before);
}

#[test]
fn the_listener_hears_once_that_commits_fail_and_once_that_they_succeed_again() {
    let world = World::new();
    let store = world.open(|config| config.durability = Durability::Interval(HOUR));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let reports = Arc::clone(&heard);
    store.on_report(move |report| reports.lock().unwrap().push(format!("{report:?}")));
    world.charge(&store, "api", "before").unwrap();
    world.disk.fill(true);
    for _ in 0..3 {
        assert!(wait(store.flush()).is_err());
    }
    world.disk.fill(false);
    wait(store.flush()).unwrap();
    // With an interval no answered charge is lost, as long as the process lives.
    assert_eq!(world.charge(&store, "api", "before").unwrap().used, 2);
    store.close().unwrap();
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[0].starts_with("Failing") && heard[1].starts_with("Recovered { failures: "), "{heard:?}");
}
