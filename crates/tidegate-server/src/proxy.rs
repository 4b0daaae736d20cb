//! The reverse proxy: it reads the attributes of a request, has it decided, and forwards it to an
//! upstream.
//!
//! Requests are read in one way or not at all: a value that two readers would take differently is
//! rejected, because a caller who can have it counted as one thing and served as another has no
//! limit.

pub mod attributes;
pub mod client_address;
pub mod deadline;
pub mod jwt;
pub mod path;
pub mod rejection;

mod answer;
mod body;
mod class;
mod config;
mod counts;
mod forward;
mod headers;
mod host;
mod page;
mod request_body;
mod request_context;
#[cfg(test)]
mod request_fixture;
mod response_end;
mod reverse_proxy;
mod routes;
mod stall_timer;
mod tunnel;
mod unforwarded;
mod upstream;

pub(crate) use answer::answer;
pub use config::{ProxyConfig, ProxyError};
pub(crate) use reverse_proxy::{ProxyState, ReverseProxy};
