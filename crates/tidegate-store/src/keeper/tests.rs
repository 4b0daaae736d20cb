//! A keeper of which a map plays the disk.

mod ledgers;

use core::time::Duration;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::algorithm::{Concurrency, Fixed, REPORT_DEBT_LIMITS, Rolling, WindowStart};
use tidegate_core::{Cost, Rate};

use super::*;
use crate::{HolderId, NoteChange, Operation, RequestId};

const START: Timestamp = Timestamp::from_secs(1_800_000_000);
const MINUTE: Duration = Duration::from_mins(1);

/// A keeper and what it has written.
struct World {
    keeper: Keeper,
    disk: BTreeMap<Vec<u8>, Vec<u8>>,
    notes: BTreeMap<(NoteKind, Vec<u8>), Note>,
    ids: u128,
    now: Timestamp,
}

impl World {
    fn new(bytes: usize) -> Self {
        let config = MemoryConfig { bytes, ..MemoryConfig::new([1, 2, 3, 4]) };
        let keeper = Keeper::written_elsewhere(config);
        Self { keeper, disk: BTreeMap::new(), notes: BTreeMap::new(), ids: 0, now: START }
    }

    fn load(&mut self, batch: &Batch) {
        let unknown: Vec<Vec<u8>> =
            self.keeper.unknown(batch).into_iter().map(|key| key.as_bytes().to_vec()).collect();
        let found = unknown.iter().filter_map(|key| Some((&**key, self.disk.get(key)?.as_slice())));
        self.keeper.load(batch, found, self.now).unwrap();
    }

    fn try_run(&mut self, batch: &Batch) -> Result<Ran, StoreError> {
        self.load(batch);
        self.keeper.run(batch, self.now)
    }

    fn run(&mut self, operations: impl IntoIterator<Item = Operation>) -> Ran {
        self.ids += 1;
        self.try_run(&Batch::all_or_nothing(RequestId(self.ids), operations)).unwrap()
    }

    /// Writes all that has changed; how many counters and notes that were.
    fn write(&mut self) -> (usize, usize) {
        let mut changes = self.keeper.hand_out();
        let count = (changes.len(), changes.notes.len());
        for (key, bytes) in changes.counters() {
            match bytes {
                Some(bytes) => self.disk.insert(key.to_vec(), bytes.to_vec()),
                None => self.disk.remove(key),
            };
        }
        for (kind, name, note) in changes.notes {
            match note {
                Some(note) => self.notes.insert((kind, name.to_vec()), note),
                None => self.notes.remove(&(kind, name.to_vec())),
            };
        }
        self.keeper.written(&SpaceUsage::default());
        count
    }

    /// A new keeper that knows only what was written.
    fn restart(&mut self) {
        self.keeper = Keeper::written_elsewhere(self.keeper.config);
        for note in self.notes.values() {
            self.keeper.load_note(note.clone(), self.now);
        }
    }
}

fn after(seconds: u64) -> Timestamp {
    START.saturating_add(Duration::from_secs(seconds))
}

fn hundred() -> Algorithm {
    Algorithm::Fixed(Fixed::new(100, MINUTE, WindowStart::FirstHit).unwrap())
}

fn on(name: u64, kind: Kind) -> Operation {
    Operation::new(Key::new("api", b"limit", &name.to_be_bytes()).unwrap(), hundred(), kind)
}

fn check(name: u64) -> Operation {
    on(name, Kind::Check { cost: Cost::ONE })
}

fn peek(name: u64) -> Operation {
    on(name, Kind::Peek { cost: Cost::ONE })
}

fn note(name: u64, until: Timestamp) -> Note {
    Note { kind: NoteKind::Permit, name: name.to_be_bytes().into(), value: [7; 10].into(), until }
}

#[test]
fn a_key_charged_a_thousand_times_is_written_once() {
    let mut world = World::new(0);
    for _ in 0..100 {
        assert!(world.run([check(1)]).changed);
    }
    assert_eq!(world.write(), (1, 0));
    assert_eq!(world.write(), (0, 0));
    world.restart();
    assert_eq!(world.run([peek(1)]).answer.outcomes[0].used, 100);
}

