//! A fleet of daemons on one Redis: what it admits, what it asks the store for, and what becomes of
//! it when something fails.
//!
//! Every process listens on loopback, and is stopped by the one that started it. The method and the
//! figures are in `docs/internals/fleet.md`.
//!
//! - `measure`: load, latency, recovery and quota; `outage`: callers within their limits
//! - `load`: an open-loop load by a schedule; `callers`: callers that retry; `attempt`: a request
//! - `testbed`: daemons on one store; `disturbance`: what goes wrong meanwhile
//! - `figures`: tables, and files with all figures
//! - `bound`: how far admissions exceed a bound, over all spans of time

#![expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "counts and seconds are small")]

pub(crate) mod attempt;
pub(crate) mod bound;
mod callers;
mod disturbance;
pub(crate) mod figures;
pub(crate) mod load;
mod measure;
mod outage;
pub(crate) mod testbed;

use clap::Subcommand;

use crate::attack::Failure;

/// An experiment with a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetExperiment {
    /// Load, latency, recovery and quotas of a fleet.
    ///
    /// All of it takes an hour.
    Measure(measure::MeasureArguments),
    /// Whether callers within their limits are admitted while the store fails.
    ///
    /// All runs take a quarter of an hour. Exit code: 1 when a run fails a check.
    Outage(outage::OutageArguments),
}

/// Carries an experiment out; whether it passed its checks.
pub fn run(experiment: &FleetExperiment) -> Result<bool, Failure> {
    match experiment {
        FleetExperiment::Measure(arguments) => measure::run(arguments).map(|()| true),
        FleetExperiment::Outage(arguments) => outage::run(arguments),
    }
}
