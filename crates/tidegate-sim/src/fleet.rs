//! The fleet world: members that run the engine and share limits through a store.
//!
//! **Real parts.** Each member has an [`Engine`](tidegate_engine::Engine) of its own, and the
//! store is a [`Keeper`](tidegate_store::Keeper): the same lines that run in the daemon. Simulated
//! are clients, time, messages, crashes, and Envoys that decide by what members assign to them.
//!
//! **Reproducible.** All chance comes from the seed, through a generator whose version is pinned;
//! functions whose last digit differs from machine to machine are not used. So a scenario gives the
//! same report, byte for byte.
//!
//! **Checks.** `docs/internals/simulation.md` lists what the checkers look for, what goes wrong,
//! and what is measured.

pub mod chaos;
pub mod plots;
pub mod report;
pub mod rule;
pub mod scenario;
pub mod world;

mod arrival;
mod envoy_bucket;
mod envoy_peers;
mod envoy_tally;
mod load;
mod member;
mod observation;
mod store;
mod store_call;
mod store_traffic;
mod tally;
mod usage;
mod watch;

pub use chaos::Trouble;
pub use plots::{Plot, plots};
pub use report::{EnvoyGroup, EnvoyReport, Report};
pub use rule::{Rule, Violation};
pub use scenario::{Chaos, DecisionSite, Load, Numbers, Scenario, ScenarioError, Subject};
pub use world::Simulation;

/// Simulates a scenario from beginning to end.
pub fn simulate(scenario: &Scenario) -> Result<Report, ScenarioError> {
    let mut simulation = Simulation::new(scenario)?;
    while simulation.next_second()? {}
    Ok(simulation.into_report())
}
