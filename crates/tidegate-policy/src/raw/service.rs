//! The settings of the daemon as they are written: where it listens, what it keeps, how it answers
//! and what it logs.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::name_map::NameMap;
#[cfg(test)]
use super::text_or::LongerForm;
use super::text_or::TextOr;
use crate::policy::{Format, ListenerRole, Sample};

/// Where the daemon listens.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "listen")]
pub(crate) struct ListenConfig {
    /// The API: `/v1/check` and the others. An address with a port, or `unix:/path` for a socket.
    /// Default: `127.0.0.1:8080`.
    pub(crate) http: Option<TextOr<ListenerForm>>,
    /// Health, metrics and changes. Default: on the http listener if that is on loopback or a
    /// socket, otherwise nowhere.
    pub(crate) admin: Option<TextOr<ListenerForm>>,
    /// The reverse proxy: requests that are passed on as `proxy:` says. Default: nowhere.
    pub(crate) proxy: Option<TextOr<ListenerForm>>,
    /// gRPC: Envoy's rate limit service, health and reflection. An address with a port, or
    /// `unix:/path`. Default: nowhere.
    pub(crate) grpc: Option<TextOr<ListenerForm>>,
    /// Redis clients: `CL.THROTTLE`, `TG.CHECK` and the usual commands of clients. An address with
    /// a port, or `unix:/path`. Default: nowhere.
    pub(crate) resp: Option<TextOr<ListenerForm>>,
}

impl ListenConfig {
    /// Each listener as it is written, in the order of [`ListenerRole::ALL`].
    pub(crate) fn by_role(&self) -> impl Iterator<Item = (ListenerRole, Option<&TextOr<ListenerForm>>)> {
        let Self { http, admin, proxy, grpc, resp } = self;
        ListenerRole::ALL.into_iter().zip([http, admin, proxy, grpc, resp].map(Option::as_ref))
    }
}

/// An address with what belongs to it.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "listener")]
pub(crate) struct ListenerForm {
    /// An IP address with a port, as `127.0.0.1:8080` or `[::1]:8080`; port 0 takes any free one.
    /// For http, proxy, grpc and resp also `unix:/path`.
    pub(crate) address: String,
    /// Listens on an address that is not loopback although callers are not authenticated. Default:
    /// `false`. Danger: every caller that reaches the address may use up, and on admin change,
    /// every limit.
    pub(crate) insecure: Option<bool>,
    /// TLS 1.2 and 1.3, with HTTP/2 and HTTP/1.1 where HTTP is spoken. Default: none. Renewed files
    /// are taken up within seconds.
    pub(crate) tls: Option<TlsForm>,
    /// Whether connections begin with the PROXY protocol, version 1 or 2, in which a balancer names
    /// the client. For proxy only. Default: `false`. With `true`, a connection without it, or from
    /// a peer outside of `proxy.trusted`, is closed.
    pub(crate) proxy_protocol: Option<bool>,
}

/// The files of a listener's TLS, all in PEM.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "tls")]
pub(crate) struct TlsForm {
    /// The certificate, followed by its chain up to a root.
    pub(crate) cert: String,
    /// Its private key.
    pub(crate) key: String,
    /// Authorities of client certificates: only clients with a certificate of one of them are
    /// served. Default: clients need none.
    pub(crate) client_ca: Option<String>,
}

impl TextOr<ListenerForm> {
    /// Where it listens, as it is written.
    pub(crate) fn address(&self) -> &str {
        match self {
            Self::Text(address) => address,
            Self::Form(form) => &form.address,
        }
    }

    /// Whether connections begin with the PROXY protocol.
    pub(crate) fn expects_preamble(&self) -> bool {
        matches!(self, Self::Form(form) if form.proxy_protocol == Some(true))
    }
}

#[cfg(test)]
impl LongerForm for ListenerForm {
    const ENTRY: &'static str = "listener_entry";
    const DESCRIPTION: &'static str = "An address, or an address with what belongs to it.";
}

/// The memory for counters.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "memory")]
pub(crate) struct MemoryConfig {
    /// The size of the table of keys, 1MiB to 1TiB. Memory is touched as it fills; a key takes 16
    /// to 24 bytes. Default: `256MiB`.
    pub(crate) keys: Option<String>,
    /// The most memory of all requests that wait, whatever they wait for, 1MiB to 1TiB: their
    /// copies and the buffers of their connections, about 40KiB for a request of HTTP/1. Half of it
    /// is divided among the namespaces, so that none takes the share of another. A request without
    /// room is refused with reason `queue_full`. Default: `64MiB`.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) waiting: Option<String>,
    /// The treatment of a new key when the table, or the disk of the store in files, is full.
    /// Default: `refuse`.
    pub(crate) when_full: Option<WhenFullConfig>,
}

/// The treatment of a new key when the table is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "when_full")]
pub(crate) enum WhenFullConfig {
    /// The request is refused with reason `table_full` and the time to come back.
    #[default]
    Refuse,
    /// The request is admitted and not counted. Danger: a caller that brings enough new keys
    /// escapes the limits.
    Admit,
}

