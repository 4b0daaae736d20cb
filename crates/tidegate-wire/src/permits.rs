//! The answer of `GET /v1/permits`: the permits that wait to be settled or released.

use serde::{Deserialize, Serialize};

/// A page of kept permits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PermitsBody {
    /// The permits, the oldest first.
    pub permits: Vec<PermitBody>,
    /// How many permits are selected, on all pages.
    pub total: usize,
    /// How many permits of all namespaces may be kept.
    pub max: usize,
    /// Ask with `after` set to this for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One kept permit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PermitBody {
    /// The first 8 of the 32 digits of its id. The whole id is a secret of the caller: it permits
    /// to settle.
    pub id: String,
    /// The namespace.
    pub namespace: String,
    /// The limits that it was charged to; empty for a permit that was kept before the daemon
    /// started.
    pub limits: Vec<String>,
    /// The cost of the request, in units.
    pub cost: u64,
    /// How long it has been held, in milliseconds; absent for a permit that was kept before the
    /// daemon started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// When it expires, as RFC 3339.
    pub expires: String,
    /// In how many milliseconds that is.
    pub remaining_ms: u64,
}
