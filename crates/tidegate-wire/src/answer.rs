//! The bodies of answers that are not refusals.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_core::Timestamp;
use tidegate_core::display::CivilInstant;

/// The answer to an admitted check or reservation.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Admitted<'a> {
    /// Always `admit`.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "admit"))]
    pub decision: &'static str,
    /// The permit to settle or release when the work is done. Only present when something must be
    /// given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub permit: Option<Cow<'a, str>>,
    /// Units left of the tightest limit; absent when no limit matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// The remaining units of each limit, in the order of the policy.
    pub limits: &'a [LimitAnswer<'a>],
    /// The units of its access to a table; with `peek` those that it would be charged. Absent
    /// without an access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessUnits>,
    /// The feature that the request is for, if its resource has it and it has levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "thumbnails"))]
    pub feature: Option<&'a str>,
    /// The name of the level at which the request is to be served; only with `feature`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "480p"))]
    pub feature_level: Option<&'a str>,
    /// Whether the feature only shows its level and requests are served at the best one; only in
    /// the answer to a `peek`, since the answer to another request names no such feature.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub feature_shadow: bool,
    /// The shadow limits that would have refused.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub shadow: &'a [&'a str],
}

/// The capacity units of an admitted access to a table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AccessUnits {
    /// Capacity units charged to the table, without those of its indexes.
    pub units: f64,
    /// Capacity units that the partition of its key has left of its allocation, for reads or for
    /// writes; negative in debt.
    pub left: f64,
}

/// The remaining units of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LimitAnswer<'a> {
    /// The name of the limit.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "per-user"))]
    pub name: &'a str,
    /// The most it ever admits at once, in units.
    pub limit: u64,
    /// Units left.
    pub remaining: u64,
    /// Milliseconds until nothing of it is used any more, rounded up.
    pub reset_ms: u64,
    /// When the civil window of a calendar limit ends, for people:
    /// `2026-03-01 00:00 America/Los_Angeles`. Absent for other limits, and if nothing is used.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shown")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub window_end: Option<CivilInstant<'a>>,
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn shown<S: Serializer>(instant: &Option<CivilInstant<'_>>, serializer: S) -> Result<S::Ok, S::Error> {
    match instant {
        Some(instant) => serializer.collect_str(instant),
        None => serializer.serialize_none(),
    }
}

/// When the civil window ends that something is used of, if the limit has one.
pub fn window_end(zone: Option<&str>, reset_at: Timestamp, now: Timestamp) -> Option<CivilInstant<'_>> {
    zone.filter(|_| reset_at > now).map(|zone| CivilInstant { at: reset_at, zone })
}

/// The answer to a report.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reported<'a> {
    /// Units left of the tightest limit; absent when no limit matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// The remaining units of each limit.
    pub limits: &'a [LimitAnswer<'a>],
}

/// The answer to a refund.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RefundAnswer {
    /// `applied`, or `already_applied` when the same key came before.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "applied"))]
    pub refund: &'static str,
}

/// The answer to settling or releasing a permit.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SettleAnswer {
    /// Always `settled`.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "settled"))]
    pub permit: &'static str,
    /// `expired` if the permit had a place of a resource that was given back before, because a
    /// namespace below its part waited for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "expired"))]
    pub place: Option<&'static str>,
}

/// The answer to a reset.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResetAnswer {
    /// How many counters were in use or blocked, and are not any more.
    pub counters: usize,
}

/// The answer to a reset with `preview`, which changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResetPreview {
    /// The counters that would be reset, in the order of the policy.
    pub would_reset: Vec<PreviewedCounter>,
}

/// A counter that a reset would forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PreviewedCounter {
    /// The limit, or the rule of a domain.
    pub limit: String,
    /// The attributes that name the counter, with their values.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub key: BTreeMap<String, String>,
    /// The numbers of the limit, in words.
    pub numbers: String,
    /// How long it counts over, in milliseconds: its window, of a rate the span of the rate. Absent
    /// for concurrency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_over_ms: Option<u64>,
}

/// The answer to a block.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BlockAnswer {
    /// The instant until which the key is refused, RFC 3339; absent when the block was lifted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_until: Option<String>,
}

/// Appends an answer as JSON.
pub fn write<T: Serialize>(answer: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, answer)
        .expect("text and numbers always serialise, and a vector takes all bytes");
}
