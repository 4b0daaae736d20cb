//! A store that several members share: opening it, joining the members that are there, and
//! following a loss of its data.
//!
//! A daemon that starts while the store is away decides alone, as each limit's `on_store_failure`
//! says (see `readiness.rs`), and joins when the store answers. From then on it takes over, every
//! few seconds, what other members have set.

use core::time::Duration;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tidegate_core::algorithm::{Counter, State, WindowStart};
use tidegate_core::{Algorithm, Cost, Timestamp};
use tidegate_net::file_backed::FILE_BYTES_MAX;
use tidegate_net::regular_file::read_regular;
use tidegate_policy::policy::Redis;
use tidegate_store::{Answer, Batch, Kind, Note, NoteKind, RequestId, Store, StoreError};
use tidegate_store_redis::{Fault, Loss, OpenError, PROTOCOL, RedisConfig, RedisStats, RedisStore, Secret};

use crate::store_failure_log::StoreFailureLog;

/// Makes the id of the undo of a batch from the id of that batch.
const UNDO_OF_LOST: u128 = 0x756e_646f_206f_6620_6c6f_7374_2064_6174;

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
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file holds no password, or one that is not UTF-8.
    #[error("store.password_file: {path} holds no password; write it there, as text")]
    Password {
        /// The file.
        path: String,
    },
}

/// Counters in Redis or Valkey, with the state of the log lines about them.
#[derive(Debug)]
pub(crate) struct SharedStore {
    store: RedisStore,
    logged: Mutex<LoggedState>,
    failures: StoreFailureLog,
}

/// The state that was logged last, so that each change is logged once.
#[derive(Debug, Default)]
struct LoggedState {
    /// The loss that is not acknowledged.
    loss: Option<Loss>,
    newer_protocol: Option<u32>,
}

impl SharedStore {
    /// Opens it; whether it can be reached shows later.
    pub(crate) fn open(redis: &Redis) -> Result<Self, SharedStoreError> {
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
        Ok(Self::of(RedisStore::open(config)?))
    }

    fn of(store: RedisStore) -> Self {
        Self { store, logged: Mutex::default(), failures: StoreFailureLog::default() }
    }

    /// The store at an address, with default settings.
    #[cfg(test)]
    pub(crate) fn at(url: &str) -> Result<Self, SharedStoreError> {
        Ok(Self::of(RedisStore::open(RedisConfig::new([url]))?))
    }

    pub(crate) fn stats(&self) -> RedisStats {
        self.store.stats()
    }

    /// Acknowledges for all members every loss that began before now: quotas count from what there
    /// is. The loss that was known, if any was; an error if the acknowledgement could not be
    /// written into the store yet.
    pub(crate) async fn acknowledge_loss(&self) -> Result<Option<Loss>, StoreError> {
        // Another member may have noticed a loss, or acknowledged it.
        let looked = self.store.now().await;
        let loss = self.store.acknowledge_loss();
        looked?;
        self.store.now().await?;
        self.log_changes();
        Ok(loss)
    }

    /// Why nothing is decided in the store by this member for good, if that is so.
    pub(crate) fn newer_protocol(&self) -> Option<String> {
        let store = self.store.newer_protocol()?;
        Some(Fault::NewerProtocol { store, member: PROTOCOL }.to_string())
    }

    /// Takes back the charges of batches that were given up.
    pub(crate) async fn undo(&self, batch: &Batch) -> Result<(), StoreError> {
        self.store.undo(batch).await
    }

    /// Counts a batch that is not undone.
    pub(crate) fn undo_failed(&self) {
        self.store.undo_failed();
    }

    /// How long an undo is worth another try.
    pub(crate) fn undo_horizon(&self) -> Duration {
        self.store.undo_horizon()
    }

    /// Warns if the server may evict counters, which then count from zero.
    pub(crate) async fn check_eviction(&self) {
        match self.store.eviction_policy().await {
            Ok(policy) if policy == "noeviction" => {}
            Ok(policy) => tracing::warn!(
                target: "tidegate::store",
                policy,
                "the store may evict counters, which then count from zero and admit more than their limits; set `maxmemory-policy noeviction` in Redis"
            ),
            Err(error) => tracing::info!(
                target: "tidegate::store",
                %error,
                "the store does not report its eviction policy (CONFIG GET is not permitted); check that `maxmemory-policy` is `noeviction`"
            ),
        }
    }

