//! Admission control for multi-tenant services: may this request go ahead, and if not, why, and when should it
//! come back?

pub mod algorithm;
pub mod attributes;
pub mod class;
pub mod cost;
pub mod gate;
pub mod limit;
pub mod matcher;
pub mod permits;
pub mod rate;
pub mod refusal;
pub mod ring;
pub mod table;
pub mod time;

mod address;
mod scope;
mod sync;

pub use algorithm::{Algorithm, AlgorithmError};
pub use attributes::Attributes;
pub use class::Class;
pub use cost::Cost;
pub use gate::{Decision, Gate, GateBuilder, GateError, LimitStatus, Peek, Permit};
pub use limit::Limit;
pub use matcher::Matcher;
pub use rate::{Rate, RateError};
pub use refusal::{Plane, Reason, Refusal, Retry, Violated};
pub use table::{KeyTable, TableConfig, TableStats, WhenFull};
pub use time::Timestamp;
