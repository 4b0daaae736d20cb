//! The reverse proxy as its requests share it: the routes in force and its series, over the context
//! of the daemon.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::counts::ProxyMetrics;
use super::routes::Routes;
use super::upstream::Upstream;
use crate::context::DaemonContext;
use crate::in_force::InForce;
use crate::metrics::{Metrics, encode_durations, help};
use crate::protocol_hooks::ProtocolHooks;
use tidegate_net::file_backed::Refresh;

/// A policy in force with the routes that it describes. A reload replaces both as one.
pub(crate) struct RoutedPolicy {
    pub(super) policy: Arc<InForce>,
    pub(super) routes: Routes,
}

/// The state of the proxy that all its requests share.
pub(crate) struct ProxyState {
    in_force: ArcSwap<RoutedPolicy>,
    pub(super) metrics: ProxyMetrics,
    /// Permits that requests of the proxy hold.
    pub(super) in_flight: AtomicUsize,
    /// Connections that have changed their protocol and are passed on as they are.
    pub(super) tunnels: AtomicUsize,
}

/// The state over its context.
pub(crate) struct ReverseProxy {
    pub(crate) daemon: Arc<DaemonContext>,
    pub(crate) state: Arc<ProxyState>,
}

impl RoutedPolicy {
    fn new(policy: &Arc<InForce>, metrics: &ProxyMetrics, before: Option<&Routes>) -> Self {
        let routes = Routes::new(&policy.config.proxying, metrics, before);
        policy.engine.set_waiting_bounds(routes.waiting_bounds());
        Self { policy: Arc::clone(policy), routes }
    }
}

impl ProxyState {
    /// The state under the policy of the start, with its series on the page of `metrics`.
    pub(crate) fn registered(policy: &Arc<InForce>, metrics: &mut Metrics) -> Arc<Self> {
        let own = ProxyMetrics::default();
        metrics.register(|registry, help| own.register(registry, help));
        let state = Arc::new(Self {
            in_force: ArcSwap::from_pointee(RoutedPolicy::new(policy, &own, None)),
            metrics: own,
            in_flight: AtomicUsize::new(0),
            tunnels: AtomicUsize::new(0),
        });
        metrics.collect(Box::new(ProxyCollector(Arc::clone(&state))));
        state
    }

    /// The policy in force.
    pub(super) fn in_force(&self) -> Arc<RoutedPolicy> {
        self.in_force.load_full()
    }

    /// Permits that requests of the proxy hold at this moment.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether the peer of a connection may name its client.
    pub(crate) fn trusts(&self, peer: Option<IpAddr>) -> bool {
        self.in_force.load().routes.config.client_address.is_trusted_peer(peer)
    }
}

impl ProtocolHooks for ProxyState {
    fn take_over(&self, next: &Arc<InForce>) {
        // One change at a time: changes of the policy are in order.
        let before = self.in_force.load_full();
        let next = Arc::new(RoutedPolicy::new(next, &self.metrics, Some(&before.routes)));
        self.in_force.store(Arc::clone(&next));
        next.routes.forget_series(&before.routes, &self.metrics);
    }

    fn files(&self) -> Vec<Arc<dyn Refresh>> {
        self.in_force.load().routes.files()
    }
}

/// The series that are read when the page is rendered.
struct ProxyCollector(Arc<ProxyState>);

impl fmt::Debug for ProxyCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyCollector")
    }
}

impl Collector for ProxyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = &self.0;
        let RoutedPolicy { policy, routes } = &**state.in_force.load();
        if policy.config.proxy.is_none() {
            return Ok(());
        }
        let out = |upstream: &Upstream| upstream.config.servers.len().saturating_sub(upstream.well());
        let gauges = [
            ("tidegate_proxy_in_flight", state.in_flight() as u64),
            ("tidegate_proxy_waiting", policy.engine.waiting() as u64),
            ("tidegate_proxy_tunnels", state.tunnels.load(Ordering::Relaxed) as u64),
            ("tidegate_proxy_servers_unavailable", routes.upstreams().map(out).sum::<usize>() as u64),
        ];
        for (name, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?)?;
        }
        let help = help("tidegate_proxy_upstream_duration_seconds");
        let durations = &state.metrics.upstream_duration;
        encode_durations(&mut encoder, "tidegate_proxy_upstream_duration", help, durations)
    }
}
