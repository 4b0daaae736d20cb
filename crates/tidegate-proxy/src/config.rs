//! The reverse proxy of a policy, with the files that it names opened.

use std::sync::Arc;

use tidegate_net::tls::TlsError;
use tidegate_policy::grammar::{GrammarError, ServerUrl};
use tidegate_policy::policy::proxy::{self as policy, ClientHeader, Proxy};
use tidegate_wire::client_address::ClientAddress;

use crate::attributes::VALUE_BYTES_MAX;
use crate::jwt::{KeyFile, KeyFileError, KeyFormat, TokenReader, Trust};
use crate::upstream::UpstreamTlsConfig;

/// A reverse proxy as it is configured. A reload replaces all of it; its listener stays.
///
/// The default has no upstream and no route, so that every request is answered 404.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    pub(crate) settings: Arc<Proxy>,
    /// TLS to the servers of each upstream, in the order of the upstreams; none where no server has
    /// https.
    pub(crate) tls: Vec<Option<UpstreamTlsConfig>>,
    /// How tokens are checked that claims are taken from. Without it claims are absent.
    pub(crate) tokens: Option<TokenReader>,
    pub(crate) client_address: ClientAddress,
    /// The longest value that is read from a request, in bytes.
    pub(crate) value_bytes_max: usize,
}

/// An error in the files of a proxy. Errors in its settings are found when the policy is checked,
/// with their lines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The address of a server is invalid.
    #[error(transparent)]
    Server(#[from] GrammarError),
    /// The file with keys gives none.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// TLS to an upstream cannot be had.
    #[error("TLS to upstream {upstream} cannot be set up")]
    Tls {
        /// The name of the upstream.
        upstream: String,
        /// The problem.
        #[source]
        source: Box<TlsError>,
    },
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            settings: Arc::default(),
            tls: Vec::new(),
            tokens: None,
            client_address: ClientAddress::default(),
            value_bytes_max: VALUE_BYTES_MAX,
        }
    }
}

impl ProxyConfig {
    /// The proxy with these settings, whose values of requests have at most [`VALUE_BYTES_MAX`]
    /// bytes. Reads the files with keys and certificates that the settings name.
    pub fn open(settings: Proxy) -> Result<Self, ProxyError> {
        Ok(Self {
            tls: settings.upstreams.iter().map(open_tls).collect::<Result<_, _>>()?,
            tokens: settings.jwt.as_ref().map(open_keys).transpose()?,
            client_address: client_address(&settings),
            value_bytes_max: VALUE_BYTES_MAX,
            settings: Arc::new(settings),
        })
    }

    /// The same proxy with another bound of the values of requests in bytes. Zero lets only empty
    /// values through.
    #[must_use]
    pub fn with_value_bytes_max(mut self, bytes: usize) -> Self {
        self.value_bytes_max = bytes;
        self
    }

    /// Every request goes to the one server at `url` if the limits of `namespace` admit it; see
    /// [`Proxy::to_upstream`].
    pub fn to_upstream(url: &str, namespace: impl Into<String>) -> Result<Self, ProxyError> {
        Self::open(Proxy::to_upstream(url, namespace)?)
    }

    /// The settings.
    pub fn settings(&self) -> &Proxy {
        &self.settings
    }
}

fn client_address(settings: &Proxy) -> ClientAddress {
    let behind = ClientAddress::new(settings.trusted.iter().copied()).trusting_unix(settings.trusts_unix);
    match settings.client_header {
        ClientHeader::XForwardedFor => behind,
        ClientHeader::Forwarded => behind.by_forwarded(),
    }
}

fn open_tls(upstream: &policy::Upstream) -> Result<Option<UpstreamTlsConfig>, ProxyError> {
    if !upstream.servers.iter().any(ServerUrl::is_https) {
        return Ok(None);
    }
    let files = upstream.tls.clone().unwrap_or_default();
    let failed = |source| ProxyError::Tls { upstream: upstream.name.clone(), source: Box::new(source) };
    UpstreamTlsConfig::open(files).map(Some).map_err(failed)
}

fn open_keys(jwt: &policy::Jwt) -> Result<TokenReader, KeyFileError> {
    let trust = match &jwt.trust {
        policy::Trust::SecretFile(path) => Trust::File(KeyFile::open(path, KeyFormat::Secret)?),
        policy::Trust::KeysFile(path) => Trust::File(KeyFile::open(path, KeyFormat::Pem)?),
        policy::Trust::JwksFile(path) => Trust::File(KeyFile::open(path, KeyFormat::Jwks)?),
        policy::Trust::Unverified => Trust::Unverified,
    };
    let reader = TokenReader::new(trust).leeway(jwt.leeway).audiences(jwt.audiences.iter().cloned());
    Ok(match &jwt.issuer {
        Some(issuer) => reader.issuer(issuer.clone()),
        None => reader,
    })
}
