//! The power goes at every write and every sync of a run; what is found afterwards is what was
//! promised.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_core::algorithm::{Bucket, Calendar, CivilUnit, Concurrency, Fixed, Rolling, WindowStart};
use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
use tidegate_store::{
    Batch, HolderId, Key, Kind, Note, NoteChange, NoteKind, Operation, RequestId, Store, StoreError,
};

use super::simulated::SimulatedDisk;
use super::{START, config, wait};
use crate::config::Durability;
use crate::format::MIGRATIONS;
use crate::store::RedbStore;

/// How many batches a run has.
const STEPS: u32 = 24;

/// Limits of which nothing drains while the clock stands still, one for each way of counting.
fn algorithms() -> [Algorithm; 5] {
    let day = Duration::from_hours(24);
    [
        Algorithm::Fixed(Fixed::new(1000, day, WindowStart::FirstHit).unwrap()),
        Algorithm::Rolling(Rolling::new(1000, day).unwrap()),
        Algorithm::Calendar(Calendar::new(1000, CivilUnit::Year, "Europe/Berlin").unwrap()),
        Algorithm::Bucket(Bucket::new(Rate::new(1000, day).unwrap(), 1000).unwrap()),
        Algorithm::Concurrency(Concurrency::new(1000, day).unwrap()),
    ]
}

fn key(name: &str) -> Key {
    Key::new("api", b"limit", name.as_bytes()).unwrap()
}

fn operation(name: usize, kind: Kind) -> Operation {
    Operation::new(key(&format!("counter {name}")), algorithms()[name].clone(), kind)
}

fn holder(step: u32) -> HolderId {
    HolderId(u128::from(step) + 1)
}

/// Charges the counter of this step.
fn charge(step: u32) -> Operation {
    let name = step as usize % algorithms().len();
    let kind = match algorithms()[name] {
        Algorithm::Concurrency(_) => Kind::Acquire { holder: holder(step) },
        _ => Kind::Check { cost: Cost::ONE },
    };
    operation(name, kind)
}

/// Gives back what [`charge`] took.
fn give_back(step: u32) -> Operation {
    let charged = charge(step);
    let kind = match charged.kind {
        Kind::Acquire { holder } => Kind::Release { holder },
        _ => Kind::Refund { cost: Cost::ONE },
    };
    Operation { kind, ..charged }
}

fn blocked(step: u32) -> Key {
    key(&format!("blocked {step}"))
}

/// The batch of a step in the run: two counters charged with a note; every third time the charge of
/// the step before given back with a note; every fourth time a key blocked with a note.
fn batch(step: u32) -> Batch {
    let total = |kind| Operation::new(key("total"), algorithms()[0].clone(), kind);
    let note = |kind| {
        NoteChange::Put(Note {
            kind,
            name: step.to_be_bytes().into(),
            value: vec![step as u8; 100].into(),
            until: Timestamp::MAX,
        })
    };
    let id = RequestId(u128::from(step) + 1);
    let batch = match step % 4 {
        2 => {
            let operations = [give_back(step - 1), total(Kind::Refund { cost: Cost::ONE })];
            Batch::all_or_nothing(id, operations).with_notes([note(NoteKind::Refund)])
        }
        3 => {
            let block = Kind::Block { until: Timestamp::MAX };
            let block = Operation::new(blocked(step), algorithms()[0].clone(), block);
            Batch::all_or_nothing(id, [block]).with_notes([note(NoteKind::Block)])
        }
        _ => {
            let operations = [charge(step), total(Kind::Check { cost: Cost::ONE })];
            Batch::all_or_nothing(id, operations).with_notes([note(NoteKind::Permit)])
        }
    };
    // One that goes as another comes.
    let last =
        NoteChange::Remove { kind: NoteKind::Override, name: (step.wrapping_sub(1)).to_be_bytes().into() };
    batch.with_notes([note(NoteKind::Override), last])
}

/// Which steps a store was promised to hold, and which it may hold besides.
#[derive(Debug)]
struct Promised {
    durable: u32,
    asked: u32,
}

fn open(disk: &SimulatedDisk, durability: Durability) -> Result<RedbStore, crate::OpenError> {
    let config = crate::RedbConfig { durability, ..config() };
    RedbStore::open_on(Box::new(disk.clone()), &config, MIGRATIONS, || START)
}

/// Runs the steps until the disk crashes. In sync an answer is a promise, in an interval a flush
/// is.
fn run(disk: &SimulatedDisk, durability: Durability) -> Promised {
    let mut promised = Promised { durable: 0, asked: 0 };
    let Ok(store) = open(disk, durability) else { return promised };
    for step in 0..STEPS {
        promised.asked = step + 1;
        match wait(store.run(&batch(step))) {
            Ok(answer) => assert!(!answer.refused, "{answer:?}"),
            Err(StoreError::Unavailable { .. }) => return promised,
            Err(error) => panic!("{error}"),
        }
        if durability == Durability::Sync || (step % 5 == 4 && wait(store.flush()).is_ok()) {
            promised.durable = step + 1;
        }
    }
    if store.close().is_ok() {
        promised.durable = STEPS;
    }
    promised
}

