//! Whether the daemon is ready for work, and why not.
//!
//! A daemon whose store is away is ready: it decides alone, as `on_store_failure` says, so that a
//! rolling restart during an outage of the store is no outage. It is not ready as long as it would
//! refuse everything of a limit that refuses without its store and has not reached the store once;
//! nor while the store is used by a newer lease protocol, since it would then decide alone for
//! good.

use std::sync::atomic::Ordering;

use tidegate_core::limit::{Consistency, Limit, OnStoreFailure};

use crate::context::DaemonContext;
use crate::in_force::InForce;

impl DaemonContext {
    /// Why the daemon should not be sent work, if it should not.
    pub(crate) fn unready(&self) -> Option<String> {
        if !self.is_ready.load(Ordering::Relaxed) {
            return Some("draining".to_owned());
        }
        let shared = self.shared.as_ref()?;
        if let Some(newer) = shared.store.newer_protocol() {
            return Some(newer);
        }
        if self.has_joined.load(Ordering::Relaxed) {
            return None;
        }
        let (namespace, limit) = refuses_without_store(&self.in_force.load())?;
        Some(format!(
            "waiting for the store: limit \"{namespace}/{limit}\" refuses without it (`on_store_failure: refuse`)"
        ))
    }

    /// Has the protocols announce whether the daemon is ready. The shutdown announces it itself.
    pub(crate) async fn tell_readiness(&self) {
        if !self.is_ready.load(Ordering::Relaxed) {
            return;
        }
        let is_ready = self.unready().is_none();
        for protocol in &self.protocols {
            protocol.announce(is_ready).await;
        }
    }
}

/// A limit that refuses while its store is away, with its namespace.
fn refuses_without_store(in_force: &InForce) -> Option<(String, String)> {
    let engine = &in_force.engine;
    let refuses = |limit: &&Limit| {
        limit.consistency != Consistency::Local && limit.on_store_failure == OnStoreFailure::Refuse
    };
    engine.namespaces().find_map(|namespace| {
        let limit = engine.limits(namespace).ok()?.find(refuses)?;
        Some((namespace.to_owned(), limit.name.clone()))
    })
}
