//! The keys and the name with which this daemon signs deferral tickets.
//!
//! With `key_file` the keys are those of the file, which is read again when it changes. Without it
//! the key is a note that the first daemon creates in its store and every other one reads, so
//! that restarts and members share it. In a store in memory, the key ends with the process.
//!
//! A shared store that is away delays nothing: until it gives the key no tickets are sold, and
//! requests are refused as without `defer`. A member that has the key writes it anew should the
//! store lose it.
//!
//! The instants of tickets are on the clock of the store where members share one.

use core::time::Duration;
use std::sync::{Arc, PoisonError};

use tidegate_core::error_chain;
use tidegate_engine::{Engine, NoteError, StoredTicketKey};
use tidegate_store::{Batch, DynStore as _, NoteChange, NoteKind, RequestId, StoreError};

use crate::context::DaemonContext;
use crate::ticket_key_source::TicketKeySource;

/// How often the key is read from a shared store again, which may have lost it.
const REFRESH_EVERY: Duration = Duration::from_mins(5);

/// How soon a store that did not give the key is asked again.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Why the store gave no key.
#[derive(Debug, thiserror::Error)]
enum StoredKeyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Note(#[from] NoteError),
    /// It refused the key of this member, and has none of another one.
    #[error("the store has no key of tickets although it refused a new one")]
    Absent,
}

impl DaemonContext {
    /// Gives an engine that is about to decide the keys and the name for tickets. With a shared
    /// store, its key comes later.
    pub(crate) async fn set_up_tickets(&self, engine: &Engine, source: &TicketKeySource) {
        self.ticket_signer.set_issuer(engine);
        self.ticket_signer.follow_clock(engine);
        match source {
            TicketKeySource::None => {}
            TicketKeySource::File(file) => engine.rotate_ticket_keys(file.keys()),
            TicketKeySource::Store if self.shared.is_some() => self.ticket_signer.wanted.notify_one(),
            TicketKeySource::Store => {
                if let Err(error) = self.take_stored_key(engine).await {
                    log_absent_key(&error);
                    self.ticket_signer.wanted.notify_one();
                }
            }
        }
    }

    /// [`DaemonContext::set_up_tickets`] for the engine with which the daemon starts.
    pub(crate) async fn set_up_first_tickets(&self) {
        let in_force = self.in_force.load_full();
        self.set_up_tickets(&in_force.engine, &in_force.config.ticket_keys).await;
    }

    /// Gives an engine the key that the store keeps. The first daemon creates it.
    async fn take_stored_key(&self, engine: &Engine) -> Result<(), StoredKeyError> {
        let key = match self.read_stored_key().await? {
            Some(key) => key,
            None => self.create_stored_key().await?,
        };
        if self.shared.is_some() {
            // An empty batch measures the offset of the store's clock before a ticket is sold.
            self.driver.call_store(&Batch::each(random_request_id(), [])).await?;
        }
        self.ticket_signer.follow_clock(engine);
        engine.rotate_ticket_keys(key.keys());
        *self.ticket_signer.stored.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
        Ok(())
    }

    async fn read_stored_key(&self) -> Result<Option<StoredTicketKey>, StoredKeyError> {
        let notes = self.store.notes_boxed(NoteKind::TicketKey).await?;
        Ok(StoredTicketKey::from_notes(&notes)?)
    }

    /// Creates the key in a store that has none. If another daemon is faster, its key counts.
    async fn create_stored_key(&self) -> Result<StoredTicketKey, StoredKeyError> {
        let own = self.ticket_signer.stored_or_drawn();
        let create = NoteChange::Create(own.to_note());
        let batch = Batch::each(random_request_id(), []).with_notes([create]);
        if self.driver.call_store(&batch).await?.refused {
            return self.read_stored_key().await?.ok_or(StoredKeyError::Absent);
        }
        Ok(own)
    }
}

/// Reads the key of tickets from the store whenever it is wanted, and every five minutes, until the
/// daemon ends.
pub(crate) async fn keep_ticket_key(daemon: Arc<DaemonContext>) {
    loop {
        let wanted = daemon.ticket_signer.wanted.notified();
        // Whether this has ended by a notice or by its time, the store is read.
        let _ = tokio::time::timeout(REFRESH_EVERY, wanted).await;
        let mut is_logged = false;
        loop {
            let in_force = daemon.in_force.load_full();
            if !matches!(in_force.config.ticket_keys, TicketKeySource::Store) {
                break;
            }
            let Err(error) = daemon.take_stored_key(&in_force.engine).await else {
                if is_logged {
                    tracing::info!(target: "tidegate::store", "the store gives the key of tickets");
                }
                break;
            };
            if !core::mem::replace(&mut is_logged, true) {
                log_absent_key(&error);
            }
            tokio::time::sleep(RETRY_EVERY).await;
        }
    }
}

fn log_absent_key(error: &StoredKeyError) {
    tracing::warn!(
        target: "tidegate::store",
        error = error_chain(error),
        "the store does not give the key of deferral tickets; it is asked again every second. A daemon without a key sells \
         no tickets"
    );
}

/// An id that no other batch has, also none of another daemon.
fn random_request_id() -> RequestId {
    let half = || u128::from(getrandom::u64().expect("the operating system gives random numbers"));
    RequestId(half() << 64 | half())
}
