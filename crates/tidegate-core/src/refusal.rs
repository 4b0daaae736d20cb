//! The answer "no": which limit, why, when to come back, how much was left.

use core::cmp::Ordering;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use smallvec::SmallVec;

use crate::refusal_details::RefusalDetails;
use crate::text::Text;
use crate::time::Timestamp;

/// The plane that refused: the caller's limits, the capacity of a part of the store, or the load
/// that the system can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plane {
    /// A limit denied: the caller is over what it was promised.
    Limits,
    /// The capacity plane throttled: this part of the store is over its share.
    Capacity,
    /// The overload plane shed, deferred or degraded: the system is over what it can bear.
    Overload,
}

impl Plane {
    /// The name in answers, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Capacity => "capacity",
            Self::Overload => "overload",
        }
    }
}

impl fmt::Display for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a request was refused. The list is closed and stable: it is the same in bodies, gRPC
/// details, RESP errors, logs and metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A limit over less than an hour is used up.
    RateExceeded,
    /// A limit over an hour or longer is used up.
    QuotaExceeded,
    /// All permits of a concurrency limit are held.
    ConcurrencyExceeded,
    /// The key is blocked until an instant.
    Blocked,
    /// The request lacks an attribute that the limit requires.
    AttributeMissing,
    /// The cost is larger than the limit ever admits at once.
    CostExceedsLimit,
    /// The table is over its provisioned throughput.
    TableThroughputExceeded,
    /// The account is over its throughput.
    AccountThroughputExceeded,
    /// The partition that holds the key is over the ceiling of a partition.
    KeyRangeThroughputExceeded,
    /// The on-demand table is over its maximum.
    OnDemandMaximumExceeded,
    /// The node that holds the partition has no spare capacity for a burst.
    NodeSaturated,
    /// A replica of the partition has no spare capacity for a burst.
    ReplicaSaturated,
    /// The partition is moving.
    Migrating,
    /// The system is over what it can bear and this class is shed.
    OverloadShed,
    /// The queue is full.
    QueueFull,
    /// Come back at the instant named on the ticket.
    Deferred,
    /// The feature is switched off for now.
    FeatureDisabled,
    /// The answer would come after the caller's deadline.
    DeadlineUnmeetable,
    /// The shared store does not answer.
    StoreUnavailable,
    /// The key table has no room for another key.
    TableFull,
}

impl Reason {
    /// Every reason, in the order of the documentation, those of later versions included.
    pub const ALL: [Self; 20] = [
        Self::RateExceeded,
        Self::QuotaExceeded,
        Self::ConcurrencyExceeded,
        Self::Blocked,
        Self::AttributeMissing,
        Self::CostExceedsLimit,
        Self::TableThroughputExceeded,
        Self::AccountThroughputExceeded,
        Self::KeyRangeThroughputExceeded,
        Self::OnDemandMaximumExceeded,
        Self::NodeSaturated,
        Self::ReplicaSaturated,
        Self::Migrating,
        Self::OverloadShed,
        Self::QueueFull,
        Self::Deferred,
        Self::FeatureDisabled,
        Self::DeadlineUnmeetable,
        Self::StoreUnavailable,
        Self::TableFull,
    ];

    /// The name in answers, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateExceeded => "rate_exceeded",
            Self::QuotaExceeded => "quota_exceeded",
            Self::ConcurrencyExceeded => "concurrency_exceeded",
            Self::Blocked => "blocked",
            Self::AttributeMissing => "attribute_missing",
            Self::CostExceedsLimit => "cost_exceeds_limit",
            Self::TableThroughputExceeded => "table_throughput_exceeded",
            Self::AccountThroughputExceeded => "account_throughput_exceeded",
            Self::KeyRangeThroughputExceeded => "key_range_throughput_exceeded",
            Self::OnDemandMaximumExceeded => "on_demand_maximum_exceeded",
            Self::NodeSaturated => "node_saturated",
            Self::ReplicaSaturated => "replica_saturated",
            Self::Migrating => "migrating",
            Self::OverloadShed => "overload_shed",
            Self::QueueFull => "queue_full",
            Self::Deferred => "deferred",
            Self::FeatureDisabled => "feature_disabled",
            Self::DeadlineUnmeetable => "deadline_unmeetable",
            Self::StoreUnavailable => "store_unavailable",
            Self::TableFull => "table_full",
        }
    }

    /// The plane that refuses with this reason.
    pub const fn plane(self) -> Plane {
        match self {
            Self::RateExceeded
            | Self::QuotaExceeded
            | Self::ConcurrencyExceeded
            | Self::Blocked
            | Self::AttributeMissing
            | Self::CostExceedsLimit
            | Self::StoreUnavailable
            | Self::TableFull => Plane::Limits,
            Self::TableThroughputExceeded
            | Self::AccountThroughputExceeded
            | Self::KeyRangeThroughputExceeded
            | Self::OnDemandMaximumExceeded
            | Self::NodeSaturated
            | Self::ReplicaSaturated
            | Self::Migrating => Plane::Capacity,
            Self::OverloadShed
            | Self::QueueFull
            | Self::Deferred
            | Self::FeatureDisabled
            | Self::DeadlineUnmeetable => Plane::Overload,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// When a refused caller should come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The refused request would be admitted at this instant, if no other request comes in between.
    At(Timestamp),
    /// Later, with growing pauses; the instant is not known.
    Backoff,
    /// Not at all: the same request will never be admitted.
    Never,
}

impl Retry {
    /// How long to wait from `now`; `None` for [`Retry::Backoff`] and [`Retry::Never`].
    pub fn after(self, now: Timestamp) -> Option<Duration> {
        match self {
            Self::At(instant) => Some(instant.saturating_since(now)),
            Self::Backoff | Self::Never => None,
        }
    }

    /// Orders by how long it binds, longest first: never, backoff, a later instant, an earlier one.
    pub fn longest_first(one: Self, other: Self) -> Ordering {
        let rank = |retry| match retry {
            Self::At(instant) => (0, instant),
            Self::Backoff => (1, Timestamp::MIN),
            Self::Never => (2, Timestamp::MIN),
        };
        rank(other).cmp(&rank(one))
    }
}

/// The attributes that name the counter of a refusal, with their values.
pub type ScopeValues = SmallVec<[(Text, Text); 3]>;

/// One limit that a request violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violated {
    /// The name of the limit (or of the table, node or resource in the other planes).
    pub name: Text,
    /// Why it refused.
    pub reason: Reason,
    /// When it would admit the request.
    pub retry: Retry,
    /// The units of the limit, as a bucket holds when it is full; for a cost that it never admits
    /// the largest cost that it does, with the debt of a bucket.
    pub limit: u64,
    /// The units that were left; 0 while the key is blocked, and for a request without a counter
    /// because it lacks an attribute.
    pub remaining: u64,
    /// The span the limit counts over; `None` for concurrency, which has no span.
    pub window: Option<Duration>,
}

