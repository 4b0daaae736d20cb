//! The store.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::{Cmd, Value};
use tidegate::{Algorithm, Timestamp};
use tidegate_store::{Answer, Batch, Note, NoteKind, RequestId, Store, StoreError};

use crate::across;
use crate::answer;
use crate::call::Asked;
use crate::config::RedisConfig;
use crate::error::{OpenError, told};
use crate::names::{Place, note_slot};
use crate::numbers::to_micros;
use crate::shared::Shared;
use crate::stats::{Loss, RedisStats};

/// Counters in Redis or Valkey. The example of the [crate] uses one.
///
/// Cheap to clone; clones share one connection, one queue and one breaker.
#[derive(Clone, Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

impl RedisStore {
    /// A store that connects when it is first asked. Call it within a tokio runtime, which carries its calls; batches may be
    /// awaited anywhere.
    pub fn open(config: RedisConfig) -> Result<Self, OpenError> {
        Ok(Self { shared: Arc::new(Shared::open(config)?) })
    }

    /// What the store's clock shows, asked of the store: an error says why it does not serve. Changes nothing but the marker
    /// of the epoch, which is written if there is none.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        let asked = Asked::new(Batch::each(RequestId(0), []), &self.shared.known)?;
        Ok(self.shared.ask(self.place(note_slot()), asked).await?.answer.store_now)
    }

    /// What it did and found.
    pub fn stats(&self) -> RedisStats {
        self.shared.stats()
    }

    /// What was found lost first and is not [acknowledged](Self::acknowledge_loss): as in [`stats`](Self::stats), for whoever
    /// asks with every batch.
    pub fn loss(&self) -> Option<Loss> {
        self.shared.loss()
    }

    /// Goes on after a loss: batches are decided again on what there is. What was lost, if anything was.
    ///
    /// With the next call (in a cluster the next to each slot) another epoch begins for the ledgers of all members, in which
    /// windows count from zero and buckets from empty. That ends the losses that this member has seen, also those that it was
    /// not the one to notice, and none that comes later.
    pub fn acknowledge_loss(&self) -> Option<Loss> {
        self.shared.acknowledge_loss()
    }

    fn place(&self, slot: u16) -> Place {
        if self.shared.config.cluster { Place::Slot(slot) } else { Place::Server }
    }

    async fn fields(&self, kind: NoteKind) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
        let mut link = self.shared.link.clone();
        let mut found = BTreeMap::new();
        let mut cursor = b"0".to_vec();
        loop {
            let mut command = Cmd::new();
            command.arg("HSCAN").arg(self.shared.names.notes(kind)).arg(cursor).arg("COUNT").arg(1000);
            let reply = link.send(&command).await;
            let reply = reply.map_err(|error| told(error, &self.shared.at, self.shared.about_now()))?;
            let Some((next, fields)) = scanned(reply) else {
                return Err(StoreError::Unavailable {
                    at: self.shared.at.clone(),
                    sent: false,
                    source: None,
                });
            };
            // What changes meanwhile may be told twice.
            found.extend(fields);
            if next == b"0" {
                return Ok(found);
            }
            cursor = next;
        }
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
        across::run(&self.shared, batch).await
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        let now = to_micros(self.now().await?);
        let fields = self.fields(kind).await?;
        let notes = fields.iter().filter_map(|(name, kept)| answer::note(kind, name, kept));
        Ok(notes.filter(|(_, until)| *until > now).map(|(note, _)| note).collect())
    }

    fn supports(&self, algorithm: &Algorithm) -> bool {
        self.shared.known.of_counter(algorithm).is_ok()
    }
}
