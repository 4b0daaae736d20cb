//! The layers as a service has them: requests in, answers out, and what is held in between.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod answers;
mod axum_service;
mod concurrency;
mod extracting;
mod settling;
mod store;
mod tonic_service;
mod waiting;
mod world;
