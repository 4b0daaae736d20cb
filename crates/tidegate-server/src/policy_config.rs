//! The configuration of a daemon, as a policy has it.

use tidegate_engine::NamespaceConfig;
use tidegate_engine::RemoteConfig;
use tidegate_net::Bounds;
use tidegate_policy::Policy;
use tidegate_policy::policy;
use tidegate_proxy::{ProxyConfig, ProxyError};

use crate::authorization::{Authorization, AuthorizationError};
use crate::claims::ClaimSettings;
use crate::config::{OlderHeaders, ServerConfig, Statuses};
use crate::envoy::envoy_files::{EnvoyFiles, EnvoyFilesError};
use crate::planes::PlaneSettings;
use crate::ticket_key_source::{TicketKeyFileError, TicketKeySource};

/// Why a policy makes no configuration of a daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The files of envoyproxy/ratelimit that it names cannot be used.
    #[error(transparent)]
    EnvoyFiles(#[from] EnvoyFilesError),
    /// Its tokens cannot be had.
    #[error(transparent)]
    Authorization(#[from] AuthorizationError),
    /// Its reverse proxy cannot be had.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// Its keys of tickets cannot be had.
    #[error(transparent)]
    TicketKeys(#[from] TicketKeyFileError),
}

/// The limits of a policy as an engine takes them.
pub(crate) fn namespaces(policy: &Policy) -> Vec<NamespaceConfig> {
    policy.namespace_configs().collect()
}

/// The statuses of limits that have one of their own.
pub(crate) fn statuses(policy: &Policy) -> Statuses {
    let mut statuses = Statuses::default();
    for namespace in &policy.namespaces {
        for (limit, status) in &namespace.statuses {
            statuses.set(&namespace.name, limit, *status);
        }
    }
    statuses
}

/// How a daemon with this policy listens and answers.
pub fn server_config(policy: &Policy) -> Result<ServerConfig, ConfigError> {
    Ok(ServerConfig {
        listeners: policy.listen.clone(),
        envoy_ratelimit: policy.envoy_ratelimit.as_ref().map(EnvoyFiles::open).transpose()?,
        proxying: ProxyConfig::open(policy.proxy.clone())?
            .with_value_bytes_max(policy.http.bounds.attribute_bytes),
        keeps_proxying: false,
        authorization: authorization(policy)?,
        bounds: bounds(&policy.http.bounds),
        authorize_headers: policy.authorize.headers.iter().cloned().collect(),
        authorize_namespace: policy.authorize.namespace.clone(),
        statuses: statuses(policy),
        planes: PlaneSettings::from_policy(policy),
        ticket_keys: TicketKeySource::from_policy(policy)?,
        claims: ClaimSettings::from_policy(policy),
        refusal_lines: policy.log.refusals,
        metering: policy.metering,
        remote: RemoteConfig::new(policy.rlqs.ttl, policy.rlqs.buckets).holders(policy.rlqs.holders),
        older_headers: OlderHeaders {
            ratelimit: policy.http.rate_limit_headers,
            x_ratelimit: policy.http.x_rate_limit_headers,
        },
    })
}

fn authorization(policy: &Policy) -> Result<Option<Authorization>, AuthorizationError> {
    let is_asked = !policy.authorization.is_empty();
    is_asked.then(|| Authorization::new(&policy.authorization)).transpose()
}

fn bounds(bounds: &policy::Bounds) -> Bounds {
    let mut all = Bounds::default();
    all.body_bytes = bounds.body_bytes;
    all.headers = bounds.headers;
    all.header_bytes = bounds.header_bytes;
    all.attributes = bounds.attributes;
    all.attribute_bytes = bounds.attribute_bytes;
    all.connections = bounds.connections;
    all.header_timeout = bounds.request_timeout;
    all.body_timeout = bounds.request_timeout;
    all.drain = bounds.drain_timeout;
    all
}
