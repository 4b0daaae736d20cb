//! The lease protocol: two members, one ledger and a network that loses, repeats, delays and
//! overtakes. Every order of events within small bounds, on the very code that runs in members and
//! stores.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

/// The rules of Envoy, which the simulator has.
#[expect(dead_code, reason = "the model has no clock that runs apart, and no report without a stream")]
#[path = "../../../tidegate-sim/src/fleet/envoy_bucket.rs"]
mod envoy_bucket;
#[cfg(tidegate_planted_faults)]
mod faults;
mod fleet;
mod real;
mod remote;
mod remote_fleet;
