//! The keys and the name with which this daemon signs deferral tickets.
//!
//! With `key_file` the keys are those of the file, which is looked at as certificates are. Without
//! it the key is a note that the first daemon creates in its store and every other one reads, so
//! that restarts and members share it. In a store in memory, the key ends with the process.
//!
//! A shared store that is away delays nothing: until it gives the key no tickets are sold, and
//! requests are refused as without `defer`. A member that has the key writes it anew should the
//! store lose it.
//!
//! The instants of tickets are on the clock of the store where members share one.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{SHA256, digest};
use tidegate_core::error_chain;
use tidegate_engine::{Engine, NoteError, StoredTicketKey, TicketKeyError, TicketKeys};
use tidegate_net::file_backed::{FileBacked, Refresh, Source};
use tidegate_overload::{TicketClock, TicketIssuer};
use tidegate_policy::Policy;
use tidegate_store::{Batch, DynStore as _, NoteChange, NoteKind, RequestId, StoreError};
use tokio::sync::Notify;

use crate::context::DaemonContext;

/// How often the key is read from a shared store again, which may have lost it.
const REFRESH_EVERY: Duration = Duration::from_mins(5);

/// How soon a store that did not give the key is asked again.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Where the keys of tickets are.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum TicketKeySource {
    /// No resource defers requests, so there is no key.
    #[default]
    None,
    /// The store keeps the key.
    Store,
    /// A file has them, which is read again when it changes.
    File(TicketKeyFile),
}

impl TicketKeySource {
    /// The source that a policy names; reads the file if there is one.
    pub(crate) fn from_policy(policy: &Policy) -> Result<Self, TicketKeyFileError> {
        Ok(match policy.ticket_key_file() {
            Some(path) => Self::File(TicketKeyFile::open(Path::new(path))?),
            None if policy.deferrals().next().is_some() => Self::Store,
            None => Self::None,
        })
    }

    /// The file to be looked at, whose keys go to `engine`.
    pub(crate) fn watched(&self, engine: &Arc<Engine>) -> Option<Arc<dyn Refresh>> {
        let Self::File(file) = self else { return None };
        Some(Arc::new(TicketKeyRefresh { file: file.clone(), engine: Arc::clone(engine) }))
    }
}

/// A file with the keys of tickets, and its keys.
#[derive(Clone, Debug)]
pub struct TicketKeyFile(Arc<FileBacked<TicketKeyPath>>);

impl TicketKeyFile {
    /// Reads the keys in the file at `path`.
    pub fn open(path: &Path) -> Result<Self, TicketKeyFileError> {
        FileBacked::open(TicketKeyPath(path.to_owned())).map(|file| Self(Arc::new(file)))
    }

    fn keys(&self) -> TicketKeys {
        self.0.get()
    }
}

/// The path of a file with keys of tickets.
#[derive(Debug)]
struct TicketKeyPath(PathBuf);

impl Source for TicketKeyPath {
    type Made = TicketKeys;
    type Error = TicketKeyFileError;

    const WHAT: &'static str = "ticket keys";
    const BYTES_MAX: u64 = TicketKeys::FILE_BYTES_MAX as u64;

    fn paths(&self) -> Vec<&Path> {
        vec![&self.0]
    }

    fn unreadable(path: &Path, source: std::io::Error) -> TicketKeyFileError {
        TicketKeyFileError::Unreadable { path: path.to_owned(), source }
    }

    fn make(&self, texts: &[Vec<u8>]) -> Result<TicketKeys, TicketKeyFileError> {
        let text = texts.first().map(Vec::as_slice).unwrap_or_default();
        TicketKeys::parse(text).map_err(|source| TicketKeyFileError::Key { path: self.0.clone(), source })
    }
}

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TicketKeyFileError {
    /// It cannot be read.
    #[error(
        "the ticket key file {path} cannot be read; write one that this user may read with `openssl rand -base64 32`, or \
         remove `key_file`",
        path = path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// It has no keys, or wrong ones.
    #[error("the ticket key file {path} cannot be used", path = path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The error in it, with the fix.
        #[source]
        source: TicketKeyError,
    },
}

