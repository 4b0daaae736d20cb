//! The features that degrade, with their levels, and the pins of operators.

use serde::{Deserialize, Serialize};

/// The features with levels of a daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FeaturesBody {
    /// The member that answers. Each member has levels of its own, by the load that it feels.
    pub member: String,
    /// The features that have levels, in order of their names.
    pub features: Vec<FeatureBody>,
}

/// One feature, as the daemon that answers sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FeatureBody {
    /// Its name.
    pub name: String,
    /// The member whose level this is.
    pub member: String,
    /// The resource whose load the level follows.
    pub resource: String,
    /// Its class: features of a lower class degrade first.
    pub class: String,
    /// The requests that have one level: `global`, `class` or `tenant`.
    pub scope: String,
    /// `enforce`, or `shadow`: the level is found and shown, and requests get the best one.
    pub mode: String,
    /// The end of its work in flight when it is switched off: `finish` or `cancel`.
    pub on_disable: String,
    /// The time that work in flight has until it is cancelled, in milliseconds; absent with
    /// `finish`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// The names of its levels, the best first.
    pub levels: Vec<String>,
    /// The worst level that any request gets.
    pub level: String,
    /// The place of that level in `levels`, from 0.
    pub level_index: u8,
    /// The level of each class, the most important first; absent unless `scope` is `class`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class_levels: Vec<ClassLevelBody>,
    /// The part of the tenants that have `level`, above 0 and below 1; the others have the level
    /// before. Absent while all have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<f64>,
    /// When the level changed last, as RFC 3339; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The reason of the level: `best`, `degraded`, `held` (a signal has gone stale, and nothing is
    /// restored because of that) or `pinned`.
    pub reason: String,
    /// The reason in words.
    pub detail: String,
    /// The load when it was degraded last, 1 is all of the capacity; absent unless it is degraded
    /// by the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<f64>,
    /// The signal with that load, `demand` for what requests ask for, or the stale signal; absent
    /// where no signal is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The part of the capacity that the feature takes at its level.
    pub footprint: f64,
    /// The same at the next better level, with the requests that are refused now; absent at the
    /// best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub footprint_better: Option<f64>,
    /// The room for better levels: `threshold` less `margin` less the load. Negative while the load
    /// is above.
    pub room: f64,
    /// The load from which on features of the resource degrade: its level `brownout`.
    pub threshold: f64,
    /// How far below the threshold the load must stay for a better level.
    pub margin: f64,
    /// The time in milliseconds for which a better level must fit before it is given.
    pub settle_ms: u64,
    /// Its requests in flight.
    pub in_flight: u64,
    /// The changes of its level since the daemon started.
    pub transitions: u64,
    /// The time in milliseconds from the last switch-off to the end of the work that was in flight
    /// then; absent if it was never switched off, or the work has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_after_ms: Option<u64>,
    /// The operator's pin in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<FeaturePinBody>,
    /// The earliest instant at which a better level is possible, as RFC 3339; absent at the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest: Option<String>,
}

/// The level of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClassLevelBody {
    /// The class.
    pub class: String,
    /// The name of its level.
    pub level: String,
}

/// A pin in force: one level until an instant, whatever the load is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FeaturePinBody {
    /// The level.
    pub level: String,
    /// When it ends, as RFC 3339.
    pub until: String,
    /// The author, as the caller said; absent if nobody said. Nothing verified it: the audit log
    /// has the grant beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason, for later readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of `PUT /v1/features/{name}/pin`. A pin ends: it has `expires_ms` or `until`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FeaturePinRequest {
    /// The name of the level, one of those of the feature.
    #[cfg_attr(feature = "schema", schema(example = "480p"))]
    pub level: String,
    /// After how many milliseconds it ends, 1 to 2592000000: 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 2_592_000_000_u64, example = 600_000))]
    pub expires_ms: Option<u64>,
    /// When it ends, as RFC 3339, in place of `expires_ms`; at most 30 days from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The author, at most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason, for later readers; at most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of `DELETE /v1/features/{name}/pin`, which may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FeatureUnpinRequest {
    /// The author, at most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason, for later readers; at most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
