//! The designs of the capacity plane compared: workloads, experiments, and how they are judged.
//!
//! The world is [`tidegate_sim::capacity`]. `docs/internals/capacity-figures.md` has the measured
//! values beside the reference values.

pub mod experiment;
pub mod gate;
pub mod report;
pub mod workload;

mod acceptance;
mod scenario_parts;
mod world;

pub use experiment::Experiment;
pub use gate::report;
pub use report::CapacityComparisonReport;
pub use workload::Workload;
