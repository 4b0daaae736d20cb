//! What all doors of a daemon share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tidegate_engine::Engine;
use tidegate_store::DynStore;

use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::connections::Connections;
use crate::metrics::Metrics;
use crate::refusal_log::RefusalLog;
use crate::refused_keys::RefusedKeys;

/// The engine with everything around it that makes it a service.
pub(crate) struct Daemon {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<dyn DynStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: ServerConfig,
    pub(crate) metrics: Metrics,
    pub(crate) refused_keys: RefusedKeys,
    pub(crate) refusal_log: RefusalLog,
    pub(crate) connections: Arc<Connections>,
    /// The names of the shadow limits of each namespace that has some.
    pub(crate) shadow_limits: HashMap<Box<str>, Vec<Box<str>>>,
    /// Whether new requests are welcome: not before all listeners are open, and not while draining.
    pub(crate) is_ready: AtomicBool,
}