#[test]
fn what_changes_nothing_is_not_written() {
    let mut world = World::new(0);
    for _ in 0..100 {
        world.run([check(1)]);
    }
    world.write();
    let refused = world.run([check(2), check(1)]);
    assert!(refused.answer.refused && !refused.changed);
    assert!(!world.run([peek(1), peek(3)]).changed);
    assert!(!world.run([on(4, Kind::Reset), on(5, Kind::Refund { cost: Cost::ONE })]).changed);
    world.ids += 1;
    let each = Batch::each(RequestId(world.ids), [check(1)]);
    assert!(!world.try_run(&each).unwrap().changed);
    assert_eq!(world.keeper.unsaved(), 0);
}

#[test]
fn what_changes_while_it_is_written_is_written_again() {
    let mut world = World::new(0);
    world.run([check(1), check(2)]);
    world.write();
    world.run([check(1), check(2)]);
    let first = world.keeper.hand_out();
    assert_eq!(first.len(), 2);
    world.run([check(1)]);
    world.keeper.written(&SpaceUsage::default());
    // The written version is out of date, so the counter stays.
    world.keeper.shelf.forget_all_saved();
    assert_eq!(world.run([peek(1)]).answer.outcomes[0].used, 3);
    assert_eq!((world.keeper.unsaved(), world.write()), (1, (1, 0)));
}

#[test]
fn what_could_not_be_written_is_handed_out_again_with_what_has_changed_since() {
    let mut world = World::new(0);
    let batch = Batch::each(RequestId(77), [check(1), check(2)])
        .with_notes([NoteChange::Put(note(1, Timestamp::MAX)), NoteChange::Put(note(2, Timestamp::MAX))]);
    world.try_run(&batch).unwrap();
    assert_eq!(world.keeper.hand_out().len(), 2);
    world.run([check(1), check(3)]);
    let gone = NoteChange::Remove { kind: NoteKind::Permit, name: 2_u64.to_be_bytes().into() };
    world.try_run(&Batch::each(RequestId(78), []).with_notes([gone])).unwrap();
    world.keeper.not_written();
    assert_eq!(world.write(), (3, 2));
    assert_eq!(world.notes.len(), 1);
    world.restart();
    assert_eq!(world.run([peek(1)]).answer.outcomes[0].used, 2);
    assert_eq!(world.keeper.notes(NoteKind::Permit, START), [note(1, Timestamp::MAX)]);
}

#[test]
fn a_counter_that_is_emptied_is_removed_and_not_read_back_before() {
    let mut world = World::new(0);
    world.run([check(1)]);
    world.write();
    world.restart();
    assert!(world.run([on(1, Kind::Reset)]).changed);
    // The disk still has it; the keeper knows better.
    assert_eq!(world.run([peek(1)]).answer.outcomes[0].used, 0);
    assert_eq!(world.write(), (1, 0));
    assert!(world.disk.is_empty());
    assert_eq!(world.keeper.stats().keys, 0);
}

#[test]
fn a_drained_counter_that_is_met_is_removed() {
    let mut world = World::new(0);
    world.run([check(1)]);
    world.write();
    world.restart();
    world.now = START.saturating_add(MINUTE * 2);
    assert_eq!(world.run([peek(1)]).answer.outcomes[0].used, 0);
    assert_eq!(world.write(), (1, 0));
    assert!(world.disk.is_empty());
}

#[test]
fn more_counters_than_fit_are_all_counted_and_memory_stays_within_its_bound() {
    let mut world = World::new(MemoryConfig::BYTES_MIN);
    let names = 5_000;
    for round in 1..=3 {
        for name in 0..names {
            let batch = Batch::each(RequestId(u128::from(round * names + name)), [check(name)]);
            if let Err(error) = world.try_run(&batch) {
                assert!(world.keeper.waits_for_writing(), "{error}");
                world.write();
                world.try_run(&batch).unwrap();
            }
            // The last batch may be about one that no longer fitted.
            assert!(world.keeper.stats().bytes_used <= MemoryConfig::BYTES_MIN + 1024);
        }
    }
    assert!(world.keeper.stats().keys < names as usize / 2);
    world.write();
    world.ids = 1 << 64;
    for name in 0..names {
        assert_eq!(world.run([peek(name)]).answer.outcomes[0].used, 3, "{name}");
    }
}

