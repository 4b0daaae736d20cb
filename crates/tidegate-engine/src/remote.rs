//! Remote holders: parts of leased limits that are spent outside of this member, at Envoys that
//! decide by themselves.
//!
//! A **stream** is one connection of one Envoy for one namespace. On it the Envoy reports what it
//! admitted and denied for each of its **buckets**, and is told an **assignment** for each: a token
//! bucket with a time to live. Every leased limit that the attributes of a bucket meet has a holder
//! for it ([`RemoteHolder`](tidegate_core::lease::RemoteHolder)), which asks the ledger as this
//! member's own holders do, in the same batches.

mod bucket;
mod places;
mod stream;
mod stream_cell;
mod streams;

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_core::gate::MetLimit;
use tidegate_core::lease::{HOLDERS_MAX, RemoteObstacle, Terms};

pub use self::stream::RemoteStream;
pub(crate) use self::streams::RemoteStreams;

/// Bounds of remote holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteConfig {
    /// How long an assignment lives, in whole seconds. Default 10 s, from 10 to 60 s.
    pub ttl: Duration,
    /// How many buckets may hold a part of one key at this member. Default 256, at least 1. A
    /// further one gets no assignment until one of them ends.
    pub holders_max: u32,
    /// How many buckets a stream may have. Default 1 000, at least 1.
    pub buckets_max: usize,
}

impl RemoteConfig {
    /// These bounds.
    pub const fn new(ttl: Duration, buckets_max: u32) -> Self {
        Self { ttl, holders_max: HOLDERS_MAX as u32, buckets_max: buckets_max as usize }
    }

    /// The same with at most so many holders of one key at this member.
    #[must_use]
    pub const fn holders(mut self, max: u32) -> Self {
        self.holders_max = max;
        self
    }
}

impl Default for RemoteConfig {
    fn default() -> Self {
        Self::new(Duration::from_secs(10), 1_000)
    }
}

/// The Envoy that opens a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemotePeer<'a> {
    /// The name that it calls itself by, or its address.
    pub name: &'a str,
    /// The grant or the address that the buckets of its namespace are divided by: unlike the name,
    /// it is not for the Envoy to choose.
    pub owner: &'a str,
}

impl<'a> RemotePeer<'a> {
    /// An Envoy of this name and owner.
    pub const fn new(name: &'a str, owner: &'a str) -> Self {
        Self { name, owner }
    }
}

impl<'a> From<&'a str> for RemotePeer<'a> {
    /// An Envoy that is its own owner.
    fn from(name: &'a str) -> Self {
        Self::new(name, name)
    }
}

/// The report of an Envoy on one bucket since its report before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketUsage<'a> {
    /// The entries of its id, in any order.
    pub attributes: &'a [(&'a str, &'a str)],
    /// Requests that the Envoy admitted.
    pub allowed: u64,
    /// Requests that it denied.
    pub denied: u64,
    /// The time since its last report, as it says; nothing in the first report of a bucket.
    pub elapsed: Duration,
}

/// The id of a bucket: its attributes in the order of their names.
pub type BucketId = Box<[(Box<str>, Box<str>)]>;

/// An action for a bucket, to be sent to the Envoy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketAction {
    /// The bucket.
    pub bucket: Arc<BucketId>,
    /// The task of the Envoy.
    pub action: Action,
}

/// The task of an Envoy with the requests of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Admit them by a token bucket.
    Assign {
        /// The most tokens in it. At least 1.
        max_tokens: u32,
        /// The tokens that come in each interval. At least 1.
        tokens_per_fill: u32,
        /// The interval, in whole seconds. At least 1 s.
        fill_interval: Duration,
        /// How long this holds, in whole seconds.
        ttl: Duration,
    },
    /// Deny them.
    Deny {
        /// How long this holds, in whole seconds.
        ttl: Duration,
    },
    /// Forget the bucket.
    Abandon,
}

/// The result of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportTaken {
    /// Buckets that were ignored, as the stream or the namespace has no room for more.
    pub ignored: usize,
    /// Limits that the report met for the first time on this stream and that no Envoy can hold.
    pub not_held: Vec<NotHeld>,
}

/// A limit that an Envoy cannot hold, so that its buckets get no assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotHeld {
    /// The name of the limit.
    pub limit: String,
    /// Why, and what to write instead.
    pub why: String,
    /// Whether an Envoy could hold it, if fewer others did.
    pub is_full: bool,
}

impl NotHeld {
    fn new(limit: &str, why: impl Into<String>) -> Self {
        Self { limit: limit.to_owned(), why: why.into(), is_full: false }
    }

    fn from_obstacle(limit: &str, obstacle: &RemoteObstacle) -> Self {
        Self::new(limit, obstacle.to_string())
    }

    fn without_namespace() -> Self {
        Self::new("", "the namespace is gone, or nothing is leased here")
    }

    fn without_limit() -> Self {
        let why = "no limit applies to the entries of the bucket; add one, or other entries";
        Self::new("", why)
    }

    /// So many buckets hold a part of this key already.
    fn full(met: &[MetLimit<'_>], key: u64, holders_max: u32) -> Self {
        let limit = met.iter().find(|one| one.key == key).map_or("", |one| &one.limit.name);
        let why = format!(
            "its key has {holders_max} of {holders_max} holders at this daemon; raise `rlqs.holders`, or use Envoy's RLS"
        );
        Self { is_full: true, ..Self::new(limit, why) }
    }

    /// One of these limits is decided by this member alone.
    fn decided_here(met: &[MetLimit<'_>], leased: &[(u64, Arc<Terms>)]) -> Self {
        let is_other = |one: &&MetLimit<'_>| leased.iter().all(|(key, _)| *key != one.key);
        let limit = met.iter().find(is_other).map_or("", |one| &one.limit.name);
        let why = "each member decides it for itself; use `consistency: leased`, or Envoy's RLS";
        Self::new(limit, why)
    }
}

/// One bucket of a stream, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteView {
    /// The namespace.
    pub namespace: String,
    /// The name of the Envoy, or its address.
    pub envoy: String,
    /// The bucket.
    pub bucket: Arc<BucketId>,
    /// Requests in a thousand seconds by its last reports, denied ones included.
    pub demand_each_1000_s: u64,
    /// The action that was sent last; `None` if nothing is in force.
    pub action: Option<Action>,
    /// Until when this is in force at the latest, by this member's clock.
    pub until: Option<Timestamp>,
    /// Whether this member decided it alone, as the store is silent.
    pub is_alone: bool,
    /// Requests that the Envoy has reported as denied.
    pub denied: u64,
    /// The limit that no Envoy can hold, for whose sake the bucket has no assignment.
    pub not_held: Option<NotHeld>,
}

/// All remote holders of this member in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteTotals {
    /// Open streams.
    pub streams: usize,
    /// Buckets of open streams.
    pub buckets: usize,
    /// Of those, with a token bucket in force.
    pub assigned: usize,
    /// Of those, denied.
    pub denied: usize,
    /// Of those, without an assignment, as an Envoy cannot hold one of their limits.
    pub not_held: usize,
}
