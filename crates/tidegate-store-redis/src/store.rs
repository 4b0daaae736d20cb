//! The store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tidegate_core::{Algorithm, Timestamp};
use tidegate_store::{
    Answer, Batch, FleetCall, FleetStats, FleetStore, Key, Loss, Note, NoteKind, RequestId, Store, StoreError,
};

use crate::answer;
use crate::call::Asked;
use crate::config::RedisConfig;
use crate::error::{CallError, Fault, OpenError};
use crate::marker::PROTOCOL;
use crate::multi_slot;
use crate::names::{Place, note_slot, slot};
use crate::numbers::to_micros;
use crate::shared::Shared;
use crate::stats::add;

/// How long reading all notes of one kind may take.
const NOTES_TIMEOUT: Duration = Duration::from_secs(10);

/// How many notes one reply of a scan is asked for; with the longest values they stay well within
/// the bound of a reply.
const NOTES_SCANNED: usize = 100;

/// The most replies of one scan: pages may be nearly empty where many notes were removed.
const SCAN_REPLIES_MAX: usize = 16 * NOTES_MAX / NOTES_SCANNED;

/// The most notes of one kind that are read, and their bytes, as
/// [`MemoryConfig`](tidegate_store::MemoryConfig) has them. Beyond them the store is unavailable
/// for reading notes: something else fills the hash, or the server makes its answers up.
const NOTES_MAX: usize = 1 << 18;
const NOTE_BYTES_MAX: usize = 64 << 20;

/// Counters in Redis or Valkey. The example of the [crate] uses one.
///
/// Cheap to clone; clones share one connection, one queue and one breaker.
///
/// ```
/// # use tidegate_store_redis::{Circuit, FleetStore, RedisConfig, RedisStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate_store_redis::OpenError> {
/// // Opening does not connect: the first batch does.
/// let store = RedisStore::open("redis://127.0.0.1:6379")?;
/// assert_eq!((store.stats().calls, store.stats().circuit), (0, Circuit::Closed));
/// // Several addresses are those of a cluster.
/// let mut config = RedisConfig::new(["redis://10.0.0.1:6379", "redis://10.0.0.2:6379"]);
/// assert!(RedisStore::open(config.clone()).is_err());
/// config.cluster = true;
/// let cluster = RedisStore::open(config)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

impl RedisStore {
    /// A store that connects when it is first asked. Call it within a tokio runtime, which carries
    /// its calls; batches may be awaited anywhere.
    ///
    /// An address alone, such as `redis://127.0.0.1:6379`, is a [`RedisConfig`] with its defaults.
    pub fn open(config: impl Into<RedisConfig>) -> Result<Self, OpenError> {
        let config = config.into();
        Ok(Self { shared: Arc::new(Shared::open(config)?) })
    }

    /// The lease protocol of the store, if that is higher than this member's: then nothing is
    /// decided there, and this member is to be upgraded.
    pub fn newer_protocol(&self) -> Option<u32> {
        self.shared.newer_protocol()
    }

    /// The eviction policy of the server (`maxmemory-policy`), which must be `noeviction`: evicted
    /// counters admit more than their limits. An error where it cannot be asked, as where the user
    /// may not.
    pub async fn eviction_policy(&self) -> Result<String, StoreError> {
        let mut command = Cmd::new();
        command.arg("CONFIG").arg("GET").arg("maxmemory-policy");
        let reply = self.looked_up(&command).await?;
        let (_, policy) = redis::from_redis_value::<(String, String)>(reply)
            .map_err(|error| self.shared.error_for_one(&CallError::Said(error.into())))?;
        Ok(policy)
    }

    /// The reply to a command that changes nothing, within the connect timeout.
    async fn looked_up(&self, command: &Cmd) -> Result<Value, StoreError> {
        let after = self.shared.config.connect_timeout;
        match tokio::time::timeout(after, self.shared.link.send(command)).await {
            Ok(reply) => reply.map_err(|error| self.shared.error_for_one(&CallError::from(error))),
            Err(_) => Err(StoreError::Timeout { after }),
        }
    }

    fn place(&self, slot: u16) -> Place {
        if self.shared.config.cluster { Place::Slot(slot) } else { Place::Server }
    }

    async fn fields(&self, kind: NoteKind) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
        let mut found = BTreeMap::new();
        let mut cursor = b"0".to_vec();
        let mut bytes = 0;
        for _ in 0..SCAN_REPLIES_MAX {
            let mut command = Cmd::new();
            command
                .arg("HSCAN")
                .arg(self.shared.names.notes(kind))
                .arg(cursor)
                .arg("COUNT")
                .arg(NOTES_SCANNED);
            let reply = self.looked_up(&command).await?;
            let Some((next, fields)) = scanned(reply) else {
                return Err(self.shared.error_for_one(&CallError::Unreadable));
            };
            bytes += fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
            // A change in the meantime may be reported twice.
            found.extend(fields);
            if found.len() > NOTES_MAX || bytes > NOTE_BYTES_MAX {
                return Err(self.shared.unavailable(Fault::TooManyNotes { notes: found.len(), bytes }));
            }
            if next == b"0" {
                return Ok(found);
            }
            cursor = next;
        }
        // A server that never ends its scan does not speak as Redis does.
        Err(self.shared.error_for_one(&CallError::Unreadable))
    }
}

