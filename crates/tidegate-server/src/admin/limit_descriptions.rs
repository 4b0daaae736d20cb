//! Limits in words, as operators list them and as pages for callers show them.

use std::collections::BTreeSet;

use serde::Serialize;
use tidegate_core::algorithm::WindowStart;
use tidegate_core::limit::{Condition, CostRow, Limit, Missing, Mode, PlanNumbers, Plans};
use tidegate_core::rate::format_span;
use tidegate_core::{Algorithm, Reason};
use tidegate_policy::{NamespacePolicy, Policy};
use tidegate_wire::reason::Meaning;
use tidegate_wire::retry_after::millis_up;
#[cfg(test)]
use utoipa::ToSchema;

use crate::config::Statuses;
use crate::policy_config;

/// One namespace.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub struct NamespaceAnswer {
    /// Its name.
    name: String,
    /// Its limits, in the order of the policy.
    limits: Vec<LimitDescription>,
    /// The attributes of requests that its limits, its plans and its cost table look at, each once.
    attributes: BTreeSet<String>,
    /// Its plans; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    plans: Option<PlansDescription>,
    /// The rows of its cost table; absent without any. The first row that a request meets counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    costs: Vec<CostDescription>,
    /// Its tables, indexes included; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<TableDescription>,
}

/// A table.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
pub(crate) struct TableDescription {
    /// Its name.
    pub(crate) name: String,
    /// Units of reading a second, over all partitions.
    pub(crate) read_units_per_second: u64,
    /// Units of writing a second, over all partitions.
    pub(crate) write_units_per_second: u64,
}

/// The plans of a namespace.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
struct PlansDescription {
    /// Their names.
    names: Vec<String>,
    /// The attribute that names the plan of a request.
    attribute: String,
    /// How many values of attributes have a plan assigned.
    assigned: usize,
    /// The plan of all other requests; absent where each limit has its own numbers for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
}

/// A row of a cost table.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
struct CostDescription {
    /// The conditions on a request, in words; none for every request.
    conditions: Vec<String>,
    /// The cost of such a request, in units.
    cost: u64,
}

/// One limit.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
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
    #[cfg_attr(test, schema(example = "100/s, at most 200 at once"))]
    allowance: String,
    /// The span it counts over in milliseconds; absent for concurrency.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<u64>,
    /// `enforce` or `shadow`.
    #[cfg_attr(test, schema(value_type = String))]
    mode: &'static str,
    /// The treatment of a request that lacks an attribute of `key`: `skip`, `refuse` or `group`.
    #[cfg_attr(test, schema(value_type = String))]
    missing: &'static str,
    /// The HTTP status of its refusals.
    #[cfg_attr(test, schema(example = 429))]
    status: u16,
    /// For how long a key that exceeds it is refused everything, in milliseconds; absent where it
    /// is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks_for_ms: Option<u64>,
    /// How many keys have numbers of their own.
    overrides: usize,
    /// The numbers for the requests of plans; absent where no plan changes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    plans: Vec<PlanNumbersDescription>,
    /// The attribute whose value is the time zone of a request; absent for limits without.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone_from: Option<String>,
    /// The outcomes on which a charge is given back, as `failed, 404`; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_on: Option<String>,
}

/// The numbers of a limit for the requests of a plan.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ToSchema))]
struct PlanNumbersDescription {
    /// The plan.
    plan: String,
    /// The most it ever admits at once, in units; absent for a plan that is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// The numbers, in words for callers.
    #[cfg_attr(test, schema(example = "500/s, at most 1000 at once"))]
    allowance: String,
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
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
        },
        missing: match limit.missing {
            Missing::Skip => "skip",
            Missing::Refuse => "refuse",
            Missing::Group => "group",
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
