//! The answer to `POST /v1/explain`: what each limit of a namespace is to a request.
//!
//! The bodies are read as well as written, because the command shows them to people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access_explanation::AccessExplanation;
pub use crate::expected_decision::ExpectedDecision;
use crate::operation::ExplainedDoor;

/// The limits of a namespace, explained for one request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ExplanationBody {
    /// The namespace.
    pub namespace: String,
    /// The cost of the request, in units.
    pub cost: u64,
    /// The row of the cost table that gives the cost, counted from 0; absent for a request that
    /// says its cost, and for one that no row fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_row: Option<usize>,
    /// The plan of the request; absent for a request without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanExplanation>,
    /// The value of the plan attribute, where it names no plan and there is no default: the request
    /// has the numbers of the limits. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_plan: Option<String>,
    /// The decision now: `admit`, `wait` if only a place of the resource lacks, for which the
    /// request would wait, or `refuse`.
    pub would: ExpectedDecision,
    /// When this was so, RFC 3339.
    pub at: String,
    /// Why the store did not say what its limits hold; absent if it did, or was not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_failure: Option<String>,
    /// Every limit of the namespace, in the order of the policy.
    pub limits: Vec<LimitExplanation>,
    /// The resource that serves the request, with the level of the request there; absent without
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadExplanation>,
    /// The worth of the ticket of the request; absent for a request without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketExplanation>,
    /// The planes beside the limits that would refuse the request; absent if none would.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planes: Vec<PlaneExplanation>,
    /// The refusals that the request would get from a resource in shadow mode if that enforced;
    /// absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rehearsed: Vec<PlaneExplanation>,
    /// The partitions that the request accesses: that of its table, then those of the indexes that
    /// a write changes; absent for a request without an access.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessExplanation>,
}

/// The worth of the deferral ticket of a request at this member. Nothing was counted for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TicketExplanation {
    /// `due`: the request is admitted with it now as far as there is room; `early`; `expired`: the
    /// request is raised, and gets a new ticket if it is deferred again; `spent`; `unremembered`:
    /// another member sold it, and there is no memory left to note it as spent; `nothing`.
    pub worth: String,
    /// The fault for which it counts for nothing, as `tidegate_ticket_faults_total` names it;
    /// absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// From when it is good, as RFC 3339; while the calendar is pulled forward, the earlier instant
    /// at which to come. Absent if it counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// When it ends, as RFC 3339; absent if it counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// How often the request was deferred; absent if the ticket counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferrals: Option<u8>,
    /// Why, for people.
    pub because: String,
}

/// A resource as a request meets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LoadExplanation {
    /// The name of the resource; absent for the default resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Whether the resource is in shadow mode: it refuses and delays nobody, and the rest is what
    /// it would say if it enforced.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub shadow: bool,
    /// The class of the request.
    pub class: String,
    /// The tenant of the request; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// `proxy` if only a route of the proxy names that tenant: a check with the same attributes has
    /// none. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<ExplainedDoor>,
    /// The level of the request: its class (0 is `sheddable`) times 128, plus the cohort of its
    /// tenant, which changes every hour.
    pub level: u16,
    /// The position of the cursor of its namespace, in the most important class of which requests
    /// are shed; 0 is open.
    pub cursor: u16,
    /// Requests in flight.
    pub in_flight: u64,
    /// The most requests in flight of this class.
    pub in_flight_max: u64,
    /// Whether the cursor admits the request. Its queue and its places decide after that.
    pub would: ExpectedDecision,
    /// How long the request would wait for a place at most, in milliseconds, as `wait_ms` says or,
    /// but with `door: check`, `queue.wait` of the resource; absent if it finds one now, or would
    /// be refused rather than wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_max_ms: Option<u64>,
    /// How long it would wait by the rate at which places come free; absent before that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_estimate_ms: Option<u64>,
    /// The level of the feature that the request names; absent if the resource has no such feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<FeatureExplanation>,
    /// Why, for people.
    pub because: String,
}

