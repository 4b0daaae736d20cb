//! Tidegate in a service: tower layers that admit, wait, and bound what is under way, for axum,
//! hyper and tonic.
//!
//! ```
//! use tidegate_core::Limit;
//! use tidegate_tower::{AdmitLayer, extract};
//!
//! let limit = Limit::rate("per-user", "100/s")?.key(["user"]);
//! let layer = AdmitLayer::from_limits([limit])?.attribute("user", extract::header("x-user"));
//! let app: axum::Router = axum::Router::new().layer(layer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Admission.** [`AdmitLayer`] makes attributes of its head, asks the engine, and
//! either answers a refusal (problem details, or a gRPC status for gRPC) or calls the service. Both
//! answers carry the `RateLimit` fields. With [`AdmitLayer::wait`] a request that would soon be
//! admitted waits for it instead. [`ConcurrencyLayer`] only bounds what is under way,
//! with a queue before it.
//!
//! **Settlement.** The permit lives in the body of the response. It is settled
//! when the body has ended, or failed; when the request or the body is dropped before, because the
//! client went away or something panicked, what was lent is given back at once. A request that is
//! cancelled while the store is asked gives back everything.
//!
//! `docs/tower.md` has the details and the bounds.

#![forbid(unsafe_code)]

pub mod layer;
pub mod layer_error;

pub mod extract;
pub mod timeout;

pub mod concurrency;
pub mod service;

pub mod body;

mod answer;
mod decide;
mod hold;
mod settings;

pub use body::AdmitBody;
pub use concurrency::ConcurrencyLayer;
pub use extract::{Extract, Head, Rejection};
pub use layer::AdmitLayer;
pub use layer_error::LayerError;
pub use service::{Admit, AdmitFuture};
pub use tidegate_driver::{Clock, ClockWait, EngineHandle, FeatureLevel, ManualClock, SystemClock};
pub use tidegate_overload::{QueueConfig, ResourceConfig};
