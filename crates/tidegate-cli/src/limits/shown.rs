//! The parts of `GET /v1/limits` that the commands use.

use serde::Deserialize;
use serde_json::Value;
use tidegate_server::{DomainAnswer, NamespaceAnswer};

/// The part of `GET /v1/limits` that is shown.
#[derive(Debug, Deserialize)]
pub(crate) struct LimitsShown {
    /// Absent where the limits come from a file.
    pub(crate) policy: Option<PolicyShown>,
    pub(crate) namespaces: Vec<NamespaceAnswer>,
    #[serde(default)]
    pub(crate) domains: Vec<DomainAnswer>,
    #[serde(default)]
    pub(crate) overrides: Vec<Value>,
}

/// The part of the policy in force that is shown.
#[derive(Debug, Deserialize)]
pub(crate) struct PolicyShown {
    pub(crate) version: u64,
    pub(crate) since: String,
    pub(crate) last_error: Option<ErrorShown>,
    #[serde(default)]
    pub(crate) restart_needed: Vec<String>,
}

/// The error of a later policy that was not taken over.
#[derive(Debug, Deserialize)]
pub(crate) struct ErrorShown {
    pub(crate) at: String,
    pub(crate) problems: String,
}
