//! The configuration of the reverse proxy: its upstreams, and the routes to them.

use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;
use core::time::Duration;

use http::uri::{Authority, Scheme};
use http::{HeaderName, Method, Uri};
use tidegate::{Cost, Matcher};

use super::attributes::{AttributeSource, RequestAttributes};
use super::class::ClassSource;
use super::client_address::ClientAddress;
use super::deadline::Deadline;
use super::jwt::TokenReader;
use super::path::{PathPattern, PathRules};
use super::upstream::UpstreamTls;

/// A reverse proxy as it is configured. A reload replaces all of it; its listener stays.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProxyConfig {
    /// Where requests may go. Names are unique. Default none.
    pub upstreams: Vec<UpstreamConfig>,
    /// Which requests go where; the first that matches counts. Default none, and then every request
    /// is answered 404.
    pub routes: Vec<RouteConfig>,
    /// How many requests may wait at a time for limits or permits, on all routes. Default 1024; 0
    /// lets none wait. Above it a request is refused at once. Each namespace whose routes let
    /// requests wait has an equal share, which no other namespace can take.
    pub waiting: usize,
    /// Bytes of the heads of all requests that wait, shared likewise. Default 16 MiB. Above it a
    /// request is refused at once.
    pub waiting_bytes: usize,
    /// The proxies that are trusted to name the client's address. Default: no proxy.
    pub client_address: ClientAddress,
    /// How tokens are checked that claims are taken from. Default none, and then claims are absent.
    pub tokens: Option<TokenReader>,
    /// How paths are read. Default: paths with two readings are rejected.
    pub paths: PathRules,
    /// Headers that pass from untrusted peers although usually only a proxy may say. Default none.
    /// Danger: any client may write them.
    pub keep_headers: Vec<HeaderName>,
    /// Whether every request gets a line in the log, of target `tidegate::access`. Default no.
    pub access_log: bool,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            routes: Vec::new(),
            waiting: 1024,
            waiting_bytes: 16 << 20,
            client_address: ClientAddress::default(),
            tokens: None,
            paths: PathRules::default(),
            keep_headers: Vec::new(),
            access_log: false,
        }
    }
}

/// Servers that are as good as one another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamConfig {
    /// Its name, in routes, metrics and logs.
    pub name: String,
    /// The servers, taken in turn. At least one.
    pub servers: Vec<ServerUrl>,
    /// TLS to the servers whose address says https. Default none, and then these cannot be
    /// connected to.
    pub tls: Option<UpstreamTls>,
    /// Whether they speak HTTP/2: without being asked, or with TLS as the only protocol that is
    /// offered. Default no: HTTP/1.1.
    pub http2: bool,
    /// How long connecting may take, from the look-up of the name to the end of the TLS handshake.
    /// Default 5 s. After it another server is tried, once.
    pub connect_timeout: Duration,
    /// How many idle connections are kept to each server. Default 64; 0 keeps none. Above it the
    /// oldest is closed.
    pub idle_connections: usize,
    /// How many requests have to fail in a row for a server to be left out. Default 3; 0 never
    /// leaves one out.
    pub failures: u32,
    /// How long it is left out; then it is tried again. Default 10 s.
    pub out_for: Duration,
    /// How servers are asked whether they are well. Default none: only by the requests they get.
    pub probe: Option<Probe>,
}

impl UpstreamConfig {
    /// These servers, with the defaults.
    pub fn new(name: impl Into<String>, servers: impl IntoIterator<Item = ServerUrl>) -> Self {
        Self {
            name: name.into(),
            servers: servers.into_iter().collect(),
            tls: None,
            http2: false,
            connect_timeout: Duration::from_secs(5),
            idle_connections: 64,
            failures: 3,
            out_for: Duration::from_secs(10),
            probe: None,
        }
    }
}

/// How a server is asked whether it is well: a GET that is answered with 200 to 399.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The path, from `/`.
    pub path: String,
    /// How often.
    pub interval: Duration,
    /// How long an answer may take. After it the server counts as failed once more.
    pub timeout: Duration,
}

/// The address of a server, as `http://10.0.0.7:3000` or `https://app.internal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    scheme: Scheme,
    authority: Authority,
}

/// An invalid address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("upstream \"{url}\" {what}; write http://HOST:PORT or https://HOST:PORT")]
pub struct NotAServer {
    /// The address, shortened.
    pub url: String,
    /// The problem.
    pub what: &'static str,
}

impl ServerUrl {
    /// Whether it is connected to with TLS.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    pub(super) fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Where it listens: host and port. Without a port it is 80, and 443 with https.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }
}

impl FromStr for ServerUrl {
    type Err = NotAServer;

