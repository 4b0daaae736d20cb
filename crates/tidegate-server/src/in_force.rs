//! A policy in force: its engine, and the settings by which requests are read and answered. A
//! reload replaces it as a whole.
//!
//! A request is read and answered under the policy that was in force when it arrived. A request
//! that waits is resumed by the engine in force then.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_core::limit::Mode;
use tidegate_engine::Engine;
use tidegate_net::file_backed::Refresh;

use crate::authorization::Authorization;
use crate::config::ServerConfig;
use crate::metrics::{Metrics, NamespaceTable};
use crate::records::refusal_log::RefusalLog;

/// A policy in force.
pub(crate) struct InForce {
    pub(crate) engine: Arc<Engine>,
    /// Only the settings that a reload may change; listeners and bounds are those of the start.
    pub(crate) config: ServerConfig,
    pub(crate) metrics: NamespaceTable,
    pub(crate) refusal_log: RefusalLog,
    /// The names of the shadow limits of each namespace that has some.
    shadow_limits: HashMap<Box<str>, Vec<Box<str>>>,
    pub(crate) version: PolicyVersion,
}

/// Which policy is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyVersion {
    /// 1 for the policy of the start, one more for each that replaced it.
    pub(crate) number: u64,
    /// A number made of its text, so that two members can be seen to run the same; empty if there
    /// is no text.
    pub(crate) fingerprint: String,
    /// When it came into force.
    pub(crate) since: Timestamp,
}

impl InForce {
    /// The secrets and keys that are taken up when they change.
    pub(crate) fn files(&self) -> Vec<Arc<dyn Refresh>> {
        let tokens = self.config.authorization.as_ref().and_then(Authorization::watched);
        let ticket_keys = self.config.ticket_keys.watched(&self.engine);
        tokens.into_iter().chain(ticket_keys).collect()
    }

    pub(crate) fn new(
        engine: Arc<Engine>,
        config: ServerConfig,
        metrics: &Metrics,
        version: PolicyVersion,
    ) -> Self {
        engine.set_remote_config(config.remote);
        Self {
            metrics: metrics.limits.of_engine(&engine),
            refusal_log: RefusalLog::new(config.refusal_lines),
            shadow_limits: shadow_limits(&engine),
            engine,
            config,
            version,
        }
    }

    /// The names of the shadow limits of a namespace.
    pub(crate) fn shadow_limits(&self, namespace: &str) -> &[Box<str>] {
        self.shadow_limits.get(namespace).map_or(&[], |names| names)
    }
}

fn shadow_limits(engine: &Engine) -> HashMap<Box<str>, Vec<Box<str>>> {
    let mut all = HashMap::new();
    for namespace in engine.namespaces() {
        let limits = engine.limits(namespace).into_iter().flatten();
        let shadow: Vec<Box<str>> = limits
            .filter(|limit| limit.mode == Mode::Shadow)
            .map(|limit| limit.name.as_str().into())
            .collect();
        if !shadow.is_empty() {
            all.insert(namespace.into(), shadow);
        }
    }
    all
}
