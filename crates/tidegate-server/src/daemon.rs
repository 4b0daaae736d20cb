//! The parts of a daemon that all doors share.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use tidegate_driver::Driver;
use tidegate_store::DynStore;
use tidegate_store_redb::RedbStore;

use crate::audit::Audit;
use crate::config::ServerConfig;
use crate::connections::Connections;
use crate::decisions::Decisions;
use crate::followed_files::FollowedFiles;
use crate::grpc::Services;
use crate::in_force::InForce;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::override_history::History;
use crate::proxy::ProxyState;
use crate::refused_keys::RefusedKeys;
use crate::reload_status::Changes;
use crate::resp::RespState;
use crate::shared_store::SharedStore;
use tidegate_clock::Clock;

/// How long the last lines of the decision log may take at the end.
const DECISIONS_CLOSE_MAX: Duration = Duration::from_secs(5);

/// The engine with everything around it that makes it a service.
pub(crate) struct Daemon {
    /// The policy in force, which a reload replaces.
    pub(crate) in_force: Arc<ArcSwap<InForce>>,
    pub(crate) store: Arc<dyn DynStore>,
    /// Drives requests and operations that wait for the store or for leases.
    pub(crate) driver: Driver,
    /// Whether the store outlives the process, so that settings are stored there.
    pub(crate) asks_store: bool,
    pub(crate) changes: Arc<Changes>,
    /// The lines about failed logins and about operations that change what others may do.
    pub(crate) audit: Audit,
    /// The history of overrides, with their authors.
    pub(crate) history: History,
    pub(crate) embedded: Option<Arc<RedbStore>>,
    pub(crate) shared: Option<Arc<SharedStore>>,
    /// This member among those that share the store.
    pub(crate) members: Option<Arc<Members>>,
    /// Whether what members share is known here; always, where nothing is shared.
    pub(crate) has_joined: AtomicBool,
    pub(crate) decisions: Option<Arc<Decisions>>,
    /// The state that requests of the reverse proxy share.
    pub(crate) proxy: Arc<ProxyState>,
    /// The gRPC services that are not Tidegate's own.
    pub(crate) services: Services,
    /// The state that connections of Redis clients share.
    pub(crate) resp: RespState,
    pub(crate) clock: Arc<dyn Clock>,
    /// Listeners and bounds as they were at the start.
    pub(crate) config: ServerConfig,
    pub(crate) metrics: Metrics,
    pub(crate) refused_keys: RefusedKeys,
    pub(crate) connections: Arc<Connections>,
    /// Whether new requests are welcome: not before all listeners are open, and not while draining.
    pub(crate) is_ready: AtomicBool,
}

impl Daemon {
    /// The files of envoyproxy/ratelimit in force, to be watched.
    pub(crate) fn followed_files(&self) -> Option<FollowedFiles> {
        let files = self.in_force.load().config.envoy_ratelimit.clone()?;
        Some(FollowedFiles { files, changes: Arc::clone(&self.changes), clock: Arc::clone(&self.clock) })
    }

    /// Returns leases, and waits until all charges are on disk.
    pub(crate) async fn close(self: Arc<Self>) {
        self.leave().await;
        if let Some(store) = &self.embedded
            && let Err(error) = store.flush().await
        {
            tracing::error!(%error, "what was charged last could not be written");
        }
        let this = Arc::clone(&self);
        let closing = tokio::task::spawn_blocking(move || {
            if let Some(decisions) = &this.decisions {
                let _ = decisions.log.close(DECISIONS_CLOSE_MAX);
            }
        });
        let _ = closing.await;
    }
}

/// The context of a request: the daemon, and the policy in force when the request was read.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) daemon: &'a Daemon,
    pub(crate) in_force: &'a InForce,
}
