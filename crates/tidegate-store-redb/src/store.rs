//! The store itself: opening it, asking it, closing it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_core::{Algorithm, Timestamp};
use tidegate_store::keeper::{DrainCheck, Keeper};
use tidegate_store::{Answer, Batch, Note, NoteKind, Store, StoreError};

use crate::config::RedbConfig;
use crate::directory::Directory;
use crate::disk::{Disk, Found, Medium};
use crate::error::OpenError;
use crate::format::{MIGRATIONS, Migration};
use crate::shared::{DiskReport, Shared, Step, Written};
use crate::stats::RedbStats;
use crate::writer;

/// Counters and notes that outlive the process. See the [crate] for what is promised.
///
/// Deciding takes a lock for about a microsecond; a counter that is not in memory is read from disk
/// on the thread that asks for it. Dropping the store writes what is not on disk yet and waits for
/// that.
///
/// ```
/// # use tidegate_core::{Algorithm, Cost, Timestamp};
/// # use tidegate_store::{Batch, Key, Kind, Operation, RequestId, Store};
/// # use tidegate_store_redb::{RedbConfig, RedbStore};
/// # let path = std::env::temp_dir().join(format!("tidegate-redb-store-{}", std::process::id()));
/// # let clock = || Timestamp::from_secs(1_800_000_000);
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let daily = Algorithm::bucket("100/1d".parse()?)?;
/// let key = Key::new("api", b"daily", b"ada")?;
/// let check = Operation::new(key, daily, Kind::Check { cost: Cost::ONE });
/// let config = RedbConfig::new(&path, [1, 2, 3, 4]);
/// for (id, left) in [(1, 99), (2, 98)] {
///     // The second run finds what the first has charged.
///     let store = RedbStore::open(&config, clock)?;
///     let batch = Batch::all_or_nothing(RequestId(id), [check.clone()]);
///     assert_eq!(store.run(&batch).await?.outcomes[0].remaining, left);
///     store.close()?;
/// }
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RedbStore {
    shared: Arc<Shared>,
    epoch: u128,
    started_behind: Option<Duration>,
    readable_by_others: Option<PathBuf>,
    writer: Option<JoinHandle<()>>,
}

impl RedbStore {
    /// Opens the store in the directory of `config`, or makes it. The clock is read once a batch,
    /// under the store's lock: it must not call the store.
    ///
    /// Takes as long as reading the whole file once, since everything in it is checked.
    pub fn open(
        config: &RedbConfig,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let [first, second, ..] = config.seed;
        let epoch = u128::from(first) << 64 | u128::from(second);
        let directory = Directory::take(&config.path, epoch)?;
        let readable_by_others = directory.readable_by_others().map(Path::to_owned);
        let mut store = Self::open_on(Box::new(directory), config, MIGRATIONS, clock)?;
        store.readable_by_others = readable_by_others;
        Ok(store)
    }

    /// A file of the store that users outside of its group may read or write, because its mode
    /// could not be changed to 0600: it belongs to another user, or its file system has no modes.
    pub fn readable_by_others(&self) -> Option<&Path> {
        self.readable_by_others.as_deref()
    }

    /// Whether a store is kept in the directory at `path`, which need not exist.
    pub fn is_at(path: &Path) -> bool {
        Directory::has_store(path)
    }