#[test]
fn a_counter_larger_than_memory_is_counted_all_the_same() {
    let mut world = World::new(MemoryConfig::BYTES_MIN);
    let rolling = Algorithm::Rolling(Rolling::new(50_000, Duration::from_hours(1)).unwrap());
    let key = Key::new("api", b"rolling", b"ada").unwrap();
    for _ in 0..20_000 {
        world.now = world.now.saturating_add(Duration::from_nanos(1));
        let check = Operation::new(key.clone(), rolling.clone(), Kind::Check { cost: Cost::ONE });
        world.ids += 1;
        let batch = Batch::each(RequestId(world.ids), [check]);
        if world.try_run(&batch).is_err() {
            assert!(world.keeper.waits_for_writing());
            world.write();
            world.try_run(&batch).unwrap();
        }
    }
    assert!(world.keeper.stats().bytes_used > MemoryConfig::BYTES_MIN);
    let check = Operation::new(key, rolling, Kind::Peek { cost: Cost::ONE });
    assert_eq!(world.run([check]).answer.outcomes[0].used, 20_000);
}

#[test]
fn places_of_counters_that_come_and_go_do_not_pile_up() {
    let mut world = World::new(0);
    for _ in 0..10_000 {
        world.run([check(1)]);
        world.write();
        world.run([on(1, Kind::Reset)]);
        world.write();
    }
    assert!(world.keeper.shelf.places() < 3_000, "{}", world.keeper.shelf.places());
}

#[test]
fn a_clock_that_was_wrong_keeps_a_loaded_counter_out_no_longer_than_the_deepest_debt_drains() {
    let mut world = World::new(0);
    let bucket = Algorithm::bucket(Rate::per_minute(10).unwrap()).unwrap();
    let key = Key::new("api", b"bucket", b"ada").unwrap();
    let on = |kind| Operation::new(key.clone(), bucket.clone(), kind);
    world.now = START.saturating_add(Duration::from_hours(24 * 365));
    world.run([on(Kind::Check { cost: Cost::new(10).unwrap() })]);
    world.write();
    world.restart();
    world.now = START;
    let refused = world.run([on(Kind::Check { cost: Cost::ONE })]);
    assert!(refused.answer.refused, "a step back admits nothing");
    world.now = START.saturating_add(MINUTE * (1 + REPORT_DEBT_LIMITS as u32));
    assert!(!world.run([on(Kind::Check { cost: Cost::ONE })]).answer.refused);
}

#[test]
fn notes_are_bounded_and_expired_ones_make_room() {
    let config = MemoryConfig { notes: 3, note_bytes: 10_000, ..MemoryConfig::new([1, 2, 3, 4]) };
    let mut keeper = Keeper::new(config);
    let mut ids = 0;
    let mut change = |keeper: &mut Keeper, change: NoteChange, now| {
        ids += 1;
        let batch = Batch::each(RequestId(ids), [check(1)]).with_notes([change]);
        keeper.run(&batch, now).map(|ran| ran.answer.outcomes[0].used)
    };
    let soon = START.saturating_add(MINUTE);
    for (name, until) in [(1, Timestamp::MAX), (2, soon), (3, Timestamp::MAX)] {
        change(&mut keeper, NoteChange::Put(note(name, until)), START).unwrap();
    }
    let full = change(&mut keeper, NoteChange::Put(note(4, Timestamp::MAX)), START).unwrap_err();
    assert!(matches!(full, StoreError::Full { until } if until == soon), "{full}");
    assert_eq!((keeper.stats().notes, keeper.stats().full), (3, 1));
    assert_eq!(keeper.notes(NoteKind::Permit, START).len(), 3);
    // Writing over one takes no room, and what has expired makes some; nothing was charged by the
    // one that failed.
    assert_eq!(change(&mut keeper, NoteChange::Put(note(3, soon)), START).unwrap(), 4);
    assert_eq!(keeper.notes(NoteKind::Permit, soon).len(), 1);
    assert_eq!(change(&mut keeper, NoteChange::Put(note(4, Timestamp::MAX)), soon).unwrap(), 5);
    assert_eq!(keeper.notes(NoteKind::Permit, soon).len(), 2);
    let long = Note { value: vec![0; 20_000].into(), ..note(1, Timestamp::MAX) };
    assert!(change(&mut keeper, NoteChange::Put(long), soon).is_err(), "as many bytes are not to be had");
    assert!(keeper.stats().note_bytes <= 10_000);
}

