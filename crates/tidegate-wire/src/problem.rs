//! The body of a refusal: problem details (RFC 9457) with the types of
//! draft-ietf-httpapi-ratelimit-headers.
//!
//! `violated-policies` is the draft's: the names of the violated limits. Everything beyond it is
//! Tidegate's: the reason in a word, the limit that binds longest, the counter it speaks of, and
//! for each violated limit what it had left.

use core::fmt::{self, Write};
use core::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use tidegate_core::display::{CivilInstant, HumanDuration, Quantity};
use tidegate_core::{
    CapacityDetails, FeatureDetails, OverloadDetails, OverloadMechanism, Reason, Refusal, RefusalDetails,
    RefusalView, Retry, Timestamp,
};

use crate::headers::ShownTicket;
use crate::problem_details::{CapacityBody, OverloadBody};
use crate::reason::{Meaning, RetryKind};
use crate::retry_after::{millis, millis_of};

/// The media type of refusals and faults.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// The body of a refusal.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RefusalBody<'a> {
    /// The problem type of the draft: `…#quota-exceeded` or `…#temporary-reduced-capacity`;
    /// `about:blank` for a request that lacks an attribute.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    r#type: &'static str,
    /// The title of the type.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The refusal, for people.
    detail: String,
    /// The names of all violated limits, the one that binds longest first.
    #[serde(rename = "violated-policies")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    violated_policies: Vec<&'a str>,
    /// Always `refuse`.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "refuse"))]
    decision: &'static str,
    /// Why, as one word of a closed list.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "rate_exceeded"))]
    reason: &'static str,
    /// The plane that refused: `limits`, `capacity` or `overload`.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "limits"))]
    plane: &'static str,
    /// The namespace.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    namespace: &'a str,
    /// The limit that binds longest (or the table, node or resource).
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    limit: &'a str,
    /// The attributes and values that name the counter.
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>))]
    scope: Scope<'a>,
    /// Units left of that limit.
    remaining: u64,
    /// How to retry: come back `at` an instant, `backoff`, or `never`.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "at"))]
    retry: &'static str,
    /// Milliseconds until coming back is of use, rounded up. With `retry` `backoff`: how long to
    /// wait before the first retry, where that is known. Absent with `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// All violated limits, the one that binds longest first.
    violated: Vec<ViolatedBody<'a>>,
    /// The part of the table that throttled; only of refusals by the capacity plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<CapacityBody<'a>>,
    /// The state of the resource that shed; only of refusals by the overload plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    overload: Option<OverloadBody<'a>>,
    /// The feature that is off; only with the reason `feature_disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "thumbnails"))]
    feature: Option<&'a str>,
    /// The name of the level at which the feature is off; only with `feature`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "off"))]
    feature_level: Option<&'a str>,
    /// The ticket with which the request may come back; only with the reason `deferred`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    ticket: Option<&'a str>,
    /// The instant from which the ticket is honoured; only with `ticket`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(example = "2026-11-20T20:40:00.25Z"))]
    not_before: Option<String>,
    /// The instant from which the ticket is not honoured any more; only with `ticket`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(example = "2026-11-20T20:40:05.25Z"))]
    expires: Option<String>,
}

/// One violated limit.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
struct ViolatedBody<'a> {
    /// Its name.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    name: &'a str,
    /// Why it refused.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    reason: &'static str,
    /// The most it ever admits at once, in units.
    limit: u64,
    /// Units left.
    remaining: u64,
    /// Milliseconds until it would admit the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// Pairs that serialise as an object.
#[derive(Debug)]
struct Scope<'a>(Vec<(&'a str, &'a str)>);

impl Serialize for Scope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The room for a sentence before it is written.
const SENTENCE_BYTES: usize = 160;

/// The refusal as a sentence for people, as in the body.
pub fn sentence(refusal: &Refusal, now: Timestamp) -> String {
    // Nearly all fit, so that the text is made without being moved.
    let mut text = String::with_capacity(SENTENCE_BYTES);
    let refusal = refusal.view();
    Sentence { refusal: &refusal, now }.write_to(&mut text).expect("a text takes all that is written");
    text
}

