//! The capacity world: tables, partitions and nodes under load, every design beside the others.
//!
//! **Real parts.** A [`Capacity`](tidegate_capacity::Capacity) for each design decides: the same
//! lines that run in the daemon. Simulated are clients and time.
//!
//! **Comparable.** Every design gets the same requests at the same instants. They differ in the
//! mode of the table, and in the control loops around it.
//!
//! **Reproducible.** All chance comes from the seed. The same scenario gives the same report, byte
//! for byte.
//!
//! **Checks.** Checkers see what clients see, keep levels of their own, and judge every decision
//! ([`Invariant`]). `docs/internals/capacity-figures.md` has the measured values beside the
//! reference values.

pub mod demand;
pub mod design;
pub mod fluid;
pub mod gate;
pub mod judge;
pub mod plane;
pub mod report;
pub mod run;
pub mod scenario;
pub mod summary;
pub mod table_file;
pub mod tally;
pub mod world;

mod design_world;
mod world_names;

pub use crate::kit::{GateLine, GateOutcome};
pub use demand::keys::partition_of;
pub use demand::request::{RequestKind, RequestStream};
pub use demand::{Demand, Pattern, Phase};
pub use design::Design;
pub use fluid::FluidShares;
pub use judge::invariant::{Breach, Invariant, judged};
pub use plane::operator::{OperatorChanges, ReloadRecord};
pub use plane::routers::RouterResult;
pub use report::CapacityReport;
pub use report::workload_note::WorkloadNote;
pub use run::{
    CapacityRun, CarriedOutPlan, DesignResult, FirstVerdict, GrowthSeries, NodeUnits, PartitionSpan, Reshape,
    ShapeChanges, StreamResult, TableResult, Victim,
};
pub use scenario::{
    CapacityScenario, CapacityScenarioError, GrowthSpec, NodeSpec, TableExtras, TableRole, TableSpec,
    Throughput,
};
pub use summary::{DesignSummary, TableSummary};
pub use table_file::TableFile;
pub use tally::{HeatCounts, SecondCount};
pub use world::CapacityWorld;

/// Simulates a scenario from beginning to end.
pub fn simulate(scenario: &CapacityScenario) -> Result<CapacityRun, CapacityScenarioError> {
    let mut world = CapacityWorld::new(scenario)?;
    while world.next_second() {}
    Ok(world.into_run())
}
