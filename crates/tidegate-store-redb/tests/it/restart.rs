//! Restarts, many callers at once, and counters that leave memory.

use std::thread;
use std::time::Duration;

use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::lease::{Ask, HolderName};
use tidegate_core::{Algorithm, Cost};
use tidegate_store::{
    Batch, Key, Kind, Note, NoteChange, NoteKind, OnLedger, Operation, Outcome, RequestId, Store, StoreError,
};
use tidegate_store_redb::{Durability, RedbConfig, RedbStore};

use crate::place::{Place, START, wait};

fn on(name: u64, limit: u64, kind: Kind) -> Operation {
    let fixed = Fixed::new(limit, Duration::from_hours(24), WindowStart::FirstHit).unwrap();
    Operation::new(Key::new("api", b"limit", &name.to_be_bytes()).unwrap(), Algorithm::Fixed(fixed), kind)
}

fn run(store: &RedbStore, id: u128, operation: Operation) -> Outcome {
    wait(store.run(&Batch::all_or_nothing(RequestId(id), [operation]))).unwrap().outcomes[0]
}

const CHECK: Kind = Kind::Check { cost: Cost::ONE };
const PEEK: Kind = Kind::Peek { cost: Cost::ONE };

#[test]
fn a_used_up_quota_is_still_used_up_after_a_restart() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.epoch();
    for id in 0..3 {
        run(&store, id, on(1, 3, CHECK));
    }
    store.close().unwrap();
    let config = RedbConfig::new(place.config().path, [9, 9, 9, 9]);
    let store = place.open_with(&config).unwrap();
    assert_ne!(run(&store, 10, on(1, 3, CHECK)).verdict, tidegate_core::algorithm::Verdict::Admit);
    assert_eq!((store.epoch(), store.started_behind()), (epoch, None));
}

#[test]
fn what_was_answered_is_on_disk_though_nobody_closed_the_store() {
    let place = Place::new();
    let store = place.open();
    run(&store, 1, on(1, 3, CHECK));
    let copy = place.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let name = "counters.redb";
    std::fs::copy(place.config().path.join(name), copy.join(name)).unwrap();
    let copied = place.open_with(&RedbConfig::new(&copy, [5; 4])).unwrap();
    assert_eq!(run(&copied, 2, on(1, 3, PEEK)).used, 1);
    assert_eq!(copied.epoch(), store.epoch());
}

#[test]
fn a_clock_that_has_stepped_back_since_is_told_and_admits_no_more() {
    let place = Place::new();
    let later = START.saturating_add(Duration::from_hours(1));
    place.set_now(later);
    let store = place.open();
    run(&store, 1, on(1, 1, CHECK));
    store.close().unwrap();
    place.set_now(START);
    let store = place.open();
    assert_eq!(store.started_behind(), Some(Duration::from_hours(1)));
    assert_eq!(run(&store, 2, on(1, 1, CHECK)).units, 0);
    assert_eq!(run(&store, 3, on(2, 1, CHECK)).units, 1);
    store.close().unwrap();
    assert_eq!(place.open().started_behind(), None);
}

#[test]
fn more_keys_than_fit_in_memory_are_all_counted_by_threads_at_once() {
    for durability in [Durability::Interval(Duration::ZERO), Durability::Interval(Duration::from_hours(1))] {
        let place = Place::new();
        let mut config = place.config();
        (config.durability, config.memory) = (durability, 0);
        let store = place.open_with(&config).unwrap();
        let (threads, rounds, names) = (4, 3, 3000);
        thread::scope(|scope| {
            for thread in 0..threads {
                let store = &store;
                scope.spawn(move || {
                    for turn in 0..rounds * names {
                        // Each in an order of its own.
                        let name = (turn * (2 * thread + 7)) % names;
                        let id = u128::from(thread + 1) << 64 | u128::from(turn);
                        assert_eq!(run(store, id, on(name, 1000, CHECK)).units, 1);
                    }
                });
            }
        });
        let stats = store.stats();
        assert!(stats.loaded > names && stats.keys < names as usize, "{stats:?}");
        assert!(stats.bytes_used < 2 * tidegate_store::MemoryConfig::BYTES_MIN, "{stats:?}");
        let count = |store: &RedbStore| -> u64 {
            (0..names).map(|name| run(store, 0, on(name, 1000, PEEK)).used).sum()
        };
        assert_eq!(count(&store), threads * rounds * names);
        store.close().unwrap();
        assert_eq!(count(&place.open()), threads * rounds * names);
    }
}

#[test]
fn callers_at_the_same_time_share_a_commit() {
    let place = Place::new();
    let store = place.open();
    let (threads, turns) = (32, 20);
    thread::scope(|scope| {
        for thread in 0..threads {
            let store = &store;
            scope.spawn(move || {
                for turn in 0..turns {
                    run(store, u128::from(thread + 1) << 64 | u128::from(turn), on(1, 100_000, CHECK));
                }
            });
        }
    });
    let stats = store.stats();
    assert_eq!((stats.batches, stats.unsaved), (threads * turns, 0), "{stats:?}");
    assert!(stats.commits < stats.batches && stats.batches_max > 1, "{stats:?}");
    assert!(stats.batches_mean() > 1.0, "{stats:?}");
    assert_eq!(run(&store, 0, on(1, 100_000, PEEK)).used, threads * turns);
}

