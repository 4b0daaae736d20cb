//! The overload plane: what the system can bear right now, and which requests are served first when
//! it cannot bear all.
//!
//! The plane is a set of resources: an upstream of the proxy, a tower layer, a namespace at the
//! API. Each resource has a bound on its work in flight, which may follow the instances that report
//! themselves, an admission cursor, which sheds the least important classes first, and averages of
//! its latency. Beside them, the [`WaitingRoom`] keeps requests that wait for a
//! place or for a limit, in order and within bounds; a [`FairQueue`] says which request gets the
//! next place of a resource. A [`Feature`] is work that users can do without, or with less of:
//! while its resource is loaded it degrades level by level, and it comes back once its footprint
//! fits again. All of it is pure: requests, signals and `now` go in, answers come out.
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

mod activity;
mod advice;
mod backoff;
mod builder;
mod cursor;
mod deferral;
mod fault;
mod features;
mod history;
mod levels;
mod namespaces;
mod outcome;
mod overload;
mod places;
mod queue;
mod request_record;
mod resource;
mod resource_config;
mod resource_id;
mod shed;
mod stats;
mod sync;
mod tick;

pub use activity::recent_activity::{ACTIVITY_SPAN, ActivityCounts, ActivityRow, RecentActivity};
pub use activity::time_counts::TimeCounts;
pub use advice::concurrency_advice::ConcurrencyAdvice;
pub use builder::{FeatureProblem, OverloadBuilder, OverloadError};
pub use cursor::marginal_rank::MarginalRank;
pub use cursor::{COHORTS, Cursor, RequestLevel, cohorts_change};
pub use deferral::calendar::{DeferralCalendar, TICKET_BYTES_MAX};
pub use deferral::calendar_stats::CalendarStats;
pub use deferral::deferral_config::{DeferralConfig, DeferralConfigError};
pub use deferral::pulled_front::CalendarLoad;
pub use deferral::resource_deferral::{DeferralCounts, DeferralStats};
pub use deferral::ticket_clock::TicketClock;
pub use deferral::ticket_number::{
    Booking, SLOT_TICKETS_MAX, TICKET_VALID, TicketAsk, TicketIssuer, TicketNumber, TicketState,
};
pub use features::config::{
    FeatureConfig, FeatureConfigError, FeatureLevelConfig, FeatureMode, FeatureScope, OnDisable,
};
pub use features::feature::{Feature, FeatureGrant, FeatureId, FeatureUse};
pub use features::feature_event::{FEATURE_EVENTS_MAX, FeatureCause, FeatureChange, FeatureEvent};
pub use features::feature_pin::{FEATURE_PIN_MAX, FeaturePin, FeaturePinError};
pub use features::feature_view::{FeatureReason, FeatureView};
pub use history::{
    AreaMeasure, AreaOwner, HISTORY_FINE, HISTORY_KEPT, HISTORY_MARKS_MAX, HISTORY_NAME_BYTES_MAX,
    HISTORY_NAMES_MAX, HISTORY_SPAN, HistoryBreak, HistorySample, HistorySet, LevelMark, OTHER_NAME,
    PRESSURE_MAX, PressureMean, ResourceHistory, SPAN_ROWS_MAX, ShareRow, ShareTotals, SpanEnd, SpanShares,
    UNATTRIBUTED, areas,
};
pub use levels::load_level::{LevelThresholds, LevelThresholdsError, LoadLevel};
pub use levels::signal::{PushedValue, SignalConfig, SignalError, SignalSource, SignalStats};
pub use namespaces::{NAMESPACES_MAX, NamespaceShares};
pub use outcome::{ClassStats, OfferOutcome};
pub use overload::{Overload, Signal, WaitsForPlace};
pub use places::adaptive_limit::{
    AdaptiveLimit, AdaptiveLimitConfig, AdaptiveLimitError, LimitAlgorithm, LimitSample,
};
pub use places::concurrency::Concurrency;
pub use places::fleet_share::FleetShare;
pub use places::instances::{
    INSTANCE_NAME_BYTES_MAX, INSTANCE_TTL, INSTANCES_MAX, InstanceError, InstanceState,
};
pub use places::latency::{LatencySample, LatencyStats};
pub use places::place_bounds::PlaceBounds;
pub use places::service_times::ServiceTimes;
pub use places::stream_places::{StreamPermit, StreamStats};
pub use places::unsettled_places::{OverduePlace, UnsettledPlace};
pub use queue::fair_queue::{
    ArrivalShed, DelayControl, FairQueue, QueueConfig, QueueConfigError, QueueCounts, QueueShed, QueueTick,
    Share, TurnVerdict,
};
pub use queue::queue_observation::QueueObservation;
pub use queue::waiting_room::{
    Entered, Entrant, Group, Moved, Obstacle, Position, RoomBounds, RoomFull, RoomUse, Served,
    WaitingConnection, WaitingNamespaces, WaitingRoom,
};
pub use request_record::RequestRecord;
pub use resource::{InFlightPermit, Resource};
pub use resource_config::{ResourceConfig, ResourceMode};
pub use resource_id::ResourceId;
pub use shed::{PlaceRefusal, Shed};
pub use stats::ResourceStats;
pub use tick::TICK;