/// A cursor, and fields with their values.
type Scanned = (Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>);

fn scanned(reply: Value) -> Option<Scanned> {
    let bytes = |value| match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    };
    let Value::Array(parts) = reply else { return None };
    let [cursor, Value::Array(fields)] = <[Value; 2]>::try_from(parts).ok()? else { return None };
    let fields: Vec<_> = fields.into_iter().map(bytes).collect::<Option<_>>()?;
    let (pairs, _) = fields.as_chunks::<2>();
    Some((bytes(cursor)?, pairs.iter().map(|[name, value]| (name.clone(), value.clone())).collect()))
}

impl Store for RedisStore {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        batch.check()?;
        match multi_slot::sole_place(batch, self.shared.config.cluster) {
            Some(place) => {
                let asked = Asked::new(batch.clone(), &self.shared.known)?;
                Ok(self.shared.ask(place, asked).await?.answer)
            }
            None => multi_slot::run(&self.shared, batch).await,
        }
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        let now = to_micros(self.now().await?);
        let fields = match tokio::time::timeout(NOTES_TIMEOUT, self.fields(kind)).await {
            Ok(fields) => fields?,
            Err(_) => return Err(StoreError::Timeout { after: NOTES_TIMEOUT }),
        };
        let notes = fields.iter().filter_map(|(name, kept)| answer::note(kind, name, kept));
        Ok(notes.filter(|(_, until)| *until > now).map(|(note, _)| note).collect())
    }

    fn supports(&self, algorithm: &Algorithm) -> bool {
        self.shared.known.of_counter(algorithm).is_ok()
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.shared.config.batch_deadline())
    }
}

impl FleetStore for RedisStore {
    /// Changes nothing but the marker of the epoch, which is written if it is absent.
    fn now(&self) -> FleetCall<'_, Timestamp> {
        Box::pin(async move {
            let asked = Asked::new(Batch::each(RequestId(0), []), &self.shared.known)?;
            Ok(self.shared.ask(self.place(note_slot()), asked).await?.answer.store_now)
        })
    }

    fn about_now(&self) -> Timestamp {
        self.shared.about_now()
    }

    fn loss(&self) -> Option<Loss> {
        self.shared.loss()
    }

    fn loss_of(&self, key: &Key) -> Option<Loss> {
        self.shared.loss_at(self.place(slot(key)))
    }

    fn acknowledge_loss(&self) -> Option<Loss> {
        self.shared.acknowledge_loss()
    }

    fn newer_protocol(&self) -> Option<String> {
        let store = self.newer_protocol()?;
        Some(Fault::NewerProtocol { store, member: PROTOCOL }.to_string())
    }

    /// It waits as long as [`RedisConfig::undo_deadline`] and goes past the breaker, one call at a
    /// time for each place. A batch that arrives after its undo charges nothing, as long as
    /// [`RedisConfig::answers_kept`].
    fn undo<'a>(&'a self, batch: &'a Batch) -> FleetCall<'a, ()> {
        Box::pin(async move {
            batch.check()?;
            let undone = multi_slot::undo(&self.shared, batch).await;
            if undone.is_ok() {
                add(&self.shared.counts.undone, 1);
            }
            undone
        })
    }

    fn undo_failed(&self) {
        add(&self.shared.counts.undo_failed, 1);
    }

    /// After [`RedisConfig::answers_kept`] the store has forgotten what to undo.
    fn undo_horizon(&self) -> Duration {
        self.shared.config.answers_kept.min(RedisConfig::ANSWERS_KEPT_MAX)
    }

    fn evicts_by(&self) -> FleetCall<'_, Option<String>> {
        Box::pin(async { Ok(Some(self.eviction_policy().await?).filter(|policy| policy != "noeviction")) })
    }

    fn is_silence(&self, error: &StoreError) -> bool {
        match error {
            StoreError::Timeout { .. } | StoreError::DataLost { .. } => true,
            StoreError::Unavailable { source: Some(source), .. } => matches!(
                source.downcast_ref(),
                Some(Fault::CircuitOpen { .. } | Fault::NotSent { .. } | Fault::NewerProtocol { .. })
            ),
            _ => false,
        }
    }

    fn stats(&self) -> FleetStats {
        self.shared.stats()
    }
}
