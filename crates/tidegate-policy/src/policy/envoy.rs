//! Checked settings for the files of envoyproxy/ratelimit.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

/// How the files of envoyproxy/ratelimit are taken, whichever they are.
///
/// The peer takes these from its environment; `docs/compat.md` says which variable is which key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one of the peer's switches, and they are independent"
)]
pub struct Settings {
    /// Whether the peer's way of counting is followed to the letter; default [`Semantics::Strict`].
    pub semantics: Semantics,
    /// Whether every request is let through in the end, whatever the statuses say; default no.
    pub shadow: bool,
    /// Whether every descriptor is taken as one in quota mode; default no.
    pub quota_mode: bool,
    /// From which part of a limit on a hit counts as near it, 0 to 1; default 0.8.
    pub near_limit_ratio: f32,
    /// The headers that answers carry.
    pub headers: Headers,
    /// Whether answers carry dynamic metadata; default no.
    pub dynamic_metadata: bool,
    /// Whether several files may speak of one domain; default no.
    pub merge_domains: bool,
    /// Under [`Semantics::Strict`], whether a request that is over one limit is charged to none;
    /// default no.
    pub stop_increment_when_over_limit: bool,
}

impl Settings {
    /// The ratio unless told otherwise.
    pub const NEAR_LIMIT_RATIO_DEFAULT: f32 = 0.8;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            semantics: Semantics::Strict,
            shadow: false,
            quota_mode: false,
            near_limit_ratio: Self::NEAR_LIMIT_RATIO_DEFAULT,
            headers: Headers::default(),
            dynamic_metadata: false,
            merge_domains: false,
            stop_increment_when_over_limit: false,
        }
    }
}

/// Whose way of counting is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "semantics")]
pub enum Semantics {
    /// As envoyproxy/ratelimit: each limit counts by itself, and a refused request counts as well.
    #[default]
    Strict,
    /// A request is charged to all of its limits or to none, and a refused request is not charged.
    Tidegate,
}

/// The headers that answers carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Whether answers carry those of the peer; default no.
    pub enabled: bool,
    /// The name of the one with the limit; default `RateLimit-Limit`.
    pub limit: String,
    /// The name of the one with what is left; default `RateLimit-Remaining`.
    pub remaining: String,
    /// The name of the one with the seconds until the window ends; default `RateLimit-Reset`.
    pub reset: String,
    /// Whether refusals carry `Retry-After`, which the peer does not send; default no.
    pub retry_after: bool,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            enabled: false,
            limit: "RateLimit-Limit".to_owned(),
            remaining: "RateLimit-Remaining".to_owned(),
            reset: "RateLimit-Reset".to_owned(),
            retry_after: false,
        }
    }
}

/// Where the files are, and how they are taken.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvoyRatelimit {
    /// A file, or a directory of them, 1 to [`super::PATH_BYTES_MAX`] bytes, relative to where the
    /// daemon is started.
    pub path: String,
    /// How they are taken.
    pub settings: Settings,
}
