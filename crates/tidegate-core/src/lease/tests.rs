//! Fleets in a test: members whose clocks run apart, a network that loses, repeats and delays, and
//! one ledger.

mod bounds;
mod bucket;
/// The rules of Envoy, which the simulator has.
#[path = "../../../tidegate-sim/src/fleet/envoy_bucket.rs"]
mod envoy_bucket;
mod holder;
mod liveness;
mod remote;
mod remote_ledger;
mod remote_obstacle;
mod remote_world;
mod reports;
mod stored;
mod window;
mod world;
