//! The database: reading counters from it, and writing all that has changed in one transaction.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use redb::{Builder, Database, DatabaseError, Durability, ReadableDatabase, ReadableTable};
use tidegate_core::Timestamp;
use tidegate_store::keeper::{Changes, DrainCheck, Space, SpaceUsage};
use tidegate_store::{Key, Note};

use crate::error::{Failure, OpenError};
use crate::format::{self, COUNTERS, FORMAT, FormatError, Meta, Migration, NOTES};
use crate::stored_key::stored;

/// How many counters on disk a commit looks at, to remove those that have drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepEffort {
    /// By the way.
    Little,
    /// More than half of the space for counters is taken.
    More,
    /// A charge found no room.
    Most,
}

impl SweepEffort {
    /// Beyond a commit's own work 64 take next to nothing, 16 384 about 10 ms.
    const fn steps(self) -> usize {
        match self {
            Self::Little => 64,
            Self::More => 1024,
            Self::Most => 16 << 10,
        }
    }
}

/// The result of a commit.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// How many drained counters it removed.
    pub(crate) swept: u64,
    /// How many bytes more or less counters take.
    pub(crate) space: SpaceUsage,
    /// The first instant at which a counter on disk drains, as far as is known.
    pub(crate) first_drain: Timestamp,
}

/// The backing of a database: a file, or the substitute of a test.
pub(crate) trait Medium: fmt::Debug + Send + Sync + 'static {
    /// Opens the database. It is there already.
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError>;

    /// The path to show in messages.
    fn path(&self) -> &Path;

    /// How many bytes it takes.
    fn bytes(&self) -> u64;
}

/// An open database, which can be opened again when it has failed.
#[derive(Debug)]
pub(crate) struct Disk {
    medium: Box<dyn Medium>,
    cache: usize,
    /// None while it has failed and could not be opened again.
    database: RwLock<Option<Database>>,
}

/// A key and what stands on the disk of its counter.
pub(crate) type Standing = (Vec<u8>, Vec<u8>);

/// The contents of the disk when it is opened.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) meta: Meta,
    pub(crate) notes: Vec<Note>,
}

impl Disk {
    pub(crate) fn open(
        medium: Box<dyn Medium>,
        cache: usize,
        migrations: &[Migration],
    ) -> Result<(Self, Found), OpenError> {
        let path = medium.path().to_owned();
        let damaged = |what: String| OpenError::Damaged { path: path.clone(), what };
        let database = guarded(|| Ok(medium.open(&builder(cache))));
        let database = database.map_err(|failure| damaged(failure.to_string()))?;
        let database = database.map_err(|error| OpenError::from_database(&path, error))?;
        let found = guarded(|| {
            Ok(match format::bring_up(&database, migrations) {
                Ok(meta) => Ok(Found { meta, notes: format::read_notes(&database)? }),
                Err(error) => Err(error),
            })
        });
        let found = found.unwrap_or_else(|failure| Err(failure.into())).map_err(|error| match error {
            FormatError::NoStore(what) => damaged(what.to_owned()),
            FormatError::Failure(failure) => damaged(failure.to_string()),
            FormatError::Newer(found) => OpenError::Newer { path: path.clone(), found, known: FORMAT },
            FormatError::Older(found) => OpenError::Older { path: path.clone(), found, known: FORMAT },
        })?;
        Ok((Self { medium, cache, database: RwLock::new(Some(database)) }, found))
    }

    pub(crate) fn path(&self) -> &Path {
        self.medium.path()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.medium.bytes()
    }

