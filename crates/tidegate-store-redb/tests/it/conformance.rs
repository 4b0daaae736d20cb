//! The suite of every store, in both durabilities, with memory for everything and with next to
//! none.

use std::sync::Mutex;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_store::conformance::{Capabilities, ConformanceStore, Report, run};
use tidegate_store_redb::{Durability, RedbConfig, RedbStore};

use crate::place::Place;

struct Harness {
    durability: Durability,
    memory: usize,
    place: Place,
    opened: Mutex<Vec<RedbConfig>>,
}

impl Harness {
    fn new(durability: Durability, memory: usize) -> Self {
        Self { durability, memory, place: Place::new(), opened: Mutex::default() }
    }
}

impl ConformanceStore for Harness {
    type Store = RedbStore;

    fn open(&self) -> RedbStore {
        let mut opened = self.opened.lock().unwrap();
        let mut config = RedbConfig::new(self.place.path().join(opened.len().to_string()), [1, 2, 3, 4]);
        config.durability = self.durability;
        config.memory = self.memory;
        opened.push(config.clone());
        self.place.open_with(&config).unwrap()
    }

    fn set_now(&self, now: Timestamp) {
        self.place.set_now(now);
    }

    fn reopen(&self, store: RedbStore) -> Option<RedbStore> {
        store.close().unwrap();
        // The suite opens a store of its own for each case, and opens again the one it opened last.
        let config = self.opened.lock().unwrap().last().unwrap().clone();
        Some(self.place.open_with(&config).unwrap())
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        // Every change waits for the disk.
        can.operations = if self.durability == Durability::Sync { 1000 } else { 20_000 };
        can.answers_survive = false;
        can
    }
}

fn assert_passes(report: &Report) {
    assert!(report.failed.is_empty(), "{report}");
    let skipped: Vec<_> = report.skipped.iter().map(|(name, _)| *name).collect();
    assert_eq!(skipped, ["what_was_answered_survives_a_restart"], "{report}");
}

#[test]
fn a_store_that_answers_when_it_is_on_disk_passes() {
    assert_passes(&run(&Harness::new(Durability::Sync, 64 << 20)));
}

#[test]
fn a_store_that_writes_after_an_interval_passes() {
    assert_passes(&run(&Harness::new(Durability::Interval(Duration::from_millis(5)), 64 << 20)));
}

#[test]
fn a_store_that_writes_after_an_hour_passes() {
    assert_passes(&run(&Harness::new(Durability::Interval(Duration::from_hours(1)), 64 << 20)));
}

#[test]
fn a_store_with_next_to_no_memory_passes() {
    assert_passes(&run(&Harness::new(Durability::Interval(Duration::ZERO), 0)));
}
