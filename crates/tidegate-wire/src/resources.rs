//! The resources of the overload plane, and the values of signals.

use serde::{Deserialize, Serialize};

/// All resources of a daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResourcesBody {
    /// The resources, in order of their names.
    pub resources: Vec<ResourceBody>,
}

/// One resource, as the daemon that answers sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResourceBody {
    /// Its name.
    pub name: String,
    /// Its load level: `normal`, `soft`, `brownout`, `hard` or `emergency`.
    pub level: String,
    /// The highest pressure of its signals; 1 is as much as it should bear.
    pub pressure: f64,
    /// The signal with that pressure; absent without a fresh one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding_signal: Option<String>,
    /// Requests in flight.
    pub in_flight: u64,
    /// The most requests in flight at this moment.
    pub in_flight_max: u64,
    /// How that limit is found: `fixed`, `per_instance`, `vegas`, `aimd` or `gradient`.
    pub concurrency: String,
    /// Its admission cursor.
    pub cursor: CursorBody,
    /// Requests that wait for a place.
    pub queued: u64,
    /// The smallest delay of the queue over the last 100 ms in milliseconds, of the class in which
    /// it is highest.
    pub queue_delay_ms: f64,
    /// After how many seconds a refused caller should come back, at least.
    pub retry_after_s: u64,
    /// Its numbers by class, the most important first.
    pub classes: Vec<ClassBody>,
    /// Its signals, in order of their names; those that are about all resources too, since each
    /// resource has its own state of them.
    pub signals: Vec<SignalBody>,
}

/// The position of an admission cursor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CursorBody {
    /// The position: requests of a lower level are shed. 0 is open.
    pub position: u16,
    /// The class of the least important request that is served.
    pub class: String,
    /// The lowest cohort of that class that is served, 0 to 127.
    pub cohort: u16,
    /// Until when an operator has pinned it, as RFC 3339; absent if nobody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_until: Option<String>,
}

/// The numbers of one class at a resource, since the daemon started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClassBody {
    /// `critical_plus`, `critical`, `sheddable_plus` or `sheddable`.
    pub class: String,
    /// First attempts of requests.
    pub offered: u64,
    /// Of these, admitted.
    pub admitted: u64,
    /// Refused because of the load: by the cursor, by the delay of the queue, or because there was
    /// no place or no room to wait.
    pub shed: u64,
    /// Refused because their deadline was over or could not be met.
    pub expired: u64,
    /// Gone before they were decided, because their caller left or the daemon ended.
    pub cancelled: u64,
    /// Refused by a limit or by a table, which the resource did not bear.
    pub denied: u64,
    /// Waiting at this moment.
    pub queued: u64,
    /// How long those that got a place had waited, on average, in milliseconds.
    pub wait_ms: f64,
}

/// A signal and its last value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SignalBody {
    /// Its name.
    pub name: String,
    /// Its source: `in_flight`, `queue_delay`, `slow_answers` or `push`.
    pub source: String,
    /// Its last value; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The value at which the pressure is 1.
    pub target: f64,
    /// The unit of both; empty if the policy says none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The value divided by the target, smoothed; 0 without a fresh value.
    pub pressure: f64,
    /// The age of the value in milliseconds; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Whether its value is too old to count, or absent.
    pub is_stale: bool,
}

/// The body of `PUT /v1/signals/{name}`: a new value of a signal with `source: push`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SignalValue {
    /// The value, at least 0.
    #[cfg_attr(feature = "schema", schema(example = 1250.0))]
    pub value: f64,
    /// How long it counts, in milliseconds, 100 to 3600000. Default: the `ttl` of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// The answer to `PUT /v1/signals/{name}`: a value was taken in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SignalAnswer {
    /// The name of the signal.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The resources whose pressure it is part of, in order.
    pub resources: Vec<String>,
}
