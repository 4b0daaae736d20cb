//! Limits in words, as operators list them and as pages for callers show them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tidegate_core::algorithm::WindowStart;
use tidegate_core::limit::{Condition, CostRow, Limit, Missing, Mode, PlanNumbers, Plans};
use tidegate_core::rate::format_span;
use tidegate_core::{Algorithm, Reason};
use tidegate_policy::{NamespacePolicy, Policy};
use tidegate_wire::reason::Meaning;
use tidegate_wire::retry_after::millis_up;

use crate::config::Statuses;
use crate::policy_config;

/// A domain of envoyproxy/ratelimit's files.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DomainAnswer {
    /// Its name.
    pub name: String,
    /// Its rules, in the order of the files.
    pub rules: Vec<RuleAnswer>,
}

/// A rule of such a domain.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct RuleAnswer {
    /// Its name: the domain and the keys and values on the way to it.
    pub name: String,
    /// The attributes, or entries of a descriptor, that lead to it: each with the value that it
    /// wants, null for any.
    pub entries: Vec<(String, Option<String>)>,
    /// Its limits in words; empty if it lets everything through.
    pub limits: Vec<String>,
    /// `enforce`, or `shadow` if it only reports the requests that it would refuse.
    #[cfg_attr(test, schema(example = "enforce"))]
    pub mode: String,
}

/// One namespace.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct NamespaceAnswer {
    /// Its name.
    pub name: String,
    /// Its limits, in the order of the policy.
    pub limits: Vec<LimitDescription>,
    /// The attributes of requests that its limits, its plans and its cost table look at, each once.
    pub attributes: BTreeSet<String>,
    /// Its plans; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plans: Option<PlansDescription>,
    /// The rows of its cost table; absent without any. The first row that a request meets counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CostDescription>,
    /// Its tables, indexes included; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableDescription>,
}

/// A table.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct TableDescription {
    /// Its name.
    pub name: String,
    /// Units of reading a second, over all partitions.
    pub read_units_per_second: u64,
    /// Units of writing a second, over all partitions.
    pub write_units_per_second: u64,
}

/// The plans of a namespace.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct PlansDescription {
    /// Their names.
    pub names: Vec<String>,
    /// The attribute that names the plan of a request.
    pub attribute: String,
    /// How many values of attributes have a plan assigned.
    pub assigned: usize,
    /// The plan of all other requests; absent where each limit has its own numbers for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// A row of a cost table.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct CostDescription {
    /// The conditions on a request, in words; none for every request.
    pub conditions: Vec<String>,
    /// The cost of such a request, in units.
    pub cost: u64,
}

/// One limit.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct LimitDescription {
    /// Its name.
    pub name: String,
    /// The attributes it counts by.
    pub key: Vec<String>,
    /// The attributes it looks at to see whether it applies.
    pub matches: Vec<String>,
    /// The same with the values that they must have, in words.
    pub conditions: Vec<String>,
    /// The most it ever admits at once, in units.
    pub limit: u64,
    /// Its numbers, in words for callers.
    #[cfg_attr(test, schema(example = "100/s, at most 200 at once"))]
    pub allowance: String,
    /// The span it counts over in milliseconds; absent for concurrency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// `enforce` or `shadow`.
    pub mode: String,
    /// The treatment of a request that lacks an attribute of `key`: `skip`, `refuse` or `group`.
    pub missing: String,
    /// The HTTP status of its refusals.
    #[cfg_attr(test, schema(example = 429))]
    pub status: u16,
    /// For how long a key that exceeds it is refused everything, in milliseconds; absent where it
    /// is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks_for_ms: Option<u64>,
    /// How many keys have numbers of their own.
    pub overrides: usize,
    /// The numbers for the requests of plans; absent where no plan changes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<PlanNumbersDescription>,
    /// The attribute whose value is the time zone of a request; absent for limits without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_from: Option<String>,
    /// The outcomes on which a charge is given back, as `failed, 404`; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund_on: Option<String>,
}

