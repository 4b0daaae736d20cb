//! The reverse proxy as its requests share it: the routes in force and its series, over the parts
//! of the daemon that it uses.

use core::fmt;
use core::sync::atomic::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tidegate_driver::Driver;
use tidegate_engine::Engine;
use tidegate_net::Bounds;
use tidegate_net::connections::Connections;
use tidegate_net::file_backed::Refresh;

use crate::config::ProxyConfig;
use crate::decision_point::DecisionPoint;
use crate::metrics::ProxyMetrics;
use crate::proxy_context::ProxyContext;
use crate::routes::Routes;
use crate::upstream::Upstream;

/// A policy in force with the routes that it describes. A reload replaces both as one.
pub(crate) struct RoutedPolicy<P> {
    pub(crate) policy: Arc<P>,
    pub(crate) routes: Routes,
}

/// The state of the proxy that a reload changes, and its series. It is made before the daemon is
/// complete, whose page has the series.
pub struct ProxyState<P> {
    in_force: ArcSwap<RoutedPolicy<P>>,
    metrics: Arc<ProxyMetrics>,
}

/// The reverse proxy.
pub struct ReverseProxy<D: DecisionPoint> {
    pub(crate) decisions: Arc<D>,
    pub(crate) context: Arc<ProxyContext>,
    pub(crate) state: Arc<ProxyState<D::Policy>>,
}

impl<P: AsRef<Engine>> RoutedPolicy<P> {
    fn new(policy: &Arc<P>, config: &ProxyConfig, metrics: &ProxyMetrics, before: Option<&Routes>) -> Self {
        let routes = Routes::new(config, metrics, before);
        policy.as_ref().as_ref().set_waiting_bounds(routes.waiting_bounds());
        Self { policy: Arc::clone(policy), routes }
    }
}

impl<P: AsRef<Engine> + Send + Sync + 'static> ProxyState<P> {
    /// The state under the policy of the start, which has the settings `config`. Must be called on
    /// a runtime if servers are to be asked how they are.
    pub fn new(policy: &Arc<P>, config: &ProxyConfig) -> Self {
        let metrics = Arc::<ProxyMetrics>::default();
        let in_force = ArcSwap::from_pointee(RoutedPolicy::new(policy, config, &metrics, None));
        Self { in_force, metrics }
    }

    /// Registers the series that requests count in.
    pub fn register(&self, registry: &mut Registry, help: fn(&str) -> &'static str) {
        self.metrics.register(registry, help);
    }

    /// The series that are read when the page is rendered.
    pub fn collector(self: &Arc<Self>, help: fn(&str) -> &'static str) -> Box<dyn Collector> {
        Box::new(ProxyCollector { state: Arc::clone(self), help })
    }

    /// Takes over the next policy, which has the settings `config`. Upstreams that stay as they
    /// were keep their connections. Calls must be in order.
    pub fn take_over(&self, next: &Arc<P>, config: &ProxyConfig) {
        let before = self.in_force.load_full();
        let next = Arc::new(RoutedPolicy::new(next, config, &self.metrics, Some(&before.routes)));
        self.in_force.store(Arc::clone(&next));
        next.routes.forget_series(&before.routes, &self.metrics);
    }

    /// The keys and certificates that are read again when their files change.
    pub fn files(&self) -> Vec<Arc<dyn Refresh>> {
        self.in_force.load().routes.files()
    }

    /// The policy in force.
    pub(crate) fn in_force(&self) -> Arc<RoutedPolicy<P>> {
        self.in_force.load_full()
    }

    /// Permits that requests hold at this moment.
    pub fn in_flight(&self) -> usize {
        self.metrics.in_flight.load(Ordering::Relaxed)
    }

    /// Whether the peer of a connection may name its client.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        self.in_force.load().routes.config.client_address.is_trusted_peer(peer)
    }
}

impl<D: DecisionPoint> ReverseProxy<D> {
    /// The proxy of this state. `bounds` and `connections` are those of the daemon.
    pub fn new(
        state: Arc<ProxyState<D::Policy>>,
        decisions: Arc<D>,
        driver: Driver,
        bounds: Bounds,
        connections: Arc<Connections>,
    ) -> Self {
        let metrics = Arc::clone(&state.metrics);
        let context = Arc::new(ProxyContext { driver, bounds, connections, metrics });
        Self { decisions, context, state }
    }

    /// Where requests are decided.
    pub fn decisions(&self) -> &D {
        &self.decisions
    }

    /// The state that a reload changes.
    pub fn state(&self) -> &Arc<ProxyState<D::Policy>> {
        &self.state
    }
}

tidegate_core::debug_fields!(ProxyState<P> { metrics });

tidegate_core::debug_fields!(ReverseProxy<D: DecisionPoint> { state });

/// The series that are read when the page is rendered.
struct ProxyCollector<P> {
    state: Arc<ProxyState<P>>,
    help: fn(&str) -> &'static str,
}

tidegate_core::debug_fields!(ProxyCollector<P> {});

impl<P: AsRef<Engine> + Send + Sync + 'static> Collector for ProxyCollector<P> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (state, help) = (&self.state, self.help);
        let RoutedPolicy { policy, routes } = &**state.in_force.load();
        let metrics = &state.metrics;
        let out = |upstream: &Upstream| upstream.config.servers.len().saturating_sub(upstream.well());
        let gauges = [
            ("tidegate_proxy_in_flight", state.in_flight() as u64),
            ("tidegate_proxy_waiting", policy.as_ref().as_ref().waiting() as u64),
            ("tidegate_proxy_tunnels", metrics.tunnels.load(Ordering::Relaxed) as u64),
            ("tidegate_proxy_servers_unavailable", routes.upstreams().map(out).sum::<usize>() as u64),
        ];
        for (name, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?)?;
        }
        let help = help("tidegate_proxy_upstream_duration_seconds");
        let name = "tidegate_proxy_upstream_duration";
        let durations = &metrics.upstream_duration;
        durations.encode(encoder.encode_descriptor(
            name,
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?)
    }
}
