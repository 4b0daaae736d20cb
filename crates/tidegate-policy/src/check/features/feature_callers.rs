//! The requests that can name a feature, and the most that these requests can claim.

use std::collections::BTreeMap;

use tidegate_core::Class;

use crate::grammar::ValueSource;
use crate::policy::authorization::{Namespaces, Verb};
use crate::policy::claims::RequestClaims;
use crate::policy::proxy::Route;
use crate::policy::{NamespacePolicy, Policy};

/// The most that the requests of some callers can claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallerReach {
    /// The highest class that some of them can have.
    pub(super) class: Class,
    /// Whether some of them can have a tenant.
    pub(super) has_tenant: bool,
}

impl CallerReach {
    fn with(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        Self { class: self.class.max(other.class), has_tenant: self.has_tenant || other.has_tenant }
    }
}

/// The requests that can name features.
pub(super) struct FeatureCallers<'a> {
    /// Those of sources that may give any name.
    any: Option<CallerReach>,
    /// Those of sources that give one name.
    by_name: BTreeMap<&'a str, CallerReach>,
}

impl<'a> FeatureCallers<'a> {
    /// `has_api_callers` says whether requests arrive at other listeners than the proxy.
    pub(super) fn new(policy: &'a Policy, has_api_callers: bool) -> Self {
        let mut callers = Self { any: None, by_name: BTreeMap::new() };
        let namespaces: BTreeMap<&str, &NamespacePolicy> =
            policy.namespaces.iter().map(|namespace| (namespace.name.as_str(), namespace)).collect();
        for route in &policy.proxy.routes {
            // Requests of a route without a namespace are not decided.
            let namespace = route.namespace.as_deref().and_then(|name| namespaces.get(name));
            if let (Some(source), Some(namespace)) = (&route.feature, namespace) {
                let is_trusted = !policy.proxy.trusted.is_empty();
                callers.add(source, reach_of_route(route, &namespace.request, is_trusted));
            }
        }
        if policy.envoy_ratelimit.is_some() {
            callers.add_any(CallerReach { class: Class::CriticalPlus, has_tenant: true });
        }
        if has_api_callers || !policy.authorization.is_empty() {
            callers.add_api(policy);
        }
        callers
    }

    /// The reach of requests that name this feature; `None`: no request can.
    pub(super) fn reach_of(&self, feature: &str) -> Option<CallerReach> {
        match self.by_name.get(feature) {
            Some(own) => Some(own.with(self.any)),
            None => self.any,
        }
    }

    fn add(&mut self, source: &'a ValueSource, reach: CallerReach) {
        match source {
            ValueSource::Constant(name) => {
                let known = self.by_name.get(name.as_str()).copied();
                self.by_name.insert(name, reach.with(known));
            }
            _ => self.add_any(reach),
        }
    }

    fn add_any(&mut self, reach: CallerReach) {
        self.any = Some(reach.with(self.any));
    }

    /// Adds callers of the API, whose requests have the member `feature` beside the source of the
    /// namespace. With grants these are the callers that may check in the namespace.
    fn add_api(&mut self, policy: &Policy) {
        let is_open = policy.authorization.is_empty();
        let mut everywhere = is_open.then_some(Class::CriticalPlus);
        let mut in_namespace: BTreeMap<&str, Class> = BTreeMap::new();
        for grant in policy.authorization.iter().filter(|grant| grant.verbs.has(Verb::Check)) {
            match &grant.namespaces {
                Namespaces::All => everywhere = everywhere.max(Some(grant.ceiling)),
                Namespaces::Some(names) => {
                    for name in names {
                        let known = in_namespace.entry(name).or_insert(grant.ceiling);
                        *known = grant.ceiling.max(*known);
                    }
                }
            }
        }
        for namespace in &policy.namespaces {
            let granted = in_namespace.get(namespace.name.as_str()).copied().max(everywhere);
            if let Some(granted) = granted {
                let class = highest_class(&namespace.request, Class::CriticalPlus, true).min(granted);
                self.add_any(CallerReach { class, has_tenant: true });
            }
        }
    }
}

/// The reach of requests of a route of the proxy, in a namespace with these claims.
fn reach_of_route(route: &Route, claims: &RequestClaims, has_trusted_peers: bool) -> CallerReach {
    let own = match &route.class.from {
        None => route.class.default,
        Some(_) if has_trusted_peers => Class::CriticalPlus,
        Some(_) => route.class.ceiling,
    };
    let has_tenant = route.tenant.is_some();
    CallerReach { class: highest_class(claims, own, has_tenant), has_tenant }
}

/// The highest class of requests that claim at most `claimed`, by the bounds of their namespace. A
/// tenant with a class has it without a claim.
fn highest_class(claims: &RequestClaims, claimed: Class, has_tenant: bool) -> Class {
    let of_tenants = claims.tenants.values().copied().max().filter(|_| has_tenant);
    of_tenants.unwrap_or(Class::Sheddable).max(claimed.min(claims.class.ceiling))
}
