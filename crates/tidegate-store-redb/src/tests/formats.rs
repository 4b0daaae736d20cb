//! Databases of other versions and other programs, and damaged ones.

use std::time::Duration;

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata};
use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::{Algorithm, Cost, Timestamp};
use tidegate_store::conformance::Random;
use tidegate_store::{Batch, Key, Kind, NoteKind, Operation, RequestId, Store, StoreError};

use super::simulated::SimulatedDisk;
use super::{START, config, wait};
use crate::error::{Failure, OpenError};
use crate::format::{COUNTERS, FORMAT, META, MIGRATIONS, Migration, NOTES};
use crate::store::RedbStore;
use crate::stored_key::stored;

fn open(disk: &SimulatedDisk, migrations: &[Migration]) -> Result<RedbStore, OpenError> {
    RedbStore::open_on(Box::new(disk.clone()), &config(), migrations, || START)
}

/// A disk with a store of this format.
fn of_format(format: u32) -> SimulatedDisk {
    let disk = SimulatedDisk::formatted();
    let database = disk.database();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("format", u128::from(format)).unwrap();
    transaction.commit().unwrap();
    database.close().unwrap();
    disk
}

fn format_of(disk: &SimulatedDisk) -> u128 {
    let database = disk.database();
    let transaction = database.begin_read().unwrap();
    transaction.open_table(META).unwrap().get("format").unwrap().unwrap().value()
}

/// How many counters are on a disk.
pub(super) fn counters(disk: &SimulatedDisk) -> u64 {
    let database = disk.database();
    database.begin_read().unwrap().open_table(COUNTERS).unwrap().len().unwrap()
}

#[test]
fn a_newer_format_is_an_error_that_names_both_and_changes_nothing() {
    let disk = of_format(FORMAT + 1);
    let error = open(&disk, MIGRATIONS).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found, known: FORMAT, .. } if found == FORMAT + 1));
    assert_eq!(
        error.to_string(),
        "simulated has format 3, and this version knows 2; run the version that wrote it or a later one, or name another \
         directory to count anew"
    );
    assert_eq!(format_of(&disk), u128::from(FORMAT + 1));
}

#[test]
fn an_older_format_without_a_way_here_is_an_error_that_says_what_to_do() {
    let disk = of_format(FORMAT - 1);
    let error = open(&disk, &[]).unwrap_err();
    assert!(matches!(error, OpenError::Older { known: FORMAT, .. }));
    assert_eq!(
        error.to_string(),
        "simulated has format 1, and this version knows 2 and no way from one to the other; open it once with a version in \
         between, or name another directory to count anew"
    );
}

#[test]
fn an_older_format_is_brought_up_in_one_transaction() {
    fn write_a_note(transaction: &redb::WriteTransaction) -> Result<(), Failure> {
        let mut notes = transaction.open_table(NOTES)?;
        notes.insert((NoteKind::Block.number(), &b"migrated"[..]), (u64::MAX, &b"yes"[..]))?;
        Ok(())
    }
    fn fail(transaction: &redb::WriteTransaction) -> Result<(), Failure> {
        write_a_note(transaction)?;
        Err(Failure::new("not today"))
    }
    let disk = of_format(FORMAT - 1);
    let failed = open(&disk, &[Migration { from: FORMAT - 1, run: fail }]).unwrap_err();
    assert!(failed.to_string().contains("not today"), "{failed}");
    assert_eq!(format_of(&disk), u128::from(FORMAT - 1));
    let store = open(&disk, &[Migration { from: FORMAT - 1, run: write_a_note }]).unwrap();
    assert_eq!(wait(store.notes(NoteKind::Block)).unwrap().len(), 1);
    store.close().unwrap();
    assert_eq!(format_of(&disk), u128::from(FORMAT));
    assert_eq!(wait(open(&disk, &[]).unwrap().notes(NoteKind::Block)).unwrap().len(), 1);
}

#[test]
fn counters_of_long_keys_of_the_first_format_keep_their_usage_under_hashed_keys() {
    let long = |name: u32| {
        let mut value = vec![b'x'; 1000];
        value.extend(name.to_be_bytes());
        Key::new("api", b"limit", &value).unwrap()
    };
    let charge = |store: &RedbStore, name: u32, turn: u32| {
        let ten = Algorithm::Fixed(Fixed::new(10, Duration::from_hours(1), WindowStart::FirstHit).unwrap());
        let operation = Operation::new(long(name), ten, Kind::Check { cost: Cost::ONE });
        let id = RequestId(u128::from(name) << 8 | u128::from(turn));
        wait(store.run(&Batch::all_or_nothing(id, [operation]))).unwrap().outcomes[0].used
    };
    let disk = SimulatedDisk::formatted();
    let store = open(&disk, MIGRATIONS).unwrap();
    for name in 0..40 {
        assert_eq!(charge(&store, name, 1), 1);
    }
    store.close().unwrap();
    // As the first format had them.
    let database = disk.database();
    let transaction = database.begin_write().unwrap();
    {
        let mut counters = transaction.open_table(COUNTERS).unwrap();
        for name in 0..40 {
            let key = long(name);
            let hashed = stored(key.as_bytes());
            let bytes = counters.remove(&*hashed).unwrap().unwrap().value().to_vec();
            counters.insert(key.as_bytes(), &*bytes).unwrap();
        }
        transaction.open_table(META).unwrap().insert("format", 1).unwrap();
    }
    transaction.commit().unwrap();
    database.close().unwrap();

    let store = open(&disk, MIGRATIONS).unwrap();
    for name in 0..40 {
        assert_eq!(charge(&store, name, 2), 2);
    }
    store.close().unwrap();
    assert_eq!((format_of(&disk), counters(&disk)), (u128::from(FORMAT), 40));
    let database = disk.database();
    let transaction = database.begin_read().unwrap();
    let table = transaction.open_table(COUNTERS).unwrap();
    assert!(table.iter().unwrap().all(|entry| entry.unwrap().0.value().len() < 64));
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let disk = SimulatedDisk::default();
    let database = disk.database();
    let transaction = database.begin_write().unwrap();
    transaction
        .open_table(redb::TableDefinition::<&str, u64>::new("prices"))
        .unwrap()
        .insert("tea", 3)
        .unwrap();
    transaction.commit().unwrap();
    database.close().unwrap();
    let error = open(&disk, MIGRATIONS).unwrap_err().to_string();
    assert!(error.contains("it is a database of another program"), "{error}");
}

