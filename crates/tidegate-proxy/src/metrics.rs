//! Counters of proxied requests. Labels are names of routes and upstreams, statuses, and words of
//! closed lists.

use core::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::response_cost::CostReading;
use crate::response_end::ResponseEnd;

/// The kinds of failures of a server, and the retry at another server.
const FAILURES: [&str; 4] = ["connect", "broken", "late", "retried"];

/// The upper ends of the buckets of durations, in seconds: 1 us to 1 s.
const BUCKETS_SECONDS: [f64; 15] =
    [1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.25, 1.0];

const USUAL_STATUSES: [u16; 4] = [200, 204, 304, 429];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProxiedRequestLabels {
    route: Arc<str>,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseEndLabels {
    route: Arc<str>,
    ending: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CostReadingLabels {
    route: Arc<str>,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    upstream: Arc<str>,
    failure: &'static str,
}

/// The families that have a series for each route or upstream.
#[derive(Clone, Debug, Default)]
struct RouteFamilies {
    requests: Family<ProxiedRequestLabels, Counter>,
    endings: Family<ResponseEndLabels, Counter>,
    costs: Family<CostReadingLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
}

/// The counters of all routes and upstreams.
#[derive(Debug)]
pub(crate) struct ProxyMetrics {
    families: RouteFamilies,
    /// The time from sending a request to the head of its answer, in seconds.
    pub(crate) upstream_duration: Histogram,
    /// Permits that requests hold.
    pub(crate) in_flight: AtomicUsize,
    /// Connections that have changed their protocol and are passed on as they are.
    pub(crate) tunnels: AtomicUsize,
}

impl Default for ProxyMetrics {
    fn default() -> Self {
        Self {
            families: RouteFamilies::default(),
            upstream_duration: Histogram::new(BUCKETS_SECONDS),
            in_flight: AtomicUsize::new(0),
            tunnels: AtomicUsize::new(0),
        }
    }
}

impl ProxyMetrics {
    /// Puts them on the page, with `help` for each name.
    pub(crate) fn register(&self, registry: &mut Registry, help: fn(&str) -> &'static str) {
        let RouteFamilies { requests, endings, costs, failures } = self.families.clone();
        registry.register("tidegate_proxy_requests", help("tidegate_proxy_requests"), requests);
        registry.register("tidegate_proxy_endings", help("tidegate_proxy_endings"), endings);
        registry.register("tidegate_proxy_true_costs", help("tidegate_proxy_true_costs"), costs);
        let name = "tidegate_proxy_upstream_failures";
        registry.register(name, help(name), failures);
    }

    /// The counters of one route.
    pub(crate) fn route(&self, name: &str) -> RouteCounts {
        RouteCounts { route: name.into(), families: self.families.clone(), usual: Default::default() }
    }

    /// Drops the series of a route that is no longer in force: a page grows with the policy, not
    /// with its history.
    pub(super) fn forget_route(&self, route: &str) {
        for status in 100..1000 {
            self.families.requests.remove(&ProxiedRequestLabels { route: route.into(), status });
        }
        for ending in ResponseEnd::ALL {
            self.families.endings.remove(&ResponseEndLabels { route: route.into(), ending: ending.as_str() });
        }
        for result in CostReading::ALL {
            self.families.costs.remove(&CostReadingLabels { route: route.into(), result: result.as_str() });
        }
    }

    /// Drops the series of an upstream that is no longer in force.
    pub(super) fn forget_upstream(&self, upstream: &str) {
        for failure in FAILURES {
            self.families.failures.remove(&FailureLabels { upstream: upstream.into(), failure });
        }
    }

    /// Counts a failure of an upstream: `connect`, `broken` or `late`.
    pub(crate) fn upstream_failed(&self, upstream: &str, failure: &'static str) {
        self.families.failures.get_or_create(&FailureLabels { upstream: upstream.into(), failure }).inc();
    }
}

/// The counters of one route.
#[derive(Debug)]
pub(crate) struct RouteCounts {
    route: Arc<str>,
    families: RouteFamilies,
    /// The usual answers, so that counting one costs no look-up.
    usual: [OnceLock<Counter>; USUAL_STATUSES.len()],
}

impl RouteCounts {
    pub(crate) fn route(&self) -> &str {
        &self.route
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, status: u16) {
        let create = || {
            self.families
                .requests
                .get_or_create(&ProxiedRequestLabels { route: Arc::clone(&self.route), status })
                .clone()
        };
        match USUAL_STATUSES.iter().position(|usual| *usual == status) {
            Some(usual) => self.usual[usual].get_or_init(create).inc(),
            None => create().inc(),
        };
    }

    /// Counts an answer of a route that takes the true cost from answers.
    pub(crate) fn cost_read(&self, result: CostReading) {
        let labels = CostReadingLabels { route: Arc::clone(&self.route), result: result.as_str() };
        self.families.costs.get_or_create(&labels).inc();
    }

    /// Counts an answer that did not reach its end.
    pub(crate) fn ended_early(&self, ending: &'static str) {
        self.families
            .endings
            .get_or_create(&ResponseEndLabels { route: Arc::clone(&self.route), ending })
            .inc();
    }
}
