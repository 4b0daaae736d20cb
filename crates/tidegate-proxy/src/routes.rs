//! The routes in force, and the upstreams behind them.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::request::Parts;
use tidegate_core::Matcher;
use tidegate_engine::RoomBounds;
use tidegate_net::file_backed::Refresh;
use tidegate_policy::grammar::{ResponseValue, ValueSource};
use tidegate_policy::policy::proxy as policy;

use crate::attributes::header_value;
use crate::config::ProxyConfig;
use crate::headers::HeaderRules;
use crate::jwt::TokenReader;
use crate::metrics::{ProxyMetrics, RouteCounts};
use crate::rejection::Rejection;
use crate::upstream::{Upstream, UpstreamTlsConfig};

/// Bytes of the heads of all requests that wait. Above it a request is refused at once.
const WAITING_BYTES: usize = 64 << 20;

/// The part of the proxy that a reload replaces.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) config: ProxyConfig,
    /// Which headers of requests pass.
    pub(crate) headers: Arc<HeaderRules>,
    all: Box<[Route]>,
    upstreams: Vec<Arc<Upstream>>,
    /// The counters of requests that no route takes.
    pub(crate) other: Arc<RouteCounts>,
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) config: policy::Route,
    /// Whether a source is a claim, so that the token of a request must be read.
    pub(crate) needs_claims: bool,
    /// Where an answer says the true cost.
    pub(crate) cost_places: Arc<[ResponseValue]>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) counts: Arc<RouteCounts>,
}

impl Routes {
    /// The routes of a configuration. Upstreams that are as they were `before` are taken over, with
    /// their connections and the state of their servers.
    pub(crate) fn new(config: &ProxyConfig, metrics: &ProxyMetrics, before: Option<&Self>) -> Self {
        let known = before.map_or(&[][..], |before| &before.upstreams);
        let upstream = |(upstream, tls): (&policy::Upstream, &Option<UpstreamTlsConfig>)| {
            let same = known.iter().find(|known| known.config == *upstream && known.tls == *tls);
            same.map_or_else(|| Upstream::new(upstream.clone(), tls.clone()), Arc::clone)
        };
        let settings = &config.settings;
        let upstreams: Vec<Arc<Upstream>> =
            settings.upstreams.iter().zip(&config.tls).map(upstream).collect();
        let route = |config: &policy::Route| {
            let named = upstreams.iter().find(|upstream| upstream.config.name == config.upstream);
            // An upstream that does not exist has no server; its callers get the fault for that.
            let none = || Upstream::new(policy::Upstream::new(config.upstream.clone(), []), None);
            let known = before.and_then(|before| before.counts_of(&config.name));
            Route {
                upstream: named.map_or_else(none, Arc::clone),
                counts: known.unwrap_or_else(|| Arc::new(metrics.route(&config.name))),
                needs_claims: config.sources().any(|source| matches!(source, ValueSource::Claim(_))),
                cost_places: config.cost.from_response.as_slice().into(),
                config: config.clone(),
            }
        };
        let all = settings.routes.iter().map(route).collect();
        let other = Arc::new(metrics.route(""));
        let headers = Arc::new(HeaderRules::new(settings));
        Self { config: config.clone(), headers, all, upstreams, other }
    }

    /// The bounds of the waiting room. The namespaces of routes that wait have equal parts of the
    /// configured bounds, and all others together one part more of the same size, since their
    /// requests may wait through another protocol. Without such a route all namespaces of the
    /// engine have equal parts.
    pub(crate) fn waiting_bounds(&self) -> RoomBounds {
        let settings = &self.config.settings;
        let waiting = settings.routes.iter().filter(|route| !route.wait.is_zero());
        let namespaces: BTreeSet<&str> = waiting.filter_map(|route| route.namespace.as_deref()).collect();
        match namespaces.len() {
            0 => RoomBounds::new(settings.waiting, WAITING_BYTES),
            parts => {
                let with_others = |whole: usize| whole.saturating_add(whole / parts);
                let bounds = RoomBounds::new(with_others(settings.waiting), with_others(WAITING_BYTES));
                bounds.shared_by(parts + 1, 0)
            }
        }
    }

    fn counts_of(&self, name: &str) -> Option<Arc<RouteCounts>> {
        self.all.iter().find(|route| route.config.name == name).map(|route| Arc::clone(&route.counts))
    }

    /// The first route that takes such a request. `path` is in its plain spelling, `host` in lower
    /// case and without port. A header that a route matches on is rejected where the service behind
    /// the proxy might read another value: repeated, or not UTF-8.
    pub(crate) fn find(
        &self,
        head: &Parts,
        path: &str,
        host: Option<&str>,
    ) -> Result<Option<&Route>, Rejection> {
        for route in &self.all {
            let config = &route.config;
            let fits = (config.methods.is_empty() || config.methods.contains(&head.method))
                && config.path.as_ref().is_none_or(|pattern| pattern.matches(path))
                && config.host.as_ref().is_none_or(|matcher| matcher.matches(host));
            if fits && has_headers(&config.headers, head)? {
                return Ok(Some(route));
            }
        }
        Ok(None)
    }

    /// Drops the series of routes and upstreams that were in force before and no longer are.
    pub(crate) fn forget_series(&self, before: &Self, metrics: &ProxyMetrics) {
        for route in before.names().filter(|name| !self.names().any(|known| known == *name)) {
            metrics.forget_route(route);
        }
        for upstream in before.upstreams().map(|upstream| upstream.config.name.as_str()) {
            if !self.upstreams().any(|known| known.config.name == upstream) {
                metrics.forget_upstream(upstream);
            }
        }
    }

    /// The names of the routes.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|route| route.config.name.as_str())
    }

    /// The keys and certificates that are loaded from files and reloaded when the files change.
    pub(crate) fn files(&self) -> Vec<Arc<dyn Refresh>> {
        let tls = self.upstreams().filter_map(|upstream| upstream.tls.as_ref().map(UpstreamTlsConfig::files));
        tls.chain(self.config.tokens.as_ref().and_then(TokenReader::files)).collect()
    }

    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Upstream> {
        self.upstreams.iter().map(|upstream| &**upstream)
    }
}

/// Whether a request has the headers that a route wants.
fn has_headers(wanted: &[(ValueSource, Matcher)], head: &Parts) -> Result<bool, Rejection> {
    for (source, matcher) in wanted {
        let ValueSource::Header(name) = source else { return Ok(false) };
        if !matcher.matches(header_value(source, name, &head.headers)?.as_deref()) {
            return Ok(false);
        }
    }
    Ok(true)
}
