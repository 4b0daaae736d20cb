//! The gRPC server: its services and its series, over the context of the daemon.

use std::sync::Arc;

use super::counts::GrpcMetrics;
use super::services::Services;
use crate::context::DaemonContext;
use crate::metrics::Metrics;
use crate::protocol_hooks::{HookFuture, ProtocolHooks};

/// The state that all calls share.
pub(crate) struct GrpcState {
    /// The services that are not Tidegate's own.
    pub(super) services: Services,
    pub(super) metrics: GrpcMetrics,
}

/// The state over its context.
pub(crate) struct GrpcServer {
    pub(crate) daemon: Arc<DaemonContext>,
    pub(crate) state: Arc<GrpcState>,
}

impl GrpcState {
    /// The state, with its series on the page of `metrics`.
    pub(crate) fn registered(metrics: &mut Metrics) -> Self {
        let own = GrpcMetrics::default();
        metrics.register(|registry, help| own.register(registry, help));
        Self { services: Services::new(), metrics: own }
    }
}

impl ProtocolHooks for GrpcState {
    fn announce(&self, is_ready: bool) -> HookFuture<'_> {
        let health = &self.services.health;
        if is_ready { Box::pin(health.serve()) } else { Box::pin(health.drain()) }
    }

    fn end_streams(&self) -> HookFuture<'_> {
        Box::pin(self.services.health.end())
    }
}