#[test]
fn a_store_that_is_full_of_notes_does_not_wait_for_writing() {
    let config = MemoryConfig { notes: 1, ..MemoryConfig::new([1, 2, 3, 4]) };
    let mut keeper = Keeper::written_elsewhere(config);
    let put =
        |id, name| Batch::each(RequestId(id), []).with_notes([NoteChange::Put(note(name, Timestamp::MAX))]);
    keeper.run(&put(1, 1), START).unwrap();
    assert!(keeper.run(&put(2, 2), START).is_err());
    assert!(!keeper.waits_for_writing() && keeper.unsaved() == 1);
}

fn algorithms() -> [Algorithm; 4] {
    [
        hundred(),
        Algorithm::bucket(Rate::per_minute(30).unwrap()).unwrap(),
        Algorithm::Rolling(Rolling::new(20, MINUTE).unwrap()),
        Algorithm::Concurrency(Concurrency::new(5, MINUTE).unwrap()),
    ]
}

fn any_operation() -> impl Strategy<Value = Operation> {
    (0_usize..4, 0_u64..12, 0_u8..16, 1_u64..8).prop_map(|(which, name, kind, number)| {
        let cost = Cost::new(number).unwrap();
        let holder = HolderId(u128::from(number));
        let kind = match (kind, which) {
            (0, _) => Kind::Reset,
            (1, _) => Kind::Block { until: START.saturating_add(MINUTE * number as u32) },
            (2, _) => Kind::Undo { batch: RequestId(u128::from(number) * 3) },
            (3 | 4, _) => Kind::Peek { cost },
            (5 | 6, 3) => Kind::Release { holder },
            (_, 3) => Kind::Acquire { holder },
            (5, _) => Kind::Refund { cost },
            (6, _) => Kind::Report { cost },
            _ => Kind::Check { cost },
        };
        let key = Key::new("api", &[which as u8], &name.to_be_bytes()).unwrap();
        Operation::new(key, algorithms()[which].clone(), kind)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// With hardly any memory, written at any time, written in vain at times: what is answered is
    /// what a keeper answers that holds everything.
    #[test]
    fn a_keeper_that_forgets_what_is_written_answers_as_one_that_holds_all(
        steps in vec((vec(any_operation(), 1..4), any::<bool>(), 0_u8..8, 0_u64..8_000_000_000), 1..150),
    ) {
        let mut world = World::new(0);
        let mut whole = Keeper::new(MemoryConfig::new([1, 2, 3, 4]));
        for (at, (operations, each, then, step)) in steps.into_iter().enumerate() {
            world.now = world.now.saturating_add(Duration::from_nanos(step));
            let mut batch = Batch::all_or_nothing(RequestId(at as u128), operations);
            if each {
                batch.mode = crate::BatchMode::Each;
            }
            let mut expected = whole.run(&batch, world.now).unwrap().answer;
            let mut answer = world.try_run(&batch).unwrap().answer;
            // Of a charge that has drained nothing is left to take back, which one that remembers
            // it still counts.
            for answer in [&mut expected, &mut answer] {
                for (outcome, operation) in answer.outcomes.iter_mut().zip(&batch.operations) {
                    if matches!(operation.kind, Kind::Undo { .. }) {
                        outcome.units = 0;
                    }
                }
            }
            prop_assert_eq!(answer, expected);
            match then {
                0 | 1 => {
                    world.write();
                }
                2 => {
                    world.keeper.hand_out();
                    world.keeper.not_written();
                }
                3 => {
                    world.write();
                    // All that is written goes, as if memory were short.
                    world.keeper.shelf.forget_all_saved();
                    prop_assert_eq!(world.keeper.stats().keys, 0);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_note_that_outlasts_its_kind_ends_an_hour_after_it_is_read_however_often_that_is() {
    let mut world = World::new(0);
    let name: Box<[u8]> = 1_u64.to_be_bytes().into();
    let refund = Note { kind: NoteKind::Refund, name, value: [7; 10].into(), until: after(40 * 86_400) };
    let batch = Batch::each(RequestId(77), []).with_notes([NoteChange::Put(refund)]);
    world.now = after(39 * 86_400);
    world.try_run(&batch).unwrap();
    world.write();
    world.now = START;
    for minutes in [0, 20, 59] {
        world.now = after(60 * minutes);
        world.restart();
        assert_eq!(world.keeper.notes(NoteKind::Refund, world.now)[0].until, after(3600));
        world.write();
    }
    world.now = after(3600);
    world.restart();
    assert!(world.keeper.notes(NoteKind::Refund, world.now).is_empty());
}
