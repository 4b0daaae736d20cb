//! The members that share the daemon's store, and the leases of each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// All members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LeasesBody {
    /// The member that answers.
    pub member: String,
    /// Whether the daemon shares no store with others, and lends limits by itself.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_alone: bool,
    /// How many members there are that have not said that they stop.
    pub count: usize,
    /// Members that were gone without having left, since the one that answers started.
    pub gone: u64,
    /// Tokens of windows that were granted to members which are gone or silent, of the keys that
    /// the member that answers has leases of, as the store said when it was asked last. Unspent
    /// tokens among them are lost until the windows end, unless those members come back. Rates lose
    /// nothing.
    pub gone_tokens: u64,
    /// The members, in order of their names.
    pub members: Vec<MemberBody>,
    /// Leased limits that another member counts by other numbers than the one that answers, at most
    /// 64: the keys of such a limit are lent by those of whoever asks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub different: Vec<DifferentNumbersBody>,
}

/// A leased limit that two members count by different numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DifferentNumbersBody {
    /// The namespace and the limit, as `api/per-user`.
    pub limit: String,
    /// The numbers at the member that answers, in the words of a policy.
    pub here: String,
    /// The other member.
    pub member: String,
    /// The numbers there.
    pub there: String,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MemberBody {
    /// This run of it: 16 hexadecimal digits.
    pub id: String,
    /// Where it listens for callers.
    pub address: String,
    /// Which version it runs.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Since when it is there, as RFC 3339.
    pub since: String,
    /// Whether it has said that it stops.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_leaving: bool,
    /// Keys with a lease there.
    pub keys: usize,
    /// Whole tokens that it has in hand of all keys.
    pub tokens: u64,
    /// How often it has asked the store for a lease since its start.
    pub asks: u64,
    /// Of these, how often the store did not answer.
    pub unanswered: u64,
    /// The leases with the most demand, at most 16.
    pub leases: Vec<LeaseBody>,
    /// The buckets of Envoys that hold parts of its limits, those with the most demand, at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub envoys: Vec<EnvoyBody>,
    /// The leased limits of its policy, as `api/per-user`, with their numbers in the words of a
    /// policy; the first 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub leased: BTreeMap<String, String>,
}

/// One lease of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LeaseBody {
    /// The namespace of the limit or the table.
    pub namespace: String,
    /// The limit; absent for a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The table, whose numbers are capacity units; absent for a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The attributes of the key with their values, of which no more than 64 characters are shown;
    /// of a table the operation.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub scope: BTreeMap<String, String>,
    /// The demand there, in units a second; first attempts only.
    pub demand_per_s: f64,
    /// The granted rate, in units a second; 0 for windows, which are granted tokens only.
    pub rate_per_s: f64,
    /// Whole tokens in hand.
    pub tokens: u64,
    /// Of these, those that are more than is asked for in a lease period.
    pub idle: u64,
    /// In how many milliseconds the lease ends; 0 if it has.
    pub ends_in_ms: u64,
    /// Whether the store did not answer when it was asked last.
    pub is_unanswered: bool,
    /// Tokens of this window that were granted to members which are gone or silent; see
    /// `gone_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gone: u64,
}

/// One bucket of an Envoy that decides by itself, and what it was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EnvoyBody {
    /// The name of the Envoy, or its address.
    pub envoy: String,
    /// The namespace.
    pub namespace: String,
    /// The entries of the bucket.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub bucket: BTreeMap<String, String>,
    /// Requests a second by its reports, those that it denied included.
    pub demand_per_s: f64,
    /// Requests that it reported as denied, since its stream began.
    pub reported_denied: u64,
    /// The refill of its token bucket, in units a second; 0 if it is denied or has none.
    pub rate_per_s: f64,
    /// The most tokens in that bucket.
    pub max_tokens: u32,
    /// In how many milliseconds what it was told ends at the latest; 0 if nothing is in force.
    pub ends_in_ms: u64,
    /// Whether it was told to deny.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_denied: bool,
    /// Whether the member decided alone, as the store did not answer.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_alone: bool,
    /// Why it has no part: the limit that no Envoy can hold, and what to write instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<String>,
}

/// The outcome of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AcknowledgedBody {
    /// Whether there was a loss that was not acknowledged, as far as the member that was asked
    /// knew.
    pub acknowledged: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
