//! The parts of `GET /v1/limits` that the command shows.

use serde::Deserialize;
use serde_json::Value;

/// The part of `GET /v1/limits` that is shown.
#[derive(Deserialize)]
pub(super) struct LimitsShown {
    /// Absent where the limits come from a file.
    #[serde(default)]
    pub(super) policy: Option<PolicyShown>,
    pub(super) namespaces: Vec<NamespaceShown>,
    #[serde(default)]
    pub(super) domains: Vec<DomainShown>,
    #[serde(default)]
    pub(super) overrides: Vec<Value>,
}

/// The part of the policy in force that is shown.
#[derive(Deserialize)]
pub(super) struct PolicyShown {
    pub(super) version: u64,
    pub(super) since: String,
    #[serde(default)]
    pub(super) last_error: Option<ErrorShown>,
    #[serde(default)]
    pub(super) restart_needed: Vec<String>,
}

/// The error of a later policy that was not taken over.
#[derive(Deserialize)]
pub(super) struct ErrorShown {
    pub(super) at: String,
    pub(super) problems: String,
}

/// The part of a namespace that is shown.
#[derive(Deserialize)]
pub(super) struct NamespaceShown {
    pub(super) name: String,
    pub(super) limits: Vec<LimitShown>,
    #[serde(default)]
    pub(super) plans: Option<PlansShown>,
    #[serde(default)]
    pub(super) costs: Vec<CostShown>,
    #[serde(default)]
    pub(super) tables: Vec<TableShown>,
}

/// A table of a namespace.
#[derive(Deserialize)]
pub(super) struct TableShown {
    pub(super) name: String,
    pub(super) read_units_per_second: u64,
    pub(super) write_units_per_second: u64,
}

/// The plans of a namespace.
#[derive(Deserialize)]
pub(super) struct PlansShown {
    pub(super) names: Vec<String>,
    #[serde(default)]
    pub(super) default: Option<String>,
}

/// A row of a cost table.
#[derive(Deserialize)]
pub(super) struct CostShown {
    pub(super) conditions: Vec<String>,
    pub(super) cost: u64,
}

/// A domain of files of envoyproxy/ratelimit.
#[derive(Deserialize)]
pub(super) struct DomainShown {
    pub(super) name: String,
    pub(super) rules: Vec<RuleShown>,
}

/// A rule of a domain.
#[derive(Deserialize)]
pub(super) struct RuleShown {
    pub(super) name: String,
    pub(super) entries: Vec<(String, Option<String>)>,
    pub(super) limits: Vec<String>,
    pub(super) mode: String,
}

/// The part of a limit that is shown.
#[derive(Deserialize)]
pub(super) struct LimitShown {
    pub(super) name: String,
    pub(super) key: Vec<String>,
    pub(super) matches: Vec<String>,
    pub(super) limit: u64,
    pub(super) window_ms: Option<u64>,
    pub(super) mode: String,
    pub(super) overrides: usize,
    pub(super) conditions: Vec<String>,
    pub(super) allowance: String,
    pub(super) missing: String,
    pub(super) status: u16,
    #[serde(default)]
    pub(super) blocks_for_ms: Option<u64>,
    #[serde(default)]
    pub(super) plans: Vec<PlanNumbersShown>,
    #[serde(default)]
    pub(super) zone_from: Option<String>,
    #[serde(default)]
    pub(super) refund_on: Option<String>,
}

/// The numbers of a limit for a plan.
#[derive(Deserialize)]
pub(super) struct PlanNumbersShown {
    pub(super) plan: String,
    pub(super) allowance: String,
}
