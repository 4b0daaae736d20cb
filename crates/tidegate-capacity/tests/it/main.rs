//! The plane and its control loops together, through hours of virtual time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod elastic_load;
mod entitlement;
mod invariants;
mod sketch_memory;
mod story;