impl<'a> RefusalBody<'a> {
    /// The body of `refusal` when it is answered at `now` with `status`.
    pub fn new(refusal: &'a Refusal, status: u16, now: Timestamp) -> Self {
        let problem = Meaning::from_reason(refusal.reason()).problem;
        let details = refusal.details.as_deref();
        let feature = details.and_then(RefusalDetails::feature);
        let shown = ShownTicket::from_refusal(details);
        let ticket = shown.as_ref().map(|shown| shown.text);
        let (not_before, expires) = shown.map(|shown| (shown.not_before, shown.expires)).unzip();
        Self {
            r#type: problem.uri(),
            title: problem.title_at(status),
            status,
            detail: sentence(refusal, now),
            violated_policies: refusal.violated.iter().map(|one| &*one.name).collect(),
            decision: "refuse",
            reason: refusal.reason().as_str(),
            plane: refusal.plane().as_str(),
            namespace: &refusal.namespace,
            limit: refusal.name(),
            scope: Scope(refusal.scope.iter().map(|(name, value)| (&**name, &**value)).collect()),
            remaining: refusal.remaining(),
            retry: RetryKind::from(refusal.retry()).as_str(),
            retry_after_ms: millis_of(&refusal.view(), now),
            violated: refusal
                .violated
                .iter()
                .map(|one| ViolatedBody {
                    name: &one.name,
                    reason: one.reason.as_str(),
                    limit: one.limit,
                    remaining: one.remaining,
                    retry_after_ms: millis(one.retry, now),
                })
                .collect(),
            capacity: details.and_then(RefusalDetails::capacity).map(CapacityBody::from_details),
            overload: details.and_then(RefusalDetails::overload).map(OverloadBody::from_details),
            feature: feature.map(|one| &*one.feature),
            feature_level: feature.map(|one| &*one.level),
            ticket,
            not_before,
            expires,
        }
    }
}

/// The refusal as a sentence for people.
#[derive(Clone, Copy, Debug)]
pub struct Sentence<'a> {
    /// The refusal.
    pub refusal: &'a RefusalView<'a>,
    /// When it is told.
    pub now: Timestamp,
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(f)
    }
}

impl Sentence<'_> {
    /// Writes it piece by piece: every refusal tells it, and `write!` of a limit's sentence takes
    /// three times as long.
    pub fn write_to(&self, out: &mut impl Write) -> fmt::Result {
        let refusal = self.refusal;
        match (&refusal.detail, refusal.reason) {
            (Some(detail), _) => out.write_str(detail)?,
            (None, Reason::RateExceeded | Reason::QuotaExceeded) => {
                limit(out, refusal.name)?;
                out.write_str(if refusal.remaining == 0 { " is used up" } else { " has too little left" })?;
                counter(out, refusal)?;
                if let (Some(zone), Retry::At(at)) = (refusal.civil_zone, refusal.retry) {
                    // A civil window of the limit ends then.
                    write!(out, " until {}", CivilInstant { at, zone })?;
                }
                out.write_str(": ")?;
                number(out, refusal.remaining)?;
                out.write_str(" of ")?;
                number(out, refusal.limit)?;
                out.write_str(" units left")?;
            }
            (None, Reason::ConcurrencyExceeded) => {
                match refusal.limit {
                    1 => out.write_str("the only permit of ")?,
                    most => write!(out, "all {most} permits of ")?,
                }
                limit(out, refusal.name)?;
                out.write_str(if refusal.limit == 1 { " is held" } else { " are held" })?;
                counter(out, refusal)?;
            }
            (None, Reason::Blocked) => {
                limit(out, refusal.name)?;
                out.write_str(" is blocked")?;
                counter(out, refusal)?;
            }
            (None, Reason::CostExceedsLimit) => {
                out.write_str("the cost is larger than ")?;
                limit(out, refusal.name)?;
                write!(out, " ever admits at once, {}", Quantity(refusal.limit, "unit"))?;
            }
            (None, Reason::TableFull) => {
                out.write_str("there is no memory for another key of ")?;
                limit(out, refusal.name)?;
            }
            (None, Reason::StoreUnavailable) => {
                out.write_str("the store that decides ")?;
                limit(out, refusal.name)?;
                out.write_str(" does not answer")?;
            }
            (None, reason) => match refusal.details {
                Some(RefusalDetails::Capacity(details)) => capacity(out, details, reason)?,
                Some(RefusalDetails::Overload(details)) => overload(out, details, refusal.limit, reason)?,
                Some(RefusalDetails::Feature(details)) => feature(out, details)?,
                _ => write!(out, "\"{}\" refused: {}", refusal.name, words(reason))?,
            },
        }
        match refusal.retry {
            Retry::At(instant) => {
                out.write_str("; come back in ")?;
                wait(instant, self.now).write_to(out)
            }
            Retry::Backoff => {
                out.write_str("; retry with exponential backoff")?;
                let hint = refusal.retry_hint.map(HumanDuration);
                hint.map_or(Ok(()), |hint| write!(out, ", the first time after {hint}"))
            }
            Retry::Never => out.write_str("; the same request will never be admitted"),
        }
    }
}

