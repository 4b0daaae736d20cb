//! Checked settings of the reverse proxy.
//!
//! Values that only the proxy itself parses (addresses of servers, patterns of paths, sources of
//! attributes) stay text that has been checked.

use core::num::NonZeroU64;
use core::time::Duration;

use tidegate::{Class, Cost, Matcher};

/// The reverse proxy.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting that is or is not")]
pub struct Proxy {
    /// Where requests may go, in alphabetical order of names.
    pub upstreams: Vec<Upstream>,
    /// The networks of trusted proxies in front, at most 1024, each an address or a CIDR block.
    pub trusted: Vec<String>,
    /// Whether peers on a Unix socket are trusted as well.
    pub trusts_unix: bool,
    /// Whether they name the client in `Forwarded` rather than `X-Forwarded-For`.
    pub forwarded: bool,
    /// Whether a path is brought into its plainer spelling rather than rejected.
    pub normalise: bool,
    /// How tokens are checked.
    pub jwt: Option<Jwt>,
    /// Which requests go where; the first that matches counts.
    pub routes: Vec<Route>,
    /// How many requests may wait at a time; default [`Proxy::WAITING_DEFAULT`].
    pub waiting: usize,
    /// Headers that pass from peers that are not trusted although only a proxy may say them, in
    /// lower case. At most [`Proxy::KEEP_HEADERS_MAX`].
    pub keep_headers: Vec<String>,
    /// Whether every request gets a line in the log.
    pub access_log: bool,
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            trusted: Vec::new(),
            trusts_unix: false,
            forwarded: false,
            normalise: false,
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
}

/// Servers that are as good as one another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// The servers as `http://HOST:PORT` or `https://HOST:PORT`, at least one.
    pub servers: Vec<String>,
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

/// Which requests go to an upstream, and on what terms.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Route {
    /// Its name.
    pub name: String,
    /// The pattern of its paths, which begins with `/`.
    pub path: Option<String>,
    /// The matcher of the host.
    pub host: Option<Matcher>,
    /// Its methods; none is any.
    pub methods: Vec<String>,
    /// The name of one of [`Proxy::upstreams`].
    pub upstream: String,
    /// The namespace whose limits apply, one of [`super::Policy::namespaces`].
    pub namespace: Option<String>,
    /// The attributes, each with where it is found. At most [`tidegate::Attributes::MAX`].
    pub attributes: Vec<(String, String)>,
    /// The header that says the class, in lower case.
    pub class_header: Option<String>,
    /// The class of requests that do not say theirs.
    pub class: Class,
    /// The name of one of [`Route::attributes`], which says who pays.
    pub tenant: Option<String>,
    /// The header with the milliseconds that the caller waits, in lower case.
    pub deadline_header: Option<String>,
    /// Units of every request; default 1.
    pub cost: Cost,
    /// Bytes of body that weigh one unit more.
    pub cost_body_bytes: Option<NonZeroU64>,
    /// The header of an answer that names the true cost, in lower case.
    pub cost_header: Option<String>,
    /// How long a refused request may wait; default 0, not at all.
    pub wait: Duration,
    /// From the last of the request to the first of the answer; default a minute.
    pub first_byte: Duration,
    /// Between two pieces of a body; default a minute.
    pub idle: Duration,
    /// From the head of the request to the end of the answer.
    pub total: Option<Duration>,
    /// When a request is sent again.
    pub retry: Retry,
    /// The protocols that a connection may change to, at most [`Route::UPGRADES_MAX`]; default
    /// `websocket`.
    pub upgrades: Vec<String>,
    /// The response to refused requests: a media type and a body.
    pub refusal: Option<(String, String)>,
}

impl Route {
    /// The most protocols in [`Route::upgrades`].
    pub const UPGRADES_MAX: usize = 8;
}

/// When a request is sent again, once, to another server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// Never.
    Off,
    /// When nothing was sent.
    Connect,
    /// Then, and when no answer came and repeating is safe.
    #[default]
    Idempotent,
}
