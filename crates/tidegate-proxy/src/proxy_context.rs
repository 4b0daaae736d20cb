//! The context of the proxy: the parts of the daemon that its requests use on their way.

use std::sync::Arc;

use tidegate_driver::Driver;
use tidegate_net::Bounds;
use tidegate_net::connections::Connections;

use crate::metrics::ProxyMetrics;

/// The parts of the daemon that proxied requests use, whatever the policy.
#[derive(Debug)]
pub(crate) struct ProxyContext {
    /// Drives requests that wait, and settles their permits.
    pub(crate) driver: Driver,
    /// The bounds of request heads, connections and waits.
    pub(crate) bounds: Bounds,
    /// The connections of the daemon, tunnels among them.
    pub(crate) connections: Arc<Connections>,
    pub(crate) metrics: Arc<ProxyMetrics>,
}
