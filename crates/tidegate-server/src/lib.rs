//! Internal, no promise: the Tidegate daemon as a library. It has HTTP listeners before an engine,
//! with metrics, health and a drain that loses nothing.
//!
//! A listener reads a message, asks the engine, and answers; it holds no limit logic of its own.
//! [`Server::start`] opens the listeners, and tests start the very same server on port 0 with a
//! [`ManualClock`].
//!
//! ```no_run
//! use std::sync::Arc;
//! use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};
//! use tidegate_server::{Clock, Server, ServerConfig, SystemClock, random_seed};
//! use tidegate_store::{MemoryConfig, MemoryStore};
//!
//! # async fn serve(limits: Vec<tidegate_core::Limit>) -> Result<(), Box<dyn std::error::Error>> {
//! let api = NamespaceConfig::new("api", limits);
//! let engine = Engine::builder(EngineConfig::seeded(random_seed())).namespace(api).build()?;
//! let config = ServerConfig::listening_on(["127.0.0.1:8080".parse()?]);
//! let clock = Arc::new(SystemClock::new());
//! let time = Arc::clone(&clock);
//! let store = MemoryStore::new(MemoryConfig::new(random_seed()), move || time.now());
//! let handle = Server::start(config, Arc::new(engine), Arc::new(store), clock).await?;
//! println!("{:?}", handle.http());
//! handle.shutdown().await;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod acceptor;
mod access_explanation;
mod admin;
mod audit;
mod authorization;
mod authorize;
mod blocks;
mod body;
mod browser_guard;
mod carried_keys;
mod changes;
mod claims;
mod config;
mod connection_service;
mod context;
mod daemon;
mod decide;
mod decision_log;
mod decision_point;
mod decisions;
mod described_request;
mod engine_fault;
mod envoy_files;
mod explain;
mod file_domains;
mod followed_files;
pub mod from_policy;
mod grpc;
mod histogram;
mod http_api;
mod http_metrics;
mod http_protocol;
mod in_force;
mod limit_descriptions;
mod listener;
mod listener_service;
mod log_interval;
mod members;
mod membership;
pub mod metrics;
mod no_store;
#[cfg(test)]
mod openapi;
mod operations;
mod override_history;
pub mod overrides;
mod panics;
mod parameters;
mod permits;
mod planes;
mod policy_config;
pub mod policy_file;
mod policy_follower;
mod process_metrics;
mod protocol;
mod protocol_hooks;
mod quota_store;
mod readiness;
mod redis_store;
mod refusal_log;
mod refused_keys;
mod reload_status;
mod request_connection;
mod resources;
mod resp;
mod route;
mod routes;
mod server;
mod shared_store;
mod store_failure_log;
mod store_hooks;
mod stored_overrides;
mod tables;
mod terms;
#[cfg(test)]
mod written_log;

pub use authorization::{Authorization, AuthorizationError, new_token};
#[doc(hidden)]
pub use authorize::{AuthorizeQuery, read_authorize_query};
pub use changes::ReloadError;
pub use claims::ClaimSettings;
pub use config::{AuthorizeHeaders, NotAHeader, OlderHeaders, ServerConfig, Statuses};
pub use envoy_files::{EnvoyFiles, EnvoyFilesError, EnvoySource};
pub use explain::explain_fresh;
pub use limit_descriptions::{NamespaceAnswer, describe_policy};
pub use listener::ListenError;
pub use no_store::NoStore;
#[doc(hidden)]
pub use panics::PlantedPanic;
pub use panics::log_panics;
pub use planes::PlaneSettings;
pub use quota_store::UnusableStore;
pub use redis_store::SharedStoreError;
pub use refused_keys::KEYS_MAX as REFUSED_KEYS_MAX;
pub use routes::openapi_document;
pub use server::{Drained, Handle, Server};
pub use tidegate_clock::{Clock, ClockWait, Drift, ManualClock, SystemClock};
pub use tidegate_core::random_seed;
pub use tidegate_net::{Bounds, tls};
pub use tidegate_policy::policy::{Address, ListenerPolicy, ListenerRole, NotAnAddress};
pub use tidegate_proxy::ProxyConfig;
