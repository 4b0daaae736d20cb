//! Why a store could not be opened, and why it could not write.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{DatabaseError, StorageError};

use crate::directory_user::DirectoryUser;

/// Why a [`RedbStore`](crate::RedbStore) could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory that the store's is to be made in is missing.
    #[error("{} cannot be made: {} is missing; create it, or name another directory", path.display(), parent.display())]
    NoParent {
        /// The directory of the store.
        path: PathBuf,
        /// The one that is missing.
        parent: PathBuf,
    },
    /// There is something else in its place.
    #[error("{} is not a directory; name a directory of which the store is the only user", path.display())]
    NotADirectory {
        /// The path that should be the directory.
        path: PathBuf,
    },
    /// The directory cannot be written to.
    #[error("{} cannot be written to; make it writable for this user, or name another directory", path.display())]
    NotWritable {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// There is no space left.
    #[error("there is no space left for {}; free some, or name a directory on another disk", path.display())]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// Another process, or another store of this one, has it open.
    #[error("{} is in use by {user}; stop that one, or give each a directory of its own", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it open, as far as is known.
        user: DirectoryUser,
    },
    /// It was written by a later version.
    #[error(
        "{} has format {found}, and this version knows {known}; run the version that wrote it or a later one, or \
         name another directory to count anew",
        path.display()
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format this version writes.
        known: u32,
    },
    /// It was written by an earlier version, from whose format no way leads here.
    #[error(
        "{} has format {found}, and this version knows {known} and no way from one to the other; open it once with a \
         version in between, or name another directory to count anew",
        path.display()
    )]
    Older {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format this version writes.
        known: u32,
    },
    /// The file is not a store, or is damaged beyond the effects of a crash.
    #[error(
        "{} is no store or is damaged ({what}); move it away to count anew, or bring back a copy of it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The defect that was found.
        what: String,
    },
    /// The system failed otherwise.
    #[error("{} cannot be opened; see what the system says", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    /// The error for an unreadable part of the file at `path`.
    pub(crate) fn damaged(path: &Path, failure: &Failure) -> Self {
        Self::Damaged { path: path.to_owned(), what: failure.to_string() }
    }

    /// The system's error about `path`, in the terms above.
    pub(crate) fn from_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NotWritable { path, source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path, source },
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Self::Damaged { path, what: source.to_string() }
            }
            _ => Self::Io { path, source },
        }
    }

    pub(crate) fn from_database(path: &Path, error: DatabaseError) -> Self {
        match error {
            DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
                Self::InUse { path: path.to_owned(), user: DirectoryUser::Unknown }
            }
            DatabaseError::Storage(StorageError::Io(source)) => Self::from_io(path, source),
            error => Self::Damaged { path: path.to_owned(), what: error.to_string() },
        }
    }
}

/// Why the disk was not written or read, as all who wait for it are told.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(pub(crate) Arc<str>);

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into().to_string().into())
    }
}

impl Failure {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }
}