/// [`FileBacked::look`] at a key file, whose keys an engine takes over.
struct TicketKeyRefresh {
    file: TicketKeyFile,
    engine: Arc<Engine>,
}

impl Refresh for TicketKeyRefresh {
    fn look(&self) {
        self.file.0.look();
        // Keys that are in force already change nothing.
        self.engine.rotate_ticket_keys(self.file.keys());
    }
}

/// By how many nanoseconds the clock of a shared store is ahead of that of the member, as far as is
/// known.
pub(crate) struct StoreAhead(pub(crate) Box<dyn Fn() -> i64 + Send + Sync>);

tidegate_core::debug_fields!(StoreAhead {});

/// The part of a daemon that gives its engine keys and a name for tickets.
#[derive(Debug)]
pub(crate) struct TicketSigner {
    issuer: TicketIssuer,
    /// The clock of tickets where members share a store; `None`: that of the daemon.
    store_ahead: Option<StoreAhead>,
    /// The key that the store gave, once it did.
    stored: Mutex<Option<StoredTicketKey>>,
    /// The key of the store is to be read.
    wanted: Notify,
}

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

impl TicketSigner {
    /// A signer of the member called `member`, in a start that no other one has.
    pub(crate) fn new(member: &str, store_ahead: Option<StoreAhead>) -> Self {
        let hash = digest(&SHA256, member.as_bytes());
        let member = hash.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let start = getrandom::u64().expect("the operating system gives random numbers");
        let issuer = TicketIssuer { member, start };
        Self { issuer, store_ahead, stored: Mutex::default(), wanted: Notify::new() }
    }

    /// Gives an engine the name, before its first request.
    pub(crate) fn name(&self, engine: &Engine) {
        engine.set_ticket_issuer(self.issuer);
    }

    /// Gives an engine the clock of the store, whose offset changes in time.
    pub(crate) fn follow_clock(&self, engine: &Engine) {
        if let Some(StoreAhead(ahead)) = &self.store_ahead {
            engine.set_ticket_clock(TicketClock::ahead_by(ahead()));
        }
    }

    /// The key that the store gave, or a new one.
    fn stored_or_drawn(&self) -> StoredTicketKey {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stored.unwrap_or_else(|| {
            let mut bytes = [0; TicketKeys::KEY_BYTES_MIN];
            getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
            StoredTicketKey::new(bytes)
        })
    }
}

impl DaemonContext {
    /// Gives an engine that is about to decide the keys and the name for tickets. With a shared
    /// store, its key comes later.
    pub(crate) async fn sign_tickets(&self, engine: &Engine, source: &TicketKeySource) {
        self.ticket_signer.name(engine);
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

    /// The same for the engine of the start.
    pub(crate) async fn sign_first_tickets(&self) {
        let in_force = self.in_force.load_full();
        self.sign_tickets(&in_force.engine, &in_force.config.ticket_keys).await;
    }

    /// Takes over the key that the store keeps. The first daemon creates it.
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
}

impl DaemonContext {
    async fn read_stored_key(&self) -> Result<Option<StoredTicketKey>, StoredKeyError> {
        let notes = self.store.notes_boxed(NoteKind::TicketKey).await?;
        Ok(StoredTicketKey::from_notes(&notes)?)
    }

    /// Creates the key in a store that has none, unless another daemon is first: then the key is
    /// that of the other one.
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

/// Reads the key of tickets from the store whenever it is wanted, and from a shared one again at
/// intervals, until the daemon ends.
pub(crate) async fn keep_ticket_key(daemon: Arc<DaemonContext>) {
    loop {
        let wanted = daemon.ticket_signer.wanted.notified();
        // Elapsed or notified, the store is read.
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
