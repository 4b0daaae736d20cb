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
    /// Whether it is in shadow mode: it refuses and delays nobody, and its numbers, but for those
    /// of requests that were offered and admitted, are as if it enforced. Absent: it enforces.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub shadow: bool,
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
    /// Its streams; absent where no route has `hold: first_byte`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsBody>,
    /// Its tickets; absent where it defers no requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferral: Option<DeferralBody>,
    /// How that limit is found: `fixed`, `per_instance`, `vegas`, `aimd` or `gradient`.
    pub concurrency: String,
    /// Advice to change that limit, from the last minute; absent while it is not plainly wrong, or
    /// not enough is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<AdviceBody>,
    /// Its admission cursor.
    pub cursor: CursorBody,
    /// Requests that wait for a place.
    pub queued: u64,
    /// The smallest delay of the queue over the last 100 ms in milliseconds, of the class in which
    /// it is highest.
    pub queue_delay_ms: f64,
    /// After how many seconds a refused caller should come back, at least.
    pub retry_after_s: u64,
    /// Its rates over the last ten seconds; absent in answers of daemons before version 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<RecentBody>,
    /// Its numbers by class since the daemon started, the most important first.
    pub classes: Vec<ClassBody>,
    /// Its signals, in order of their names; those that are about all resources too, since each
    /// resource has its own state of them.
    pub signals: Vec<SignalBody>,
}

/// Advice to change the limit of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AdviceBody {
    /// `too_low`: the limit may be too low; `too_high`: it is too high.
    pub kind: String,
    /// The limit to try.
    pub suggested: u64,
    /// The advice with the numbers that it is made from, for people.
    pub text: String,
}

/// The streams of a resource: answers that go on after their place was given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamsBody {
    /// Those that are open, and requests that may become one.
    pub open: u64,
    /// The most at once.
    pub max: u64,
    /// Requests that were refused for want of one since the daemon started.
    pub refused: u64,
}

/// The deferral tickets of a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeferralBody {
    /// The classes whose refused requests get tickets, the most important first.
    pub classes: Vec<String>,
    /// The part of what is served that is reserved for requests with tickets.
    pub share: f64,
    /// How far ahead tickets are sold, in seconds.
    pub horizon_s: u64,
    /// The deferrals of one request that raise it by a cohort each.
    pub max_deferrals: u8,
    /// The requests a second that the resource has shown it can serve. Each second is sold up to
    /// the share of them.
    pub capacity: f64,
    /// The tickets for the present second and later ones that were not redeemed.
    pub booked: u64,
    /// The end of the last second with tickets, as RFC 3339; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booked_until: Option<String>,
    /// The end of the last second whose tickets are good already, as RFC 3339; absent unless the
    /// calendar is pulled forward, because the load has fallen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulled_to: Option<String>,
    /// Tickets that were sold since the daemon started.
    pub sold: u64,
    /// Requests that found no room in the calendar.
    pub full: u64,
    /// Tickets that were spent by an admission, or by a request that waits for a place.
    pub redeemed: u64,
    /// Of these, good again since their request was not served after all.
    pub given_back: u64,
    /// Tickets that were shown before their time.
    pub early: u64,
    /// Tickets that were shown after it.
    pub expired: u64,
    /// Tickets that were shown again after they were spent.
    pub replayed: u64,
    /// Tickets of other members that could not be noted as spent, for want of memory.
    pub unremembered: u64,
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
    /// When the tenants change their cohorts next, as RFC 3339: others are shed then.
    #[serde(default)]
    pub cohorts_change: String,
}

/// The rates of a resource over the last ten seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RecentBody {
    /// The time that the rates are of, in milliseconds: 10 to 11 seconds, and less after a start.
    pub span_ms: u64,
    /// The work that was offered, divided by what the places can do: above 1 the rest is refused or
    /// waits. Requests that a limit, a table or a feature refuses are no work. Absent while no work
    /// has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_load: Option<f64>,
    /// All requests.
    pub all: RatesBody,
    /// The classes of which there was any request, the most important first.
    pub classes: Vec<ClassRatesBody>,
    /// The namespaces of which there was any request or of which one waits, by class, the most
    /// important class first.
    pub namespaces: Vec<NamespaceRatesBody>,
}

/// Requests a second, and those that wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RatesBody {
    /// First attempts a second.
    pub offered: f64,
    /// Admitted a second.
    pub admitted: f64,
    /// Refused a second because of the load.
    pub shed: ShedRatesBody,
    /// Of those admitted, so many a second would have been refused by a resource that is in shadow
    /// mode; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_refuse: Option<WouldRefuseBody>,
    /// Refused a second with a ticket.
    #[serde(default)]
    pub deferred: f64,
    /// Refused a second because the deadline was over or could not be met.
    pub expired: f64,
    /// Gone a second before they were decided, because their caller left or the daemon ended.
    pub cancelled: f64,
    /// Refused a second by a limit or by a table, or not decided.
    pub denied: f64,
    /// Refused a second because their feature is off.
    pub disabled: f64,
    /// Requests a second that began to be served: they got a place, or came in pace.
    pub served: f64,
    /// Waiting at this moment.
    pub waiting: u64,
    /// How long requests kept their places whose work has ended; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place_time: Option<TimesBody>,
    /// How long requests waited that were served from the queue; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<TimesBody>,
}

/// Requests a second that were admitted, and that a resource in shadow mode would have refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WouldRefuseBody {
    /// Because of the load.
    pub shed: ShedRatesBody,
    /// Because the deadline was over or could not be met.
    pub expired: f64,
}

/// Refusals a second because of the load, by mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ShedRatesBody {
    /// By the admission cursor.
    pub admission_cursor: f64,
    /// Because they would have waited, or had waited, for too long.
    pub queue_delay: f64,
    /// Because all places were taken, when they did not wait or their time to wait was over.
    pub in_flight: f64,
    /// Because all streams were open.
    #[serde(default)]
    pub streams: f64,
    /// Because the queue was full for them.
    pub queue_full: f64,
    /// Because they came ahead of the pace of requests whose end is not known.
    pub pace: f64,
}

impl ShedRatesBody {
    /// All together.
    pub fn all(&self) -> f64 {
        let Self { admission_cursor, queue_delay, in_flight, streams, queue_full, pace } = self;
        admission_cursor + queue_delay + in_flight + streams + queue_full + pace
    }
}

/// Percentiles of times in milliseconds, at most an eighth above the true ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TimesBody {
    /// The median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
}

/// The rates of a class at a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClassRatesBody {
    /// `critical_plus`, `critical`, `sheddable_plus` or `sheddable`.
    pub class: String,
    /// Its rates.
    pub rates: RatesBody,
}

/// The rates of a namespace in a class at a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NamespaceRatesBody {
    /// Its name; absent for those that a reload has removed, and beyond the 64 that a resource
    /// tells apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The class.
    pub class: String,
    /// Its rates; the times are of a class, not of a namespace.
    pub rates: RatesBody,
    /// The position of the cursor of the namespace: requests of a lower level are shed. 0 is open.
    pub cursor: u16,
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
    /// Refused with a ticket.
    #[serde(default)]
    pub deferred: u64,
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
