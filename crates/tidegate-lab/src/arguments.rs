//! The arguments of the command.

mod capacity_comparison;
mod overload_comparison;

use clap::{Parser, Subcommand};

pub use capacity_comparison::{CapacityComparison, DesignName, ExperimentName};
pub use overload_comparison::{OverloadComparison, OverloadDesignName};

/// The exit codes, for `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0  no line of the gate fails
  1  a line of the gate fails, which the report marks
  2  the command line is wrong, or the file has problems or cannot be simulated
  3  a file cannot be read, or the output cannot be written";

/// Compare designs of the capacity and overload planes with rivals, in simulated worlds.
#[derive(Debug, Parser)]
#[command(name = "tidegate-lab")]
pub struct Arguments {
    /// The comparison.
    #[command(subcommand)]
    pub comparison: Comparison,
}

/// A comparison.
#[derive(Debug, Subcommand)]
pub enum Comparison {
    /// Compare the designs of the capacity plane on ten workloads, in experiments, or on tables of
    /// your own
    ///
    /// A table of 16 000 units a second in 16 partitions on 4 nodes is asked the same requests
    /// under each design: S static shares, B burst credit, A adaptive boosts, G global admission,
    /// GB balancing, GP split and merge. The code of the product decides; clients and time are
    /// simulated. Checkers judge each decision by what clients see. The gate says of each bound
    /// whether it was kept; beside the measured shares stand those of a fluid model, and the
    /// reference values. The same seed gives the same report, byte for byte.
    #[command(after_help = EXIT_CODES)]
    Capacity(Box<CapacityComparison>),
    /// Compare the overload plane with known designs under more load than a service can bear, in
    /// experiments or in a scenario of your own
    ///
    /// Services are workers with service times, and rejections take their time as well; clients are
    /// an open loop with deadlines, classes, tenants and retries. Every design is asked the same
    /// operations; `tidegate` is the engine of the product, the others are baselines that exist in
    /// the laboratory only. The gate says of each bound whether the engine kept it. The same seed
    /// gives the same report, byte for byte.
    #[command(after_help = EXIT_CODES)]
    Overload(Box<OverloadComparison>),
}
