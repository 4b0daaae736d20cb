//! A store that several members share: opening it, joining those that are there, and what a loss of its data means.
//!
//! A daemon starts while the store is away. It is then not ready, exact limits do what their `on_store_failure` says, and it
//! joins when the store answers. From then on it takes over, every few seconds, what other members have set.

use core::time::Duration;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::{Algorithm, Timestamp};
use tidegate_clock::Clock;
use tidegate_engine::{EngineError, Lineage, RuntimeOverride};
use tidegate_policy::policy::Redis;
use tidegate_store::{Answer, Batch, Kind, Note, NoteKind, Store, StoreError};
use tidegate_store_redis::{Loss, OpenError, RedisConfig, RedisStats, RedisStore, Secret};

use crate::daemon::Daemon;

/// How often what other members have set is read although nobody has said that it was changed.
const REFRESH_EVERY: Duration = Duration::from_mins(5);

/// How often it is seen whether it is time to say that this member is there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How soon a store that was away is asked again.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// How long reading all notes of one kind may take.
const NOTES_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a shared store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharedStoreError {
    /// Its settings cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file that the policy names cannot be read.
    #[error("{key}: {path} cannot be read")]
    File {
        /// The key of the policy.
        key: &'static str,
        /// The file.
        path: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The password is no text, or there is none.
    #[error("store.password_file: {path} holds no password; write it there, as text")]
    Password {
        /// The file.
        path: String,
    },
}

/// Counters in Redis or Valkey, and what was found lost of them.
#[derive(Debug)]
pub(crate) struct SharedStore {
    store: RedisStore,
    clock: Arc<dyn Clock>,
    lost: Mutex<Option<Lost>>,
}

/// A loss that nobody has acknowledged.
#[derive(Clone, Debug)]
struct Lost {
    loss: Loss,
    /// When it was found, on our clock.
    at: Timestamp,
}

impl SharedStore {
    /// Opens it; whether it can be reached shows later.
    pub(crate) fn open(redis: &Redis, clock: Arc<dyn Clock>) -> Result<Self, SharedStoreError> {
        let mut config = RedisConfig::new(&redis.urls);
        config.cluster = redis.cluster;
        config.username.clone_from(&redis.username);
        config.prefix.clone_from(&redis.prefix);
        config.deadline = redis.deadline;
        if let Some(path) = &redis.password_file {
            let bytes = read("store.password_file", path)?;
            let text = str::from_utf8(&bytes).ok().map(|text| text.trim_end_matches(['\r', '\n']));
            let Some(text) = text.filter(|text| !text.is_empty()) else {
                return Err(SharedStoreError::Password { path: path.clone() });
            };
            config.password = Some(Secret::new(text));
        }
        config.tls.roots = redis.tls.ca.as_ref().map(|path| read("store.tls.ca", path)).transpose()?;
        if let Some((cert, key)) = &redis.tls.client {
            config.tls.client = Some((read("store.tls.cert", cert)?, read("store.tls.key", key)?));
        }
        Ok(Self { store: RedisStore::open(config)?, clock, lost: Mutex::default() })
    }

    pub(crate) fn stats(&self) -> RedisStats {
        self.store.stats()
    }

    /// Goes on counting after a loss, from what there is; what was lost, if anything was.
    pub(crate) fn acknowledge_loss(&self) -> Option<Loss> {
        self.store.acknowledge_loss();
        self.lost().take().map(|lost| lost.loss)
    }

    fn lost(&self) -> MutexGuard<'_, Option<Lost>> {
        // Every change is one assignment.
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was lost that matters to this batch: a promise for an hour or longer of which nobody knows any more how much was
    /// used. Its window ends at the latest a window after the loss, and then it is known again.
    fn lost_for(&self, batch: &Batch) -> Option<StoreError> {
        let now = self.clock.now();
        let mut lost = self.lost();
        if lost.is_none()
            && let Some(loss) = self.store.loss()
        {
            tracing::error!(
                target: "tidegate::store",
                expected = loss.expected,
                found = loss.found,
                "the store has lost its counters; quotas do as their on_store_failure says until their windows end or the loss is acknowledged"
            );
            *lost = Some(Lost { loss, at: now });
        }
        let Lost { loss, at } = lost.as_ref()?;
        let is_unknown = |algorithm: &Algorithm| {
            let window = algorithm.window().unwrap_or(Duration::MAX);
            algorithm.is_quota() && now < at.saturating_add(window)
        };
        let asks =
            |kind: &Kind| matches!(kind, Kind::Check { .. } | Kind::Peek { .. } | Kind::Acquire { .. });
        let mut operations = batch.operations.iter();
        operations
            .any(|one| asks(&one.kind) && is_unknown(&one.algorithm))
            .then(|| StoreError::DataLost { expected: loss.expected.clone(), found: loss.found.clone() })
    }
}

fn read(key: &'static str, path: &str) -> Result<Vec<u8>, SharedStoreError> {
    std::fs::read(Path::new(path)).map_err(|source| SharedStoreError::File {
        key,
        path: path.to_owned(),
        source,
    })
}

/// A handle of the store that every holder shares.
#[derive(Clone, Debug)]
pub(crate) struct Shared(pub(crate) Arc<SharedStore>);

impl Store for Shared {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        if let Some(error) = self.0.lost_for(batch) {
            return Err(error);
        }
        let answer = self.0.store.run(batch).await?;
        // Whoever finds the loss was decided on what is left, which is not what was promised.
        self.0.lost_for(batch).map_or(Ok(answer), Err)
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        match tokio::time::timeout(NOTES_TIMEOUT, self.0.store.notes(kind)).await {
            Ok(notes) => notes,
            Err(_) => Err(StoreError::Timeout { after: NOTES_TIMEOUT }),
        }
    }

    fn supports(&self, algorithm: &Algorithm) -> bool {
        self.0.store.supports(algorithm)
    }
}