/// A store in which thirty keys have been charged, and its bytes.
fn used() -> Vec<u8> {
    let disk = SimulatedDisk::formatted();
    let store = open(&disk, MIGRATIONS).unwrap();
    for name in 0..30 {
        assert_eq!(used_of(&store, name, Kind::Check { cost: Cost::ONE }).unwrap(), 1);
    }
    store.close().unwrap();
    disk.after_power_cut(0)
}

fn used_of(store: &RedbStore, name: u32, kind: Kind) -> Result<u64, StoreError> {
    let two = Algorithm::Fixed(Fixed::new(2, Duration::from_hours(1), WindowStart::FirstHit).unwrap());
    let operation = Operation::new(key(name), two, kind);
    let id = RequestId(u128::from(name) << 1 | u128::from(matches!(kind, Kind::Peek { .. })));
    Ok(wait(store.run(&Batch::all_or_nothing(id, [operation])))?.outcomes[0].used)
}

fn key(name: u32) -> Key {
    Key::new("api", b"limit", &name.to_be_bytes()).unwrap()
}

/// Opens what is left of a store: all that was charged is there, or there is an error.
fn assert_whole_or_an_error(bytes: Vec<u8>, context: &str) -> bool {
    let Ok(store) = open(&SimulatedDisk::with(bytes), MIGRATIONS) else { return false };
    for name in 0..30 {
        let used = used_of(&store, name, Kind::Peek { cost: Cost::ONE });
        assert!(!matches!(used, Ok(0 | 2..)), "{context}: {used:?} of {name}");
    }
    true
}

#[test]
fn a_file_with_its_end_torn_off_is_an_error_or_whole() {
    let bytes = used();
    let (mut errors, mut lengths) = (0, 0);
    for pages in 1..bytes.len() / 4096 {
        for more in [0, 1, 511, 2048] {
            let length = bytes.len() - pages * 4096 + more;
            lengths += 1;
            errors += u32::from(!assert_whole_or_an_error(
                bytes[..length].to_vec(),
                &format!("{length} bytes left"),
            ));
        }
    }
    assert!(errors > lengths / 2, "{errors} of {lengths}");
    for length in [0, 1, 100, 4096] {
        // Nothing at all is a new database to the simulated disk; it is not our store.
        let left = open(&SimulatedDisk::with(bytes[..length].to_vec()), MIGRATIONS);
        assert!(matches!(left, Err(OpenError::Damaged { .. })), "{length}: {left:?}");
    }
}

#[test]
fn a_file_in_which_a_byte_has_flipped_is_an_error_or_whole() {
    let bytes = used();
    let mut random = Random::new(7);
    for turn in 0..400 {
        let mut bytes = bytes.clone();
        // Most of the file is free pages; every other byte is one in use.
        let at = loop {
            let at = random.below(bytes.len() as u64) as usize;
            if turn % 2 == 0 || bytes[at] != 0 {
                break at;
            }
        };
        bytes[at] ^= 1 << random.below(8);
        assert_whole_or_an_error(bytes, &format!("a bit of byte {at}"));
    }
}

#[test]
fn a_counter_that_cannot_be_read_stands_in_the_way_of_nobody_else() {
    let disk = SimulatedDisk::with(used());
    let database = disk.database();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(COUNTERS).unwrap().insert(key(3).as_bytes(), &b"nonsense"[..]).unwrap();
    transaction.commit().unwrap();
    database.close().unwrap();
    let store = open(&disk, MIGRATIONS).unwrap();
    let error = used_of(&store, 3, Kind::Check { cost: Cost::ONE }).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.starts_with("8 bytes are no counter"), "{source}");
    assert_eq!(used_of(&store, 4, Kind::Check { cost: Cost::ONE }).unwrap(), 2);
}

#[test]
fn notes_of_a_kind_that_is_not_known_stay_where_they_are() {
    let disk = SimulatedDisk::formatted();
    let database = disk.database();
    let transaction = database.begin_write().unwrap();
    let forever = Timestamp::MAX.as_nanos();
    transaction.open_table(NOTES).unwrap().insert((200, &b"later"[..]), (forever, &b"value"[..])).unwrap();
    transaction.commit().unwrap();
    database.close().unwrap();
    open(&disk, MIGRATIONS).unwrap().close().unwrap();
    let database = disk.database();
    let transaction = database.begin_read().unwrap();
    assert_eq!(transaction.open_table(NOTES).unwrap().len().unwrap(), 1);
}
