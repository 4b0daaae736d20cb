//! The service that a listener gives: its protocol, its callers, and what is known of its address.

use tidegate_policy::policy::ListenerRole;

use crate::api::route::RouteAccess;

/// The service that a listener gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerService {
    pub(crate) role: ListenerRole,
    /// Whether operators are served, too.
    pub(crate) operators: bool,
    /// Whether it is on loopback without TLS, where a page in a browser may reach it under a name
    /// of its own.
    pub(crate) is_plain_loopback: bool,
    /// Whether connections begin with the PROXY protocol.
    pub(crate) proxy_protocol: bool,
}

impl ListenerService {
    /// Whether it serves callers that are limited.
    pub(crate) fn has_callers(self) -> bool {
        self.role != ListenerRole::Admin
    }

    /// Whether it serves the callers of a route.
    pub(crate) fn callers_of(self, access: RouteAccess) -> bool {
        match access {
            RouteAccess::Caller | RouteAccess::Gateway => self.has_callers(),
            RouteAccess::Inspector | RouteAccess::Operator => self.operators,
            RouteAccess::Everyone => true,
        }
    }
}
