//! The reverse proxy as it is written: its upstreams, and which requests go where on what terms.

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::claims::{AccessForm, ClassForm};
use super::json_value::from_value;
use super::matcher::{MatcherConfig, TextOrTexts};
use super::name_map::NameMap;
use crate::policy::proxy::{ClientHeader, Retry, RouteHold, UnusualPaths};

/// The reverse proxy. It takes requests on `listen.proxy`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "proxy")]
pub(crate) struct ProxyConfig {
    /// Where requests may go, by name. Each is a list of servers as `http://HOST:PORT` or
    /// `https://HOST:PORT`, or a mapping. Default: `{}`.
    pub(crate) upstreams: Option<NameMap<UpstreamEntry>>,
    /// The networks of proxies in front that may report the client's address; `unix` is every peer
    /// of a Unix socket. At most 1024. Default: `[]`. Danger: a peer in one of these networks can
    /// claim any address.
    pub(crate) trusted: Option<Vec<String>>,
    /// The header in which they report it. Default: `x_forwarded_for`.
    pub(crate) client_header: Option<ClientHeader>,
    /// The treatment of a path with a simpler spelling, as `/a/../b` or `/%61`. Default:
    /// `reject`.
    pub(crate) paths: Option<UnusualPaths>,
    /// How the tokens are checked that `jwt.CLAIM` is taken from. Default: none, and then such
    /// attributes are absent.
    pub(crate) jwt: Option<JwtConfig>,
    /// The routes of requests. The first that matches takes the request; a request without a route
    /// gets 404. At most 1024. Default: `[]`.
    #[cfg_attr(test, schemars(extend("x-ordered" = true)))]
    pub(crate) routes: Option<Vec<RouteConfig>>,
    /// How many requests may wait at a time for limits or permits, 0 to 1000000; more are refused
    /// at once. Default: `1024`.
    #[cfg_attr(test, schemars(range(min = 0, max = 1_000_000)))]
    pub(crate) waiting: Option<u32>,
    /// Headers that pass from peers outside of `trusted` although only a proxy may send them, such
    /// as `x-real-ip` and `x-original-url`, or although their names have other characters than
    /// letters, digits and hyphens. At most 64. Default: `[]`. Danger: any client may write them.
    pub(crate) keep_headers: Option<Vec<String>>,
    /// Whether every request gets a line in the log, of target `tidegate::access`. Default:
    /// `false`.
    pub(crate) access_log: Option<bool>,
}

/// The servers of an upstream, or those with what belongs to them.
#[derive(Debug)]
pub(crate) enum UpstreamEntry {
    Servers(Vec<String>),
    Form(Box<UpstreamForm>),
}

/// Equivalent servers, with their settings.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "upstream")]
pub(crate) struct UpstreamForm {
    /// The servers as `http://HOST:PORT` or, with TLS, `https://HOST:PORT`, taken in turn. 1
    /// to 256.
    pub(crate) servers: Vec<String>,
    /// TLS to servers with https, 1.2 and 1.3. Default: `{}`. Renewed files are taken up within
    /// seconds, for new connections.
    pub(crate) tls: Option<UpstreamTlsForm>,
    /// Whether the servers speak HTTP/2: without negotiation, or with TLS as the only offered
    /// protocol. Default: `false`, which is HTTP/1.1.
    pub(crate) http2: Option<bool>,
    /// How long connecting may take, 1ms to 1h: looking up the name, TCP and TLS together. After it
    /// another server is tried, once. Default: `5s`.
    pub(crate) connect_timeout: Option<String>,
    /// How many idle connections are kept to each server, 0 to 10000. Default: `64`.
    #[cfg_attr(test, schemars(range(min = 0, max = 10_000)))]
    pub(crate) idle_connections: Option<u32>,
    /// The failed requests in a row after which a server is left out, 0 to 1000; 0 never leaves one
    /// out. Default: `3`.
    #[cfg_attr(test, schemars(range(min = 0, max = 1000)))]
    pub(crate) failures: Option<u32>,
    /// How long a server is left out, 1ms to 1h. Default: `10s`.
    pub(crate) out_for: Option<String>,
    /// Health checks of the servers. Default: none; only requests show failures.
    pub(crate) health: Option<HealthConfig>,
}

