//! Runs attacks and experiments against a daemon's binary.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tidegate_blackbox::attack::{Failure, RunContext};
use tidegate_blackbox::fleet::{self, FleetExperiment};
use tidegate_blackbox::load::service;
use tidegate_blackbox::metering::{self, MeteringArguments};
use tidegate_blackbox::protocols::{self, ProtocolArguments};
use tidegate_blackbox::report::{self, show};
use tidegate_blackbox::trial::Trial;
use tidegate_blackbox::{attacks, load, packages, quota};

/// Attack a daemon on loopback, or put load on it, and report whether it held.
///
/// The daemon and the services beside it are started by the suite and stopped by their ids. Exit
/// code: 0 when all held, 1 when something did not, could not be read or does not count, 2 when the
/// command line is wrong.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Attack the daemon, and report whether it held.
    Attack {
        #[command(flatten)]
        selection: Selection,
        /// How long the hostile namespace runs beside the honest one.
        #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
        minutes: f64,
    },
    /// Put load on the daemon, and hold what it answers against gates.
    Load {
        #[command(flatten)]
        selection: Selection,
        /// Runs of a few seconds, for a look; the full ones take ten minutes.
        #[arg(long)]
        quick: bool,
    },
    /// Put load on a fleet of daemons on one Redis.
    #[command(subcommand)]
    Fleet(FleetExperiment),
    /// Send load through real Envoys that hold parts of limits, and hold what they admit against
    /// gates.
    Quota {
        #[command(flatten)]
        selection: Selection,
        /// Shorter runs, for a look; the full ones take half an hour.
        #[arg(long)]
        quick: bool,
    },
    /// Install and start what `cargo xtask dist` has made, one part of the suite for each kind of
    /// artifact.
    Packages {
        #[command(flatten)]
        selection: ArtifactSelection,
        /// The folder that `cargo xtask dist` wrote at an earlier commit, to upgrade from. Without
        /// it, the same program with an earlier version is upgraded.
        #[arg(long, value_name = "FOLDER")]
        before: Option<PathBuf>,
    },
    /// Make what `cargo xtask dist` has made once more in another folder, and compare the bytes.
    Reproduction(ArtifactSelection),
    /// Compare the rows of the meter with the counts of clients that cut connections at random.
    Metering(MeteringArguments),
    /// Measure the processor time of an answer over each protocol, rivals beside.
    ///
    /// Needs wrk, h2load, redis-benchmark, redis-server and taskset.
    Protocols(ProtocolArguments),
    /// Be an upstream with this many workers; the experiments start it.
    #[command(hide = true)]
    ServeUpstream { workers: usize },
}

/// The options of a suite.
#[derive(Debug, Args)]
struct Selection {
    /// The daemon's binary.
    #[arg(long, value_name = "PATH", required_unless_present = "list")]
    binary: Option<PathBuf>,
    /// Only the member of the suite with this name, or those whose names begin with it; may be
    /// given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the members of the suite, and run none.
    #[arg(long)]
    list: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// The options of a suite against what is given away.
#[derive(Debug, Args)]
struct ArtifactSelection {
    #[command(flatten)]
    selection: Selection,
    /// The folder that `cargo xtask dist` wrote.
    #[arg(long, value_name = "FOLDER", required_unless_present = "list")]
    artifacts: Option<PathBuf>,
}

impl ArtifactSelection {
    /// Runs the chosen members of `suite` on the artifacts; whether all passed.
    fn run(&self, suite: &'static [Trial], before: Option<&Path>) -> Result<bool, Ended> {
        self.selection.run(suite, |context| context.with_artifacts(self.artifacts.as_deref(), before))
    }
}

impl Selection {
    /// The chosen members of `suite`.
    fn chosen(&self, suite: &'static [Trial]) -> Vec<Trial> {
        let is_name = |part: &str| suite.iter().any(|trial| trial.name == part);
        let is_chosen = |name: &str| {
            // A whole name means that member alone, although others may begin with it.
            let is_meant = |part: &String| name == part || !is_name(part) && name.starts_with(part.as_str());
            self.only.is_empty() || self.only.iter().any(is_meant)
        };
        suite.iter().filter(|trial| is_chosen(trial.name)).copied().collect()
    }

    /// Runs the chosen members of `suite` in settings that `adjusted` returns; whether all passed.
    fn run(
        &self,
        suite: &'static [Trial],
        adjusted: impl FnOnce(RunContext) -> RunContext,
    ) -> Result<bool, Ended> {
        let chosen = self.chosen(suite);
        if chosen.is_empty() {
            return Err(Ended::Misused(format!(
                "nothing is called {:?}; list the names with --list",
                self.only
            )));
        }
        let Some(binary) = self.binary.as_deref().filter(|_| !self.list) else {
            let list: Vec<String> =
                chosen.iter().map(|trial| format!("{}\n    {}", trial.name, trial.claim)).collect();
            return match show(list.join("\n")) {
                Ok(()) | Err(Failure::Unread) => Ok(true),
                Err(failure) => Err(failure.into()),
            };
        };
        let context = adjusted(RunContext::of_binary(binary).map_err(Ended::Misused)?);
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        if !self.json {
            show(format_args!("`{command}` on {}\n", report::machine()))?;
        }
        let mut outcomes = Vec::new();
        for trial in chosen {
            let outcome = trial.run_in(&context);
            if !self.json {
                show(report::table(&outcome))?;
            }
            outcomes.push(outcome);
        }
        if self.json {
            show(format_args!("{:#}", report::json(&command, &outcomes)))?;
        } else {
            show(report::summary(&outcomes))?;
        }
        Ok(!outcomes.iter().any(|outcome| outcome.findings.verdict().is_failure()))
    }
}

/// Why the command ends early.
enum Ended {
    /// The command line is wrong.
    Misused(String),
    /// The output cannot be written, or an experiment failed.
    Failed(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

fn main() -> ExitCode {
    let passed = match Arguments::parse().command {
        Command::Attack { selection, minutes } => {
            selection.run(attacks::suite::ATTACKS, |context| context.with_minutes(minutes))
        }
        Command::Load { selection, quick } => {
            selection.run(load::suite::EXPERIMENTS, |context| if quick { context.quick() } else { context })
        }
        Command::Quota { selection, quick } => {
            selection.run(quota::suite::EXPERIMENTS, |context| if quick { context.quick() } else { context })
        }
        Command::Packages { selection, before } => selection.run(packages::suite::PARTS, before.as_deref()),
        Command::Reproduction(selection) => selection.run(packages::suite::REPRODUCTION, None),
        Command::Fleet(experiment) => fleet::run(&experiment).map_err(Ended::Failed),
        Command::Metering(arguments) => metering::run(&arguments).map_err(Ended::Failed),
        Command::Protocols(arguments) => protocols::run(&arguments).map(|()| true).map_err(Ended::Failed),
        Command::ServeUpstream { workers } => return serve_upstream(workers),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        // Of a closed pipe nothing is said: a reader that ends, as `head` does, has what it wanted.
        Ok(false) | Err(Ended::Failed(Failure::Unread)) => ExitCode::FAILURE,
        Err(Ended::Failed(failure)) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
        Err(Ended::Misused(text)) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}

/// Serves until standard input ends, which it does with the process that started this one.
fn serve_upstream(workers: usize) -> ExitCode {
    match service::start(workers) {
        Ok(address) => println!("{address}"),
        Err(error) => {
            eprintln!("the upstream cannot start: {error}");
            return ExitCode::FAILURE;
        }
    }
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}