/// The level of a feature as a request meets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FeatureExplanation {
    /// The feature.
    pub name: String,
    /// The name of the level that the request would get.
    pub level: String,
    /// Whether the feature is off for the request.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_off: bool,
    /// Whether the feature only shows its level: requests are served at the best one.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub shadow: bool,
    /// The class of the feature: features of a lower class degrade first.
    pub class: String,
    /// Milliseconds until the earliest instant at which a feature that is off may be on again,
    /// rounded up; absent for one that is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The same in words.
    pub because: String,
}

/// The refusal that a request would get from a plane beside the limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlaneExplanation {
    /// The plane: `capacity` or `overload`; `limits` for a deadline that is past.
    pub plane: String,
    /// The table, node or resource.
    pub name: String,
    /// The reason, as one word of a closed list.
    pub reason: String,
    /// Why, for people.
    pub because: String,
    /// How to retry: come back `at` an instant, `backoff`, or `never`.
    pub retry: String,
    /// Milliseconds until coming back is of use, rounded up; absent with `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The details of the refusal, as in the member `capacity` of its body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub capacity: Option<Value>,
    /// The details of the refusal, as in the member `overload` of its body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub overload: Option<Value>,
    /// The feature that is off, as in the body of the refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// The name of the level at which the feature is off, as in the body of the refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature_level: Option<String>,
}

/// One limit, explained for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LimitExplanation {
    /// Its name.
    pub name: String,
    /// Whether it applies to the request.
    pub applies: bool,
    /// The decision of the limit; absent if the limit does not apply. The decision of a shadow
    /// limit refuses nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would: Option<ExpectedDecision>,
    /// Why, for people.
    pub because: String,
    /// Whether it only says what it would refuse.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub shadow: bool,
    /// The condition of `match` that does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmatched: Option<Unmatched>,
    /// The attribute of its key that the request lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    /// The plan of the request, if the limit has numbers for it or the plan is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanExplanation>,
    /// The counter that the request falls on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<CounterExplanation>,
    /// The reason of the refusal, as one word of a closed list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How to retry: come back `at` an instant, `backoff`, or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// Milliseconds until it would admit the request, rounded up; absent unless `retry` is `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Unmatched {
    /// The attribute it looks at.
    pub attribute: String,
    /// Its value; absent if the request lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The condition, in words.
    pub wants: String,
}

/// The counter of a request under one limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CounterExplanation {
    /// The attributes that name it with their values as they are counted: of an IPv6 address the
    /// network. Null where the request lacks the attribute and such requests share a counter. Empty
    /// for one counter for all.
    pub key: BTreeMap<String, Option<String>>,
    /// The numbers that count for it, in words.
    pub numbers: String,
    /// Whose numbers these are: the `limit`'s own, the request's `plan`'s, from an override in the
    /// `policy`, or from one set at `run_time`.
    pub numbers_of: NumbersOf,
    /// The attributes with their values that the override is for; absent for the limit's own
    /// numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<BTreeMap<String, String>>,
    /// When the override ends, RFC 3339; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The place of the decision: this `member` alone, or the `store`.
    pub decided_by: DecidedBy,
    /// How the time zone of a calendar limit was found; absent for a limit that takes its zone from
    /// no attribute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneExplanation>,
    /// When the civil window of a calendar limit ends, for people:
    /// `2026-03-01 00:00 America/Los_Angeles`. Absent for other limits, and if nothing is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_end: Option<String>,
    /// For how long a key that exceeds the limit is blocked, in milliseconds; absent for not at
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_for_ms: Option<u64>,
    /// The outcomes on which the charge is given back, as `failed, 404`; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund_on: Option<String>,
    /// The content of the counter; absent if the store did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelExplanation>,
}

