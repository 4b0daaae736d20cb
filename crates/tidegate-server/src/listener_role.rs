//! The role of a listener: its callers and its protocol.

use crate::route::RouteAccess;

/// The callers and the protocol that a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerRole {
    pub(crate) callers: bool,
    pub(crate) operators: bool,
    pub(crate) speaks: ListenerProtocol,
    /// Whether it is on loopback without TLS, where a page in a browser may reach it under a name
    /// of its own.
    pub(crate) is_plain_loopback: bool,
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerProtocol {
    /// The HTTP API.
    Api,
    /// HTTP that is passed on.
    Proxy,
    /// gRPC.
    Grpc,
    /// RESP.
    Resp,
}

impl ListenerRole {
    /// The listener for operators only.
    pub(crate) const OPERATORS: Self =
        Self { callers: false, operators: true, speaks: ListenerProtocol::Api, is_plain_loopback: false };

    /// A listener for callers only.
    pub(crate) const fn callers(speaks: ListenerProtocol) -> Self {
        Self { callers: true, operators: false, speaks, is_plain_loopback: false }
    }

    /// The name of the listener in the policy.
    pub(crate) const fn name(self) -> &'static str {
        match self.speaks {
            ListenerProtocol::Api if self.callers => "http",
            ListenerProtocol::Api => "admin",
            ListenerProtocol::Proxy => "proxy",
            ListenerProtocol::Grpc => "grpc",
            ListenerProtocol::Resp => "resp",
        }
    }

    /// Whether it serves the callers of a route.
    pub(crate) const fn callers_of(self, access: RouteAccess) -> bool {
        match access {
            RouteAccess::Caller | RouteAccess::Gateway => self.callers,
            RouteAccess::Inspector | RouteAccess::Operator => self.operators,
            RouteAccess::Everyone => true,
        }
    }
}
