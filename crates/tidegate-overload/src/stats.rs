//! The numbers of one resource, for metrics and operators.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use crate::advice::concurrency_advice::ConcurrencyAdvice;
use crate::cursor::Cursor;
use crate::deferral::resource_deferral::DeferralStats;
use crate::levels::load_level::LoadLevel;
use crate::levels::signal::SignalStats;
use crate::outcome::{ClassStats, OfferOutcome};
use crate::places::concurrency::Concurrency;
use crate::places::latency::LatencyStats;
use crate::places::stream_places::StreamStats;
use crate::resource::Resource;
use crate::resource_id::ResourceId;

/// The numbers of one resource at one instant.
///
/// Each request that was offered ends in one outcome, so for each class and for all of them:
///
/// ```text
/// offered == admitted + shed + queue_delay + out_of_pace + no_place + no_stream + denied + throttled
///          + queue_full + deferred + disabled + expired + cancelled + failed + undecided
///          + those that a shadow resource would have refused
/// ```
///
/// `undecided` are the requests that are being decided or wait; without any, `offered` equals the
/// sum of the outcomes. Counters are read one after the other, so while requests are decided a
/// request may be counted as undecided although it was decided a moment before.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResourceStats<'a> {
    /// The resource.
    pub id: ResourceId,
    /// The name; `None` for the default resource.
    pub name: Option<&'a str>,
    /// The requests in flight.
    pub in_flight: u64,
    /// The most requests in flight at once, at this moment.
    pub in_flight_max: u64,
    /// Whether it is in shadow mode: its numbers, but for the requests that were offered and
    /// admitted, are as if it enforced.
    pub is_shadow: bool,
    /// Its streams; `None` for a resource that has none.
    pub streams: Option<StreamStats>,
    /// The unsettled places that have expired because a namespace below its part waited.
    pub places_expired: u64,
    /// How that bound is found.
    pub concurrency: Concurrency,
    /// The instances that are alive; `None` where the bound does not depend on them.
    pub instances: Option<usize>,
    /// The position of the admission cursor.
    pub cursor: Cursor,
    /// The end of an operator's pin of the cursor, if there is one in force.
    pub pinned_until: Option<Timestamp>,
    /// The requests whose first attempt was offered.
    pub offered: u64,
    /// The cost of the requests offered since the last tick, without those withdrawn: the demand
    /// that the next tick distributes over the classes.
    pub demand: u64,
    /// The requests that began to be served since the last tick, without those that were not
    /// admitted after all: what the next tick takes the capacity for.
    pub served: u64,
    /// The shortest time before a retry that refused callers are told; each is told up to half of
    /// it more.
    pub retry_after: Duration,
    /// The latency of the work, as its ends report it.
    pub latency: LatencyStats,
    /// Its tickets; `None` where requests are not deferred.
    pub deferral: Option<DeferralStats>,
    /// Advice to change its places; see [`Resource::advice`].
    pub advice: Option<ConcurrencyAdvice>,
    /// The load level.
    pub level: LoadLevel,
    /// The changes of the load level since the start.
    pub level_transitions: u64,
    /// The worst smoothed pressure of the last tick; `None` while no signal is fresh.
    pub pressure: Option<f64>,
    /// The name of the signal with that pressure.
    pub binding_signal: Option<String>,
    /// The signals, in the order of their names.
    pub signals: Vec<SignalStats>,
    classes: [ClassStats; Class::ALL.len()],
}

impl<'a> ResourceStats<'a> {
    pub(crate) fn new(
        id: ResourceId,
        resource: &'a Resource,
        is_shadow: bool,
        deferral: Option<DeferralStats>,
        now: Timestamp,
    ) -> Self {
        let classes = resource.classes();
        let load = resource.load(now);
        Self {
            id,
            is_shadow,
            level: load.level,
            level_transitions: load.transitions,
            pressure: load.pressure,
            binding_signal: load.binding,
            signals: load.signals,
            name: resource.name.as_deref(),
            in_flight: resource.in_flight.count(),
            in_flight_max: resource.in_flight.max(),
            streams: resource.streams.stats(),
            places_expired: resource.places_expired(),
            concurrency: resource.concurrency(),
            instances: resource.instances(),
            cursor: resource.cursor(),
            pinned_until: resource.pinned_until(now),
            offered: classes.iter().map(|class| class.offered).sum(),
            served: resource.served(),
            demand: resource.demand(),
            retry_after: resource.retry_after(),
            latency: resource.latency.stats(),
            deferral,
            advice: resource.advice(),
            classes,
        }
    }

    /// The requests that ended in `outcome`.
    pub fn count(&self, outcome: OfferOutcome) -> u64 {
        self.classes.iter().map(|class| class.count(outcome)).sum()
    }

    /// The numbers of one class.
    pub const fn class(&self, class: Class) -> &ClassStats {
        &self.classes[class as usize]
    }

    /// The requests that are decided, whatever the outcome.
    pub fn decided(&self) -> u64 {
        self.classes.iter().map(ClassStats::decided).sum()
    }

    /// The requests that were offered and are not decided yet.
    pub fn undecided(&self) -> u64 {
        self.offered.saturating_sub(self.decided())
    }
}
