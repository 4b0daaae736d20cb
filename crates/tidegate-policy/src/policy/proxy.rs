//! Checked settings of the reverse proxy. Every value is parsed; only files are not opened yet.

use core::num::NonZeroU64;
use core::time::Duration;

use http::{HeaderName, HeaderValue, Method};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::matcher::Network;
use tidegate_core::{Cost, Matcher};

use super::claims::{ATTEMPT, AccessSources, ClassSource};
use crate::grammar::{GrammarError, PathPattern, ResponseValue, ServerUrl, ValueSource};

/// The reverse proxy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Proxy {
    /// Where requests may go, in alphabetical order of names.
    pub upstreams: Vec<Upstream>,
    /// The networks of trusted proxies in front, at most [`Proxy::COUNT_MAX`]. Default none.
    pub trusted: Vec<Network>,
    /// Whether peers on a Unix socket are trusted as well.
    pub trusts_unix: bool,
    /// The header in which trusted proxies name the client.
    pub client_header: ClientHeader,
    /// The treatment of a path that has a plainer spelling: `//`, `/./`, `/../`, or a letter,
    /// digit, `.`, `-` or `_` that is percent-encoded. A path that climbs above the root is always
    /// rejected. Default [`UnusualPaths::Reject`].
    pub unusual_paths: UnusualPaths,
    /// How tokens are checked.
    pub jwt: Option<Jwt>,
    /// Which requests go where; the first that matches counts.
    pub routes: Vec<Route>,
    /// How many requests may wait at a time; default [`Proxy::WAITING_DEFAULT`].
    pub waiting: usize,
    /// Headers that pass from peers that are not trusted although only a proxy may say them. At
    /// most [`Proxy::KEEP_HEADERS_MAX`].
    pub keep_headers: Vec<HeaderName>,
    /// Whether every request gets a line in the log.
    pub access_log: bool,
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            trusted: Vec::new(),
            trusts_unix: false,
            client_header: ClientHeader::default(),
            unusual_paths: UnusualPaths::default(),
            jwt: None,
            routes: Vec::new(),
            waiting: Self::WAITING_DEFAULT,
            keep_headers: Vec::new(),
            access_log: false,
        }
    }
}

impl Proxy {
    /// How many requests may wait at a time unless told otherwise.
    pub const WAITING_DEFAULT: usize = 1024;
    /// The most routes, and the most trusted networks.
    pub const COUNT_MAX: usize = 1024;
    /// The most headers in [`Proxy::keep_headers`].
    pub const KEEP_HEADERS_MAX: usize = 64;
    /// The most servers of an upstream.
    pub const SERVERS_MAX: usize = 256;

    /// A proxy that sends every request to the one server at `url` if the limits of `namespace`
    /// admit it. Attributes are `method`, `path`, `host` and `ip`. Connections to an https address
    /// use TLS with the machine's roots.
    pub fn to_upstream(url: &str, namespace: impl Into<String>) -> Result<Self, GrammarError> {
        let mut route = Route::new("upstream", "upstream");
        route.namespace = Some(namespace.into());
        let own = [
            ("method", ValueSource::Method),
            ("path", ValueSource::Path),
            ("host", ValueSource::Host),
            ("ip", ValueSource::ClientIp),
        ];
        route.attributes = own.map(|(name, source)| (name.to_owned(), source)).into();
        let upstream = Upstream::new("upstream", [url.parse()?]);
        Ok(Self { upstreams: vec![upstream], routes: vec![route], ..Self::default() })
    }
}

/// The header in which proxies in front name the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "client_header")]
pub enum ClientHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// The treatment of a path with a simpler spelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "paths")]
pub enum UnusualPaths {
    /// It is answered 400: servers read it in different ways.
    #[default]
    Reject,
    /// The plainer spelling is matched and sent on.
    Normalise,
}

/// Servers that are as good as one another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// The servers, taken in turn. At least one.
    pub servers: Vec<ServerUrl>,
    /// TLS to servers with https. With it all of them are; without it they get the defaults.
    pub tls: Option<UpstreamTls>,
    /// Whether they speak HTTP/2 without being asked, or as the only protocol that TLS offers.
    pub http2: bool,
    /// How long connecting may take, TLS included; default 5 s.
    pub connect_timeout: Duration,
    /// Idle connections kept to each server; default 64.
    pub idle_connections: usize,
    /// Failures in a row after which a server is left out; default 3, 0 never.
    pub failures: u32,
    /// How long it is left out; default 10 s.
    pub out_for: Duration,
    /// How servers are asked whether they are well.
    pub health: Option<Health>,
}

