//! Where the keys of deferral tickets are: in a file, which is read again when it changes, or in
//! the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_engine::{Engine, TicketKeyError, TicketKeys};
use tidegate_net::file_backed::{FileBacked, Refresh, Source};
use tidegate_policy::Policy;

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

    pub(crate) fn keys(&self) -> TicketKeys {
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

/// Looks at a key file, and gives its keys to an engine.
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
