//! The history of a resource: its pressure over the last day, divided by whose work it came from.

use serde::{Deserialize, Serialize};

/// The history of one resource, as the daemon that answers has seen it since it started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HistoryBody {
    /// The name of the resource.
    pub resource: String,
    /// The owners that areas stand for: `feature`, `class` or `namespace`.
    pub by: String,
    /// The beginning of the oldest sample that is kept, as RFC 3339: no sample after it was
    /// dropped. Absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_since: Option<String>,
    /// The samples of the last 24 hours that were dropped because `metering.history` is too small.
    pub dropped: u64,
    /// The spans without samples: the clock was set forward, or the daemon was stopped.
    pub gaps: Vec<SpanBody>,
    /// The spans that samples repeat, because the clock was set back.
    pub repeated: Vec<SpanBody>,
    /// The changes of the levels of the features of the resource, the oldest first, at most 256.
    #[serde(default)]
    pub marks: Vec<LevelMarkBody>,
    /// The marks of the last 24 hours that were dropped because there were more, or because
    /// `metering.history` is too small.
    #[serde(default)]
    pub marks_dropped: u64,
    /// The samples, the oldest first: of 10 seconds in the last hour and of a minute before.
    pub samples: Vec<HistorySampleBody>,
}

/// A change of the level of a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LevelMarkBody {
    /// When, as RFC 3339.
    pub at: String,
    /// The feature.
    pub feature: String,
    /// The level from then on, with the class or the part of the tenants that has it.
    pub level: String,
    /// Whether it is worse than the one before.
    pub is_worse: bool,
    /// Whether the feature only shows its level.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_shadow: bool,
}

/// A span of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpanBody {
    /// Its beginning, as RFC 3339.
    pub from: String,
    /// Its end, as RFC 3339.
    pub until: String,
}

/// A resource in one span of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HistorySampleBody {
    /// The beginning of the span, as RFC 3339.
    pub from: String,
    /// The end of the span, as RFC 3339.
    pub until: String,
    /// The mean pressure; 1 is as much as the resource should bear. Absent if no signal was fresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<f64>,
    /// The pressure at which the level `soft` is entered.
    pub soft: f64,
    /// The pressure at which the level `hard` is entered.
    pub hard: f64,
    /// The units that were asked for.
    pub offered_units: u64,
    /// Of these, the units that were refused.
    pub refused_units: u64,
    /// The measure by which the pressure is divided: `place_time`; `units`, where no end of the
    /// work is known; `nothing`, without work.
    pub divided_by: String,
    /// The areas, whose heights add up to the pressure.
    pub areas: Vec<AreaBody>,
}

/// The part of the pressure that a feature, a class or a namespace stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AreaBody {
    /// The name; `other` are all that the sample does not name, `unattributed` is pressure without
    /// work.
    pub name: String,
    /// Its part of the pressure.
    pub height: f64,
    /// For how many seconds its requests held places, together.
    pub place_seconds: f64,
    /// The units of its admitted requests.
    pub units: u64,
}
