//! The overload plane: what the system can bear right now, and which requests are served first when
//! it cannot bear all.
//!
//! The plane is a set of resources: an upstream of the proxy, a tower layer, a namespace at the
//! API. Each resource has a bound on its work in flight, which may follow the instances that report
//! themselves, an admission cursor, which sheds the least important classes first, and averages of
//! its latency. Beside them, the [`WaitingRoom`] keeps requests that wait for a
//! place or for a limit, in order and within bounds; a [`FairQueue`] says which request gets the
//! next place of a resource. All of it is pure: requests, signals and `now`
//! go in, answers come out.
//!
//! ```
//! use tidegate_core::{Class, Timestamp};
//! use tidegate_overload::{OfferOutcome, Overload, RequestRecord, ResourceConfig, WaitsForPlace};
//!
//! let now = Timestamp::from_secs(1_800_000_000);
//! let overload = Overload::new(ResourceConfig::new(1), 7)?;
//! let resource = overload.find(Some("checkout")).expect("the default resource takes all");
//! let level = overload.request_level(1, Class::Critical, Some("tenant"), now);
//! let mut first = RequestRecord::new(resource, level);
//! overload.offer(&mut first, now);
//! assert!(overload.shed(&first).is_none());
//! let place = overload.take_place(&mut first, WaitsForPlace::No, now).expect("one place is free");
//! overload.end(first, OfferOutcome::Admitted);
//! let mut second = RequestRecord::new(resource, level);
//! overload.offer(&mut second, now);
//! assert!(overload.take_place(&mut second, WaitsForPlace::No, now).is_err());
//! overload.end(second, OfferOutcome::NoPlace);
//! overload.give_back(place);
//! # Ok::<(), tidegate_overload::OverloadError>(())
//! ```

#![forbid(unsafe_code)]

#[expect(
    clippy::cast_precision_loss,
    reason = "samples of a window are far below 2^53, and a latency is a rough number"
)]
mod adaptive_limit;
#[expect(
    clippy::cast_precision_loss,
    reason = "costs are far below 2^53, and an allowance is a rough number"
)]
mod allowance;
mod backoff;
mod builder;
mod capacity_parts;
mod concurrency;
mod cursor;
#[expect(
    clippy::cast_precision_loss,
    reason = "costs are far below 2^53, and an allowance is a rough number"
)]
mod cursor_control;
mod cursor_positions;
#[expect(
    clippy::cast_precision_loss,
    reason = "costs are far below 2^53, and a smoothed demand is a rough number"
)]
mod fair_demand;
mod fair_queue;
mod fault;
mod fleet_share;
mod hash;
mod held_parts;
#[expect(
    clippy::cast_precision_loss,
    reason = "sums of microseconds are far below 2^53, and an average is a rough number"
)]
mod held_times;
mod in_flight;
mod instances;
mod latency;
mod level_control;
mod load_level;
mod marginal_rank;
mod namespace_cursor;
#[expect(
    clippy::cast_precision_loss,
    reason = "sums of microseconds are far below 2^53, and a mean is a rough number"
)]
mod namespace_demand;
mod namespace_slots;
mod namespaces;
mod outcome;
mod overload;
mod pacer;
mod place_bounds;
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a tick are far below 2^53, and a part is a rough number"
)]
mod place_parts;
mod position_map;
mod queue_observation;
mod request_record;
mod resource;
mod resource_config;
mod resource_id;
mod service_times;
mod shed;
mod signal;
mod signal_set;
mod slow_answers;
mod stats;
mod sync;
mod tick;
mod unsettled_places;
mod waiting_room;

pub use adaptive_limit::{
    AdaptiveLimit, AdaptiveLimitConfig, AdaptiveLimitError, LimitAlgorithm, LimitSample,
};
pub use builder::{OverloadBuilder, OverloadError};
pub use concurrency::Concurrency;
pub use cursor::{COHORTS, Cursor, RequestLevel};
pub use fair_queue::{
    ArrivalShed, DelayControl, FairQueue, QueueConfig, QueueConfigError, QueueCounts, QueueShed, QueueTick,
    Share, TurnVerdict,
};
pub use fleet_share::FleetShare;
pub use instances::{INSTANCE_NAME_BYTES_MAX, INSTANCE_TTL, INSTANCES_MAX, InstanceError, InstanceState};
pub use latency::{LatencySample, LatencyStats};
pub use load_level::LoadLevel;
pub use marginal_rank::MarginalRank;
pub use namespaces::{NAMESPACES_MAX, NamespaceShares};
pub use outcome::{ClassStats, OfferOutcome};
pub use overload::{Overload, PlaceRefusal, Signal, WaitsForPlace};
pub use place_bounds::PlaceBounds;
pub use queue_observation::QueueObservation;
pub use request_record::RequestRecord;
pub use resource::InFlightPermit;
pub use resource_config::ResourceConfig;
pub use resource_id::ResourceId;
pub use service_times::ServiceTimes;
pub use shed::Shed;
pub use signal::{PushedValue, SignalConfig, SignalError, SignalSource, SignalStats};
pub use stats::ResourceStats;
pub use tick::TICK;
pub use unsettled_places::{OverduePlace, UnsettledPlace};
pub use waiting_room::{
    Entered, Entrant, Group, Moved, Obstacle, Position, RoomBounds, RoomFull, RoomUse, Served,
    WaitingConnection, WaitingNamespaces, WaitingRoom,
};
