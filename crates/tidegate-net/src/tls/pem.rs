//! Certificates and private keys in PEM, and the errors of files with them.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An error while TLS is set up or reloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{} cannot be read; see whether it is there and readable for this user", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file lacks its certificate or key.
    #[error("{} holds no {what} in PEM; name a file that does", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The missing kind of content.
        what: &'static str,
        /// The error of the PEM parser.
        #[source]
        source: Option<pem::Error>,
    },
    /// The parts do not go together, or are malformed.
    #[error("{} and {} cannot be used as certificate and key", cert.display(), key.display())]
    Unusable {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The problem.
        #[source]
        source: rustls::Error,
    },
    /// Roots cannot be used.
    #[error("{} cannot be used to check servers", path.display())]
    Roots {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        source: rustls::Error,
    },
    /// The machine has no root certificates.
    #[error("this machine has no root certificates; install its ca-certificates, or name a file as `ca`")]
    NoRoots,
    /// A name that no server has.
    #[error("\"{0}\" is not the name of a server; write a host name or an address")]
    ServerName(String),
    /// The certificates for clients cannot be used.
    #[error("{} cannot be used to check clients: {why}", path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
}

/// The private key in a file.
pub(super) fn private_key(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|source| TlsError::Missing {
        path: path.to_owned(),
        what: "private key",
        source: Some(source),
    })
}

/// The certificates in a file, at least one.
pub(super) fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let missing = |source| TlsError::Missing { path: path.to_owned(), what: "certificate", source };
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let all = all.map_err(|error| missing(Some(error)))?;
    if all.is_empty() { Err(missing(None)) } else { Ok(all) }
}
