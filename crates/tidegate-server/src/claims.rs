//! The claims of a request: tenant, class, feature, deadline and number of attempts.
//!
//! The policy says where each is found ([`RequestClaims`]); here it is only looked up. A class is
//! bounded by the grant of the caller, and by the tenant's class or the ceiling of the namespace.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tidegate_core::Class;
use tidegate_policy::Policy;
use tidegate_policy::grammar::ValueSource;
use tidegate_policy::policy::claims::{ATTEMPT, DEADLINE_MS, RequestClaims};
use tidegate_wire::claim::{parse_attempt, parse_deadline_ms};
use tidegate_wire::text::shortened;
use tidegate_wire::ticket;
use tidegate_wire::{Fault, FaultCode};

/// How much of a value an error shows, in bytes.
const SHOWN_BYTES: usize = 64;

static DEFAULT: LazyLock<RequestClaims> = LazyLock::new(RequestClaims::default);

/// Where the requests of each namespace say more about themselves. Default: as
/// [`RequestClaims::default`] in every namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimSettings {
    namespaces: Arc<HashMap<String, RequestClaims>>,
    /// The tenants of routes of the proxy, by namespace.
    routes: Arc<HashMap<String, Vec<RouteTenant>>>,
}

/// The tenant of requests of a route of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteTenant {
    upstream: String,
    /// The attribute that names it.
    attribute: Option<String>,
    /// The class of requests that claim none.
    pub(crate) class: Class,
}

impl ClaimSettings {
    /// The settings of a policy.
    pub(crate) fn from_policy(policy: &Policy) -> Self {
        let all = policy.namespaces.iter().filter(|namespace| namespace.request != *DEFAULT);
        let all = all.map(|namespace| (namespace.name.clone(), namespace.request.clone()));
        let mut routes = HashMap::<String, Vec<RouteTenant>>::new();
        for route in &policy.proxy.routes {
            if let Some(namespace) = &route.namespace {
                let (upstream, attribute) = (route.upstream.clone(), route.tenant.clone());
                let new = RouteTenant { upstream, attribute, class: route.class.default };
                let known = routes.entry(namespace.clone()).or_default();
                if !known.contains(&new) {
                    known.push(new);
                }
            }
        }
        Self { namespaces: Arc::new(all.collect()), routes: Arc::new(routes) }
    }

    /// The settings of a namespace.
    pub(crate) fn of_namespace(&self, namespace: &str) -> &RequestClaims {
        self.namespaces.get(namespace).unwrap_or(&DEFAULT)
    }

    /// Whether an attribute names the tenants of a namespace: in its `request`, or in a route of
    /// the proxy.
    pub(crate) fn names_tenants(&self, namespace: &str, attribute: &str) -> bool {
        matches!(&self.of_namespace(namespace).tenant, ValueSource::Entry(name) if name == attribute)
            || self.routes_of(namespace).iter().any(|route| route.attribute.as_deref() == Some(attribute))
    }

    /// The tenant of a request with these attributes at a route of the proxy to `resource`, or at
    /// any route without one.
    pub(crate) fn tenant_at_route<'a>(
        &self,
        namespace: &str,
        resource: Option<&str>,
        pairs: &[(&'a str, &'a str)],
    ) -> Option<(&'a str, &RouteTenant)> {
        let routes = self.routes_of(namespace).iter();
        let mut routes = routes.filter(|route| resource.is_none_or(|resource| resource == route.upstream));
        routes.find_map(|route| {
            let attribute = route.attribute.as_deref()?;
            let (_, value) = pairs.iter().find(|(known, _)| *known == attribute)?;
            Some((*value, route))
        })
    }

    /// Why an attribute is not the tenant of each request of a namespace, and the settings that
    /// make it one; `None` if it is at every door.
    pub(crate) fn why_no_tenant(&self, namespace: &str, attribute: &str) -> Option<String> {
        let mut why = Vec::new();
        match &self.of_namespace(namespace).tenant {
            // A request without it counts as one of no tenant, and so it does at no other door.
            ValueSource::Entry(name) if name == attribute => {}
            ValueSource::Entry(name) => why.push(format!(
                "a check has the tenant that its attribute \"{name}\" names, unless namespace \"{namespace}\" \
                 has `request: {{ tenant: entry.{attribute} }}`"
            )),
            _ => {}
        }
        let is_other = |route: &&RouteTenant| route.attribute.as_deref() != Some(attribute);
        if let Some(route) = self.routes_of(namespace).iter().find(is_other) {
            let upstream = &route.upstream;
            why.push(match &route.attribute {
                Some(other) => format!(
                    "a request of a route to upstream \"{upstream}\" has the tenant that \"{other}\" names, \
                     unless the route has `tenant: {attribute}`"
                ),
                None => format!(
                    "a request of a route to upstream \"{upstream}\" has a tenant only if the route has \
                     `tenant: {attribute}`"
                ),
            });
        }
        (!why.is_empty()).then(|| why.join("; "))
    }

    fn routes_of(&self, namespace: &str) -> &[RouteTenant] {
        self.routes.get(namespace).map_or(&[], Vec::as_slice)
    }
}