/// `limit "per-user"`.
fn limit(out: &mut impl Write, name: &str) -> fmt::Result {
    out.write_str("limit \"")?;
    out.write_str(name)?;
    out.write_char('"')
}

fn number(out: &mut impl Write, number: u64) -> fmt::Result {
    out.write_str(itoa::Buffer::new().format(number))
}

/// The part of a table that throttled.
fn capacity(out: &mut impl Write, details: &CapacityDetails, reason: Reason) -> fmt::Result {
    let CapacityDetails { table, operation, partition, node, .. } = details;
    let operation = operation.as_str();
    write!(out, "table \"{table}\", partition {partition} on node \"{node}\", {operation}: {}", words(reason))
}

/// Why a resource shed.
fn overload(
    out: &mut impl Write,
    details: &OverloadDetails,
    in_flight_max: u64,
    reason: Reason,
) -> fmt::Result {
    match &details.resource {
        Some(resource) => write!(out, "resource \"{resource}\"")?,
        None => out.write_str("the service")?,
    }
    match details.mechanism {
        OverloadMechanism::AdmissionCursor { .. } => {
            write!(out, " sheds requests of this importance: {}", details.binding_signal.as_str())
        }
        OverloadMechanism::Ticket => out.write_str(": the ticket is for a later time"),
        OverloadMechanism::InFlight if in_flight_max == 1 => out.write_str(": the only place is taken"),
        OverloadMechanism::InFlight => write!(out, ": all {in_flight_max} places are taken"),
        OverloadMechanism::Streams if in_flight_max == 1 => out.write_str(": the only stream is open"),
        OverloadMechanism::Streams => write!(out, ": all {in_flight_max} streams are open"),
        OverloadMechanism::Pace => {
            write!(out, ": requests come faster than {} can serve", Quantity(in_flight_max, "place"))
        }
        OverloadMechanism::QueueDelay => out.write_str(": requests of this class wait too long for a place"),
        OverloadMechanism::Deadline => out.write_str(": the deadline leaves too little time"),
        _ => write!(out, " refused: {}", words(reason)),
    }
}

/// Why a feature is off.
fn feature(out: &mut impl Write, details: &FeatureDetails) -> fmt::Result {
    let FeatureDetails { feature, resource, .. } = details;
    match resource {
        Some(resource) => write!(out, "feature \"{feature}\" of resource \"{resource}\" is off"),
        None => write!(out, "feature \"{feature}\" is off"),
    }
}

/// A reason in words.
fn words(reason: Reason) -> String {
    reason.as_str().replace('_', " ")
}

/// ` for user=ada, app=x`, or nothing for a counter that all share.
fn counter(out: &mut impl Write, refusal: &RefusalView<'_>) -> fmt::Result {
    for (index, (name, value)) in refusal.scope.iter().enumerate() {
        for part in [if index == 0 { " for " } else { ", " }, name, "=", value] {
            out.write_str(part)?;
        }
    }
    Ok(())
}

/// The wait until `instant`, at least a millisecond: a refused caller never comes back at once.
fn wait(instant: Timestamp, now: Timestamp) -> HumanDuration {
    HumanDuration(instant.saturating_since(now).max(Duration::from_millis(1)))
}

#[cfg(test)]
mod tests;