impl Upstream {
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
            health: None,
        }
    }
}

/// TLS to servers. Paths have 1 to [`super::PATH_BYTES_MAX`] bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamTls {
    /// The file with the certificates that those of servers must come from; none is what the
    /// machine trusts.
    pub ca: Option<String>,
    /// The files with the certificate we show, and with its key.
    pub identity: Option<(String, String)>,
    /// The name or address that certificates must be for; none is the host of each server.
    pub server_name: Option<String>,
}

/// How servers are asked whether they are well.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The path, which begins with `/`.
    pub path: String,
    /// How often; default 5 s.
    pub interval: Duration,
    /// How long an answer may take; default 1 s.
    pub timeout: Duration,
}

impl Health {
    /// Asks for this path, with the defaults.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), interval: Duration::from_secs(5), timeout: Duration::from_secs(1) }
    }
}

/// How tokens are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Jwt {
    /// The keys that verify a token.
    pub trust: Trust,
    /// The issuer that tokens must name.
    pub issuer: Option<String>,
    /// The audiences of which tokens must name one; none is any.
    pub audiences: Vec<String>,
    /// How far clocks may differ; default a minute.
    pub leeway: Duration,
}

impl Jwt {
    /// Tokens that `trust` verifies, of any issuer and for any audience.
    pub fn new(trust: Trust) -> Self {
        Self { trust, issuer: None, audiences: Vec::new(), leeway: Duration::from_mins(1) }
    }
}

/// The keys that verify a token. Paths have 1 to [`super::PATH_BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// A file with a shared secret.
    SecretFile(String),
    /// A file with public keys in PEM.
    KeysFile(String),
    /// A file with a JSON Web Key Set.
    JwksFile(String),
    /// No keys: a proxy in front has verified the token.
    Unverified,
}

/// A route: the requests that it takes, their upstream, and the limits and timeouts for them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Route {
    /// Its name in metrics and logs.
    pub name: String,
    /// The pattern of the path in its plain spelling; default any.
    pub path: Option<PathPattern>,
    /// The matcher of the host, in lower case and without a port; default any.
    pub host: Option<Matcher>,
    /// The methods it takes; default (empty) any.
    pub methods: Vec<Method>,
    /// The headers that its requests have, each with the matcher of its value, at most
    /// [`Route::HEADERS_MAX`]; all of them must match. Every source is a [`ValueSource::Header`].
    pub headers: Vec<(ValueSource, Matcher)>,
    /// The name of one of [`Proxy::upstreams`].
    pub upstream: String,
    /// The namespace whose limits apply, one of [`super::Policy::namespaces`]. Default none, and
    /// then every request is forwarded.
    pub namespace: Option<String>,
    /// The attributes, each with where it is found; at most [`tidegate_core::Attributes::MAX`],
    /// with names of their own. One that is not found is absent.
    pub attributes: Vec<(String, ValueSource)>,
    /// The name of one of [`Route::attributes`], which says who pays.
    pub tenant: Option<String>,
    /// Where the feature of a request is found, one of
    /// [`Policy::features`](super::Policy::features). Default none.
    pub feature: Option<ValueSource>,
    /// Where the operation of a request is found, for which alone a deferral ticket counts: as the
    /// resource of the upstream says. Default none, and the feature is the operation.
    pub operation: Option<ValueSource>,
    /// Where the class of a request is found, and its bound.
    pub class: ClassSource,
    /// Where a request says how many milliseconds its caller waits, beside `grpc-timeout` and
    /// `tidegate-deadline-ms`. Default none.
    pub deadline: Option<ValueSource>,
    /// Where a request says how many attempts there were before it; believed from trusted peers
    /// only, unless it is a claim. Default `tidegate-attempt`.
    pub attempt: ValueSource,
    /// The access to a table that a request makes. Default none.
    pub access: Option<AccessSources>,
    /// The cost of a request.
    pub cost: RouteCost,
    /// How long a request that is refused may wait to be admitted; default 0, not at all.
    pub wait: Duration,
    /// How long each part of a request may take.
    pub timeouts: Timeouts,
    /// When a request is sent again.
    pub retry: Retry,
    /// How long a request keeps its place of the resource of its upstream; default
    /// [`RouteHold::End`].
    pub hold: RouteHold,
    /// The protocols that a connection may change to, in lower case, at most
    /// [`Route::UPGRADES_MAX`]; default `websocket`. Offers of others are left out of the request,
    /// which is then served as any other.
    pub upgrades: Vec<String>,
    /// The response to refused requests. Default: the usual problem document.
    pub refusal: Option<RefusalPage>,
}