    /// Closes the database and opens it anew, since one that has failed to write serves no longer.
    pub(crate) fn reopen(&self) -> Result<(), Failure> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        guarded(|| {
            drop(database.take());
            *database = Some(self.medium.open(&builder(self.cache))?);
            Ok(())
        })
    }

    /// The stored counters of these keys; absent ones are left out.
    pub(crate) fn read(&self, keys: &[&Key]) -> Result<Vec<Standing>, Failure> {
        self.with(|database| {
            let transaction = database.begin_read()?;
            let table = transaction.open_table(COUNTERS)?;
            let mut found = Vec::new();
            for key in keys {
                if let Some(bytes) = table.get(&*stored(key.as_bytes()))? {
                    found.push((key.as_bytes().to_vec(), bytes.value().to_vec()));
                }
            }
            Ok(found)
        })
    }

    /// The bytes of all counters.
    pub(crate) fn measure(&self) -> Result<SpaceUsage, Failure> {
        self.with(|database| {
            let transaction = database.begin_read()?;
            let table = transaction.open_table(COUNTERS)?;
            let mut usage = SpaceUsage::default();
            for entry in table.iter()? {
                let (key, bytes) = entry?;
                usage.add(key.value(), Space::bytes_of(key.value().len(), bytes.value().len()));
            }
            Ok(usage)
        })
    }

    /// Writes all of `changes` in one transaction, and sweeps.
    pub(crate) fn commit(
        &self,
        changes: &mut Changes,
        sweep: &mut Sweep,
        effort: SweepEffort,
        now: Timestamp,
    ) -> Result<Committed, Failure> {
        self.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            let mut space = SpaceUsage::default();
            let swept = {
                let mut counters = transaction.open_table(COUNTERS)?;
                // Before the changes, which may bring one back that has drained.
                let drained = sweep.find(&counters, effort, now)?;
                for key in &drained {
                    if let Some(before) = counters.remove(&**key)? {
                        space.add(key, -Space::bytes_of(key.len(), before.value().len()));
                    }
                }
                for (key, written) in changes.counters() {
                    let key = &*stored(key);
                    let before = match written {
                        Some(bytes) => {
                            space.add(key, Space::bytes_of(key.len(), bytes.len()));
                            if effort != SweepEffort::Little {
                                sweep.see(bytes, now);
                            }
                            counters.insert(key, bytes)?
                        }
                        None => counters.remove(key)?,
                    };
                    if let Some(before) = before {
                        space.add(key, -Space::bytes_of(key.len(), before.value().len()));
                    }
                }
                let mut notes = transaction.open_table(NOTES)?;
                for (kind, name, note) in &changes.notes {
                    let key = (kind.number(), &**name);
                    match note {
                        Some(note) => notes.insert(key, (note.until.as_nanos(), &*note.value))?,
                        None => notes.remove(key)?,
                    };
                }
                drained.len() as u64
            };
            format::write_latest(&transaction, changes.latest)?;
            transaction.commit()?;
            Ok(Committed { swept, space, first_drain: sweep.first_drain() })
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Failure>) -> Result<T, Failure> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let database =
            database.as_ref().ok_or_else(|| Failure::new("the database could not be opened again"))?;
        guarded(|| work(database))
    }
}

/// Looks through the counters on disk, a few at a time.
#[derive(Debug)]
pub(crate) struct Sweep {
    check: DrainCheck,
    /// The last key looked at; it goes on behind it, and from the beginning after the last.
    at: Vec<u8>,
    /// The first instant at which a counter drains of those seen in the last round, and of those
    /// written since it began.
    last_round: Timestamp,
    /// The same of the round that is under way.
    this_round: Timestamp,
    /// Whether every counter of the round under way was asked when it drains.
    is_whole: bool,
}

impl Sweep {
    pub(crate) fn new(check: DrainCheck) -> Self {
        // Before the first round has ended nothing is known, so a caller is told to come back soon.
        Self { check, at: Vec::new(), last_round: Timestamp::MIN, this_round: Timestamp::MAX, is_whole: true }
    }

    fn first_drain(&self) -> Timestamp {
        self.last_round
    }

    /// Takes in when a counter drains that is written now.
    fn see(&mut self, bytes: &[u8], now: Timestamp) {
        if let Ok(at) = self.check.drained_at(bytes, now) {
            self.last_round = self.last_round.min(at);
            self.this_round = self.this_round.min(at);
        }
    }

    /// The keys of counters that have drained, among the next few.
    fn find(
        &mut self,
        counters: &impl ReadableTable<&'static [u8], &'static [u8]>,
        effort: SweepEffort,
        now: Timestamp,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let mut drained = Vec::new();
        let mut steps = 0;
        if effort == SweepEffort::Little {
            (self.is_whole, self.last_round) = (false, Timestamp::MIN);
        }
        for entry in counters.range(self.at.as_slice()..)?.take(effort.steps()) {
            let (key, bytes) = entry?;
            steps += 1;
            key.value().clone_into(&mut self.at);
            // One that cannot be read stays, for whoever asks for it to be told.
            if self.check.has_drained(bytes.value(), now) == Ok(true) {
                drained.push(key.value().to_vec());
            } else if effort != SweepEffort::Little
                && let Ok(at) = self.check.drained_at(bytes.value(), now)
            {
                self.this_round = self.this_round.min(at);
            }
        }
        if steps < effort.steps() {
            self.at.clear();
            let seen = core::mem::replace(&mut self.this_round, Timestamp::MAX);
            let is_whole = core::mem::replace(&mut self.is_whole, true);
            self.last_round = if is_whole { seen } else { Timestamp::MIN };
        }
        Ok(drained)
    }
}

fn builder(cache: usize) -> Builder {
    let mut builder = Builder::new();
    // Changes made to the file by others are found here, where they can be reported, and not in the
    // middle of a request.
    builder.set_cache_size(cache).set_check_integrity_on_open(true);
    builder
}

/// Calls the database, which is not ours to trust: a panic in it is a failure like another.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word");
        Err(Failure::new(format!("the database gave up: {text}")))
    })
}
