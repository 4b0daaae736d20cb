//! The configuration of the proxy from a checked policy, or from the address of one upstream.

use std::path::PathBuf;

use http::{HeaderName, HeaderValue, Method};
use tidegate_policy::policy::proxy as policy;

use super::attributes::{AttributeSource, AttributesError, NotASource, RequestAttributes};
use super::class::ClassSource;
use super::client_address::{ClientAddress, ClientHeader, NotANetwork, TooManyTrusted};
use super::config::{
    NotAServer, Probe, ProxyConfig, RefusalPage, Retries, RouteConfig, ServerUrl, UpstreamConfig,
};
use super::deadline::{Deadline, Unreadable};
use super::jwt::{KeyFile, KeyFileError, KeyFormat, TokenReader, Trust};
use super::path::{NotAPattern, PathPattern, PathRules, Unusual};
use super::upstream::{Identity, UpstreamTls, UpstreamTlsFiles};
use crate::tls::TlsError;

/// An error in the settings or the files of a proxy. Most errors are found when the policy is
/// checked, with their lines; those in files are found here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The address of a server is invalid.
    #[error(transparent)]
    Server(#[from] NotAServer),
    /// A trusted network is invalid.
    #[error(transparent)]
    Network(#[from] NotANetwork),
    /// Too many of them.
    #[error(transparent)]
    Trusted(#[from] TooManyTrusted),
    /// A pattern of paths is invalid.
    #[error(transparent)]
    Pattern(#[from] NotAPattern),
    /// The source of an attribute is invalid.
    #[error(transparent)]
    Source(#[from] NotASource),
    /// Attributes cannot be so.
    #[error(transparent)]
    Attributes(#[from] AttributesError),
    /// Something is no header, or no value of one.
    #[error("\"{0}\" cannot stand in a header; use letters, digits and hyphens")]
    Header(String),
    /// A method is invalid.
    #[error("\"{0}\" is not a method; write it in capitals, for example GET")]
    Method(String),
    /// The file with keys gives none.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// TLS to an upstream cannot be had.
    #[error("TLS to upstream {upstream} cannot be set up: {source}")]
    Tls {
        /// The name of the upstream.
        upstream: String,
        /// The problem.
        #[source]
        source: Box<TlsError>,
    },
}

impl ProxyConfig {
    /// Every request goes to the one server at `url` if the limits of `namespace` admit it.
    /// Attributes are `method`, `path`, `host` and `ip`.
    ///
    /// Connections to an https address use TLS with the machine's roots.
    pub fn to_upstream(url: &str, namespace: impl Into<String>) -> Result<Self, ProxyError> {
        let mut upstream = UpstreamConfig::new("upstream", [url.parse::<ServerUrl>()?]);
        if upstream.servers[0].is_https() {
            let failed = |source| ProxyError::Tls { upstream: url.to_owned(), source: Box::new(source) };
            upstream.tls = Some(UpstreamTls::open(UpstreamTlsFiles::default()).map_err(failed)?);
        }
        let mut route = RouteConfig::new("upstream", "upstream");
        route.namespace = Some(namespace.into());
        let own = [("method", "method"), ("path", "path"), ("host", "host"), ("ip", "client_ip")];
        let own = own.map(|(name, source)| (name.to_owned(), AttributeSource::parse(source)));
        let own = own.map(|(name, source)| (name, source.expect("these are sources of attributes")));
        route.attributes = RequestAttributes::new(own).expect("four attributes with names of their own");
        Ok(Self { upstreams: vec![upstream], routes: vec![route], ..Self::default() })
    }
}

/// The proxy of a policy. Reads the files with keys and certificates that it names.
pub(crate) fn proxy_config(
    policy: &policy::Proxy,
    attribute_bytes: usize,
) -> Result<ProxyConfig, ProxyError> {
    let mut config = ProxyConfig {
        waiting: policy.waiting,
        access_log: policy.access_log,
        tokens: policy.jwt.as_ref().map(tokens).transpose()?,
        keep_headers: policy.keep_headers.iter().map(parse_header).collect::<Result<_, _>>()?,
        ..ProxyConfig::default()
    };
    if policy.normalise {
        config.paths = PathRules { unusual: Unusual::Normalise, ..PathRules::default() };
    }
    let header = if policy.forwarded { ClientHeader::Forwarded } else { ClientHeader::XForwardedFor };
    let trusted = policy.trusted.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>()?;
    config.client_address = ClientAddress::new(trusted, header)?.trusting_unix(policy.trusts_unix);
    config.upstreams = policy.upstreams.iter().map(upstream).collect::<Result<_, _>>()?;
    config.routes = policy.routes.iter().map(|one| route(one, attribute_bytes)).collect::<Result<_, _>>()?;
    Ok(config)
}

fn upstream(policy: &policy::Upstream) -> Result<UpstreamConfig, ProxyError> {
    let servers = policy.servers.iter().map(|url| url.parse::<ServerUrl>());
    let mut config = UpstreamConfig::new(policy.name.clone(), servers.collect::<Result<Vec<_>, _>>()?);
    if config.servers.iter().any(ServerUrl::is_https) {
        let files = policy.tls.as_ref().map(tls_files).unwrap_or_default();
        let failed = |source| ProxyError::Tls { upstream: policy.name.clone(), source: Box::new(source) };
        config.tls = Some(UpstreamTls::open(files).map_err(failed)?);
    }
    config.http2 = policy.http2;
    config.connect_timeout = policy.connect_timeout;
    config.idle_connections = policy.idle_connections;
    config.failures = policy.failures;
    config.out_for = policy.out_for;
    config.probe = policy.health.as_ref().map(|health| Probe {
        path: health.path.clone(),
        interval: health.interval,
        timeout: health.timeout,
    });
    Ok(config)
}

fn tls_files(policy: &policy::UpstreamTls) -> UpstreamTlsFiles {
    let identity = |(cert, key): &(String, String)| Identity { cert: cert.into(), key: key.into() };
    UpstreamTlsFiles {
        ca: policy.ca.as_ref().map(PathBuf::from),
        identity: policy.identity.as_ref().map(identity),
        server_name: policy.server_name.clone(),
    }
}

fn tokens(policy: &policy::Jwt) -> Result<TokenReader, ProxyError> {
    let trust = match &policy.trust {
        policy::Trust::SecretFile(path) => Trust::File(KeyFile::open(path, KeyFormat::Secret)?),
        policy::Trust::KeysFile(path) => Trust::File(KeyFile::open(path, KeyFormat::Pem)?),
        policy::Trust::JwksFile(path) => Trust::File(KeyFile::open(path, KeyFormat::Jwks)?),
        policy::Trust::Unverified => Trust::Unverified,
    };
    let reader = TokenReader::new(trust).leeway(policy.leeway).audiences(policy.audiences.iter().cloned());
    Ok(match &policy.issuer {
        Some(issuer) => reader.issuer(issuer.clone()),
        None => reader,
    })
}

fn route(policy: &policy::Route, attribute_bytes: usize) -> Result<RouteConfig, ProxyError> {
    let mut config = RouteConfig::new(policy.name.clone(), policy.upstream.clone());
    config.path = policy.path.as_deref().map(PathPattern::parse).transpose()?;
    config.host.clone_from(&policy.host);
    let method =
        |name: &String| Method::from_bytes(name.as_bytes()).map_err(|_| ProxyError::Method(name.clone()));
    config.methods = policy.methods.iter().map(method).collect::<Result<_, _>>()?;
    config.namespace.clone_from(&policy.namespace);
    let source = |(name, source): &(String, String)| Ok((name.clone(), AttributeSource::parse(source)?));
    let sources = policy.attributes.iter().map(source).collect::<Result<Vec<_>, NotASource>>()?;
    config.attributes = RequestAttributes::new(sources)?.with_value_bytes_max(attribute_bytes);
    if let Some(tenant) = &policy.tenant {
        config.attributes = config.attributes.with_tenant(tenant.clone())?;
    }
    config.class = ClassSource { header: header(policy.class_header.as_ref())?, default: policy.class };
    config.deadline = Deadline::new(header(policy.deadline_header.as_ref())?, Unreadable::default());
    config.cost.units = policy.cost;
    config.cost.body_bytes = policy.cost_body_bytes;
    config.cost.from_response = header(policy.cost_header.as_ref())?;
    config.wait = policy.wait;
    config.timeouts.first_byte = policy.first_byte;
    config.timeouts.idle = policy.idle;
    config.timeouts.total = policy.total;
    config.retries = match policy.retry {
        policy::Retry::Off => Retries::Off,
        policy::Retry::Connect => Retries::Connect,
        policy::Retry::Idempotent => Retries::Idempotent,
    };
    config.upgrades.clone_from(&policy.upgrades);
    if let Some((media, body)) = &policy.refusal {
        let content_type = HeaderValue::from_str(media).map_err(|_| ProxyError::Header(media.clone()))?;
        config.refusal_page = Some(RefusalPage { content_type, body: body.clone().into() });
    }
    Ok(config)
}

fn header(name: Option<&String>) -> Result<Option<HeaderName>, ProxyError> {
    name.map(parse_header).transpose()
}

fn parse_header(name: &String) -> Result<HeaderName, ProxyError> {
    HeaderName::try_from(name).map_err(|_| ProxyError::Header(name.clone()))
}
