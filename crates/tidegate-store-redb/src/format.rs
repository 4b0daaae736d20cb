//! The database format: its tables, the number of its format, and the ways from one to the
//! next.

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError, WriteTransaction};
use tidegate_core::Timestamp;
use tidegate_store::{Note, NoteKind};

use crate::error::Failure;
use crate::stored_key;

/// The format this version writes. A change of the tables or of what stands in them is a new
/// number; another layout of one counter is not, as each counter begins with its own number.
/// Ledgers came as such: an older version opens the file and says of them, and of nothing else,
/// that it cannot read them.
///
/// 1: keys of any length. 2: [long keys are hashed](crate::stored_key).
pub const FORMAT: u32 = 2;

/// The oldest format that this version opens: it is brought to [`FORMAT`] then.
pub const FORMAT_OLDEST: u32 = MIGRATIONS[0].from;

/// Ways from older formats, each to the next number.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration { from: 1, run: hash_long_keys }];

/// How many keys a migration holds in memory at a time.
const MIGRATED_AT_A_TIME: usize = 4096;

/// Stores the counters of long keys under their hashes.
fn hash_long_keys(transaction: &WriteTransaction) -> Result<(), Failure> {
    let mut counters = transaction.open_table(COUNTERS)?;
    let mut after: Vec<u8> = Vec::new();
    loop {
        let mut long = Vec::new();
        let mut looked_at = 0;
        for entry in counters.range(after.as_slice()..)? {
            let (key, bytes) = entry?;
            key.value().clone_into(&mut after);
            looked_at += 1;
            if !stored_key::is_stored(key.value()) {
                long.push((key.value().to_vec(), bytes.value().to_vec()));
            }
            if long.len() == MIGRATED_AT_A_TIME {
                break;
            }
        }
        let is_last = long.len() < MIGRATED_AT_A_TIME;
        for (key, bytes) in long {
            counters.remove(&*key)?;
            counters.insert(&*stored_key::stored(&key), &*bytes)?;
        }
        if is_last || looked_at == 0 {
            return Ok(());
        }
    }
}

/// A way from one format to the next. It runs in one transaction with the change of the number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    /// The format it starts from; it leads to the next.
    pub(crate) from: u32,
    pub(crate) run: fn(&WriteTransaction) -> Result<(), Failure>,
}

/// Counters by the bytes of their keys, [as the file has them](crate::stored_key).
pub(crate) const COUNTERS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("counters");
type NoteTable = TableDefinition<'static, (u8, &'static [u8]), (u64, &'static [u8])>;

/// Notes by the number of their kind and their name: the instant they end at, then the value.
pub(crate) const NOTES: NoteTable = TableDefinition::new("notes");
/// The facts about the whole store.
pub(crate) const META: TableDefinition<'_, &str, u128> = TableDefinition::new("meta");

const META_FORMAT: &str = "format";
const META_EPOCH: &str = "epoch";
const META_LATEST: &str = "latest";

/// The facts about the whole store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) format: u32,
    /// Drawn when the store was made: another one has lost what this one counted.
    pub(crate) epoch: u128,
    /// The latest instant at which anything was written.
    pub(crate) latest: Timestamp,
}

/// Why the format of a database is not the one that is known.
#[derive(Debug)]
pub(crate) enum FormatError {
    NoStore(&'static str),
    Newer(u32),
    Older(u32),
    Failure(Failure),
}

impl<E: Into<Failure>> From<E> for FormatError {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

/// Makes an empty store of a new database.
pub(crate) fn initialize(database: &Database, epoch: u128) -> Result<(), Failure> {
    let transaction = database.begin_write()?;
    transaction.open_table(COUNTERS)?;
    transaction.open_table(NOTES)?;
    write_meta(&transaction, Meta { format: FORMAT, epoch, latest: Timestamp::MIN })?;
    transaction.commit()?;
    Ok(())
}

fn write_meta(transaction: &WriteTransaction, meta: Meta) -> Result<(), Failure> {
    let mut table = transaction.open_table(META)?;
    table.insert(META_FORMAT, u128::from(meta.format))?;
    table.insert(META_EPOCH, meta.epoch)?;
    table.insert(META_LATEST, u128::from(meta.latest.as_nanos()))?;
    Ok(())
}

pub(crate) fn write_latest(transaction: &WriteTransaction, latest: Timestamp) -> Result<(), Failure> {
    transaction.open_table(META)?.insert(META_LATEST, u128::from(latest.as_nanos()))?;
    Ok(())
}

fn read_meta(database: &Database) -> Result<Meta, FormatError> {
    const FOREIGN: &str = "it is a database of another program";
    let transaction = database.begin_read().map_err(Failure::from)?;
    let table = match transaction.open_table(META) {
        Ok(table) => table,
        Err(TableError::Storage(error)) => return Err(Failure::from(error).into()),
        Err(_) => return Err(FormatError::NoStore(FOREIGN)),
    };
    let number = |name| -> Result<u128, FormatError> {
        let value = table.get(name).map_err(Failure::from)?;
        Ok(value.ok_or(FormatError::NoStore(FOREIGN))?.value())
    };
    Ok(Meta {
        format: u32::try_from(number(META_FORMAT)?).unwrap_or(u32::MAX),
        epoch: number(META_EPOCH)?,
        latest: Timestamp::from_nanos(u64::try_from(number(META_LATEST)?).unwrap_or(u64::MAX)),
    })
}

/// Brings a database to [`FORMAT`] if it is not, and says what is known of it.
pub(crate) fn bring_up(database: &Database, migrations: &[Migration]) -> Result<Meta, FormatError> {
    let mut meta = read_meta(database)?;
    if meta.format > FORMAT {
        return Err(FormatError::Newer(meta.format));
    }
    while meta.format < FORMAT {
        let migration = migrations.iter().find(|migration| migration.from == meta.format);
        let migration = migration.ok_or(FormatError::Older(meta.format))?;
        let transaction = database.begin_write().map_err(Failure::from)?;
        (migration.run)(&transaction)?;
        meta.format += 1;
        write_meta(&transaction, meta)?;
        transaction.commit().map_err(Failure::from)?;
    }
    Ok(meta)
}

/// All notes. Those of a kind that this version does not know stay where they are.
pub(crate) fn read_notes(database: &Database) -> Result<Vec<Note>, Failure> {
    let transaction = database.begin_read()?;
    let table = transaction.open_table(NOTES)?;
    let mut notes = Vec::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let ((kind, name), (until, value)) = (key.value(), value.value());
        let Some(kind) = NoteKind::from_number(kind) else { continue };
        let until = Timestamp::from_nanos(until);
        notes.push(Note { kind, name: name.into(), value: value.into(), until });
    }
    Ok(notes)
}
