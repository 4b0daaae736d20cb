//! The arguments of `tidegate simulate capacity`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
pub(crate) struct CapacitySimulation {
    /// The workloads, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "W", value_delimiter = ',', ignore_case = true)]
    pub(crate) workload: Vec<WorkloadName>,
    /// The designs, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "D", value_delimiter = ',', ignore_case = true)]
    pub(crate) design: Vec<DesignName>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulate so many seeds, from --seed on: median and worst are shown
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// For how many simulated seconds [default: 300, or those of --tables]
    #[arg(long, value_name = "T")]
    pub(crate) seconds: Option<u32>,
    /// The rates as a part of those of the reference, 1 or 1/N
    #[arg(long, value_name = "1/N", default_value = "1/10", value_parser = divisor)]
    pub(crate) scale: u32,
    /// Simulate the tables of this file instead of the workloads; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "scale"])]
    pub(crate) tables: Option<PathBuf>,
    /// Write the report with pictures to this file, as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print one JSON object: {"divisor", "decisions", "tables", "gate", "runs"}
    #[arg(long)]
    pub(crate) json: bool,
}

/// The number that rates are divided by.
fn divisor(text: &str) -> Result<u32, String> {
    let number = if text == "1" { Some("1") } else { text.strip_prefix("1/") };
    let number = number.and_then(|number| number.parse().ok());
    number
        .filter(|number| (1..=100).contains(number))
        .ok_or_else(|| "use 1, or 1/N with N from 1 to 100".to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum WorkloadName {
    /// Uniform
    W1,
    /// Zipf 0.99, hashed keys
    W2,
    /// Zipf 1.2, hashed keys, two hot ones in one partition
    W3,
    /// Zipf 0.99, hot keys contiguous
    W4,
    /// A hot partition that moves
    W5,
    /// A step from 30 % to 90 %
    W6,
    /// A spike to 145 %
    W7,
    /// A spike of skew
    W8,
    /// One key with half of the requests
    W9,
    /// Inserts in key order
    W10,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum DesignName {
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