/// The claims of a request that do not come from its attributes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnClaims<'a> {
    pub(crate) class: Option<Class>,
    pub(crate) feature: Option<&'a str>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) attempt: Option<u32>,
    /// At most [`ticket::BYTES_MAX`] bytes.
    ticket: Option<&'a str>,
}

impl<'a> OwnClaims<'a> {
    /// A class, and what the headers of the request say.
    pub(crate) fn from_headers(class: Option<Class>, headers: &'a HeaderMap) -> Result<Self, Fault> {
        let deadline = in_header(headers, &DEADLINE_MS, parse_deadline_ms, DEADLINE_FORM)?;
        let attempt = in_header(headers, &ATTEMPT, parse_attempt, ATTEMPT_FORM)?;
        Ok(Self { class, feature: None, deadline, attempt, ticket: ticket::in_headers(headers) })
    }

    /// A class alone.
    pub(crate) fn from_class(class: Option<Class>) -> Self {
        Self { class, ..Self::default() }
    }

    /// The same with the feature that a body names.
    pub(crate) fn feature(self, feature: Option<&'a str>) -> Self {
        Self { feature, ..self }
    }

    /// The same with the ticket that a body shows, if it shows one.
    pub(crate) fn ticket(self, shown: Option<&'a str>) -> Self {
        Self { ticket: shown.map(ticket::bounded).or(self.ticket), ..self }
    }

    /// The ticket, in place of the one that the attributes of the request show.
    pub(crate) fn ticket_or(&self, attribute: Option<&'a str>) -> Option<&'a str> {
        self.ticket.or(attribute.map(ticket::bounded))
    }
}

pub(crate) const DEADLINE_FORM: &str = "a whole number of milliseconds of at most 10 digits";
pub(crate) const ATTEMPT_FORM: &str = "a whole number of at most 9 digits";

fn in_header<T>(
    headers: &HeaderMap,
    name: &HeaderName,
    parse: fn(&[u8]) -> Option<T>,
    form: &str,
) -> Result<Option<T>, Fault> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        let fault = Fault::new(FaultCode::MalformedQuery, format_args!("duplicate header {name}"));
        return Err(fault.fix("send it once"));
    }
    let parsed = parse(value.as_bytes());
    parsed.map(Some).ok_or_else(|| unreadable(name, &String::from_utf8_lossy(value.as_bytes()), form))
}

pub(crate) fn unreadable(what: &impl core::fmt::Display, value: &str, form: &str) -> Fault {
    let detail = format_args!("{what} \"{}\" is not {form}", shortened(value, SHOWN_BYTES));
    Fault::new(FaultCode::MalformedBody, detail).fix("send digits only, or leave it out")
}

/// The value of a source in a request that is described by `pairs`.
pub(crate) fn value_in<'a>(source: &'a ValueSource, pairs: &[(&'a str, &'a str)]) -> Option<&'a str> {
    value_of(source, |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value))
}

/// The value of a source in a request with these entries.
pub(crate) fn value_of<'a>(
    source: &'a ValueSource,
    entry: impl Fn(&str) -> Option<&'a str>,
) -> Option<&'a str> {
    match source {
        ValueSource::Entry(name) => entry(name),
        ValueSource::Constant(text) => Some(text),
        // The policy refuses the others for requests that are described.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tidegate_wire::headers::TICKET;

    use super::*;

    #[test]
    fn the_ticket_of_the_body_wins_over_the_header_and_the_header_over_the_attribute() {
        let mut headers = HeaderMap::new();
        let none = OwnClaims::from_headers(None, &headers).unwrap().ticket(None);
        assert_eq!((none.ticket_or(None), none.ticket_or(Some("entry"))), (None, Some("entry")));
        let long = "x".repeat(ticket::BYTES_MAX + 1);
        assert_eq!(none.ticket_or(Some(&long)), Some(ticket::MALFORMED));
        headers.insert(TICKET, HeaderValue::from_static("header"));
        let shown = OwnClaims::from_headers(None, &headers).unwrap();
        assert_eq!(shown.ticket(None).ticket_or(Some("entry")), Some("header"));
        assert_eq!(shown.ticket(Some("body")).ticket_or(Some("entry")), Some("body"));
        assert_eq!(shown.ticket(Some(&long)).ticket_or(Some("entry")), Some(ticket::MALFORMED));
        // A duplicate header is no error of the request.
        headers.append(TICKET, HeaderValue::from_static("header"));
        let twice = OwnClaims::from_headers(None, &headers).unwrap();
        assert_eq!(twice.ticket_or(Some("entry")), Some(ticket::MALFORMED));
    }
}
