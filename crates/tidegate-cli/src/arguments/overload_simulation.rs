//! The arguments of `tidegate simulate overload`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct OverloadSimulation {
    /// The services, the clients, and what goes wrong; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: PathBuf,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulate so many seeds, from --seed on: median and worst are shown
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// For how many simulated seconds [default: those of --scenario, or 30]
    #[arg(long, value_name = "T")]
    pub(crate) seconds: Option<u32>,
    /// Write the report with pictures to this file, as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print one JSON object: {"requests", "variants", "gate", "runs"}
    #[arg(long)]
    pub(crate) json: bool,
}
