//! The one pipeline that joins Tidegate's planes: what callers were promised (limits), what a
//! partitioned store can do (capacity), and what the system can bear right now (overload).
//!
//! Pure and sans-IO: it takes requests, events and `now`, and returns decisions, batches for a
//! store, and the next instant at which it wants to be called. Protocols, proxy, layers and
//! simulator call nothing else.
//!
//! ```
//! use tidegate_core::{Algorithm, Limit, Rate, Timestamp};
//! use tidegate_engine::{Decision, Engine, EngineConfig, NamespaceConfig, Request, Step};
//!
//! let limit = Limit::new("per-user", Algorithm::bucket(Rate::per_second(100)?)?).key(["user"]);
//! let api = NamespaceConfig::new("api", [limit]);
//! let engine = Engine::builder(EngineConfig::seeded([1, 2, 3, 4])).namespace(api).build()?;
//! let step = engine.admit(&Request::new("api", &[("user", "ada")]), Timestamp::from_secs(1_800_000_000))?;
//! assert!(matches!(step, Step::Decided(Decision::Admit(_))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **The order.** (1) Read only: deadline, level of the feature, admission cursor; blocks.
//! (2) Local limits and leases, charged. (3) Capacity units. (4) The place in flight. (5) One batch
//! for all `exact` limits, which the caller carries to the store. A refusal anywhere returns what
//! was taken before it, last first; in sequence every state is then byte for byte as it was.

#![forbid(unsafe_code)]

mod access_report;
mod blocks;
mod capacity_control;
mod continuation;
mod decision;
mod demand;
mod engine;
mod error;
mod fault;
mod feature_pins;
mod granted_level;
mod kept;
mod largest;
mod leases;
mod lent_namespaces;
mod limit_report;
mod lineage;
mod load_report;
mod meter;
mod meter_rows;
mod notes;
mod numbers;
mod overrides;
mod permit;
mod permit_id;
mod place;
mod planes;
mod progress;
mod refunds;
mod remote;
mod request;
mod spent_ticket;
mod stable_hash;
mod stand_in_handle;
mod stand_ins;
mod sync;
mod table_leases;
mod ticket;
mod ticket_office;
mod waiting_room;

pub use access_report::{AccessCharge, AccessReport};
pub use blocks::{BLOCKS_KNOWN_MAX, BlockCause, BlockReport};
pub use continuation::{Answered, Pending, Wants};
pub use decision::{BatchError, Decision, Refused, Step};
pub use engine::{
    CancellableWork, Change, Engine, EngineBuilder, EngineConfig, EngineStats, Event, Explained,
    FeatureReport, FeatureWork, GrantedFeature, LimitChange, OfferedRequest, PeekReport, ReloadReport, Tick,
    TickAction, TicketReport, UsageReport, WAITING_BOUNDS, WatchedFeature, WatchedLevel,
};
pub use error::{AdminError, BuildError, RequestError};
#[cfg(tidegate_planted_faults)]
pub use fault::Fault;
pub use feature_pins::FeaturePinning;
pub use kept::{PermitPage, PermitReport};
pub use leases::{Landing, LeaseBatch, LeaseBatches, LeaseConfig, LeaseTotals, LeaseView, LeasesView};
pub use limit_report::LimitReport;
pub use lineage::{LINEAGE_MAX, Lineage};
pub use load_report::{LoadReport, PlaceWait};
pub use meter::{
    MeterConfig, NamespaceUsage, ResourceShare, ResourceWork, RowName, RowUsage, TenantUsage, Usage,
};
pub use notes::NoteError;
pub use numbers::in_words as numbers_in_words;
pub use overrides::{OverrideState, RUNTIME_OVERRIDES_MAX, RuntimeOverride};
pub use permit::{Completion, Outcome, Permit, Settled};
pub use permit_id::{NotAPermitId, PermitId};
pub use place::lacks_in_flight_place;
pub use progress::{Asking, Progress};
pub use refunds::{REFUND_KEY_KEPT, REFUND_KEYS_MAX, Refunded};
pub use remote::{
    Action, BucketAction, BucketId, BucketUsage, NotHeld, RemoteConfig, RemotePeer, RemoteStream,
    RemoteTotals, RemoteView, ReportTaken,
};
pub use request::Request;
pub use ticket::{
    StoredTicketKey, TICKET_BYTES_MAX, TicketFault, TicketKeyError, TicketKeys, TicketSubject, TicketTerms,
};
pub use tidegate_capacity::Units;
pub use tidegate_core::NamespaceConfig;
pub use tidegate_overload::{
    Cursor, FeatureCause, FeatureChange, FeatureEvent, FeatureMode, FeaturePinError, FeatureReason,
    FeatureScope, FeatureView, InstanceState, LatencyStats, LoadLevel, OfferOutcome, PushedValue,
    QueueCounts, RecentActivity, ResourceStats, RoomBounds, RoomUse, SignalError, SpanEnd, TicketIssuer,
    TicketNumber, WaitingConnection,
};
pub use waiting_room::Turn;

/// The most requests that are decided together. More are an error, and nothing is charged.
pub const BATCH_REQUESTS_MAX: usize = 128;
