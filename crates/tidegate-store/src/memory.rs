//! The store in memory: the reference all others are measured against, and the store of a single
//! member.
//!
//! One lock around read, decide, write. Batches never wait for anything else, so its futures are
//! ready when they are first polled and any executor runs them.

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

use core::fmt;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Algorithm, Timestamp, WhenFull};

use crate::keeper::Keeper;
use crate::{Answer, Batch, Note, NoteKind, Store, StoreError};

/// The bounds of a [`MemoryStore`].
///
/// ```
/// # use tidegate_core::{Algorithm, Cost, Rate, Timestamp, WhenFull};
/// # use tidegate_store::{Batch, Key, Kind, MemoryConfig, MemoryStore, Operation, RequestId};
/// # let clock = || Timestamp::from_secs(1_800_000_000);
/// let mut config = MemoryConfig::new([1, 2, 3, 4]); // in a service random numbers
/// (config.bytes, config.when_full) = (256 << 10, WhenFull::Admit);
/// let store = MemoryStore::new(config, clock);
/// for user in 0..10_000_u32 {
///     let key = Key::new("api", b"per-user", &user.to_be_bytes())?;
///     # let algorithm = Algorithm::bucket(Rate::per_second(1)?)?;
///     let check = Operation::new(key, algorithm, Kind::Check { cost: Cost::ONE });
///     assert!(!store.run_now(&Batch::each(RequestId(user.into()), [check]))?.refused);
/// }
/// // Users for whom there was no room were admitted uncounted.
/// assert!(store.stats().full > 0 && store.stats().bytes_used <= 256 << 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MemoryConfig {
    /// Bytes for all counters, with their keys and what it takes to find them. Default 64 MiB; less
    /// than [`MemoryConfig::BYTES_MIN`] counts as that.
    pub bytes: usize,
    /// The treatment of a charge that needs room when the store is full: [`WhenFull::Refuse`]
    /// (default) answers the whole batch with [`StoreError::Full`], [`WhenFull::Admit`] admits it
    /// [uncounted](crate::Outcome::counted). Counters that have room go on counting either way, and
    /// drained ones make room.
    pub when_full: WhenFull,
    /// How many operations of answered batches are remembered, so that a batch sent again is not
    /// carried out again and a batch can be undone. Default 65 536, about 16 MiB. When they are all
    /// in use the oldest batch is forgotten; 0 and batches of more operations than this remember
    /// nothing.
    pub answers: usize,
    /// How long an answered batch is remembered at most. Default 10 minutes.
    pub answers_kept: Duration,
    /// How many notes there may be. Default 524 288: refund keys and kept permits, which have
    /// shares of their own, and others. At the bound expired ones make room; a batch that would add
    /// one more is [`StoreError::Full`] and changes nothing, whatever [`MemoryConfig::when_full`]
    /// says.
    pub notes: usize,
    /// Bytes for all notes, with their names and what it takes to find them. Default 96 MiB; at the
    /// bound as for [`MemoryConfig::notes`].
    pub note_bytes: usize,
    /// Where keys and ids fall in the tables. Draw it at random, so that nobody can choose keys
    /// that collide.
    pub seed: [u64; 4],
}

impl MemoryConfig {
    /// The smallest number of bytes: room for one batch of the longest keys.
    pub const BYTES_MIN: usize = 256 << 10;

    /// The defaults with this seed.
    pub fn new(seed: [u64; 4]) -> Self {
        Self {
            bytes: 64 << 20,
            when_full: WhenFull::Refuse,
            answers: 1 << 16,
            answers_kept: Duration::from_mins(10),
            notes: 1 << 19,
            note_bytes: 96 << 20,
            seed,
        }
    }
}

/// The contents of a [`MemoryStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStats {
    /// Counters, drained ones included.
    pub keys: usize,
    /// Bytes they take, at most [`MemoryConfig::bytes`].
    pub bytes_used: usize,
    /// Operations of answered batches that are remembered, at most [`MemoryConfig::answers`].
    pub answers: usize,
    /// Notes, those included that have expired and are not forgotten yet; at most
    /// [`MemoryConfig::notes`].
    pub notes: usize,
    /// Bytes they take, at most [`MemoryConfig::note_bytes`].
    pub note_bytes: usize,
    /// How many batches have met a full store since it was made.
    pub full: u64,
}

/// Counters in memory. The example of the [crate] uses one.
///
/// ```
/// # use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
/// # use tidegate_store::{Batch, Key, Kind, MemoryConfig, MemoryStore, Operation, RequestId};
/// # let clock = || Timestamp::from_secs(1_800_000_000);
/// let store = MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), clock);
/// let (key, algorithm) = (Key::new("api", b"all", b"")?, Algorithm::bucket("100/s".parse()?)?);
/// let check = Operation::new(key, algorithm, Kind::Check { cost: Cost::new(30).unwrap() });
/// let batch = Batch::all_or_nothing(RequestId(1), [check]);
/// assert_eq!(store.run_now(&batch)?.outcomes[0].remaining, 70);
/// // An undo takes back what the batch has charged.
/// let undo = Batch::undo_of(&batch, RequestId(2));
/// assert_eq!(store.run_now(&undo)?.outcomes[0].remaining, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryStore {
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    config: MemoryConfig,
    keeper: Mutex<Keeper>,
}

impl MemoryStore {
    /// An empty store that reads the time from `clock`.
    ///
    /// The clock is read once a batch, under the store's lock: it must not call the store.
    pub fn new(config: MemoryConfig, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), config, keeper: Mutex::new(Keeper::new(config)) }
    }

    /// [`Store::run`], which for this store takes no waiting.
    pub fn run_now(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let mut keeper = self.keeper();
        let now = (self.clock)();
        Ok(keeper.run(batch, now)?.answer)
    }

    /// [`Store::notes`], which for this store takes no waiting.
    pub fn notes_now(&self, kind: NoteKind) -> Vec<Note> {
        let keeper = self.keeper();
        keeper.notes(kind, (self.clock)())
    }

    /// The current contents.
    pub fn stats(&self) -> MemoryStats {
        self.keeper().stats()
    }

    /// Every counter and note with everything known about it, in the order of their keys. For
    /// tests: two dumps are equal if and only if nothing has changed.
    #[cfg(any(test, feature = "conformance"))]
    pub fn dump(&self) -> String {
        self.keeper().dump()
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        // Nothing in a batch panics once it has begun to change counters.
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        self.run_now(batch)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(self.notes_now(kind))
    }

    fn supports(&self, algorithm: &Algorithm) -> bool {
        Keeper::supports(algorithm)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("config", &self.config)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
