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

mod admin;
mod admitted_charges;
mod api;
mod authorization;
mod claims;
mod config;
mod context;
mod daemon;
mod decide;
mod decision_point;
mod engine_fault;
mod envoy;
mod fleet;
pub mod from_policy;
mod grpc;
mod in_force;
mod listener;
pub mod metrics;
mod no_store;
mod panics;
mod planes;
mod policy_config;
mod protocol;
mod protocol_hooks;
mod quota_store;
mod records;
mod reload;
mod resp;
mod server;
mod service_manager;
mod service_report;
mod ticket_key_source;
mod ticket_key_task;
mod ticket_signer;

pub use admin::explain::explain_fresh;
pub use admin::limit_descriptions::{
    DomainAnswer, LimitDescription, NamespaceAnswer, TableDescription, describe_policy,
};
pub use admin::overrides;
#[doc(hidden)]
pub use api::authorize::{AuthorizeQuery, read_authorize_query};
pub use api::routes::openapi_document;
pub use authorization::{Authorization, AuthorizationError, new_token};
pub use claims::ClaimSettings;
pub use config::{AuthorizeHeaders, NotAHeader, OlderHeaders, ServerConfig, Statuses};
pub use envoy::envoy_files::{EnvoyFiles, EnvoyFilesError, EnvoySource};
pub use fleet::redis_store::SharedStoreError;
#[doc(hidden)]
pub use fleet::redis_store::{PROTOCOL, VALUE_LAYOUTS};
pub use listener::ListenError;
pub use no_store::NoStore;
#[doc(hidden)]
pub use panics::PlantedPanic;
pub use panics::log_panics;
pub use planes::PlaneSettings;
pub use quota_store::UnusableStore;
pub use records::refused_keys::KEYS_MAX as REFUSED_KEYS_MAX;
pub use reload::changes::ReloadError;
pub use reload::policy_file;
pub use server::{Drained, Handle, Server};
pub use service_manager::ServiceManager;
pub use ticket_key_source::{TicketKeyFile, TicketKeyFileError, TicketKeySource};
pub use tidegate_clock::{Clock, ClockWait, Drift, ManualClock, SystemClock};
pub use tidegate_core::random_seed;
pub use tidegate_net::{Bounds, tls};
pub use tidegate_policy::policy::{Address, ListenerPolicy, ListenerRole, NotAnAddress};
pub use tidegate_proxy::ProxyConfig;
#[doc(hidden)]
pub use tidegate_store::RECORD_LAYOUTS;
#[doc(hidden)]
pub use tidegate_store_redb::{FORMAT, FORMAT_OLDEST};
