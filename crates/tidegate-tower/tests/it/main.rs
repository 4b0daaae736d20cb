//! The layers as a service has them: requests in, answers out, and what is held in between.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod answers;
mod axum_service;
mod concurrency;
mod extraction;
mod images_example;
mod overload_example;
mod queue;
mod settlement;
mod soak;
#[path = "../../../tidegate-driver/tests/it/soak_world.rs"]
mod soak_world;
mod store;
mod tonic_service;
mod world;
