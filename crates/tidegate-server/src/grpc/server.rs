//! The gRPC server: its services and its series, over the context of the daemon.

use std::sync::Arc;

use super::counts::GrpcMetrics;
use super::rlqs::{QuotaMetrics, RefusalLines, StreamOrders};
use super::services::Services;
use crate::context::DaemonContext;
use crate::metrics::Metrics;
use crate::protocol_hooks::{HookFuture, ProtocolHooks};

/// The state that all calls share.
pub(crate) struct GrpcState {
    /// The services that are not Tidegate's own.
    pub(super) services: Services,
    pub(super) metrics: GrpcMetrics,
    /// The orders to the streams of the quota service.
    pub(super) orders: StreamOrders,
    pub(super) quota_metrics: QuotaMetrics,
    /// The log lines about streams of the quota service that were refused.
    pub(super) refusal_lines: RefusalLines,
}

/// The state over its context.
pub(crate) struct GrpcServer {
    pub(crate) daemon: Arc<DaemonContext>,
    pub(crate) state: Arc<GrpcState>,
}

impl GrpcState {
    /// The state, with its series on the page of `metrics`; those of the quota service only where
    /// the daemon listens for gRPC.
    pub(crate) fn registered(metrics: &mut Metrics, listens: bool) -> Self {
        let (own, quota_metrics) = (GrpcMetrics::default(), QuotaMetrics::default());
        metrics.register(|registry, help| {
            own.register(registry, help);
            if listens {
                quota_metrics.register(registry, help);
            }
        });
        Self {
            services: Services::new(),
            metrics: own,
            orders: StreamOrders::default(),
            quota_metrics,
            refusal_lines: RefusalLines::default(),
        }
    }
}

impl ProtocolHooks for GrpcState {
    fn announce(&self, is_ready: bool) -> HookFuture<'_> {
        let health = &self.services.health;
        if is_ready { Box::pin(health.serve()) } else { Box::pin(health.drain()) }
    }

    fn policy_changed(&self) {
        self.orders.look_again();
    }

    fn end_streams(&self) -> HookFuture<'_> {
        self.orders.end();
        Box::pin(self.services.health.end())
    }
}
