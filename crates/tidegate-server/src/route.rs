//! The routes of the daemon: one table for dispatch, metrics and documentation.

use http::Method;

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    Check,
    Report,
    Refund,
    Reserve,
    Settle,
    Release,
    Reset,
    Block,
    Authorize,
    Json,
    Limits,
    Explain,
    Overrides,
    Leases,
    AcknowledgeLoss,
    TopKeys,
    Blocks,
    Permits,
    Tables,
    Placements,
    Rlconfig,
    Metrics,
    Healthz,
    Readyz,
    OpenApi,
}

/// Which listeners serve a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Callers that are limited.
    Callers,
    /// Operators.
    Operators,
    /// Health checks, which need no grant.
    Everyone,
}

impl Endpoint {
    pub(crate) const ALL: [Self; 25] = [
        Self::Check,
        Self::Report,
        Self::Refund,
        Self::Reserve,
        Self::Settle,
        Self::Release,
        Self::Reset,
        Self::Block,
        Self::Authorize,
        Self::Json,
        Self::Limits,
        Self::Explain,
        Self::Overrides,
        Self::Leases,
        Self::AcknowledgeLoss,
        Self::TopKeys,
        Self::Blocks,
        Self::Permits,
        Self::Tables,
        Self::Placements,
        Self::Rlconfig,
        Self::Metrics,
        Self::Healthz,
        Self::Readyz,
        Self::OpenApi,
    ];

    /// The path.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Check => "/v1/check",
            Self::Report => "/v1/report",
            Self::Refund => "/v1/refund",
            Self::Reserve => "/v1/reserve",
            Self::Settle => "/v1/settle",
            Self::Release => "/v1/release",
            Self::Reset => "/v1/reset",
            Self::Block => "/v1/block",
            Self::Authorize => "/v1/authorize",
            Self::Json => "/json",
            Self::Limits => "/v1/limits",
            Self::Explain => "/v1/explain",
            Self::Overrides => "/v1/overrides",
            Self::Leases => "/v1/leases",
            Self::AcknowledgeLoss => "/v1/leases/acknowledge",
            Self::TopKeys => "/v1/keys/top",
            Self::Blocks => "/v1/blocks",
            Self::Permits => "/v1/permits",
            Self::Tables => "/v1/tables",
            Self::Placements => "/v1/placements",
            Self::Rlconfig => "/rlconfig",
            Self::Metrics => "/metrics",
            Self::Healthz => "/healthz",
            Self::Readyz => "/readyz",
            Self::OpenApi => "/openapi.json",
        }
    }

    pub(crate) const fn audience(self) -> Audience {
        match self {
            Self::Check
            | Self::Report
            | Self::Refund
            | Self::Reserve
            | Self::Settle
            | Self::Release
            | Self::Reset
            | Self::Block
            | Self::Placements
            | Self::Authorize
            | Self::Json => Audience::Callers,
            Self::Limits
            | Self::Explain
            | Self::Overrides
            | Self::Leases
            | Self::AcknowledgeLoss
            | Self::TopKeys
            | Self::Blocks
            | Self::Permits
            | Self::Tables
            | Self::Rlconfig
            | Self::Metrics
            | Self::OpenApi => Audience::Operators,
            Self::Healthz | Self::Readyz => Audience::Everyone,
        }
    }

    /// Whether gateways pass requests of their own clients to it, or it tells nothing: then it is
    /// served whatever page a browser was made to send the request by, and whatever host it names.
    pub(crate) const fn takes_any_origin(self) -> bool {
        matches!(self, Self::Authorize | Self::Healthz | Self::Readyz)
    }

    /// The route at `path`.
    pub(crate) fn find(path: &str) -> Option<Self> {
        // The one that matters for speed comes first.
        Self::ALL.into_iter().find(|route| route.path() == path).or_else(|| {
            // The one whose paths go on: which override is meant.
            let rest = path.strip_prefix(Self::Overrides.path())?;
            (rest.len() > 1 && rest.starts_with('/')).then_some(Self::Overrides)
        })
    }

    /// Checks that the endpoint accepts this method. An error is the list of accepted methods.
    pub(crate) fn takes(self, method: &Method) -> Result<(), &'static str> {
        let (taken, allowed) = match self.audience() {
            _ if matches!(self, Self::Authorize | Self::Json) => (true, "*"),
            _ if self == Self::Overrides => {
                let is_taken = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE].contains(method);
                (is_taken, "GET, HEAD, PUT, DELETE")
            }
            _ if matches!(self, Self::Explain | Self::AcknowledgeLoss) => (method == Method::POST, "POST"),
            Audience::Callers => (method == Method::POST, "POST"),
            Audience::Operators | Audience::Everyone => {
                (method == Method::GET || method == Method::HEAD, "GET, HEAD")
            }
        };
        if taken { Ok(()) } else { Err(allowed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_found_by_its_path_and_no_other() {
        for route in Endpoint::ALL {
            assert_eq!(Endpoint::find(route.path()), Some(route));
            assert_eq!(Endpoint::find(&format!("{}/", route.path())), None);
        }
        assert_eq!(Endpoint::find("/"), None);
        assert_eq!(Endpoint::find("/v1/overrides/api/per-user"), Some(Endpoint::Overrides));
        assert_eq!(Endpoint::find("/v1/overridesx"), None);
    }

    #[test]
    fn operations_are_posted_and_gateways_may_use_any_method() {
        assert_eq!(Endpoint::Check.takes(&Method::GET), Err("POST"));
        assert_eq!(Endpoint::Explain.takes(&Method::GET), Err("POST"));
        assert_eq!(Endpoint::Metrics.takes(&Method::POST), Err("GET, HEAD"));
        for method in [Method::GET, Method::HEAD, Method::POST, Method::DELETE] {
            assert_eq!(Endpoint::Authorize.takes(&method), Ok(()));
            assert_eq!(Endpoint::Json.takes(&method), Ok(()));
        }
    }
}