/// The record of who used what.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "metering")]
pub(crate) struct MeteringConfig {
    /// How many tenants are tracked, 0 to 1000000, divided among the namespaces. The work of
    /// further ones is added to the `other` of their namespace. Default: `10000`.
    #[cfg_attr(test, schemars(range(max = 1_000_000)))]
    pub(crate) tenants: Option<u32>,
    /// The memory for the history of resources, 64KiB to 1TiB, in equal parts for each resource; a
    /// part that is too small drops the oldest minutes of the day. `0` and `off` keep none.
    /// Default: `16MiB`.
    pub(crate) history: Option<String>,
}

/// The source of namespace and attributes for gateway subrequests (`/v1/authorize`), beside the
/// query.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "authorize")]
pub(crate) struct AuthorizeConfig {
    /// Request headers and the attributes they become: `{ x-api-key: api_key }`. Default: `{}`.
    /// Danger: a header that the gateway does not set itself can have any value.
    pub(crate) headers: Option<NameMap<String>>,
    /// The namespace of requests that name none in their query. Default: none, which makes such
    /// requests an error.
    pub(crate) namespace: Option<String>,
}

/// The headers and the bounds of the HTTP API.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "http")]
pub(crate) struct HttpConfig {
    /// Older headers that answers have beside `RateLimit` and `RateLimit-Policy` of the IETF draft.
    /// Default: `[]`.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) legacy_headers: Option<Vec<LegacyHeadersConfig>>,
    /// The bounds of requests and connections. Default: `{}`.
    pub(crate) bounds: Option<BoundsConfig>,
}

/// A family of headers from before the IETF draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "legacy_headers")]
pub(crate) enum LegacyHeadersConfig {
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` (seconds from now).
    RateLimit,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset`.
    XRateLimit,
}

/// The bounds of requests and connections. A request beyond a bound is refused with an error.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "bounds")]
pub(crate) struct BoundsConfig {
    /// The body of a request, 1KiB to 64MiB. Default: `64KiB`.
    pub(crate) body: Option<String>,
    /// All headers of a request together, 8KiB to 1MiB. Default: `16KiB`.
    pub(crate) headers: Option<String>,
    /// How many headers a request may have, 1 to 1000. Default: `100`.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub(crate) header_count: Option<u16>,
    /// How many attributes a request may have, 1 to 64. Default: `64`.
    #[cfg_attr(test, schemars(range(min = 1, max = 64)))]
    pub(crate) attributes: Option<u16>,
    /// The name and the value of one attribute, each, 16B to 64KiB. Default: `1KiB`.
    pub(crate) attribute: Option<String>,
    /// Connections open at once on all listeners, 1 to 1000000. Further connections wait. Default:
    /// `10000`.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) connections: Option<u32>,
    /// How long a request may take to arrive, and its answer to be read, 10ms to 1h.
    /// Default: `10s`.
    pub(crate) request_timeout: Option<String>,
    /// How long the daemon answers requests that it has read when it stops, 0s to 1h. Default:
    /// `30s`.
    pub(crate) drain_timeout: Option<String>,
}

/// The settings of the log.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "log")]
pub(crate) struct LogConfig {
    /// The least important lines that are written. Default: `info`.
    pub(crate) level: Option<LevelConfig>,
    /// How lines are written. Default: `text`.
    pub(crate) format: Option<Format>,
    /// The most lines about refusals for each reason, as lines/span. Further refusals are counted,
    /// and each namespace gets at least one line. `off` writes none. Default: `10/s`.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) refusals: Option<String>,
    /// A file with one JSON object a line for each decision: its path, or a mapping. Default: none,
    /// which writes none. Danger: it holds the attributes of requests, which may name people or be
    /// secrets.
    pub(crate) decisions: Option<TextOr<DecisionsForm>>,
}

/// The decision log. No caller waits for it: lines beyond the queue are dropped and counted.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "decisions")]
pub(crate) struct DecisionsForm {
    /// The file, relative to where the daemon is started; its directory must exist. 1 to 4096
    /// bytes. The daemon appends to an existing file.
    pub(crate) path: String,
    /// How large the file may grow before it is renamed to `path.1`, 64KiB to 1TiB. Default:
    /// `64MiB`.
    pub(crate) size: Option<String>,
    /// How many renamed files are kept, 1 to 1000; the oldest is removed. Disk in use is at most
    /// `size` times one more than this. Default: `4`.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub(crate) files: Option<u16>,
    /// How many lines may wait to be written, 1 to 1000000; more are dropped and counted. Default:
    /// `65536`.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub(crate) queue: Option<u32>,
    /// Which decisions get a line. Default: `all`.
    pub(crate) sample: Option<Sample>,
}

#[cfg(test)]
impl LongerForm for DecisionsForm {
    const ENTRY: &'static str = "decisions_entry";
    const DESCRIPTION: &'static str = "The path of the decision log, or its path with what belongs to it.";
}

/// How important a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "level")]
pub(crate) enum LevelConfig {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}
