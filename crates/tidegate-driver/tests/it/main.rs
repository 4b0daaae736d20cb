//! The driver with stores that hang, fail and answer late, on a clock that stands still.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod admission;
mod cancellation;
mod feature_handle;
mod feature_return;
mod renewal;
mod soak;
mod soak_world;
mod tick;
mod world;
