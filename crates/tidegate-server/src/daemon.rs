//! The assembly of a daemon: the protocols, and the context that they share.
//!
//! A protocol is put together in two steps, because the context has the hooks and the metrics page:
//! its state registers its series first, and is joined with the context when that is complete.

use std::sync::Arc;

use tidegate_policy::policy::ListenerRole;
use tidegate_proxy::{ProxyState, ReverseProxy};

use crate::api::http_api::HttpApi;
use crate::api::http_metrics::HttpMetrics;
use crate::context::DaemonContext;
use crate::grpc::{GrpcServer, GrpcState};
use crate::in_force::InForce;
use crate::metrics::Metrics;
use crate::protocol_hooks::ProtocolHooks;
use crate::resp::{RespMetrics, RespServer};

/// The protocols of a daemon over their context.
pub(crate) struct Daemon {
    pub(crate) context: Arc<DaemonContext>,
    pub(crate) http: Arc<HttpApi>,
    pub(crate) proxy: Arc<ReverseProxy<DaemonContext>>,
    pub(crate) grpc: Arc<GrpcServer>,
    pub(crate) resp: Arc<RespServer>,
}

/// The states of all protocols before there is a context.
pub(crate) struct ProtocolStates {
    http: HttpMetrics,
    proxy: Arc<ProxyState<InForce>>,
    grpc: Arc<GrpcState>,
    resp: RespMetrics,
}

impl ProtocolStates {
    /// The states under the policy of the start, with their series on the page of `metrics`.
    pub(crate) fn registered(policy: &Arc<InForce>, metrics: &mut Metrics) -> Self {
        let http = HttpMetrics::registered(metrics);
        let proxy = Arc::new(ProxyState::new(policy, &policy.config.proxying));
        metrics.register(|registry, help| proxy.register(registry, help));
        if policy.config.has_listener(ListenerRole::Proxy) {
            metrics.collect_with(|help| proxy.collector(help));
        }
        Self {
            http,
            proxy,
            grpc: Arc::new(GrpcState::registered(metrics, policy.config.has_listener(ListenerRole::Grpc))),
            resp: RespMetrics::registered(metrics),
        }
    }

    /// The hooks of the protocols that have some.
    pub(crate) fn hooks(&self) -> Vec<Arc<dyn ProtocolHooks>> {
        vec![Arc::clone(&self.proxy) as _, Arc::clone(&self.grpc) as _]
    }

    /// The daemon of these states and `context`.
    pub(crate) fn over(self, context: Arc<DaemonContext>) -> Daemon {
        let daemon = || Arc::clone(&context);
        Daemon {
            http: Arc::new(HttpApi { daemon: daemon(), metrics: self.http }),
            proxy: Arc::new(ReverseProxy::new(
                self.proxy,
                daemon(),
                context.driver.clone(),
                context.config.bounds.clone(),
                Arc::clone(&context.connections),
            )),
            grpc: Arc::new(GrpcServer { daemon: daemon(), state: self.grpc }),
            resp: Arc::new(RespServer::new(daemon(), self.resp)),
            context,
        }
    }
}
