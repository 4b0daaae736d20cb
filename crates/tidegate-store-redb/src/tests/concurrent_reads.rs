//! Counters that are read from disk while others charge them and while they go out of memory.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::{Algorithm, Cost};
use tidegate_store::{Answer, Batch, Key, Kind, Operation, RequestId, Store};

use super::simulated::SimulatedDisk;
use super::{START, config, wait};
use crate::config::{Durability, RedbConfig};
use crate::format::MIGRATIONS;
use crate::store::RedbStore;

/// More keys than fit into the least memory there is.
const MANY: u64 = 2000;

struct World {
    store: RedbStore,
    ids: std::sync::atomic::AtomicU64,
}

impl World {
    /// A store with the least memory, in which the keys from 0 to [`MANY`] have been charged once.
    fn new() -> Arc<Self> {
        let config = RedbConfig { durability: Durability::Interval(Duration::ZERO), memory: 0, ..config() };
        let disk = Box::new(SimulatedDisk::formatted());
        let store = RedbStore::open_on(disk, &config, MIGRATIONS, || START).unwrap();
        let world = Arc::new(Self { store, ids: 0.into() });
        world.push_out();
        world
    }

    fn run(&self, names: &[u64], kind: Kind) -> Answer {
        let fixed = Fixed::new(1000, Duration::from_hours(24), WindowStart::FirstHit).unwrap();
        let operations = names.iter().map(|name| {
            let key = Key::new("api", b"limit", &name.to_be_bytes()).unwrap();
            Operation::new(key, Algorithm::Fixed(fixed.clone()), kind)
        });
        let id = self.ids.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        wait(self.store.run(&Batch::all_or_nothing(RequestId(id.into()), operations))).unwrap()
    }

    fn used(&self, names: &[u64]) -> Vec<u64> {
        let answer = self.run(names, Kind::Peek { cost: Cost::ONE });
        answer.outcomes.iter().map(|outcome| outcome.used).collect()
    }

    fn charge(&self, names: &[u64]) {
        assert!(!self.run(names, Kind::Check { cost: Cost::ONE }).refused);
    }

    /// Charges so many others that all before are out of memory.
    fn push_out(&self) {
        for _ in 0..2 {
            (10..MANY).for_each(|name| self.charge(&[name]));
            wait(self.store.flush()).unwrap();
        }
    }
}

#[test]
fn what_others_charged_and_wrote_while_a_counter_was_read_is_not_lost() {
    let world = World::new();
    world.charge(&[1]);
    world.push_out();
    let other = Arc::clone(&world);
    world.store.while_reading(move || {
        other.charge(&[1]);
        other.push_out();
    });
    let loaded = world.store.stats().loaded;
    world.charge(&[1]);
    assert!(world.store.stats().loaded > loaded, "it was read from disk");
    assert_eq!(world.used(&[1]), [3]);
}

#[test]
fn what_went_out_of_memory_while_another_counter_was_read_is_read_as_well() {
    let world = World::new();
    world.charge(&[1, 2]);
    world.push_out();
    world.charge(&[1]);
    wait(world.store.flush()).unwrap();
    let other = Arc::clone(&world);
    // Reading alone pushes it out, without a commit in between.
    world.store.while_reading(move || {
        for _ in 0..2 {
            (10..MANY).for_each(|name| assert!(other.used(&[name])[0] > 0));
        }
    });
    assert_eq!(world.used(&[1, 2]), [2, 1]);
}
