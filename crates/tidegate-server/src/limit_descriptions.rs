//! Limits in words, as operators list them and as pages for callers show them.

use serde::Serialize;
use tidegate_core::algorithm::WindowStart;
use tidegate_core::limit::{Limit, Missing, Mode};
use tidegate_core::rate::format_span;
use tidegate_core::{Algorithm, Reason};
use tidegate_policy::Policy;
use tidegate_wire::reason::Meaning;
use tidegate_wire::retry_after::millis_up;
use utoipa::ToSchema;

use crate::config::Statuses;
use crate::policy_config;

/// One namespace.
#[derive(Debug, Serialize, ToSchema)]
pub struct NamespaceAnswer {
    /// Its name.
    name: String,
    /// Its limits, in the order of the policy.
    limits: Vec<LimitDescription>,
}

/// One limit.
#[derive(Debug, Serialize, ToSchema)]
struct LimitDescription {
    /// Its name.
    name: String,
    /// The attributes it counts by.
    key: Vec<String>,
    /// The attributes it looks at to see whether it applies.
    matches: Vec<String>,
    /// The same with the values that they must have, in words.
    conditions: Vec<String>,
    /// The most it ever admits at once, in units.
    limit: u64,
    /// Its numbers, in words for callers.
    #[schema(example = "100/s, at most 200 at once")]
    allowance: String,
    /// The span it counts over in milliseconds; absent for concurrency.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<u64>,
    /// `enforce` or `shadow`.
    #[schema(value_type = String)]
    mode: &'static str,
    /// The treatment of a request that lacks an attribute of `key`: `skip`, `refuse` or `group`.
    #[schema(value_type = String)]
    missing: &'static str,
    /// The HTTP status of its refusals.
    #[schema(example = 429)]
    status: u16,
    /// How many keys have numbers of their own.
    overrides: usize,
}

/// The namespaces of a policy with their limits, as `GET /v1/limits` of a daemon with this policy
/// lists them.
pub fn describe_policy(policy: &Policy) -> Vec<NamespaceAnswer> {
    let statuses = policy_config::statuses(policy);
    let namespaces = policy.namespaces.iter();
    namespaces.map(|one| describe_namespace(&one.name, one.limits.iter(), &statuses)).collect()
}

pub(crate) fn describe_namespace<'l>(
    name: &str,
    limits: impl Iterator<Item = &'l Limit>,
    statuses: &Statuses,
) -> NamespaceAnswer {
    let status = |limit: &Limit| statuses.of_limit(name, &limit.name);
    NamespaceAnswer {
        name: name.to_owned(),
        limits: limits.map(|limit| describe(limit, status(limit))).collect(),
    }
}

fn describe(limit: &Limit, own_status: Option<u16>) -> LimitDescription {
    let condition = |one: &tidegate_core::limit::Condition| format!("{}: {}", one.attribute, one.matcher);
    LimitDescription {
        name: limit.name.clone(),
        key: limit.key.iter().map(|part| part.attribute.clone()).collect(),
        matches: limit.matches.iter().map(|condition| condition.attribute.clone()).collect(),
        conditions: limit.matches.iter().map(condition).collect(),
        limit: limit.algorithm.limit(),
        allowance: allowance(&limit.algorithm),
        window_ms: limit.algorithm.window().map(millis_up),
        mode: match limit.mode {
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
        },
        missing: match limit.missing {
            Missing::Skip => "skip",
            Missing::Refuse => "refuse",
            Missing::Group => "group",
        },
        status: own_status.unwrap_or(Meaning::of(Reason::RateExceeded).status),
        overrides: limit.overrides.len(),
    }
}

/// The numbers of an algorithm, in words for callers.
fn allowance(algorithm: &Algorithm) -> String {
    match algorithm {
        Algorithm::Bucket(one) => format!("{}, at most {} at once", one.rate(), one.burst()),
        Algorithm::Rolling(one) => format!("{} in any {}", one.limit(), format_span(one.window())),
        Algorithm::SlidingCounter(one) => {
            format!("about {} in any {}", one.limit(), format_span(one.window()))
        }
        Algorithm::Fixed(one) if one.start() == WindowStart::FirstHit => {
            format!("{} in {} from the first request", one.limit(), format_span(one.window()))
        }
        Algorithm::Fixed(one) => {
            format!("{} in each window of {}", one.limit(), format_span(one.window()))
        }
        Algorithm::Calendar(one) => {
            format!("{} in each {} of {}", one.limit(), one.unit(), one.zone())
        }
        Algorithm::Concurrency(one) => format!("{} at the same time", one.limit()),
        other => format!("{} {}", other.name(), other.limit()),
    }
}
