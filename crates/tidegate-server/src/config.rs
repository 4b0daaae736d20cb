//! The configuration of a daemon.

use std::collections::HashMap;

use http::HeaderName;
use tidegate_core::{Rate, Refusal, RefusalDetails};
use tidegate_engine::RemoteConfig;
use tidegate_net::Bounds;
use tidegate_proxy::ProxyConfig;
use tidegate_wire::Meaning;

use crate::authorization::Authorization;
use crate::claims::ClaimSettings;
use crate::envoy::envoy_files::EnvoyFiles;
use crate::planes::PlaneSettings;
use crate::ticket_key_source::TicketKeySource;
pub use tidegate_net::reply::OlderHeaders;
use tidegate_policy::policy::{Address, ListenerPolicy, ListenerRole, Metering};

/// How a daemon listens and answers. Everything but the addresses has a default.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The listeners. Several of one role are served alike. Without one for operators, those for
    /// callers of the API serve operators too, as far as only this machine reaches them. Default
    /// none.
    pub listeners: Vec<ListenerPolicy>,
    /// The files of envoyproxy/ratelimit for the domains that are no namespaces. Default none.
    pub envoy_ratelimit: Option<EnvoyFiles>,
    /// The reverse proxy: its routes and upstreams. Default none.
    pub proxying: ProxyConfig,
    /// Whether a reload leaves `proxying` as it is, because no policy describes it. Default no.
    pub keeps_proxying: bool,
    /// The grants of callers. Default none: every client that reaches a listener may do everything.
    pub authorization: Option<Authorization>,
    /// The bounds of every listener.
    pub bounds: Bounds,
    /// Which headers of a gateway subrequest are attributes. Default none.
    pub authorize_headers: AuthorizeHeaders,
    /// The namespace of gateway subrequests that name none. Default none, and then naming none is
    /// an error.
    pub authorize_namespace: Option<String>,
    /// HTTP statuses of refusals that differ from the reason's own, by namespace and limit. Default
    /// none.
    pub statuses: Statuses,
    /// The tables and resources that requests may name. Default none.
    pub planes: PlaneSettings,
    /// Where the keys of deferral tickets are. Default none, and no tickets are sold.
    pub ticket_keys: TicketKeySource,
    /// Where requests say more about themselves than their attributes. Default: see
    /// [`ClaimSettings`].
    pub claims: ClaimSettings,
    /// The most lines about refusals, for each reason; `None` writes none. Default 10 a second.
    pub refusal_lines: Option<Rate>,
    /// Which older header families are sent beside `RateLimit`. Default none.
    pub older_headers: OlderHeaders,
    /// The record of who used what. Default: that of a policy without it.
    pub metering: Metering,
    /// The bounds of Envoys that hold parts of limits. Default: those of a policy without them.
    pub remote: RemoteConfig,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            envoy_ratelimit: None,
            proxying: ProxyConfig::default(),
            keeps_proxying: false,
            authorization: None,
            bounds: Bounds::default(),
            authorize_headers: AuthorizeHeaders::default(),
            authorize_namespace: None,
            statuses: Statuses::default(),
            planes: PlaneSettings::default(),
            ticket_keys: TicketKeySource::None,
            claims: ClaimSettings::default(),
            refusal_lines: Rate::per_second(10).ok(),
            older_headers: OlderHeaders::default(),
            metering: Metering::default(),
            remote: RemoteConfig::default(),
        }
    }
}

impl ServerConfig {
    /// The defaults, with the API at these addresses.
    pub fn listening_on(http: impl IntoIterator<Item = Address>) -> Self {
        let listeners = http.into_iter().map(|address| ListenerPolicy::new(ListenerRole::Http, address));
        Self { listeners: listeners.collect(), ..Self::default() }
    }

    /// Moves the listener with this role to another address, or adds one without TLS.
    pub fn listen(&mut self, role: ListenerRole, address: Address) -> &mut ListenerPolicy {
        let place = self.listeners.iter().position(|listener| listener.role == role);
        let place = place.unwrap_or(self.listeners.len());
        match self.listeners.get_mut(place) {
            Some(listener) => listener.address = address,
            None => self.listeners.push(ListenerPolicy::new(role, address)),
        }
        &mut self.listeners[place]
    }

    /// Whether there is a listener with this role.
    pub fn has_listener(&self, role: ListenerRole) -> bool {
        self.listeners.iter().any(|listener| listener.role == role)
    }

    /// The HTTP status of a refusal: that of its resource or limit, else that of its reason.
    pub(crate) fn status_of(&self, refusal: &Refusal) -> u16 {
        let details = refusal.details.as_deref().and_then(RefusalDetails::overload);
        details
            .and_then(|details| details.resource.as_deref())
            .and_then(|resource| self.planes.status(resource))
            .unwrap_or_else(|| self.statuses.of(refusal))
    }
}

/// HTTP statuses of refusals that differ from the reason's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statuses(HashMap<String, HashMap<String, u16>>);

impl Statuses {
    /// Sets the status of refusals by one limit; 400 to 599, anything else is answered as 500.
    pub fn set(&mut self, namespace: impl Into<String>, limit: impl Into<String>, status: u16) {
        self.0.entry(namespace.into()).or_default().insert(limit.into(), status);
    }

    /// The status of a refusal.
    pub(crate) fn of(&self, refusal: &Refusal) -> u16 {
        let own = self.of_limit(&refusal.namespace, refusal.name());
        own.unwrap_or(Meaning::from_reason(refusal.reason()).status)
    }

    /// The status that was set for one limit.
    pub(crate) fn of_limit(&self, namespace: &str, limit: &str) -> Option<u16> {
        self.0.get(namespace)?.get(limit).copied()
    }
}

/// The headers of a gateway subrequest that are attributes, each with the name of its attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizeHeaders(Vec<(HeaderName, String)>);

/// An invalid header name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not the name of a header; use letters, digits and hyphens")]
pub struct NotAHeader(pub String);

impl AuthorizeHeaders {
    /// Pairs of a header and the attribute its value is.
    pub fn new<H, A>(pairs: impl IntoIterator<Item = (H, A)>) -> Result<Self, NotAHeader>
    where
        H: AsRef<str>,
        A: Into<String>,
    {
        let parse = |(header, attribute): (H, A)| {
            let name = HeaderName::try_from(header.as_ref());
            Ok((name.map_err(|_| NotAHeader(header.as_ref().to_owned()))?, attribute.into()))
        };
        pairs.into_iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&HeaderName, &str)> {
        self.0.iter().map(|(header, attribute)| (header, attribute.as_str()))
    }
}

/// Pairs of a header and the attribute its value is.
impl FromIterator<(HeaderName, String)> for AuthorizeHeaders {
    fn from_iter<I: IntoIterator<Item = (HeaderName, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_header_is_told_so() {
        let error = AuthorizeHeaders::new([("x api", "api_key")]).unwrap_err();
        assert_eq!(error, NotAHeader("x api".to_owned()));
        assert_eq!(AuthorizeHeaders::new([("X-Api-Key", "api_key")]).unwrap().iter().count(), 1);
    }
}
