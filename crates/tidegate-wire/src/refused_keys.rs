//! The answer of `GET /v1/keys/top`: the keys that were refused most within a window.

use serde::{Deserialize, Serialize};

/// The keys that were refused most within a window.
///
/// The counts come from sketches of constant size. A count is never too low, and `error` bounds by
/// how much it may be too high.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TopKeysBody {
    /// The window that was asked for, in milliseconds.
    pub window_ms: u64,
    /// Where the counted span begins, as RFC 3339: at or before the beginning of the window, but
    /// not before the daemon started.
    pub since: String,
    /// All refusals of the selected namespaces in that span, whichever `limit`, `key` and `reason`
    /// are selected.
    pub refusals: u64,
    /// A key and reason of the selected namespaces that is not counted was refused at most so often
    /// in that span; with `by=tenant` a tenant that is not counted.
    pub uncounted_max: u64,
    /// The selected keys, those with the most certain refusals first.
    pub keys: Vec<RefusedKeyBody>,
    /// How many more keys are selected than `n` allows.
    pub more: usize,
    /// Refusals that an attribute in `key` cannot select, because it is not the tenant at a door of
    /// the namespace; absent without such refusals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_tenant: Option<WithoutTenantBody>,
}

/// Refusals by the overload plane of requests without a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WithoutTenantBody {
    /// At most `error` too high, never too low.
    pub refusals: u64,
    /// By how much `refusals` may be too high.
    pub error: u64,
    /// Refusals by mechanism, class and resource, the most frequent first.
    pub limits: Vec<LimitCountBody>,
    /// Why the attribute is not their tenant, and the setting that makes it one, for people.
    pub because: String,
}

/// One key that was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RefusedKeyBody {
    /// The namespace, or the domain of an envoyproxy/ratelimit file.
    pub namespace: String,
    /// The limit that bound longest, or the table, or the mechanism of the overload plane. With
    /// `by=tenant` the first of `limits`.
    pub limit: String,
    /// The attributes and values that name the counter, as `user=ada, app=x`; for the overload
    /// plane the class and the tenant of the request. Cut after 256 bytes. With `by=tenant` the
    /// tenant alone, as `tenant=t40`; empty for requests without one.
    pub key: String,
    /// The tenant of the requests, if the overload plane refused them, and with `by=tenant`; absent
    /// for requests without one. Cut after 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The class of the requests, if the overload plane refused them; absent with `by=tenant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The resource that refused them; absent for a limit, a deadline and the default resource, and
    /// with `by=tenant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Refusals of a tenant by limit, or by mechanism, class and resource, the most frequent first;
    /// only with `by=tenant`. A limit or mechanism that is not listed has refused at most `error`
    /// of the `refusals` of the tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitCountBody>,
    /// Refusals of the key by reason, the most frequent first.
    pub reasons: Vec<ReasonCountBody>,
    /// At most `error` too high, never too low. The sum over `reasons`, but with `by=tenant`, where
    /// an uncertain refusal may have any reason.
    pub refusals: u64,
    /// By how much `refusals` may be too high.
    pub error: u64,
    /// Refusals a second over the counted span, without those that are uncertain.
    pub rate_per_s: f64,
    /// When the key was refused last, as RFC 3339.
    pub last_seen: String,
    /// How long ago that was, in milliseconds.
    pub last_seen_ms: u64,
}

/// Refusals of a tenant by one limit or mechanism.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LimitCountBody {
    /// The limit, or the mechanism of the overload plane: `admission_cursor`, `in_flight`,
    /// `streams`, `pace`, `queue_delay`, `queue` or `deadline`.
    pub limit: String,
    /// The class of the requests; absent for a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The resource that refused them; absent for a limit, a deadline and the default resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// At most `error` too high, never too low.
    pub refusals: u64,
    /// By how much `refusals` may be too high.
    pub error: u64,
}

/// Refusals of a key for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReasonCountBody {
    /// The reason.
    pub reason: String,
    /// At most `error` too high, never too low.
    pub refusals: u64,
    /// By how much `refusals` may be too high.
    pub error: u64,
}
