//! TLS to a server: the roots that are trusted and the certificate that is presented.
//!
//! TLS 1.2 and 1.3. The server's certificate is always verified.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use rustls::{ClientConfig, RootCertStore};

use super::pem::{TlsError, certificates, private_key};

/// A PEM file that was read.
#[derive(Clone, Debug)]
pub struct PemFile<'a> {
    path: &'a Path,
    text: Cow<'a, [u8]>,
}

impl<'a> PemFile<'a> {
    /// Reads a file.
    pub fn read(path: &'a Path) -> Result<Self, TlsError> {
        let failed = |source: io::Error| TlsError::Unreadable { path: path.to_owned(), source };
        Ok(Self { path, text: fs::read(path).map_err(failed)?.into() })
    }

    /// A file that was read already.
    pub fn new(path: &'a Path, text: &'a [u8]) -> Self {
        Self { path, text: text.into() }
    }
}

/// The certificate that a client presents, and its private key.
#[derive(Clone, Debug)]
pub struct ClientCertificate<'a> {
    /// The certificate, followed by those that lead to a root.
    pub cert: PemFile<'a>,
    /// The private key.
    pub key: PemFile<'a>,
}

/// A client that trusts the certificates in `ca`, or without one the machine's roots, and presents
/// `certificate` to servers that ask for one. Without ALPN; set `alpn_protocols` for it.
pub fn client_config(
    ca: Option<&PemFile<'_>>,
    certificate: Option<&ClientCertificate<'_>>,
) -> Result<ClientConfig, TlsError> {
    let roots = ca.map_or_else(machine_roots, roots_in)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports its own versions")
        .with_root_certificates(roots);
    let Some(ClientCertificate { cert, key }) = certificate else { return Ok(builder.with_no_client_auth()) };
    let (chain, secret) = (certificates(cert.path, &cert.text)?, private_key(key.path, &key.text)?);
    builder.with_client_auth_cert(chain, secret).map_err(|source| TlsError::Unusable {
        cert: cert.path.to_owned(),
        key: key.path.to_owned(),
        source,
    })
}

fn roots_in(file: &PemFile<'_>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file.path, &file.text)? {
        roots.add(certificate).map_err(|source| TlsError::Roots { path: file.path.to_owned(), source })?;
    }
    Ok(roots)
}

/// The machine's roots. Single certificates that cannot be parsed are ignored, as other programs on
/// the machine ignore them.
fn machine_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TlsError::NoRoots) } else { Ok(roots) }
}
