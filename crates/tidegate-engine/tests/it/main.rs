//! The engine as its callers use it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod operations;
mod order;
mod world;
