//! From a checked policy to a running daemon.

use std::sync::Arc;

use tidegate_engine::{Engine, EngineConfig, EngineError, NamespaceConfig};
use tidegate_policy::Policy;
use tidegate_policy::policy;
use tidegate_store::{MemoryConfig, MemoryStore};

use crate::address::Address;
use crate::bounds::Bounds;
use crate::clock::{Clock, SystemClock};
use crate::config::{AuthorizeHeaders, NotAHeader, OlderHeaders, ServerConfig, Statuses};
use crate::listener::ListenError;
use crate::server::{Handle, Server, random_seed};

/// Why a daemon could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The limits make no engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A listener could not be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Starts a daemon that decides by `policy` on the clock of the machine, listening and answering as `config` says, which
/// usually is [`server_config`] of the same policy.
pub async fn serve(policy: &Policy, config: ServerConfig) -> Result<Handle, StartError> {
    let engine = engine(policy, random_seed())?;
    let clock = Arc::new(SystemClock::new());
    let time = Arc::clone(&clock);
    let store = MemoryStore::new(MemoryConfig::new(random_seed()), move || time.now());
    Ok(Server::start(config, Arc::new(engine), Arc::new(store), clock).await?)
}

/// The engine of a policy. `seed` must be random: see [`crate::random_seed`].
pub fn engine(policy: &Policy, seed: [u64; 4]) -> Result<Engine, EngineError> {
    let mut config = EngineConfig::seeded(seed);
    config.table.bytes = policy.memory.keys_bytes;
    config.table.when_full = policy.memory.when_full;
    // One machine with its memory: every limit is decided here, exact ones too.
    config.asks_store = false;
    let namespaces = policy
        .namespaces
        .iter()
        .map(|namespace| NamespaceConfig { name: namespace.name.clone(), limits: namespace.limits.clone() });
    Engine::builder(config).namespaces(namespaces).build()
}

/// How a daemon with this policy listens and answers.
pub fn server_config(policy: &Policy) -> Result<ServerConfig, NotAHeader> {
    let mut statuses = Statuses::default();
    for namespace in &policy.namespaces {
        for (limit, status) in &namespace.statuses {
            statuses.set(&namespace.name, limit, *status);
        }
    }
    Ok(ServerConfig {
        http: vec![address(&policy.listen.http.address)],
        admin: policy.listen.admin.as_ref().map(|listener| address(&listener.address)),
        bounds: bounds(&policy.http.bounds),
        authorize_headers: AuthorizeHeaders::new(policy.authorize.headers.iter().cloned())?,
        authorize_namespace: policy.authorize.namespace.clone(),
        statuses,
        refusal_lines: policy.log.refusals,
        older_headers: OlderHeaders {
            ratelimit: policy.http.rate_limit_headers,
            x_ratelimit: policy.http.x_rate_limit_headers,
        },
    })
}

fn address(address: &policy::Address) -> Address {
    match address {
        policy::Address::Tcp(socket) => Address::Tcp(*socket),
        policy::Address::Unix(path) => Address::Unix(path.into()),
    }
}

fn bounds(bounds: &policy::Bounds) -> Bounds {
    Bounds {
        body_bytes: bounds.body_bytes,
        headers: bounds.headers,
        header_bytes: bounds.header_bytes,
        attributes: bounds.attributes,
        attribute_bytes: bounds.attribute_bytes,
        connections: bounds.connections,
        header_timeout: bounds.request_timeout,
        body_timeout: bounds.request_timeout,
        drain: bounds.drain_timeout,
        ..Bounds::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_becomes_an_engine_that_listens_on_loopback() {
        let policy = tidegate_policy::parse("example.yaml", Policy::example(), &|_| None).unwrap().policy;
        let engine = engine(&policy, [1, 2, 3, 4]).unwrap();
        assert!(engine.namespaces().len() > 0);
        let config = server_config(&policy).unwrap();
        assert!(config.http.iter().all(Address::is_local));
        assert_eq!(config.bounds.headers, Bounds::default().headers);
        assert_eq!(config.bounds.body_bytes, Bounds::default().body_bytes);
    }
}
