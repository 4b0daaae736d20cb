//! The protocols over which requests are decided.

/// The protocol of a decision: a label of metrics and a field of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    /// `POST /v1/check` and `/v1/reserve`.
    Http,
    /// `/v1/authorize`, the subrequests of gateways.
    Authorize,
    /// Envoy's rate limit service, over gRPC and `/json`.
    Rls,
    /// The commands of Redis clients.
    Resp,
    /// The reverse proxy.
    Proxy,
}

/// The namespace of counters whose limits arrive with commands of Redis clients. One of the policy
/// that is called so has its own.
pub(crate) const RESP_NAMESPACE: &str = "resp";

impl Protocol {
    /// Every protocol.
    pub(crate) const ALL: [Self; 5] = [Self::Http, Self::Authorize, Self::Rls, Self::Resp, Self::Proxy];

    /// The name in metrics and logs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Authorize => "authorize",
            Self::Rls => "rls",
            Self::Resp => "resp",
            Self::Proxy => "proxy",
        }
    }
}
