//! Admission control for multi-tenant services: may this request go ahead, and if not, why, and
//! when should it come back?
//!
//! ```
//! use std::time::SystemTime;
//! use tidegate_core::{Algorithm, Cost, Decision, Gate, Limit, Rate, Timestamp};
//!
//! let per_user = Limit::new("per-user", Algorithm::bucket(Rate::per_second(100)?)?).key(["user"]);
//! let gate = Gate::builder("api").limit(per_user).build()?;
//! match gate.check(&[("user", "ada")], Cost::ONE, Timestamp::from(SystemTime::now())) {
//!     Decision::Admit(permit) => println!("go ahead: {permit:?}"),
//!     Decision::Refuse(refusal) => println!("{refusal}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Gate`] holds the [limits](Limit) of a namespace. A request brings [`Attributes`] and a
//! [`Cost`]; every limit that matches is charged, or none is. The state of all keys is in a
//! [`KeyTable`] that never grows. Everything is pure: `now` is an argument, no clock is read, no
//! thread is started, and several threads may decide at once.

#![forbid(unsafe_code)]

pub mod algorithm;
pub mod attributes;
pub mod class;
pub mod cost;
pub mod display;
pub mod gate;
#[doc(hidden)]
pub mod hex;
pub mod lease;
pub mod limit;
pub mod matcher;
mod namespace;
pub mod permits;
#[cfg_attr(not(tidegate_planted_faults), doc(hidden))]
pub mod planted_fault;
pub mod rate;
pub mod refusal;
pub mod refusal_details;
pub mod refusal_view;
mod request_outcome;
pub mod ring;
pub mod shares;
pub mod table;
pub mod text;
pub mod time;

mod address;
mod debug_fields;
mod error_chain;
mod scope;
mod sync;

pub use algorithm::{Algorithm, AlgorithmError};
pub use attributes::{Attributes, PairAttributes};
pub use class::Class;
pub use cost::Cost;
pub use error_chain::error_chain;
pub use gate::UnreadRefusal;
pub use gate::{Carried, CarriedFeature, CarriedLimit, CarriedStatus, CarryError, Charging};
pub use gate::{Decision, Gate, GateBuilder, GateError, LimitStatus, Peek, Permit};
pub use limit::{Limit, LimitError};
pub use matcher::Matcher;
pub use namespace::NamespaceConfig;
pub use rate::{Rate, RateError};
pub use refusal::{Plane, Reason, Refusal, RefusalFields, Retry, Violated};
pub use refusal_details::{
    AccessOperation, BindingSignal, CapacityDetails, DeferralTicket, FeatureDetails, OverloadDetails,
    OverloadMechanism, RefusalDetails,
};
pub use refusal_view::{RefusalView, ScopeView};
pub use request_outcome::RequestOutcome;
pub use table::{KeyTable, TableConfig, TableStats, WhenFull, full_retry, random_seed};
pub use text::Text;
pub use time::Timestamp;
