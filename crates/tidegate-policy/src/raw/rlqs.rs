//! The bounds of Envoy's rate limit quota service, as they are written.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

/// Envoy's rate limit quota service (RLQS), which each namespace has at the gRPC listener: an Envoy
/// is assigned a part of the limits, decides by it, and reports every 5 s.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "rlqs")]
pub(crate) struct RlqsConfig {
    /// How long an assignment lasts, 10s to 60s in whole seconds. An Envoy whose daemon is gone
    /// goes on by its part for so long.
    /// Default: `10s`.
    pub(crate) ttl: Option<String>,
    /// How many buckets of Envoys hold a part of one key at a time at one daemon, 1 to 256. Further
    /// ones get no assignment until one of these ends. In the store a key has 256 holders, daemons
    /// included; beyond these, a bucket gets what the others leave. Default: `256`.
    #[cfg_attr(test, schemars(range(min = 1, max = 256)))]
    pub(crate) holders: Option<u16>,
    /// How many buckets one Envoy may have, 1 to 1000. Further ones get no assignment, so that
    /// `no_assignment_behavior` of that Envoy decides. Default: `1000`.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub(crate) buckets: Option<u16>,
    /// The namespaces that Envoys ask by RLQS: `tidegate validate` warns about limits of them that
    /// an Envoy cannot hold. The others are served all the same. Default: `[]`.
    pub(crate) namespaces: Option<Vec<String>>,
}
