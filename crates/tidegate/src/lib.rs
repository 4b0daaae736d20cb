//! Admission control for multi-tenant services: may this request go ahead, and if not, why, and when should it
//! come back?

pub mod algorithm;
pub mod attributes;
pub mod class;
pub mod cost;
pub mod limit;
pub mod matcher;
pub mod permits;
pub mod rate;
pub mod refusal;
pub mod ring;
pub mod time;

mod sync;

pub use algorithm::{Algorithm, AlgorithmError};
pub use attributes::Attributes;
pub use class::Class;
pub use cost::Cost;
pub use limit::Limit;
pub use matcher::Matcher;
pub use rate::{Rate, RateError};
pub use refusal::{Plane, Reason, Refusal, Retry, Violated};
pub use time::Timestamp;