/// Opens what a crash left and holds it against what was promised. How many steps it has.
fn verify(image: Vec<u8>, promised: &Promised, context: &str) -> u32 {
    let disk = SimulatedDisk::with(image);
    let store = open(&disk, Durability::Sync).unwrap_or_else(|error| panic!("{context}: {error}"));
    let steps = |kind| -> BTreeSet<u32> {
        let notes = wait(store.notes(kind)).unwrap();
        assert!(
            notes.iter().all(|note| note.value.len() == 100 && note.value[0] == note.name[3]),
            "{context}"
        );
        notes.iter().map(|note| u32::from_be_bytes(*note.name.as_array().unwrap())).collect()
    };
    let (charged, given_back, blocks) =
        (steps(NoteKind::Permit), steps(NoteKind::Refund), steps(NoteKind::Block));
    let all: BTreeSet<u32> = charged.iter().chain(&given_back).chain(&blocks).copied().collect();
    // Whole batches, in the order they were made, none missing in between.
    let count = all.len() as u32;
    assert_eq!(all, (0..count).collect(), "{context}");
    assert!(count >= promised.durable, "{context}: {count} steps of {promised:?}");
    assert!(count <= promised.asked, "{context}: {count} steps of {promised:?}");
    assert_eq!(steps(NoteKind::Override), (count.saturating_sub(1)..count).collect(), "{context}");

    let peek = |operation: Operation| {
        let peek = Operation { kind: Kind::Peek { cost: Cost::ONE }, ..operation };
        wait(store.run(&Batch::each(RequestId(0), [peek]))).unwrap().outcomes[0]
    };
    for name in 0..algorithms().len() {
        let of = |steps: &BTreeSet<u32>, offset| {
            steps.iter().filter(|step| (**step - offset) as usize % algorithms().len() == name).count() as u64
        };
        let used = peek(operation(name, Kind::Reset)).used;
        assert_eq!(used, of(&charged, 0) - of(&given_back, 1), "{context}: counter {name}");
    }
    let total = peek(Operation::new(key("total"), algorithms()[0].clone(), Kind::Reset)).used;
    assert_eq!(total, (charged.len() - given_back.len()) as u64, "{context}");
    for step in 0..STEPS {
        let until = peek(Operation::new(blocked(step), algorithms()[0].clone(), Kind::Reset)).blocked_until;
        assert_eq!(until.is_some(), blocks.contains(&step), "{context}: block {step}");
    }
    // And it goes on counting.
    if count < STEPS {
        let again = Batch { id: RequestId(1000), ..batch(count) };
        assert!(!wait(store.run(&again)).unwrap().refused, "{context}");
    }
    store.close().unwrap();
    count
}

fn crash_everywhere(durability: Durability, seeds: u64) {
    let formatted = SimulatedDisk::formatted().after_power_cut(0);
    let whole = SimulatedDisk::with(formatted.clone());
    assert_eq!(run(&whole, durability).durable, STEPS);
    let steps = whole.steps();
    assert!(steps > u64::from(STEPS), "{steps}");
    let mut found = BTreeSet::new();
    for crash_at in 0..=steps {
        let disk = SimulatedDisk::with(formatted.clone());
        disk.crash_at(crash_at);
        let promised = run(&disk, durability);
        for seed in 0..seeds {
            let image = disk.after_power_cut(seed + crash_at * 5);
            let context = format!("power cut at step {crash_at} of {steps}, seed {seed}");
            if seed == 1 {
                // The power goes again while it recovers.
                let recovering = SimulatedDisk::with(image.clone());
                recovering.crash_at(crash_at % 17);
                drop(open(&recovering, durability));
                let image = recovering.after_power_cut(crash_at + 3);
                verify(image, &promised, &format!("{context}, and once more"));
            }
            found.insert(verify(image, &promised, &context));
        }
    }
    // Crashes were early, late and in between.
    assert_eq!(found.first(), Some(&0));
    assert_eq!(found.last(), Some(&STEPS));
    assert!(found.len() > 4, "{found:?}");
}

#[test]
fn a_power_cut_at_any_write_loses_no_charge_that_was_answered_and_doubles_none() {
    crash_everywhere(Durability::Sync, 5);
}

#[test]
fn a_power_cut_at_any_write_loses_at_most_what_was_not_flushed_and_no_half_of_a_batch() {
    crash_everywhere(Durability::Interval(Duration::from_hours(1)), 5);
}