/// TLS to servers: the trusted authorities, the certificate of the proxy, and the name of the
/// servers. The files are in PEM.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "upstream_tls")]
pub(crate) struct UpstreamTlsForm {
    /// Authorities of the servers' certificates. Default: those that the machine trusts, read at
    /// the start.
    pub(crate) ca: Option<String>,
    /// The certificate for servers that ask for one, followed by its chain up to a root. Default:
    /// none.
    pub(crate) cert: Option<String>,
    /// Its private key. Default: none, and needed beside `cert`.
    pub(crate) key: Option<String>,
    /// The name or address in the certificates of the servers; a name is also sent as SNI. Default:
    /// the host of each server.
    pub(crate) server_name: Option<String>,
}

/// Health checks: a GET that is answered with 200 to 399.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "health")]
pub(crate) struct HealthConfig {
    /// The path, from `/`.
    pub(crate) path: String,
    /// How often, 10ms to 1h. Default: `5s`.
    pub(crate) interval: Option<String>,
    /// How long an answer may take, 1ms to 1h. Default: `1s`.
    pub(crate) timeout: Option<String>,
}

/// How tokens (JWT) are checked. Exactly one of `secret_file`, `keys_file`, `jwks_file` and
/// `unverified` is needed.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "jwt")]
pub(crate) struct JwtConfig {
    /// A file with the secret that the issuer shares, at least 32 bytes.
    pub(crate) secret_file: Option<String>,
    /// A file with public keys in PEM.
    pub(crate) keys_file: Option<String>,
    /// A file with a JSON Web Key Set.
    pub(crate) jwks_file: Option<String>,
    /// Takes tokens without looking at who signed them. Default: `false`. Danger: anybody can write
    /// such a token; only for a proxy behind a gateway that has verified it.
    pub(crate) unverified: Option<bool>,
    /// The issuer that tokens must name. Default: any.
    pub(crate) issuer: Option<String>,
    /// The audiences of which tokens must name one. Default: `[]`, which is any.
    pub(crate) audiences: Option<Vec<String>>,
    /// How far the clocks of issuer and proxy may differ, 0s to 1h. Default: `1m`.
    pub(crate) leeway: Option<String>,
}

/// Which requests go to an upstream, and on what terms.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "route")]
pub(crate) struct RouteConfig {
    /// Its name in metrics and logs, 1 to 128 bytes. Default: `route-N` by its place,
    /// counted from 0.
    pub(crate) name: Option<String>,
    /// Which requests it takes. Default: `{}`, which is all of them.
    #[serde(rename = "match")]
    pub(crate) matches: Option<RouteMatch>,
    /// The upstream, one of `proxy.upstreams`.
    pub(crate) upstream: String,
    /// The namespace whose limits apply. Default: none, and then nothing is refused.
    pub(crate) namespace: Option<String>,
    /// The attributes, each with where it is found: `header.NAME`, `cookie.NAME`, `query.NAME`,
    /// `path`, `path.N`, `method`, `host`, `jwt.CLAIM`, `client_ip`, or text in double quotes. A
    /// source that is not found leaves its attribute absent; a duplicate source is answered
    /// with 400. Default: `{}`.
    pub(crate) attributes: Option<NameMap<String>>,
    /// How much a request matters; see `tenants` under `request` of the namespace too. Default:
    /// `{}`.
    pub(crate) class: Option<ClassForm>,
    /// The attribute that says who pays. Default: none.
    pub(crate) tenant: Option<String>,
    /// The source of the feature, one of `features`, as `path.0`, `header.NAME` or text in double
    /// quotes. Default: none.
    pub(crate) feature: Option<String>,
    /// The source of how many milliseconds the caller waits, beside `grpc-timeout` and the header
    /// `tidegate-deadline-ms`; the name of a header alone is that header. Default: none.
    pub(crate) deadline: Option<String>,
    /// The source of how many attempts there were before this one; demand counts first attempts
    /// only. Heeded from peers in `trusted`, and from a claim of a token. Default:
    /// `header.tidegate-attempt`.
    pub(crate) attempt: Option<String>,
    /// The access to a table of the namespace that a request makes. Default: none.
    pub(crate) access: Option<AccessForm>,
    /// The cost of a request. Default: `{}`, which takes `costs` of the namespace.
    pub(crate) cost: Option<CostForm>,
    /// How long a request that is refused may wait to be admitted, 0s to 1h; held after its headers
    /// and before its body is read. Default: `0s`, which is not at all.
    pub(crate) wait: Option<String>,
    /// How long each part of a request may take. Default: `{}`.
    pub(crate) timeouts: Option<TimeoutsForm>,
    /// When a request is sent again, once, to another server. Default: `idempotent`.
    pub(crate) retry: Option<Retry>,
    /// How long a request keeps its place of the resource that has the name of the upstream. For
    /// lists of events, long polls and upgraded connections: `first_byte`. Default: `end`.
    pub(crate) hold: Option<RouteHold>,
    /// The protocols that a connection may change to (`Upgrade`), at most 8; `[]` allows no
    /// protocol. Offers of others are left out, and the request is served as any other. HTTP/2
    /// (`h2c`) and TLS cannot be allowed. Default: `[websocket]`.
    pub(crate) upgrades: Option<Vec<String>>,
    /// The response to refused requests in place of the usual body. Default: none.
    pub(crate) refusal: Option<RefusalForm>,
}

