//! The files of envoyproxy/ratelimit: where they are and how they are taken, as it is written.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use crate::policy::envoy::Semantics;

/// The files of envoyproxy/ratelimit. Each file is one domain, which is the namespace of its
/// counters; the files themselves know no `${NAME}`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "envoy_ratelimit")]
pub(crate) struct EnvoyRatelimitConfig {
    /// A file, or a directory whose `.yaml` and `.yml` files are read in the order of their names,
    /// without names that begin with a dot. Relative to the directory in which the daemon is
    /// started. 1 to 4096 bytes.
    pub(crate) path: String,
    /// The way of counting. Default: `strict`.
    pub(crate) semantics: Option<Semantics>,
    /// Whether every request passes; the statuses still show the limits that are exceeded. Default:
    /// `false`.
    pub(crate) shadow: Option<bool>,
    /// Whether every descriptor is in quota mode: a request is refused only when all of its
    /// descriptors are over. Default: `false`.
    pub(crate) quota_mode: Option<bool>,
    /// The part of a limit from which a hit counts as near the limit, a decimal from 0 to 1.
    /// Default: `0.8`.
    pub(crate) near_limit_ratio: Option<String>,
    /// The headers that answers carry. Default: `{}`.
    pub(crate) headers: Option<EnvoyHeadersConfig>,
    /// Whether answers carry dynamic metadata: the request's descriptors, and the `metadata` of
    /// passed descriptors. Default: `false`.
    pub(crate) dynamic_metadata: Option<bool>,
    /// Whether several files may have the same domain. Default: `false`, which makes that an error.
    pub(crate) merge_domains: Option<bool>,
    /// For `semantics: strict`: whether a request that is over one limit is charged to none of
    /// them. Default: `false`.
    pub(crate) stop_increment_when_over_limit: Option<bool>,
}

/// The headers that answers carry.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "envoy_headers")]
pub(crate) struct EnvoyHeadersConfig {
    /// Whether answers carry the headers of the peer, on admitted and on refused requests. Default:
    /// `false`.
    pub(crate) enabled: Option<bool>,
    /// The header with the limit. Default: `RateLimit-Limit`.
    pub(crate) limit: Option<String>,
    /// The header with what is left of it. Default: `RateLimit-Remaining`.
    pub(crate) remaining: Option<String>,
    /// The header with the seconds until its window ends. Default: `RateLimit-Reset`.
    pub(crate) reset: Option<String>,
    /// Whether refusals carry `Retry-After`, the seconds until the same request has room again,
    /// also without the other headers. envoyproxy/ratelimit sends no such header. Default: `false`.
    pub(crate) retry_after: Option<bool>,
}
