//! The server of Redis clients: its state and its series, over the context of the daemon.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::counts::RespMetrics;
use crate::context::DaemonContext;

/// The state that all RESP connections share.
pub(crate) struct RespServer {
    pub(super) daemon: Arc<DaemonContext>,
    /// How many connections there have been, from which they have their ids.
    pub(super) connections: AtomicU64,
    pub(super) metrics: RespMetrics,
}

impl RespServer {
    /// A server that counts by `metrics` of its own.
    pub(crate) fn new(daemon: Arc<DaemonContext>, metrics: RespMetrics) -> Self {
        Self { daemon, connections: AtomicU64::new(0), metrics }
    }
}
