//! The counters of the HTTP API: requests by route and status.

use std::sync::OnceLock;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::api::routes::ROUTES;
use crate::metrics::Metrics;

const USUAL_STATUSES: [u16; 3] = [200, 429, 503];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    status: u16,
}

/// The counters of the routes.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    /// The usual answers of each route, so that counting one costs no look-up.
    usual: Box<[[OnceLock<Counter>; USUAL_STATUSES.len()]]>,
}

impl HttpMetrics {
    /// The counters, which are put on the page of `metrics`.
    pub(crate) fn registered(metrics: &mut Metrics) -> Self {
        let requests = Family::<RequestLabels, Counter>::default();
        metrics.register(|registry, help| {
            registry.register("tidegate_http_requests", help("tidegate_http_requests"), requests.clone());
        });
        let usual = ROUTES.all().iter().map(|_| core::array::from_fn(|_| OnceLock::new())).collect();
        Self { requests, usual }
    }

    /// Counts an answered request by the index of its route, or none for a path that is no route.
    pub(crate) fn answered(&self, route: Option<usize>, status: u16) {
        let create = || {
            let route = route.map_or("other", |index| ROUTES.all()[index].name());
            self.requests.get_or_create(&RequestLabels { route, status }).clone()
        };
        let usual = USUAL_STATUSES.iter().position(|usual| *usual == status);
        match (route, usual) {
            (Some(route), Some(usual)) => self.usual[route][usual].get_or_init(create).inc(),
            _ => create().inc(),
        };
    }
}