/// The plan of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlanExplanation {
    /// Its name.
    pub name: String,
    /// Why the request has it: it is `assigned` to the value of an attribute, an `attribute` names
    /// it, or it is the `default`.
    pub found_by: PlanFoundBy,
    /// The attribute that it is assigned by or named by; absent for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// The value of that attribute; for the default the value that names no plan, if the request
    /// has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Why a request has its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlanFoundBy {
    /// It is assigned to the value of an attribute.
    Assigned,
    /// An attribute names it.
    Attribute,
    /// None of the two.
    Default,
}

/// The time zone of a calendar limit that takes it from an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ZoneExplanation {
    /// The attribute.
    pub attribute: String,
    /// Its value; absent if the request lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whose zone counts: that of the `attribute`, of the `limit`, or of an `override`.
    pub zone_of: ZoneOf,
    /// Why the zone of the limit counts although the request names one; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// Whose time zone counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ZoneOf {
    /// That of the attribute.
    Attribute,
    /// That of the limit.
    Limit,
    /// That of an override.
    Override,
}

/// Whose numbers count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NumbersOf {
    /// The limit's own.
    #[default]
    Limit,
    /// Those of the request's plan.
    Plan,
    /// Those of an override that stands in the policy.
    Policy,
    /// Those of an override set at run time.
    RunTime,
}

/// The place where a limit is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// This member.
    #[default]
    Member,
    /// The store.
    Store,
    /// This member, from tokens that the store has lent it.
    Lease,
}

/// The content of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LevelExplanation {
    /// The most it ever admits at once, in units.
    pub limit: u64,
    /// Units used, rounded up; above `limit` when in debt or when a lower limit came.
    pub used: u64,
    /// Units left, rounded down.
    pub remaining: u64,
    /// Milliseconds until nothing of it is used any more, rounded up.
    pub reset_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let limit = LimitExplanation {
            name: "per-user".into(),
            applies: true,
            would: Some(ExpectedDecision::Refuse),
            because: "used up".into(),
            shadow: true,
            unmatched: None,
            lacks: None,
            plan: Some(PlanExplanation {
                name: "free".into(),
                found_by: PlanFoundBy::Default,
                attribute: None,
                value: Some("gold".into()),
            }),
            counter: Some(CounterExplanation {
                key: [("user".to_owned(), Some("ada".to_owned())), ("app".to_owned(), None)].into(),
                numbers: "rate 1/s, burst 3".into(),
                numbers_of: NumbersOf::RunTime,
                overrides: Some([("user".to_owned(), "ada".to_owned())].into()),
                until: None,
                decided_by: DecidedBy::Store,
                window_end: None,
                blocks_for_ms: Some(5),
                refund_on: Some("failed, 4xx".into()),
                zone: Some(ZoneExplanation {
                    attribute: "zone".into(),
                    value: None,
                    zone_of: ZoneOf::Limit,
                    because: None,
                }),
                level: Some(LevelExplanation { limit: 3, used: 3, remaining: 0, reset_ms: 3000 }),
            }),
            reason: Some("rate_exceeded".into()),
            retry: Some("at".into()),
            retry_after_ms: Some(1000),
        };
        let body = ExplanationBody {
            namespace: "api".into(),
            cost: 1,
            cost_row: Some(2),
            plan: None,
            unknown_plan: Some("gold".into()),
            would: ExpectedDecision::Refuse,
            at: "2026-11-20T23:00:00Z".into(),
            store_failure: None,
            limits: vec![limit],
            load: None,
            ticket: None,
            planes: Vec::new(),
            rehearsed: Vec::new(),
            access: Vec::new(),
        };
        let text = serde_json::to_string(&body).unwrap();
        assert!(text.contains(r#""key":{"app":null,"user":"ada"}"#), "{text}");
        assert!(text.contains(r#""numbers_of":"run_time""#) && !text.contains("unmatched"), "{text}");
        assert_eq!(serde_json::from_str::<ExplanationBody>(&text).unwrap(), body);
    }
}