/// The numbers of a limit for the requests of a plan.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct PlanNumbersDescription {
    /// The plan.
    pub plan: String,
    /// The most it ever admits at once, in units; absent for a plan that is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The numbers, in words for callers.
    #[cfg_attr(test, schema(example = "500/s, at most 1000 at once"))]
    pub allowance: String,
}

/// The namespaces of a policy with their limits, as `GET /v1/limits` of a daemon with this policy
/// lists them.
pub fn describe_policy(policy: &Policy) -> Vec<NamespaceAnswer> {
    let statuses = policy_config::statuses(policy);
    let namespaces = policy.namespaces.iter();
    let describe = |one: &NamespacePolicy| {
        let settings = (one.plans.as_ref(), one.costs.as_slice());
        let tables = one.tables.iter().map(|table| TableDescription {
            name: table.name.clone(),
            read_units_per_second: table.read_units_per_second,
            write_units_per_second: table.write_units_per_second,
        });
        describe_namespace(&one.name, one.limits.iter(), settings, tables.collect(), &statuses)
    };
    namespaces.map(describe).collect()
}

pub(crate) fn describe_namespace<'l>(
    name: &str,
    limits: impl Iterator<Item = &'l Limit>,
    (plans, costs): (Option<&Plans>, &[CostRow]),
    tables: Vec<TableDescription>,
    statuses: &Statuses,
) -> NamespaceAnswer {
    let status = |limit: &Limit| statuses.of_limit(name, &limit.name);
    let limits: Vec<&Limit> = limits.collect();
    let attributes = limits.iter().flat_map(|limit| limit.attributes());
    let attributes = attributes.chain(plans.into_iter().flat_map(Plans::attributes));
    let attributes: BTreeSet<&str> = attributes.chain(costs.iter().flat_map(CostRow::attributes)).collect();
    NamespaceAnswer {
        name: name.to_owned(),
        attributes: attributes.into_iter().map(str::to_owned).collect(),
        limits: limits.into_iter().map(|limit| describe(limit, status(limit))).collect(),
        plans: plans.map(|plans| PlansDescription {
            names: plans.names.clone(),
            attribute: plans.attribute.clone(),
            assigned: plans.assigned.len(),
            default: plans.default.clone(),
        }),
        costs: costs
            .iter()
            .map(|row| CostDescription {
                conditions: row.matches.iter().map(condition).collect(),
                cost: row.cost.units(),
            })
            .collect(),
        tables,
    }
}

fn condition(one: &Condition) -> String {
    format!("{}: {}", one.attribute, one.matcher)
}

fn plan_numbers(one: &PlanNumbers) -> PlanNumbersDescription {
    PlanNumbersDescription {
        plan: one.plan.clone(),
        limit: one.algorithm.as_ref().map(Algorithm::limit),
        allowance: one.algorithm.as_ref().map_or_else(|| "unlimited".to_owned(), allowance),
    }
}

fn describe(limit: &Limit, own_status: Option<u16>) -> LimitDescription {
    LimitDescription {
        name: limit.name.clone(),
        key: limit.key.iter().map(|part| part.attribute.clone()).collect(),
        matches: limit.matches.iter().map(|condition| condition.attribute.clone()).collect(),
        conditions: limit.matches.iter().map(condition).collect(),
        limit: limit.algorithm.limit(),
        allowance: allowance(&limit.algorithm),
        window_ms: limit.algorithm.window().map(millis_up),
        mode: match limit.mode {
            Mode::Enforce => "enforce".to_owned(),
            Mode::Shadow => "shadow".to_owned(),
        },
        missing: match limit.missing {
            Missing::Skip => "skip".to_owned(),
            Missing::Refuse => "refuse".to_owned(),
            Missing::Group => "group".to_owned(),
        },
        status: own_status.unwrap_or(Meaning::from_reason(Reason::RateExceeded).status),
        blocks_for_ms: limit.blocks_for().map(millis_up),
        overrides: limit.overrides.len(),
        plans: limit.plans.iter().map(plan_numbers).collect(),
        zone_from: limit.zone_from.clone(),
        refund_on: Some(limit.refund_on.to_string()).filter(|outcomes| !outcomes.is_empty()),
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
