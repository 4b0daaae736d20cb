//! The settings of one resource.

use core::time::Duration;

use crate::deferral::deferral_config::DeferralConfig;
use crate::levels::load_level::LevelThresholds;
use crate::places::adaptive_limit::AdaptiveLimitConfig;
use crate::places::fleet_share::FleetShare;
use crate::queue::fair_queue::{QueueConfig, Share};
use crate::queue::waiting_room::RoomUse;

/// Whether a resource refuses and delays requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResourceMode {
    /// It does.
    #[default]
    Enforce,
    /// It refuses and delays nobody. [A rehearsal](crate::Overload::for_rehearsal) decides and
    /// counts the requests that it would refuse and delay. Its features serve every request at the
    /// best level.
    Shadow,
}

/// The settings of one resource.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::Timestamp;
/// # use tidegate_overload::{INSTANCE_TTL, InstanceState, Overload, ResourceConfig};
/// # let start = Timestamp::from_secs(1_800_000_000);
/// let overload = Overload::new(ResourceConfig::new(100).places_per_instance(8), 7)?;
/// let resource = overload.find(None).expect("it is the default resource");
/// for now in [start, start.saturating_add(Duration::from_secs(20))] {
///     overload.resource(resource).report("worker-1", InstanceState::Alive, now)?;
///     overload.resource(resource).report("worker-2", InstanceState::Alive, now)?;
///     // Other instances have not had the time to report, so the configured bound holds.
///     assert_eq!(overload.stats(resource, now).in_flight_max, 100);
/// }
/// let now = start.saturating_add(INSTANCE_TTL);
/// overload.tick(now);
/// assert_eq!(overload.stats(resource, now).in_flight_max, 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResourceConfig {
    /// The most requests in flight at once, 1 to [`ResourceConfig::IN_FLIGHT_MAX`].
    pub in_flight_max: u64,
    /// The most streams at once, 1 to [`ResourceConfig::STREAMS_MAX`], default
    /// [`ResourceConfig::STREAMS`]. A stream keeps no place from its first byte on.
    pub streams_max: u64,
    /// The settings with which the bound follows the latency of the work; it is then at most the
    /// smaller one of `in_flight_max` and [`AdaptiveLimitConfig::max`], and not to be combined with
    /// `places_per_instance`. `None`: the bound does not depend on latency.
    pub adaptive: Option<AdaptiveLimitConfig>,
    /// The requests that one instance works on at once, 1 to [`ResourceConfig::IN_FLIGHT_MAX`]: the
    /// bound is then as many times the instances that are alive, and at most `in_flight_max`, which
    /// holds until one has reported and for [`INSTANCE_TTL`](crate::INSTANCE_TTL) after the first
    /// report. `None`: the bound does not depend on instances.
    pub places_per_instance: Option<u64>,
    /// The most requests that wait for the resource, and the most bytes that they occupy, whatever
    /// the bounds of the waiting room are. `None`: the bounds of the room.
    pub waiting_max: Option<RoomUse>,
    /// The order in which requests wait for the resource: weighted fair queuing with these
    /// settings. `None`: by class, then by arrival.
    pub queue: Option<QueueConfig>,
    /// The part of the bound, in hundredths, that only the highest class may use while the load
    /// level is emergency: 0 to 50, default 5. Rounded down to whole places; 0: none.
    pub reserve: u8,
    /// The part of these numbers that the [members](crate::Overload::set_members) of a fleet
    /// divide; default none. `places_per_instance` is not divided.
    pub share: FleetShare,
    /// When its load levels are entered and left; default [`LevelThresholds::DEFAULT`].
    pub levels: LevelThresholds,
    /// The time in which half of the demand for a feature is forgotten that was seen when the
    /// feature was degraded: callers that stop asking do not make it look free.
    /// [`ResourceConfig::DEMAND_HALF_LIFE_MIN`] to [`ResourceConfig::DEMAND_HALF_LIFE_MAX`],
    /// default 5 minutes.
    pub demand_half_life: Duration,
    /// Whose refusals bring a ticket for a second that is reserved for them. `None`, the default:
    /// nobody's.
    pub defer: Option<DeferralConfig>,
    /// Whether it refuses and delays requests; default [`ResourceMode::Enforce`].
    pub mode: ResourceMode,
}

