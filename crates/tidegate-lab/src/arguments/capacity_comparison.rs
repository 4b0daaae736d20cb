//! The arguments of `tidegate-lab capacity`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::capacity::Workload;

/// The command line of a comparison.
#[derive(Args, Debug)]
pub struct CapacityComparison {
    /// The workloads, separated by commas [default: all, or none with --experiment]
    #[arg(long, value_enum, value_name = "W", value_delimiter = ',', ignore_case = true)]
    pub workload: Vec<Workload>,
    /// The experiments, separated by commas, with rates and a length of their own [default: all but
    /// E-LARGE, or none with --workload]
    #[arg(long, value_enum, value_name = "E", value_delimiter = ',', ignore_case = true)]
    pub experiment: Vec<ExperimentName>,
    /// The designs of workloads and tables, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "D", value_delimiter = ',', ignore_case = true)]
    pub design: Vec<DesignName>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Simulate so many seeds, from --seed on: median and worst are shown
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// For how many simulated seconds, of workloads and tables [default: 300, or those of --tables]
    #[arg(long, value_name = "T")]
    pub seconds: Option<u32>,
    /// The rates of workloads as a part of those of the reference, 1 or 1/N
    #[arg(long, value_name = "1/N", default_value = "1/10", value_parser = divisor)]
    pub scale: u32,
    /// Simulate the tables of this file instead of the workloads; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "experiment", "scale"])]
    pub tables: Option<PathBuf>,
    /// Write the report with pictures to this file, as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON object: {"divisor", "decisions", "tables", "gate", "runs"}
    #[arg(long)]
    pub json: bool,
}

/// The number that rates are divided by.
fn divisor(text: &str) -> Result<u32, String> {
    let number = if text == "1" { Some("1") } else { text.strip_prefix("1/") };
    let number = number.and_then(|number| number.parse().ok());
    number
        .filter(|number| (1..=100).contains(number))
        .ok_or_else(|| "use 1, or 1/N with N from 1 to 100".to_owned())
}

/// An experiment, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExperimentName {
    /// Victims within their shares beside an attacker
    #[value(name = "E-ISO-1")]
    Isolation,
    /// Writes to groups with one full follower
    #[value(name = "E-WRITE")]
    Write,
    /// Reads from all members of a group
    #[value(name = "E-READ")]
    Read,
    /// Writes of 400 units
    #[value(name = "E-BIG")]
    Big,
    /// Inserts in key order, and the same arrivals with the keys permuted
    #[value(name = "E-SEQ")]
    Sequence,
    /// Nodes that are nearly full
    #[value(name = "E-BUSY")]
    Busy,
    /// Load that rises and falls around the ceiling
    #[value(name = "E-FLAP")]
    Flap,
    /// Twenty times the load for ten minutes, and back
    #[value(name = "E-ETL")]
    Etl,
    /// A thousand times the load, twice
    #[value(name = "E-OD")]
    OnDemand,
    /// Another mode every minute
    #[value(name = "E-MODE")]
    Mode,
    /// Ten thousand partitions on a thousand nodes
    #[value(name = "E-LARGE")]
    Large,
}

/// A design, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum DesignName {
    /// Static shares
    S,
    /// And burst credit
    B,
    /// And boosts
    A,
    /// Global admission
    G,
    /// And balancing
    Gb,
    /// And split and merge
    Gp,
}
