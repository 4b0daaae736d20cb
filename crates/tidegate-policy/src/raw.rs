//! The configuration as it is written: the one source of the schema, the reference page and the
//! reading.
//!
//! Everything that may be left out is an `Option`; its default is written in its documentation as
//! "Default: `x`." and a test holds the two together. Nothing here is checked beyond its shape.
//!
//! `x-reload` says whether a running daemon takes over a change of a key and of all keys below it
//! that do not say it themselves. The comparison of two policies and the reference read it from the
//! schema, and tests compare it with [`crate::Policy::in_place_of`], by which the daemon reloads.
//! The comparison shows no value below a key with `x-secret`, and compares the order of a list of
//! things with names only below a key with `x-ordered`.

pub(crate) mod authorization;
pub(crate) mod claims;
pub(crate) mod deferral;
pub(crate) mod envoy;
pub(crate) mod features;
pub(crate) mod json_value;
pub(crate) mod limit;
pub(crate) mod matcher;
pub(crate) mod name_map;
pub(crate) mod planes;
pub(crate) mod plans;
pub(crate) mod proxy;
pub(crate) mod resources;
pub(crate) mod rlqs;
pub(crate) mod service;
pub(crate) mod store;
pub(crate) mod tables;
pub(crate) mod text_or;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use authorization::GrantConfig;
use claims::RequestForm;
use envoy::EnvoyRatelimitConfig;
use features::FeatureForm;
use limit::LimitConfig;
use name_map::NameMap;
use planes::{AccountForm, NodeForm};
use plans::{CostRowConfig, DefaultsConfig, PlansConfig};
use proxy::ProxyConfig;
use resources::{ResourceConfig, SignalForm};
use rlqs::RlqsConfig;
use service::{AuthorizeConfig, HttpConfig, ListenConfig, LogConfig, MemoryConfig, MeteringConfig};
use store::StoreConfig;
use tables::TableForm;
use text_or::TextOr;

/// The configuration of `tidegate serve`, in one YAML file.
///
/// Unknown keys are errors. `${NAME}` and `${NAME:-default}` in a value are replaced by environment
/// variables; `$${` stands for `${` itself. Spans of time are whole numbers with a unit (`250ms`,
/// `10s`, `1h30m`, `7d`, or longer `10sec`, `5min`, `2hours`, `1day`), sizes have a binary unit
/// (`64KiB`, `256MiB`, `1GiB`) or are bytes. Inside `{ }` a value with `${NAME}` needs quotes.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "config")]
pub(crate) struct Config {
    /// Where the daemon listens. Default: `{}`.
    #[cfg_attr(test, schemars(extend("x-reload" = false)))]
    pub(crate) listen: Option<ListenConfig>,
    /// The store: where exact limits are counted and leased limits are lent. Default: `{}`.
    #[cfg_attr(test, schemars(extend("x-reload" = false)))]
    pub(crate) store: Option<StoreConfig>,
    /// The memory for counters. Default: `{}`.
    #[cfg_attr(test, schemars(extend("x-reload" = false)))]
    pub(crate) memory: Option<MemoryConfig>,
    /// The record of who used what: the tenants that are tracked, and the history of resources.
    /// Default: `{}`.
    #[cfg_attr(test, schemars(extend("x-reload" = false)))]
    pub(crate) metering: Option<MeteringConfig>,
    /// The limits, by namespace. A namespace is an isolated set of limits and counters (Envoy's
    /// "domain"). A request with a name that is neither a namespace nor a domain of
    /// `envoy_ratelimit` is an error.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) namespaces: Option<NameMap<NamespaceConfig>>,
    /// The nodes on which the partitions of all tables lie. Default: one node with enough units for
    /// all tables.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) nodes: Option<Vec<NodeForm>>,
    /// Bounds on the throughput of several tables together, at most 10000. Default: none.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) accounts: Option<Vec<AccountForm>>,
    /// The things that serve requests, each with its bound on requests in flight. An upstream of
    /// the proxy is the resource of its name. Default: none, and then nothing is bounded by
    /// resource.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) resources: Option<NameMap<ResourceConfig>>,
    /// Measured numbers with their targets, from which the load level of each resource is made, at
    /// most 1000. Every resource has one of its requests in flight, without being listed. Default:
    /// none besides.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) signals: Option<Vec<SignalForm>>,
    /// The features of the services, at most 1000: names, as `[thumbnails, search]`, or features
    /// with levels, which degrade under load and come back. A request that names one of them
    /// (`feature` of a route and of `request`) counts under that name, and any other request as
    /// `other`. Default: `[]`.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) features: Option<Vec<TextOr<FeatureForm>>>,
    /// The grants of callers. With at least one grant, a caller without a grant is refused
    /// everywhere except health and the reverse proxy. Default: none, and then every caller that
    /// reaches a listener may do everything.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) authorization: Option<Vec<GrantConfig>>,
    /// The source of namespace and attributes for gateway subrequests (`/v1/authorize`). Default:
    /// `{}`.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) authorize: Option<AuthorizeConfig>,
    /// The reverse proxy: the requests that are passed on to services, and their terms. Default:
    /// `{}`.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) proxy: Option<ProxyConfig>,
    /// Files of envoyproxy/ratelimit to serve as they are, to Envoy's rate limit filter.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) envoy_ratelimit: Option<EnvoyRatelimitConfig>,
    /// The bounds of Envoy's rate limit quota service (RLQS). Default: `{}`.
    #[cfg_attr(test, schemars(extend("x-reload" = true)))]
    pub(crate) rlqs: Option<RlqsConfig>,
    /// The headers and the bounds of the HTTP API. Default: `{}`.
    #[cfg_attr(test, schemars(extend("x-reload" = false)))]
    pub(crate) http: Option<HttpConfig>,
    /// The settings of the log. Default: `{}`.
    #[cfg_attr(test, schemars(extend("x-reload" = false)))]
    pub(crate) log: Option<LogConfig>,
}

/// An isolated set of limits and counters.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "namespace")]
pub(crate) struct NamespaceConfig {
    /// The limits. Every request is charged to all that match it, or to none. At most 1024; without
    /// any, everything is admitted.
    pub(crate) limits: Option<Vec<LimitConfig>>,
    /// The settings of limits that do not have their own.
    pub(crate) defaults: Option<DefaultsConfig>,
    /// The numbers of limits by the plan of the caller.
    pub(crate) plans: Option<PlansConfig>,
    /// The costs of requests that do not say their own. The first row that matches counts; without
    /// one the cost is 1. At most 1024.
    pub(crate) costs: Option<Vec<CostRowConfig>>,
    /// The tables whose throughput is charged by requests with an `access`.
    pub(crate) tables: Option<Vec<TableForm>>,
    /// The sources of further claims of requests: tenant, class, feature, deadline, attempt and
    /// access.
    /// Default: `{}`.
    pub(crate) request: Option<RequestForm>,
}