#[test]
fn what_is_not_waited_for_is_written_all_the_same() {
    let place = Place::new();
    let store = place.open();
    let batch = Batch::all_or_nothing(RequestId(1), [on(1, 3, CHECK)]);
    {
        // Asked, and dropped before the disk has answered.
        let mut asked = std::pin::pin!(store.run(&batch));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = asked.as_mut().poll(&mut context);
    }
    // Asked again it is the same batch, and the answer is not given before it is on disk.
    assert_eq!(wait(store.run(&batch)).unwrap().outcomes[0].used, 1);
    assert_eq!(store.stats().unsaved, 0);
    store.close().unwrap();
    assert_eq!(run(&place.open(), 2, on(1, 3, PEEK)).used, 1);
}

#[test]
fn after_a_flush_everything_answered_in_an_interval_is_on_disk() {
    let place = Place::new();
    let mut config = place.config();
    config.durability = Durability::Interval(Duration::from_hours(1));
    let store = place.open_with(&config).unwrap();
    let note = Note {
        kind: NoteKind::Override,
        name: [1].into(),
        value: [2].into(),
        until: tidegate_core::Timestamp::MAX,
    };
    for id in 0..10 {
        run(&store, id, on(1, 100, CHECK));
    }
    let batch = Batch::each(RequestId(50), []).with_notes([NoteChange::Put(note.clone())]);
    wait(store.run(&batch)).unwrap();
    assert_eq!((store.stats().commits, store.stats().unsaved), (0, 2));
    wait(store.flush()).unwrap();
    let stats = store.stats();
    assert_eq!((stats.commits, stats.batches_last, stats.unsaved), (1, 11, 0));
    wait(store.flush()).unwrap();
    assert_eq!(store.stats().commits, 1);
    store.close().unwrap();
    let store = place.open();
    assert_eq!(wait(store.notes(NoteKind::Override)).unwrap(), [note]);
    assert_eq!(run(&store, 100, on(1, 100, PEEK)).used, 10);
}

#[test]
fn what_was_lent_is_still_lent_after_a_restart_and_a_repeated_ask_gets_it_again() {
    let place = Place::new();
    let store = place.open();
    let ask = |member, seq| {
        let holder = HolderName { member, incarnation: 1 };
        Ask { seq, acked: seq - 1, demand: 10, ..Ask::first(holder, 1) }
    };
    let lend = |store: &RedbStore, id, ask| {
        let batch = Batch::each(RequestId(id), [on(1, 1000, Kind::Ledger(OnLedger::Ask(ask)))]);
        wait(store.run(&batch)).unwrap().grants[0]
    };
    let grants = [lend(&store, 1, ask(1, 1)), lend(&store, 2, ask(2, 1))].map(Option::unwrap);
    let used = run(&store, 3, on(1, 1000, Kind::Ledger(OnLedger::Look))).used;
    assert_eq!(used, u64::from(grants[0].lump + grants[1].lump));
    store.close().unwrap();
    let store = place.open();
    assert_eq!(run(&store, 4, on(1, 1000, Kind::Ledger(OnLedger::Look))).used, used);
    let again = lend(&store, 5, ask(1, 1)).unwrap();
    assert_eq!((again.lump, again.held, again.epoch), (grants[0].lump, grants[0].held, grants[0].epoch));
    assert_eq!(run(&store, 6, on(1, 1000, Kind::Ledger(OnLedger::Look))).used, used);
    // One that came since is the next holder; the ledger counts three.
    assert_eq!(lend(&store, 7, ask(3, 1)).unwrap().members, 3);
}

#[test]
fn the_file_keeps_to_the_bound_of_its_counters() {
    let place = Place::new();
    let disk = 4 << 20;
    let mut config = place.config();
    (config.disk, config.durability) = (disk, Durability::Interval(Duration::from_millis(1)));
    let store = place.open_with(&config).unwrap();
    let mut full = 0;
    for number in 0..40_000_u32 {
        let key = Key::new("api", b"limit", format!("{number}{}", "x".repeat(1200)).as_bytes()).unwrap();
        let fixed = Fixed::new(3, Duration::from_hours(24), WindowStart::FirstHit).unwrap();
        let charge = Operation::new(key, Algorithm::Fixed(fixed), CHECK);
        match wait(store.run(&Batch::all_or_nothing(RequestId(number.into()), [charge]))) {
            Ok(_) => {}
            Err(StoreError::Full { .. }) => full += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(full > 15_000, "{full}");
    store.close().unwrap();
    let file = std::fs::metadata(place.config().path.join("counters.redb")).unwrap().len();
    // redb doubles a file that is full, and the pages of the last commit come on top. Without the
    // bound the keys would take 50 MB.
    assert!(file < 4 * disk, "{file} bytes for a bound of {disk}");
}
