//! Runs attacks and experiments against a daemon's binary.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tidegate_blackbox::attack::{Attack, Outcome, RunContext};
use tidegate_blackbox::attacks;
use tidegate_blackbox::fleet::{self, FleetExperiment};
use tidegate_blackbox::load::findings::Findings;
use tidegate_blackbox::load::{self, service};

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
    /// Be an upstream with this many workers; the experiments start it.
    #[command(hide = true)]
    ServeUpstream { workers: usize },
}

/// The options of both suites.
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

impl Selection {
    /// The chosen members of `suite`, with the daemon's binary. An exit code when none is to be
    /// run.
    fn resolve<T>(
        &self,
        suite: &'static [T],
        name_of: fn(&T) -> &str,
        claim_of: fn(&T) -> &str,
    ) -> Result<(Vec<&'static T>, PathBuf), ExitCode> {
        let is_name = |part: &str| suite.iter().any(|member| name_of(member) == part);
        let is_chosen = |name: &str| {
            // A whole name means that member alone, although others may begin with it.
            let is_meant = |part: &String| name == part || !is_name(part) && name.starts_with(part.as_str());
            self.only.is_empty() || self.only.iter().any(is_meant)
        };
        let chosen: Vec<_> = suite.iter().filter(|member| is_chosen(name_of(member))).collect();
        if chosen.is_empty() {
            eprintln!("nothing is called {:?}; list the names with --list", self.only);
            return Err(ExitCode::from(2));
        }
        let Some(binary) = self.binary.as_deref().filter(|_| !self.list) else {
            for member in chosen {
                println!("{}\n    {}", name_of(member), claim_of(member));
            }
            return Err(ExitCode::SUCCESS);
        };
        match binary.canonicalize() {
            Ok(binary) => Ok((chosen, binary)),
            Err(error) => {
                eprintln!(
                    "--binary {}: {error}; build it with `cargo build --profile dist -p tidegate-cli`",
                    binary.display()
                );
                Err(ExitCode::from(2))
            }
        }
    }
}

fn main() -> ExitCode {
    let passed = match Arguments::parse().command {
        Command::Attack { selection, minutes } => {
            let suite = attacks::suite::ATTACKS;
            let chosen = selection.resolve(suite, |attack| attack.name, |attack| attack.expects);
            chosen.map(|(chosen, binary)| attack(&chosen, &binary, minutes, selection.json))
        }
        Command::Load { selection, quick } => {
            let suite = load::suite::EXPERIMENTS;
            let chosen = selection.resolve(suite, |experiment| experiment.name, |experiment| experiment.asks);
            chosen.map(|(chosen, binary)| put_load(&chosen, &binary, quick, selection.json))
        }
        Command::Fleet(experiment) => Ok(fleet::run(&experiment)),
        Command::ServeUpstream { workers } => return serve_upstream(workers),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(code) => code,
    }
}

/// Whether no attack failed.
fn attack(chosen: &[&Attack], binary: &Path, minutes: f64, as_json: bool) -> bool {
    let context = RunContext::new(binary, minutes);
    let mut outcomes = Vec::new();
    for attack in chosen {
        let outcome = attack.run_in(&context);
        if !as_json {
            println!("{}", attacks::report::paragraph(&outcome));
        }
        outcomes.push(outcome);
    }
    if as_json {
        println!("{:#}", attacks::report::json(&outcomes));
    } else {
        println!("\n{}", attacks::report::table(&outcomes));
    }
    !outcomes.iter().any(Outcome::is_failure)
}

/// Whether every figure meets its gate.
fn put_load(chosen: &[&load::suite::Experiment], binary: &Path, quick: bool, as_json: bool) -> bool {
    let option = if quick { " --quick" } else { "" };
    let command = format!("cargo xtask acceptance overload{option} --binary {}", binary.display());
    let context = RunContext::new(binary, 0.0);
    let context = if quick { context.quick() } else { context };
    if !as_json {
        println!("`{command}` on {}\n", load::report::machine());
    }
    let mut all: Vec<(&str, Findings)> = Vec::new();
    for experiment in chosen {
        let findings = experiment.findings(&context);
        if !as_json {
            let title = format!("{}: {}", experiment.name, experiment.asks);
            println!("{}", load::report::table(&title, &findings));
        }
        all.push((experiment.name, findings));
    }
    if as_json {
        println!("{:#}", load::report::json(&command, all.iter().map(|(name, findings)| (*name, findings))));
    } else {
        println!("{}", load::report::summary(all.iter().map(|(_, findings)| findings)));
    }
    let mut figures = all.iter().flat_map(|(_, findings)| findings.figures());
    !figures.any(|figure| figure.verdict.is_failure())
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