/// Which requests a route takes; all that is given must hold.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "route_match")]
pub(crate) struct RouteMatch {
    /// The path, decoded: `/v1/check` for that one, `/v1/*` for all that begin with `/v1/`. A `*`
    /// before the end stands for a part of one segment. At most 1024 bytes. Default: any.
    pub(crate) path: Option<String>,
    /// The host, in lower case and without a port: a value, a list of values, or a form as under
    /// `match` of a limit. Default: any.
    pub(crate) host: Option<MatcherConfig>,
    /// The methods. Default: `[]`, which is any.
    pub(crate) method: Option<Vec<String>>,
    /// The headers, each with its value, a list of values, or a form as under `match` of a limit;
    /// all of these must hold. A request that repeats one of them is answered 400. At most 16.
    /// Default: `{}`.
    #[cfg_attr(test, schemars(extend("x-secret" = true)))]
    pub(crate) headers: Option<NameMap<MatcherConfig>>,
}

/// The cost of a request, in units of the limits.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "route_cost")]
pub(crate) struct CostForm {
    /// Units of every request, at least 1. Default: by `costs` of the namespace, otherwise 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub(crate) units: Option<u64>,
    /// The source of the units of a request, as a whole number from 1; `units` where it is absent.
    /// Default: none. Danger: a client that writes the source itself may say too little, so settle
    /// by `from_response`.
    pub(crate) from: Option<String>,
    /// The size of body that weighs one unit more, rounded up, 1B to 1TiB. Default: none. A body of
    /// unknown length is charged when it has passed.
    pub(crate) body: Option<String>,
    /// Where an answer says the true cost, which is charged instead when the answer has ended:
    /// `header.NAME`, which is not passed on; `json.FIELD`, a number inside a JSON body, as
    /// `json.usage.total_tokens`; or `sse.FIELD`, that number in the last event of an event stream
    /// that has it. ` + ` adds several: `json.usage.input + json.usage.output`. Of a list the first
    /// counts that the answer has. Servers are asked for bodies that are not compressed. At most 8.
    /// Default: none.
    pub(crate) from_response: Option<TextOrTexts>,
}

/// How long each part of a request may take.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "timeouts")]
pub(crate) struct TimeoutsForm {
    /// From the last of the request that was sent on to the first of the answer, 1ms to 1d. After
    /// it: 504. Default: `1m`.
    pub(crate) first_byte: Option<String>,
    /// Between two pieces of a body, either way, and how long a client may take nothing of its
    /// answer, 1ms to 1d. After it the request is answered 408 and an answer breaks off. Default:
    /// `1m`.
    pub(crate) idle: Option<String>,
    /// From the head of the request to the end of the answer, 1ms to 7d. Default: none.
    pub(crate) total: Option<String>,
}

/// A body of refusals.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "refusal")]
pub(crate) struct RefusalForm {
    /// Its media type. Default: `text/plain; charset=utf-8`.
    pub(crate) content_type: Option<String>,
    /// The body, sent as it is.
    pub(crate) body: String,
}

impl<'de> Deserialize<'de> for UpstreamEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            list @ Value::Array(_) => from_value(list).map(Self::Servers),
            form => from_value(form).map(Box::new).map(Self::Form),
        }
    }
}

#[cfg(test)]
impl JsonSchema for UpstreamEntry {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "upstream_entry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let form = generator.subschema_for::<UpstreamForm>();
        json_schema!({
            "description": "A list of servers, or those with what belongs to them.",
            "anyOf": [{ "type": "array", "items": { "type": "string" } }, form],
        })
    }
}
