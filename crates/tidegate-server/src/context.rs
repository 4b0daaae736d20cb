//! The context of a daemon: the parts that all protocols share, below every one of them.
//!
//! A protocol takes the context and keeps its own state and series beside it. It joins what
//! concerns the daemon as a whole by [`ProtocolHooks`]; only the assembly in `daemon.rs` knows all
//! protocols.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tidegate_core::Timestamp;
use tidegate_driver::Driver;
use tidegate_net::connections::Connections;
use tidegate_overload::HistorySet;
use tidegate_store::DynStore;
use tidegate_store_redb::RedbStore;

use crate::config::ServerConfig;
use crate::fleet::members::Members;
use crate::fleet::override_history::History;
use crate::fleet::shared_store::SharedStore;
use crate::in_force::InForce;
use crate::metrics::Metrics;
use crate::protocol_hooks::ProtocolHooks;
use crate::records::advice_log::AdviceLog;
use crate::records::audit::Audit;
use crate::records::decisions::Decisions;
use crate::records::feature_log::FeatureLog;
use crate::records::refused_keys::RefusedKeys;
use crate::reload::reload_status::Changes;
use crate::service_manager::ServiceReports;
use crate::ticket_signer::TicketSigner;
use tidegate_clock::Clock;

/// The engine in force with everything around it that does not depend on a protocol.
pub(crate) struct DaemonContext {
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
    /// The name of this daemon beside the numbers that it alone has counted: its id among the
    /// members that share the store, otherwise the address at which it listens.
    pub(crate) member: String,
    /// When it started.
    pub(crate) since: Timestamp,
    /// Whether what members share is known here; always, where nothing is shared.
    pub(crate) has_joined: AtomicBool,
    pub(crate) decisions: Option<Arc<Decisions>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Listeners and bounds as they were at the start.
    pub(crate) config: ServerConfig,
    pub(crate) metrics: Metrics,
    pub(crate) refused_keys: RefusedKeys,
    pub(crate) ticket_signer: TicketSigner,
    /// The log lines and the counts of the changes of features.
    pub(crate) feature_log: Arc<FeatureLog>,
    /// The log lines with advice about resources.
    pub(crate) advice_log: AdviceLog,
    /// The last day of each resource, which the tick of the daemon writes.
    pub(crate) histories: Mutex<HistorySet>,
    pub(crate) connections: Arc<Connections>,
    /// Whether new requests are welcome: not before all listeners are open, and not while draining.
    pub(crate) is_ready: AtomicBool,
    /// The reports to the service manager.
    pub(crate) service: ServiceReports,
    /// The parts of the protocols that follow the daemon as a whole.
    pub(crate) protocols: Vec<Arc<dyn ProtocolHooks>>,
}

/// The context of a request: the daemon, and the policy in force when the request was read.
#[derive(Clone, Copy)]
pub(crate) struct RequestScope<'a> {
    pub(crate) daemon: &'a DaemonContext,
    pub(crate) in_force: &'a InForce,
}