/// Why a member has not joined those that are there, or does not see them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotJoined {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Joins the members that share the store, and keeps to what they set, until the daemon ends.
pub(crate) async fn keep_joined(daemon: Arc<Daemon>) {
    let mut is_away = false;
    loop {
        match daemon.join_and_beat().await {
            Ok(()) => {
                if !daemon.has_joined.swap(true, Ordering::Relaxed) {
                    tracing::info!(target: "tidegate::store", "the store answers; this member is ready");
                    if daemon.is_ready.load(Ordering::Relaxed) {
                        daemon.services.health.serve().await;
                    }
                } else if is_away {
                    tracing::info!(target: "tidegate::store", "the store answers again");
                }
                is_away = false;
                // An error is told when it is tried again.
                let _ = daemon.wait_for_changes().await;
                continue;
            }
            Err(error) => {
                if !is_away {
                    let cause = core::error::Error::source(&error).map(ToString::to_string);
                    let ready = daemon.has_joined.load(Ordering::Relaxed);
                    tracing::warn!(target: "tidegate::store", %error, cause, ready, "the store is asked again every second");
                }
                is_away = true;
            }
        }
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

impl Daemon {
    async fn join_and_beat(&self) -> Result<(), NotJoined> {
        self.beat().await?;
        self.see_members().await?;
        self.join().await
    }

    /// Waits until something that members share has changed, or may have; says meanwhile that this member is there.
    async fn wait_for_changes(&self) -> Result<(), StoreError> {
        let Some(members) = &self.members else { return Ok(()) };
        let until = self.clock.now().saturating_add(REFRESH_EVERY);
        while self.clock.now() < until {
            tokio::select! {
                () = members.changed.notified() => return Ok(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if members.is_due(self.clock.now()) {
                self.beat().await?;
            }
        }
        Ok(())
    }

    /// Takes over what the store has and this member does not.
    async fn join(&self) -> Result<(), NotJoined> {
        let _turn = self.changes.turn.lock().await;
        let before = self.in_force.load_full();
        let is_first = !self.has_joined.load(Ordering::Relaxed);
        let read = async |kind| self.store.notes_boxed(kind).await;
        // Only before anything is decided: while policies are being exchanged member by member, each goes by its own names.
        let lineage = if is_first {
            Lineage::from_notes(&read(NoteKind::Lineage).await?).map_err(EngineError::from)?
        } else {
            before.engine.lineage().clone()
        };
        let overrides = read(NoteKind::Override).await?;
        let overrides = overrides.iter().filter_map(|note| kept(RuntimeOverride::from_note(note)));
        let mut engine = Arc::clone(&before.engine);
        if let Some((joined, notes)) = before.engine.joined(&lineage, overrides)? {
            self.store_notes(&joined, &notes).await?;
            self.put_in_force(&before, joined, before.config.clone(), before.version.clone());
            engine = Arc::clone(&self.in_force.load().engine);
        }
        let now = self.clock.now();
        for note in read(NoteKind::Block).await? {
            kept(engine.restore_block(&note, now));
        }
        if is_first {
            self.history.restore(&read(NoteKind::Audit).await?);
        }
        Ok(())
    }
}

/// What a note says, or a line about why it says nothing: one that cannot be read must not keep the rest from being used.
pub(crate) fn kept<T, E: core::fmt::Display>(read: Result<T, E>) -> Option<T> {
    read.inspect_err(|error| tracing::error!(%error, "something stored is left out")).ok()
}
