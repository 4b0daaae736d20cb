//! The arguments of `tidegate-lab overload`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::overload::OverloadExperiment;

/// The command line of a comparison.
#[derive(Args, Debug)]
pub struct OverloadComparison {
    /// The experiments, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "E", value_delimiter = ',', ignore_case = true)]
    pub experiment: Vec<OverloadExperiment>,
    /// The designs, separated by commas [default: all]; the gate judges `tidegate` alone
    #[arg(long, value_enum, value_name = "D", value_delimiter = ',', ignore_case = true)]
    pub design: Vec<OverloadDesignName>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Simulate so many seeds, from --seed on: median and worst are shown
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Simulate the services and clients of this file instead of the experiments; - reads standard
    /// input
    #[arg(long, value_name = "FILE", conflicts_with = "experiment")]
    pub scenario: Option<PathBuf>,
    /// For how many simulated seconds [default: those of --scenario, or 30]
    #[arg(long, value_name = "T", requires = "scenario")]
    pub seconds: Option<u32>,
    /// Write the report with pictures to this file, as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON object: {"requests", "variants", "gate", "runs"}
    #[arg(long)]
    pub json: bool,
}

/// A design, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverloadDesignName {
    /// One queue without a bound
    None,
    /// One queue of at most 1000
    Fifo,
    /// One queue, dropped at the deadline
    Expiry,
    /// One queue with `CoDel`
    Codel,
    /// Queue timeouts, last in first out
    Lifo,
    /// An admission cursor with fixed steps
    Dagor,
    /// Strict priority
    Strict,
    /// Concurrency limit, AIMD
    Aimd,
    /// Concurrency limit, gradient
    Gradient2,
    /// PI rejector
    Pi,
    /// Features off above one threshold
    Threshold,
    /// Features off above it, on 15 points below
    Hyst15,
    /// The same, 10 s apart
    #[value(name = "hyst15-dwell")]
    Hyst15Dwell,
    /// Features off above it, on 30 points below
    Hyst30,
    /// The same, 10 s apart
    #[value(name = "hyst30-dwell")]
    Hyst30Dwell,
    /// Come back after 5 s
    #[value(name = "retry-5s")]
    Retry5s,
    /// Come back after a random time below a bound that doubles
    FullJitter,
    /// The engine of the product
    Tidegate,
}