/// A refused request: the limit that binds longest, and all that were violated.
///
/// It owns its text and is one pointer in size, so that it can be kept, sent to another thread and
/// returned as an error. It reads as its [fields](RefusalFields).
///
/// ```
/// # use tidegate_core::{Cost, Gate, Limit, Reason, Timestamp};
/// let now = Timestamp::from_secs(1_800_000_000);
/// let gate = Gate::builder("api").limit(Limit::rate("per-user", "1/m")?.key(["user"])).build()?;
/// let ask = || gate.check(&[("user", "ada")], Cost::ONE, now).into_result();
/// drop(ask()?);
/// let refusal = ask().unwrap_err();
/// assert_eq!((refusal.reason(), refusal.name()), (Reason::RateExceeded, "per-user"));
/// assert_eq!(refusal.retry().after(now).unwrap().as_secs(), 60);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal(Box<RefusalFields>);

/// The fields of a [`Refusal`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalFields {
    /// The namespace of the request.
    pub namespace: Text,
    /// The attributes and values that name the counter; empty for a counter shared by all.
    pub scope: ScopeValues,
    /// All violated limits; the first is the one that binds longest. Never empty.
    pub violated: SmallVec<[Violated; 2]>,
    /// A sentence for people where the reason alone does not say enough.
    pub detail: Option<Text>,
    /// The facts of the plane that refused; `None` for refusals by limits, by the deadline and by
    /// the waiting room.
    pub details: Option<Box<RefusalDetails>>,
    /// How long to wait before the first retry where `retry` names no instant ([`Retry::Backoff`]).
    pub retry_hint: Option<Duration>,
    /// The IANA name of the time zone in which the limit that binds longest has its civil windows;
    /// `None` for limits without.
    pub civil_zone: Option<Text>,
}

impl Refusal {
    /// A refusal by one limit (or table, node, resource).
    pub fn new(namespace: impl Into<Text>, scope: ScopeValues, violated: Violated) -> Self {
        let mut refusal = Self::from(RefusalFields {
            namespace: namespace.into(),
            scope,
            violated: SmallVec::new(),
            detail: None,
            details: None,
            retry_hint: None,
            civil_zone: None,
        });
        // It is pushed where it stays, since it is large to move.
        refusal.violated.push(violated);
        refusal
    }

    fn binding(&self) -> &Violated {
        self.violated.first().expect("a refusal names at least one violated limit")
    }

    /// Why: the reason of the limit that binds longest.
    pub fn reason(&self) -> Reason {
        self.binding().reason
    }

    /// The plane that refused.
    pub fn plane(&self) -> Plane {
        // A table whose store is away has a reason that limits have, too.
        let has_capacity = self.details.as_deref().is_some_and(|details| details.capacity().is_some());
        if has_capacity { Plane::Capacity } else { self.reason().plane() }
    }

    /// The name of the limit that binds longest.
    pub fn name(&self) -> &str {
        &self.binding().name
    }

    /// The units left of the limit that binds longest.
    pub fn remaining(&self) -> u64 {
        self.binding().remaining
    }

    /// When to come back: when the limit that binds longest would admit the request.
    pub fn retry(&self) -> Retry {
        self.binding().retry
    }
}

impl From<RefusalFields> for Refusal {
    #[inline]
    fn from(fields: RefusalFields) -> Self {
        Self(Box::new(fields))
    }
}

impl Deref for Refusal {
    type Target = RefusalFields;

    fn deref(&self) -> &RefusalFields {
        &self.0
    }
}

impl DerefMut for Refusal {
    fn deref_mut(&mut self) -> &mut RefusalFields {
        &mut self.0
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refusal({self})")
    }
}

impl fmt::Display for Refusal {
    /// One line:
    ///
    /// ```text
    /// limit "per-user" of "api" (user=ada): rate_exceeded, 0 of 200 left, come back at 2026-11-20T20:40:00.01Z
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = self.binding();
        write!(f, "limit \"{}\" of \"{}\"", one.name, self.namespace)?;
        for (index, (name, value)) in self.scope.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { " (" } else { ", " })?;
        }
        if !self.scope.is_empty() {
            f.write_str(")")?;
        }
        write!(f, ": {}, {} of {} left, ", one.reason, one.remaining, one.limit)?;
        match one.retry {
            Retry::At(instant) => write!(f, "come back at {instant}")?,
            Retry::Backoff => f.write_str("back off")?,
            Retry::Never => f.write_str("do not come back with it")?,
        }
        match &self.detail {
            Some(detail) => write!(f, "; {detail}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Refusal {}
