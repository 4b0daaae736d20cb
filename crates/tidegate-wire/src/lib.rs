//! The formats of Tidegate on the wire, written and parsed: status codes, `RateLimit`
//! fields, problem details, the bodies of the HTTP API and the messages of Envoy's rate limit
//! service.
//!
//! Everything here is a pure function from values to bytes or from bytes to values, so that each
//! protocol answers with the same words. The start is [`reason::Meaning`]: what a
//! [`tidegate_core::Reason`] is called in every protocol.
//!
//! ```
//! use tidegate_core::Reason;
//! use tidegate_wire::reason::Meaning;
//!
//! let meaning = Meaning::from_reason(Reason::RateExceeded);
//! assert_eq!((meaning.status, meaning.grpc as u8), (429, 8));
//! ```

#[cfg(feature = "api")]
pub mod access_explanation;
pub mod answer;
#[cfg(feature = "api")]
pub mod blocks;
#[cfg(feature = "api")]
pub mod claim;
pub mod client_address;
#[cfg(feature = "api")]
pub mod envoy;
#[cfg(feature = "api")]
pub mod expected_decision;
#[cfg(feature = "api")]
pub mod explanation;
pub mod fault;
#[cfg(feature = "api")]
pub mod features;
pub mod grpc_timeout;
pub mod headers;
#[cfg(feature = "api")]
pub mod leases;
#[cfg(feature = "api")]
pub mod object;
#[cfg(feature = "api")]
pub mod operation;
#[cfg(feature = "api")]
pub mod pairs;
#[cfg(feature = "api")]
pub mod permits;
pub mod problem;
pub mod problem_details;
pub mod ratelimit;
pub mod reason;
#[cfg(feature = "api")]
pub mod refused_keys;
#[cfg(feature = "api")]
pub mod resource_history;
pub mod resources;
#[cfg(feature = "api")]
pub mod resp;
pub mod retry_after;
#[cfg(feature = "api")]
pub mod tables;
pub mod text;
pub mod ticket;
#[cfg(feature = "api")]
pub mod true_units;
#[cfg(feature = "api")]
pub mod usage;

pub use tidegate_core::display;

pub use fault::{Fault, FaultCode};
pub use ratelimit::Allowance;
pub use reason::Meaning;