    pub(crate) fn open_on(
        medium: Box<dyn Medium>,
        config: &RedbConfig,
        migrations: &[Migration],
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let (disk, Found { meta, notes }) = Disk::open(medium, config.cache, migrations)?;
        let now = clock();
        let mut keeper = Keeper::written_elsewhere(config.keeper());
        for note in notes {
            keeper.load_note(note, now);
        }
        let behind = meta.latest.saturating_since(now);
        let started_behind = Some(behind).filter(|behind| !behind.is_zero());
        let path = disk.path().to_owned();
        keeper.bound_space(config.space());
        let written = disk.measure();
        keeper.measured(written.map_err(|failure| OpenError::damaged(&path, &failure))?);
        let shared = Arc::new(Shared::new(keeper, disk, config.durability, Box::new(clock)));
        shared.state().stats.bytes_on_disk = shared.disk.bytes();
        let check = DrainCheck::new(config.seed);
        let writer = thread::Builder::new().name("tidegate-store".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || writer::write(&shared, check)
        });
        let writer = writer.map_err(|error| OpenError::from_io(&path, error))?;
        Ok(Self { shared, epoch: meta.epoch, started_behind, readable_by_others: None, writer: Some(writer) })
    }

    /// The identity of this store, drawn when it was made. Another one in the same
    /// place has lost the counts of this one.
    pub fn epoch(&self) -> u128 {
        self.epoch
    }

    /// How far the clock was behind the latest instant on disk when the store was opened, if it
    /// was: it has stepped back. Nothing is admitted for it that would not have been before.
    pub fn started_behind(&self) -> Option<Duration> {
        self.started_behind
    }

    /// Sets how many namespaces divide the [disk](RedbConfig::disk), as after a reload.
    pub fn set_namespaces(&self, namespaces: usize) {
        let mut state = self.shared.state();
        if let Some(mut space) = state.keeper.space() {
            space.namespaces = namespaces;
            state.keeper.bound_space(space);
        }
    }

    /// Sets who hears when commits begin to fail, when they succeed again, and when there is no
    /// room. Only the first call counts. It is called by the thread that writes.
    pub fn on_report(&self, listener: impl Fn(DiskReport<'_>) + Send + Sync + 'static) {
        let _ = self.shared.listener.set(Box::new(listener));
    }

    /// The contents of the store and the counts of its writes.
    pub fn stats(&self) -> RedbStats {
        let state = self.shared.state();
        let keeper = state.keeper.stats();
        RedbStats {
            keys: keeper.keys,
            bytes_used: keeper.bytes_used,
            notes: keeper.notes,
            note_bytes: keeper.note_bytes,
            space_used: state.keeper.space_used(),
            space_max: state.keeper.space().map_or(u64::MAX, |space| space.bytes),
            full: keeper.full,
            unsaved: state.keeper.unsaved(),
            failing: state.failing.is_some(),
            ..state.stats.clone()
        }
    }

    /// Waits until everything that was answered before is on disk. Where the disk has failed, it is
    /// tried again at once; [`StoreError::Unavailable`] if it still fails.
    pub async fn flush(&self) -> Result<(), StoreError> {
        match self.shared.flush() {
            None => Ok(()),
            Some(written) => self.written(written, true).await,
        }
    }

    /// Writes everything and closes the store. [`StoreError::Unavailable`] if that failed: what was
    /// answered since the last commit is then lost.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.stop();
        let state = self.shared.state();
        match &state.failing {
            Some(failure) => Err(self.shared.unavailable(failure.clone(), true)),
            None => Ok(()),
        }
    }

    /// Has the writer write the rest, and waits for it to end.
    fn stop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        {
            let mut state = self.shared.state();
            state.stop = true;
            self.shared.wake(&mut state);
        }
        // Panics of the database are caught where it is called, and nothing else in the
        // writer panics.
        let _ = writer.join();
    }

    /// Does something once, while counters are read from disk the next time.
    #[cfg(test)]
    pub(crate) fn while_reading(&self, work: impl FnOnce() + Send + 'static) {
        *self.shared.while_reading.lock().unwrap() = Some(Box::new(work));
    }

    async fn written(&self, written: Written, sent: bool) -> Result<(), StoreError> {
        // The writer tells everybody before it ends.
        let how = written.await.unwrap_or_else(|_| Err(crate::error::Failure::new("the store was closed")));
        how.map_err(|failure| self.shared.unavailable(failure, sent))
    }
}

impl Store for RedbStore {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        for waited in 0.. {
            match self.shared.step(batch, waited)? {
                Step::Answered(answer) => return Ok(answer),
                Step::Decided(answer, written) => {
                    self.written(written, true).await?;
                    return Ok(answer);
                }
                Step::Later(written) => self.written(written, false).await?,
            }
        }
        unreachable!("a batch is answered after fewer commits")
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        let state = self.shared.state();
        Ok(state.keeper.notes(kind, self.shared.now()))
    }

    fn supports(&self, algorithm: &Algorithm) -> bool {
        Keeper::supports(algorithm)
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbStore")
            .field("path", &self.shared.disk.path())
            .field("durability", &self.shared.durability)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
