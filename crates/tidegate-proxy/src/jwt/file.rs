//! Keys in a file, which change when the issuer begins to sign with others.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_net::file_backed::{FileBacked, Refresh, Source};

use super::algorithm::KeyError;
use super::keys::KeySet;

/// How the keys are written in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    /// A secret that the issuer shares: [`KeySet::from_secret`].
    Secret,
    /// Public keys: [`KeySet::from_pem`].
    Pem,
    /// A JSON Web Key Set: [`KeySet::from_jwks`].
    Jwks,
}

/// The keys in a file of at most 1 MiB. A daemon takes them up again within seconds when the file
/// holds others; a file that cannot be used leaves the keys there were.
#[derive(Clone)]
pub struct KeyFile(Arc<FileBacked<KeySource>>);

/// Why a file gives no keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It cannot be read.
    #[error("the keys of proxy.jwt cannot be read from {}", path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// It holds none, or none that can be used.
    #[error("the keys of proxy.jwt in {} cannot be used", path.display())]
    Unusable {
        /// Where it is.
        path: PathBuf,
        /// The problem.
        #[source]
        source: KeyError,
    },
}

#[derive(Debug)]
struct KeySource {
    path: PathBuf,
    format: KeyFormat,
}

impl KeyFile {
    /// Reads the file.
    pub fn open(path: impl Into<PathBuf>, format: KeyFormat) -> Result<Self, KeyFileError> {
        FileBacked::open(KeySource { path: path.into(), format }).map(|file| Self(Arc::new(file)))
    }

    pub(super) fn keys(&self) -> Arc<KeySet> {
        self.0.get()
    }

    pub(super) fn files(&self) -> Arc<dyn Refresh> {
        Arc::clone(&self.0) as Arc<dyn Refresh>
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyFile").field(self.0.source()).finish()
    }
}

impl Source for KeySource {
    type Made = Arc<KeySet>;
    type Error = KeyFileError;

    const WHAT: &'static str = "keys for tokens";

    fn paths(&self) -> Vec<&Path> {
        vec![&self.path]
    }

    fn unreadable(path: &Path, source: io::Error) -> KeyFileError {
        KeyFileError::Unreadable { path: path.to_owned(), source }
    }

    fn make(&self, texts: &[Vec<u8>]) -> Result<Arc<KeySet>, KeyFileError> {
        let text = &texts[0];
        let keys = match self.format {
            KeyFormat::Secret => KeySet::from_secret(text),
            KeyFormat::Pem => KeySet::from_pem(core::str::from_utf8(text).unwrap_or_default()),
            KeyFormat::Jwks => KeySet::from_jwks(text),
        };
        keys.map(Arc::new).map_err(|source| KeyFileError::Unusable { path: self.path.clone(), source })
    }
}
