//! Envoy's rate limit services: their messages, and how a request is understood.
//!
//! The messages under [`envoy`] are generated from `proto/`, which has the names and numbers of
//! Envoy's own files and nothing that these services do not use. [`request`] reads a request,
//! [`answer()`] writes the answer; [`json`] is both for callers that speak no gRPC. [`rlqs`] is the
//! service that hands out parts of limits.

pub mod answer;
pub mod json;
mod messages;
pub mod metadata;
pub mod request;
pub mod rlqs;
pub mod unit;

pub use answer::{Left, Outcome, add_load, answer};
pub use messages::envoy;
pub use request::{BadRequest, Descriptor, Hits, ParsedRequest};

pub use envoy::config::core::v3::HeaderValue;
pub use envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
pub use envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse, rate_limit_response};
pub use envoy::r#type::v3::RateLimitUnit;
pub use rate_limit_response::rate_limit::Unit;
pub use rate_limit_response::{Code, DescriptorStatus, RateLimit};

/// The name of the service.
pub const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// The path of its only method.
pub const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The description of the messages and of both services, as servers of reflection hand it out: a
/// serialized `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!("envoy/generated/descriptors.bin");