impl ResourceConfig {
    /// The largest reserve: half of the bound.
    pub const RESERVE_MAX: u8 = 50;

    /// The largest bound: a million requests in flight.
    pub const IN_FLIGHT_MAX: u64 = 1_000_000;

    /// The most streams unless told otherwise: 76 MiB of connections through the reverse proxy.
    pub const STREAMS: u64 = 1000;

    /// The largest bound on streams.
    pub const STREAMS_MAX: u64 = 1_000_000;

    /// The shortest half-life of demand: 1 s.
    pub const DEMAND_HALF_LIFE_MIN: Duration = Duration::from_secs(1);

    /// The longest half-life of demand: a day.
    pub const DEMAND_HALF_LIFE_MAX: Duration = Duration::from_hours(24);

    /// A resource that works on at most `in_flight_max` requests at once.
    pub const fn new(in_flight_max: u64) -> Self {
        Self {
            in_flight_max,
            streams_max: Self::STREAMS,
            adaptive: None,
            places_per_instance: None,
            waiting_max: None,
            queue: None,
            reserve: 5,
            share: FleetShare::None,
            levels: LevelThresholds::DEFAULT,
            demand_half_life: Duration::from_mins(5),
            defer: None,
            mode: ResourceMode::Enforce,
        }
    }

    /// A resource whose bound follows the latency of its work, between the bounds of `limit`.
    pub const fn adaptive(limit: AdaptiveLimitConfig) -> Self {
        let mut config = Self::new(limit.max as u64);
        config.adaptive = Some(limit);
        config
    }

    /// The same, with a bound that follows the instances that [report](crate::Resource::report)
    /// themselves.
    #[must_use]
    pub const fn places_per_instance(mut self, places: u64) -> Self {
        self.places_per_instance = Some(places);
        self
    }

    /// The same, with another bound on streams.
    #[must_use]
    pub const fn streams_max(mut self, streams: u64) -> Self {
        self.streams_max = streams;
        self
    }

    /// The same, with load levels of its own.
    #[must_use]
    pub const fn levels(mut self, levels: LevelThresholds) -> Self {
        self.levels = levels;
        self
    }

    /// The same, with numbers that are those of a fleet.
    #[must_use]
    pub const fn share(mut self, share: FleetShare) -> Self {
        self.share = share;
        self
    }

    /// The same, with tickets for those who are refused.
    #[must_use]
    pub const fn defer(mut self, defer: DeferralConfig) -> Self {
        self.defer = Some(defer);
        self
    }

    /// The same, in this mode.
    #[must_use]
    pub const fn mode(mut self, mode: ResourceMode) -> Self {
        self.mode = mode;
        self
    }

    /// The same numbers as those of one of so many members.
    pub(crate) fn part_of(self, members: u32) -> Self {
        let waiting_max = self.waiting_max.map(|whole| self.share.waiting(whole, members));
        let ticket_share = self.defer.map_or(Share::NONE, |defer| defer.share);
        Self {
            in_flight_max: self.share.places(self.in_flight_max, members),
            streams_max: self.share.streams(self.streams_max, members),
            waiting_max,
            queue: self.queue.map(|queue| queue.ticket_share(ticket_share)),
            ..self
        }
    }

    /// The same, with bounds of its own on what waits for it.
    #[must_use]
    pub const fn waiting_max(mut self, waiting: RoomUse) -> Self {
        self.waiting_max = Some(waiting);
        self
    }

    /// The same, with weighted fair queuing of what waits for it.
    #[must_use]
    pub const fn queue(mut self, queue: QueueConfig) -> Self {
        self.queue = Some(queue);
        self
    }
}