    /// Logs changes of losses and of the protocol.
    fn log_changes(&self) {
        // Every change is one assignment. The store is looked at under the lock, so that changes
        // are logged in order.
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let (loss, newer_protocol) = (self.store.loss(), self.store.newer_protocol());
        if logged.loss != loss {
            match (&logged.loss, &loss) {
                (None, Some(loss)) => tracing::error!(
                    target: "tidegate::store",
                    expected = loss.expected,
                    found = loss.found,
                    began = %loss.began,
                    "the store has lost its counters; quotas follow their on_store_failure until their windows end or `tidegate leases acknowledge` is run at one member"
                ),
                (Some(_), None) => tracing::info!(
                    target: "tidegate::store",
                    "the loss of the store's counters is acknowledged; quotas count from what there is"
                ),
                _ => {}
            }
            logged.loss = loss;
        }
        if logged.newer_protocol != newer_protocol {
            if let Some(newer) = self.newer_protocol() {
                tracing::error!(target: "tidegate::store", "{newer}; until then this member decides alone and is not ready");
            }
            logged.newer_protocol = newer_protocol;
        }
    }

    /// The error of a batch with a quota whose usage was lost; none once the window of the loss has
    /// ended.
    fn lost_for(&self, batch: &Batch) -> Option<StoreError> {
        let asks =
            |kind: &Kind| matches!(kind, Kind::Check { .. } | Kind::Peek { .. } | Kind::Acquire { .. });
        let mut quotas = batch.operations.iter().filter(|one| asks(&one.kind) && one.algorithm.is_quota());
        let loss = quotas.find_map(|one| {
            let loss = self.store.loss_of(&one.key)?;
            (self.store.about_now() < known_again(&one.algorithm, loss.began)).then_some(loss)
        })?;
        Some(StoreError::DataLost { expected: loss.expected, found: loss.found })
    }

    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        if self.lost_for(batch).is_some() {
            // Another member may have acknowledged the loss since.
            self.store.now().await?;
            if let Some(error) = self.lost_for(batch) {
                return Err(error);
            }
        }
        let answer = self.store.run(batch).await?;
        let Some(error) = self.lost_for(batch) else { return Ok(answer) };
        // This batch was the first to find the loss, and was decided on counters that had begun
        // anew.
        let undo = Batch::undo_of(batch, RequestId(batch.id.0 ^ UNDO_OF_LOST));
        if !answer.refused && !undo.operations.is_empty() && self.store.undo(&undo).await.is_err() {
            self.store.undo_failed();
        }
        Err(error)
    }
}

/// When it is known again how much is used of a limit whose counters were lost at `began`: at the
/// end of the window of that instant, where all keys have the same windows.
fn known_again(algorithm: &Algorithm, began: Timestamp) -> Timestamp {
    fn window_end(counter: &impl Counter, at: Timestamp) -> Timestamp {
        counter.reset_at(counter.charge(State::EMPTY, Cost::ONE, at), at)
    }
    match algorithm {
        Algorithm::Fixed(fixed) if fixed.start() == WindowStart::Epoch => window_end(fixed, began),
        Algorithm::Calendar(calendar) => window_end(calendar, began),
        _ => began.saturating_add(algorithm.window().unwrap_or(Duration::MAX)),
    }
}

fn read(key: &'static str, path: &str) -> Result<Vec<u8>, SharedStoreError> {
    read_regular(Path::new(path), FILE_BYTES_MAX).map_err(|source| SharedStoreError::File {
        key,
        path: path.to_owned(),
        source,
    })
}

/// A handle of the store that every holder shares.
#[derive(Clone, Debug)]
pub(crate) struct SharedStoreHandle(pub(crate) Arc<SharedStore>);

impl Store for SharedStoreHandle {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let answer = self.0.run(batch).await;
        self.0.log_changes();
        if let Err(error) = &answer {
            self.0.failures.write(error, Instant::now());
        }
        answer
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

/// The content of a note. A note that cannot be read is logged and left out, so that the others are
/// used.
pub(crate) fn kept<T, E: core::fmt::Display>(read: Result<T, E>) -> Option<T> {
    read.inspect_err(|error| tracing::error!(%error, "a stored note cannot be read and is ignored")).ok()
}

#[cfg(test)]
mod tests {
    use tidegate_core::Rate;
    use tidegate_core::algorithm::{Calendar, CivilUnit, Fixed};

    use super::*;

    #[test]
    fn a_quota_is_known_again_at_the_end_of_the_window_in_which_it_was_lost() {
        let hour = Duration::from_hours(1);
        let day = Timestamp::from_secs(20_840 * 86_400);
        let lost = day.saturating_add(23 * hour);
        let fixed = |start| Algorithm::Fixed(Fixed::new(10, 24 * hour, start).unwrap());
        let calendar = |zone| Algorithm::Calendar(Calendar::new(10, CivilUnit::Day, zone).unwrap());
        let rate = Algorithm::bucket(Rate::new(10, 24 * hour).unwrap()).unwrap();
        for (algorithm, hours) in [
            (fixed(WindowStart::Epoch), 1),
            (fixed(WindowStart::FirstHit), 24),
            (calendar("UTC"), 1),
            (calendar("Asia/Tokyo"), 16),
            (rate, 24),
        ] {
            assert_eq!(known_again(&algorithm, lost), lost.saturating_add(hours * hour), "{algorithm:?}");
        }
    }
}
