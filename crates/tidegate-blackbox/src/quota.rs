//! Envoys that hold parts of limits, live: real Envoys, daemons and Redis on loopback.
//!
//! Envoy's filter for the rate limit quota service decides by the part that a daemon assigns it,
//! and reports every 5 s. Each experiment sends an open-loop load through Envoys, meanwhile
//! disturbs something, and holds what was admitted against what [the page for
//! users](../../../docs/gateways/envoy/rlqs.md) promises.
//!
//! - `suite`: the table of the experiments, which are in `experiments`
//! - `envoy_process`: an Envoy; `testbed`: Envoys and daemons on one Redis
//! - `edge_load`: callers at Envoys, and what they were answered
//! - `assignments`: what Envoys were told, as daemons list it
//! - `report_streams`: peers that report as Envoys do, without an Envoy

#![expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "counts and seconds are small")]

mod assignments;
mod edge_load;
mod envoy_process;
mod experiments;
mod report_streams;
pub mod suite;
mod testbed;
