//! Internal, no promise: the reverse proxy. It reads the attributes of a request, has it decided,
//! and forwards it to an upstream.
//!
//! Requests are read in one way or not at all: a value that two readers would take differently is
//! rejected, because a caller who can have it counted as one thing and served as another has no
//! limit.
//!
//! The proxy enforces decisions and makes none: a [`DecisionPoint`] decides, which in the daemon is
//! the engine in force with everything that counts and logs around it.

#![forbid(unsafe_code)]

pub mod attributes;
pub mod deadline;
pub mod jwt;
pub mod path;
pub mod proxy_protocol;
pub mod rejection;

mod answer;
mod body;
mod class;
mod config;
mod decision_point;
mod forward;
mod headers;
mod host;
mod metrics;
mod page;
mod proxy_context;
mod request_body;
mod request_context;
#[cfg(test)]
mod request_fixture;
mod response_cost;
mod response_end;
mod reverse_proxy;
mod routes;
mod stall_timer;
mod tunnel;
mod unforwarded;
mod upstream;

pub use answer::{answer, answer_to_fault};
pub use body::AnswerBody;
pub use config::{ProxyConfig, ProxyError};
pub use decision_point::{DecisionPoint, NotedDecision};
pub use request_body::BodyError;
pub use reverse_proxy::{ProxyState, ReverseProxy};