    fn from_str(text: &str) -> Result<Self, NotAServer> {
        let wrong = |what| NotAServer { url: text.chars().take(80).collect(), what };
        let uri: Uri = text.parse().map_err(|_| wrong("is not an address"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(wrong("has no scheme"));
        };
        if *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS {
            return Err(wrong("is of a scheme that is neither http nor https"));
        }
        if authority.as_str().contains('@') {
            return Err(wrong("names a user"));
        }
        if uri.path_and_query().is_some_and(|rest| rest.as_str() != "/") {
            return Err(wrong("has a path, which would be put before that of each request"));
        }
        Ok(Self { scheme: scheme.clone(), authority: authority.clone() })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

/// A route: the requests that it takes, their upstream, and the limits and timeouts for them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RouteConfig {
    /// Its name in metrics and logs.
    pub name: String,
    /// The pattern of the path in its plain spelling. Default any.
    pub path: Option<PathPattern>,
    /// The matcher of the host, in lower case and without a port. Default any.
    pub host: Option<Matcher>,
    /// The methods it takes. Default (empty) any.
    pub methods: Vec<Method>,
    /// The name of the upstream.
    pub upstream: String,
    /// The namespace whose limits apply. Default none, and then every request is forwarded.
    pub namespace: Option<String>,
    /// The attributes, where each is found, and which of them says who pays. One that is not found
    /// is absent. Default none.
    pub attributes: RequestAttributes,
    /// Where the class of a request is found, and the class of one that names none.
    pub class: ClassSource,
    /// Where the feature that a request uses is found. Default none.
    pub feature: Option<AttributeSource>,
    /// Where a request says how long its caller waits. Default: in `grpc-timeout`.
    pub deadline: Deadline,
    /// The cost of a request.
    pub cost: RouteCost,
    /// How long a request that is refused may wait to be admitted. Default 0: not at all.
    pub wait: Duration,
    /// How long each part of a request may take.
    pub timeouts: Timeouts,
    /// Whether a request that failed is sent again, once. Default [`Retries::Idempotent`].
    pub retries: Retries,
    /// The protocols that a connection may change to, compared without regard to case. Default
    /// `websocket`. Offers of others are left out of the request, which is then served as any
    /// other.
    pub upgrades: Vec<String>,
    /// The body of refusals. Default: the usual problem document.
    pub refusal_page: Option<RefusalPage>,
}

impl RouteConfig {
    /// Every request goes to `upstream` and is admitted.
    pub fn new(name: impl Into<String>, upstream: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            path: None,
            host: None,
            methods: Vec::new(),
            upstream: upstream.into(),
            namespace: None,
            attributes: RequestAttributes::new([]).expect("none are not too many"),
            class: ClassSource::default(),
            feature: None,
            deadline: Deadline::default(),
            cost: RouteCost::default(),
            wait: Duration::ZERO,
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            upgrades: vec!["websocket".to_owned()],
            refusal_page: None,
        }
    }
}

/// The cost of a request, in units of the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteCost {
    /// Units of every request. Default 1.
    pub units: Cost,
    /// Bytes of body that weigh one unit more, rounded up. Default none. A body that does not say
    /// its length is charged when it has passed.
    pub body_bytes: Option<NonZeroU64>,
    /// The header of an answer that names the true cost as a whole number, charged instead when the
    /// answer has ended. It is not passed on. Default none.
    pub from_response: Option<HeaderName>,
}

impl Default for RouteCost {
    fn default() -> Self {
        Self { units: Cost::ONE, body_bytes: None, from_response: None }
    }
}

/// How long each part of a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// From the last of the request that was sent to the first of the answer. Default 60 s. After
    /// it: 504.
    pub first_byte: Duration,
    /// Between two pieces of a body, either way. Default 60 s. After it the request: 408; the
    /// answer breaks off. It is also how long a client may take nothing of its answer; after that
    /// the stream is reset, or without HTTP/2 the connection closed, when connections are next
    /// looked at, which is once a second or more often.
    pub idle: Duration,
    /// From the head of the request to the end of the answer. Default none. After it: 504, or the
    /// answer breaks off.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { first_byte: Duration::from_mins(1), idle: Duration::from_mins(1), total: None }
    }
}

/// When a request is sent again, once, to another server of its upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retries {
    /// Never.
    Off,
    /// When no connection could be had, so that nothing was sent.
    Connect,
    /// Then, and when no answer came to a request without a body whose method may be repeated.
    #[default]
    Idempotent,
}

/// A body of refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalPage {
    /// Its media type.
    pub content_type: http::HeaderValue,
    /// The body, sent as it is.
    pub body: bytes::Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_scheme_a_host_and_a_port() {
        for good in ["http://127.0.0.1:3000", "http://app", "http://[::1]:80/", "https://app.internal:8443"] {
            let url: ServerUrl = good.parse().unwrap();
            assert_eq!(url.is_https(), good.starts_with("https"));
            assert_eq!(url.to_string(), good.trim_end_matches('/'));
        }
        for (bad, hint) in [
            ("127.0.0.1:3000", "has no scheme"),
            ("ftp://app", "neither http nor https"),
            ("http://user@app", "names a user"),
            ("http://app/v1", "has a path"),
            ("http://app/?q", "has a path"),
            ("", "not an address"),
            ("http://", "not an address"),
        ] {
            let error = bad.parse::<ServerUrl>().unwrap_err();
            assert!(error.to_string().contains(hint), "{bad}: {error}");
        }
    }

    #[test]
    fn one_upstream_takes_everything_within_the_limits_of_a_namespace() {
        let config = ProxyConfig::to_upstream("http://127.0.0.1:3000", "api").unwrap();
        assert_eq!(config.routes[0].namespace.as_deref(), Some("api"));
        assert!(ProxyConfig::to_upstream("127.0.0.1:3000", "api").is_err());
    }
}
