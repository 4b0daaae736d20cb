//! Where a store is, how soon it writes, and its bounds.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::WhenFull;
use tidegate_store::MemoryConfig;
use tidegate_store::keeper::SpaceConfig;

/// When a batch that changed something is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once it is on disk: one `fsync` for all that wait at the same time.
    Sync,
    /// At once; it is on disk at most this much later, and the time a commit takes. A crash of the
    /// machine or of the process loses at most that. Zero commits as fast as the disk does, without
    /// making anyone wait.
    Interval(Duration),
}

/// Where a [`RedbStore`](crate::RedbStore) is, how soon it writes, and its bounds.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::Timestamp;
/// # use tidegate_store_redb::{Durability, RedbConfig, RedbStore};
/// # let path = std::env::temp_dir().join(format!("tidegate-redb-config-{}", std::process::id()));
/// # let clock = || Timestamp::from_secs(1_800_000_000);
/// let mut config = RedbConfig::new(&path, [1, 2, 3, 4]); // in a service random numbers
/// config.durability = Durability::Interval(Duration::from_millis(20));
/// config.disk = 64 << 20;
/// assert!(!RedbStore::is_at(&path));
/// let store = RedbStore::open(&config, clock)?;
/// assert!(RedbStore::is_at(&path));
/// assert_eq!(store.stats().space_max, 64 << 20);
/// # drop(store);
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedbConfig {
    /// The directory, of which the store is the only user. It is made if it is missing, in a
    /// directory that is there.
    pub path: PathBuf,
    /// When a batch is answered. Default [`Durability::Sync`].
    pub durability: Durability,
    /// Bytes for counters in memory. Default 256 MiB; less than [`MemoryConfig::BYTES_MIN`] counts
    /// as that. At the bound, counters that are on disk make room. One batch may take more than
    /// there is. Nothing is refused for it; callers wait for the next commit if what takes the room
    /// is not on disk yet.
    pub memory: usize,
    /// Bytes that counters may take on disk, as
    /// [`Space::bytes_of`](tidegate_store::keeper::Space::bytes_of) estimates them. Default
    /// [`RedbConfig::DISK_DEFAULT`]. The file may be larger by the pages that a commit rewrites, up
    /// to 128 MiB, and does not become smaller. At the bound a charge that needs more is answered
    /// as [`RedbConfig::when_full`] says, and drained counters are looked for until there is room.
    pub disk: u64,
    /// How many namespaces divide half of [`RedbConfig::disk`] into shares that no other can take;
    /// the other half goes to the first that fills it. Default 1. See
    /// [`RedbStore::set_namespaces`](crate::RedbStore::set_namespaces).
    pub namespaces: usize,
    /// The treatment of a charge for which there is no room on disk. Default [`WhenFull::Refuse`].
    pub when_full: WhenFull,
    /// Bytes for pages of the database in memory, beside [`RedbConfig::memory`]. Default 64 MiB.
    pub cache: usize,
    /// As [`MemoryConfig::answers`], remembered until the store is closed. Default 65 536.
    pub answers: usize,
    /// As [`MemoryConfig::answers_kept`]. Default 10 minutes.
    pub answers_kept: Duration,
    /// As [`MemoryConfig::notes`]: all notes are in memory as well. Default 524 288.
    pub notes: usize,
    /// As [`MemoryConfig::note_bytes`]. Default 96 MiB.
    pub note_bytes: usize,
    /// As [`MemoryConfig::seed`]. Draw it at random each time: a new store takes its epoch from it.
    pub seed: [u64; 4],
}

impl RedbConfig {
    /// The bytes that counters may take on disk unless told otherwise: 4 GiB, some twenty million
    /// counters.
    pub const DISK_DEFAULT: u64 = 4 << 30;

    /// The defaults for this directory, with this seed.
    pub fn new(path: impl Into<PathBuf>, seed: [u64; 4]) -> Self {
        let MemoryConfig { answers, answers_kept, notes, note_bytes, .. } = MemoryConfig::new(seed);
        Self {
            path: path.into(),
            durability: Durability::Sync,
            memory: 256 << 20,
            disk: Self::DISK_DEFAULT,
            namespaces: 1,
            when_full: WhenFull::Refuse,
            cache: 64 << 20,
            answers,
            answers_kept,
            notes,
            note_bytes,
            seed,
        }
    }

    pub(crate) fn keeper(&self) -> MemoryConfig {
        let mut config = MemoryConfig::new(self.seed);
        config.bytes = self.memory;
        config.answers = self.answers;
        config.answers_kept = self.answers_kept;
        config.notes = self.notes;
        config.note_bytes = self.note_bytes;
        config
    }

    pub(crate) fn space(&self) -> SpaceConfig {
        let mut space = SpaceConfig::new(self.disk);
        (space.namespaces, space.when_full) = (self.namespaces, self.when_full);
        space
    }
}
