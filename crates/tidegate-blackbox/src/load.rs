//! Load on a running Tidegate daemon: more than its upstreams can serve, from clients that do not
//! slow down.
//!
//! Each experiment starts the daemon's binary and its upstreams on loopback, sends requests at
//! instants that were fixed in advance, and compares what was answered with a gate. `cargo xtask
//! acceptance overload` runs all of them against a build as it is shipped.
//!
//! The latency of a request counts from its scheduled instant, so a generator or a service that
//! falls behind cannot hide it (no coordinated omission). The generator's own lateness is part of
//! every result: a run whose 99th percentile exceeds [`measurement::LATENESS_P99_MAX`] does not
//! count.
//!
//! - [`schedule`]: which request is sent when, from a seed
//! - [`generator`]: sends a schedule over kept-alive connections
//! - [`measurement`]: samples, percentiles, lateness
//! - [`service`], [`service_process`]: the upstream, and the process that it is
//! - [`testbed`]: a daemon and its upstreams
//! - [`gauges`]: places, queue and load level, as the daemon reports them
//! - [`suite`]: the table of the experiments

#![expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]

mod experiments;
pub mod gauges;
pub mod generator;
pub mod measurement;
pub mod schedule;
pub mod service;
pub mod service_process;
pub mod suite;
pub mod testbed;