impl Route {
    /// The most headers in [`Route::headers`].
    pub const HEADERS_MAX: usize = 16;

    /// The most protocols in [`Route::upgrades`].
    pub const UPGRADES_MAX: usize = 8;

    /// Every request goes to `upstream` and is admitted.
    pub fn new(name: impl Into<String>, upstream: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            path: None,
            host: None,
            methods: Vec::new(),
            headers: Vec::new(),
            upstream: upstream.into(),
            namespace: None,
            attributes: Vec::new(),
            tenant: None,
            feature: None,
            operation: None,
            class: ClassSource::default(),
            deadline: None,
            attempt: ValueSource::Header(ATTEMPT),
            access: None,
            cost: RouteCost::default(),
            wait: Duration::ZERO,
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            hold: RouteHold::default(),
            upgrades: vec!["websocket".to_owned()],
            refusal: None,
        }
    }

    /// Every source that its requests are read by.
    pub fn sources(&self) -> impl Iterator<Item = &ValueSource> {
        let attributes = self.attributes.iter().map(|(_, source)| source);
        let access = self.access.iter().flat_map(AccessSources::sources);
        let headers = self.headers.iter().map(|(source, _)| source);
        let claims = attributes.chain(&self.class.from).chain(&self.feature).chain(&self.operation);
        let claims = claims.chain(&self.deadline).chain([&self.attempt]);
        claims.chain(access).chain(headers).chain(&self.cost.from)
    }
}

/// The cost of a request, in units of the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteCost {
    /// Units of every request. Default none: by the cost table of the namespace.
    pub units: Option<Cost>,
    /// Where a request says its units itself, as a whole number from 1; [`RouteCost::units`] where
    /// it does not. Default none.
    pub from: Option<ValueSource>,
    /// Bytes of body that weigh one unit more, rounded up. Default none. A body that does not say
    /// its length is charged when it has passed.
    pub body_bytes: Option<NonZeroU64>,
    /// Where an answer says the true cost, which is charged instead when the answer has ended; the
    /// first that an answer has counts. A header is not passed on. At most
    /// [`RouteCost::FROM_RESPONSE_MAX`]; default none.
    pub from_response: Vec<ResponseValue>,
}

impl RouteCost {
    /// The most entries of [`RouteCost::from_response`].
    pub const FROM_RESPONSE_MAX: usize = 8;

    /// Whether a body of an answer is read for the true cost.
    pub fn reads_body(&self) -> bool {
        self.from_response.iter().any(ResponseValue::is_in_body)
    }
}

/// How long each part of a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// From the last of the request that was sent to the first of the answer; default a minute.
    /// After it: 504.
    pub first_byte: Duration,
    /// Between two pieces of a body, either way; default a minute. After it the request: 408; the
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

/// A body of refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalPage {
    /// Its media type.
    pub content_type: HeaderValue,
    /// The body, sent as it is.
    pub body: String,
}

/// How long a request keeps its place of the resource of its upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "hold")]
pub enum RouteHold {
    /// Until its answer has ended.
    #[default]
    End,
    /// Until its answer begins; from then on it is one of the `streams` of the resource.
    FirstByte,
}

/// When a request is sent again, once, to another server of its upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "retry")]
pub enum Retry {
    /// Never.
    Off,
    /// When no connection could be had, so that nothing was sent.
    Connect,
    /// Then, and when no answer came to a request without a body whose method may be repeated.
    #[default]
    Idempotent,
}
