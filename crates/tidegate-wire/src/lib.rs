//! The formats of Tidegate on the wire, written and parsed: status codes, `RateLimit`
//! fields, problem details, the bodies of the HTTP API and the messages of Envoy's rate limit
//! service.
//!
//! Everything here is a pure function from values to bytes or from bytes to values, so that each
//! door answers with the same words. The start is [`reason::Meaning`]: what a
//! [`tidegate_core::Reason`] is called in every protocol.
//!
//! ```
//! use tidegate_core::Reason;
//! use tidegate_wire::reason::Meaning;
//!
//! let meaning = Meaning::of(Reason::RateExceeded);
//! assert_eq!((meaning.status, meaning.grpc as u8), (429, 8));
//! ```

pub mod answer;
pub mod blocks;
pub mod claim;
pub mod envoy;
pub mod explanation;
pub mod fault;
pub mod grpc_timeout;
pub mod headers;
pub mod leases;
pub mod object;
pub mod operation;
pub mod pairs;
pub mod permits;
pub mod problem;
pub mod problem_details;
pub mod ratelimit;
pub mod reason;
pub mod refused_keys;
pub mod resp;
pub mod retry_after;
pub mod tables;
pub mod text;

pub use tidegate_core::display;

pub use fault::{Fault, FaultCode};
pub use ratelimit::Allowance;
pub use reason::Meaning;
