//! TLS to the servers of an upstream: trusted roots, the client certificate, and the name that a
//! server must prove.
//!
//! There is no way to leave out the checks: a server that cannot prove its name is not connected
//! to.

use core::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, ResolveServerName};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tidegate_policy::policy::proxy as policy;

use tidegate_net::file_backed::{FileBacked, Refresh, Source};
use tidegate_net::tls::{ClientCertificate, PemFile, TlsError, client_config};

/// TLS to the servers of an upstream. TLS 1.2 and 1.3.
///
/// A daemon takes its files up again within seconds when they hold something else, for the
/// connections it makes from then on; files that cannot be used leave what there was. Two are equal
/// if they are made of the same files.
#[derive(Clone)]
pub(crate) struct UpstreamTlsConfig {
    files: Arc<FileBacked<UpstreamTlsFiles>>,
    names: Arc<dyn ResolveServerName + Send + Sync>,
}

/// The TLS configurations of new connections. They differ in the protocol that ALPN offers, which
/// must be the one then spoken.
#[derive(Clone)]
pub(crate) struct ClientConfigs {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl UpstreamTlsConfig {
    /// Reads the files.
    pub(crate) fn open(files: policy::UpstreamTls) -> Result<Self, TlsError> {
        let names: Arc<dyn ResolveServerName + Send + Sync> = match &files.server_name {
            None => Arc::new(DefaultServerNameResolver::default()),
            Some(name) => {
                let parsed = ServerName::try_from(name.clone());
                let parsed = parsed.map_err(|_| TlsError::ServerName(name.clone()))?;
                Arc::new(FixedServerNameResolver::new(parsed))
            }
        };
        Ok(Self { files: Arc::new(FileBacked::open(UpstreamTlsFiles(files))?), names })
    }

    /// The configuration of a connection for HTTP/2 or HTTP/1.1.
    pub(super) fn config(&self, http2: bool) -> Arc<ClientConfig> {
        let configs = self.files.get();
        if http2 { configs.http2 } else { configs.http1 }
    }

    pub(super) fn names(&self) -> Arc<dyn ResolveServerName + Send + Sync> {
        Arc::clone(&self.names)
    }

    pub(crate) fn files(&self) -> Arc<dyn Refresh> {
        Arc::clone(&self.files) as Arc<dyn Refresh>
    }
}

impl PartialEq for UpstreamTlsConfig {
    fn eq(&self, other: &Self) -> bool {
        self.files.source() == other.files.source()
    }
}

impl Eq for UpstreamTlsConfig {}

impl fmt::Debug for UpstreamTlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UpstreamTlsConfig").field(self.files.source()).finish()
    }
}

/// The files that the settings of an upstream name.
#[derive(Debug, PartialEq, Eq)]
struct UpstreamTlsFiles(policy::UpstreamTls);

impl Source for UpstreamTlsFiles {
    type Made = ClientConfigs;
    type Error = TlsError;

    const WHAT: &'static str = "certificates to upstreams";

    fn paths(&self) -> Vec<&Path> {
        let identity = self.0.identity.iter().flat_map(|(cert, key)| [cert, key]);
        identity.chain(&self.0.ca).map(Path::new).collect()
    }

    fn unreadable(path: &Path, source: io::Error) -> TlsError {
        TlsError::Unreadable { path: path.to_owned(), source }
    }

    fn make(&self, texts: &[Vec<u8>]) -> Result<ClientConfigs, TlsError> {
        let ca = self.0.ca.as_deref().zip(texts.last());
        let ca = ca.map(|(path, text)| PemFile::new(Path::new(path), text));
        let certificate = self.0.identity.as_ref().map(|(cert, key)| ClientCertificate {
            cert: PemFile::new(Path::new(cert), &texts[0]),
            key: PemFile::new(Path::new(key), &texts[1]),
        });
        let mut http1 = client_config(ca.as_ref(), certificate.as_ref())?;
        let mut http2 = http1.clone();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        http2.alpn_protocols = vec![b"h2".to_vec()];
        Ok(ClientConfigs { http1: Arc::new(http1), http2: Arc::new(http2) })
    }
}
