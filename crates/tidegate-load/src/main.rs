//! Runs the experiments against a daemon's binary.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Parser;
use tidegate_load::findings::Findings;
use tidegate_load::suite::{EXPERIMENTS, Experiment};
use tidegate_load::testbed::Settings;
use tidegate_load::{report, service};

/// Put load on a daemon on loopback, and hold what it answers against gates.
///
/// The daemon and its upstreams are started by the suite and stopped by their ids. Exit code: 0
/// when every figure meets its gate, 1 when one does not, could not be read or does not count, 2
/// when the command line is wrong.
#[derive(Debug, Parser)]
struct Arguments {
    /// The daemon's binary.
    #[arg(long, value_name = "PATH", required_unless_present_any = ["list", "serve_upstream"])]
    binary: Option<PathBuf>,
    /// Only the experiment of this name; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Runs of a few seconds, for a look; the full ones take ten minutes.
    #[arg(long)]
    quick: bool,
    /// Print the experiments, and run none.
    #[arg(long)]
    list: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Be an upstream with this many workers; the experiments start it.
    #[arg(long, value_name = "WORKERS", hide = true)]
    serve_upstream: Option<usize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(workers) = arguments.serve_upstream {
        return serve_upstream(workers);
    }
    let is_chosen = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let chosen: Vec<&Experiment> = EXPERIMENTS.iter().filter(|one| is_chosen(one.name)).collect();
    if chosen.is_empty() {
        eprintln!("no experiment is called {:?}; list them with --list", arguments.only);
        return ExitCode::from(2);
    }
    if arguments.list {
        for experiment in chosen {
            println!("{:<16} {}", experiment.name, experiment.asks);
        }
        return ExitCode::SUCCESS;
    }
    let binary = arguments.binary.expect("required without --list");
    let binary = match binary.canonicalize() {
        Ok(binary) => binary,
        Err(error) => {
            eprintln!(
                "--binary {}: {error}; build it with `cargo build --profile dist -p tidegate-cli`",
                binary.display()
            );
            return ExitCode::from(2);
        }
    };
    let quick = if arguments.quick { " --quick" } else { "" };
    let command = format!("cargo xtask acceptance overload{quick} --binary {}", binary.display());
    let settings = Settings::new(&binary, arguments.quick);
    if !arguments.json {
        println!("`{command}` on {}\n", report::machine());
    }
    let mut all: Vec<(&str, Findings)> = Vec::new();
    for experiment in chosen {
        let findings = experiment.findings(&settings);
        if !arguments.json {
            println!("{}", report::table(&format!("{}: {}", experiment.name, experiment.asks), &findings));
        }
        all.push((experiment.name, findings));
    }
    if arguments.json {
        println!("{:#}", report::json(&command, all.iter().map(|(name, findings)| (*name, findings))));
    } else {
        println!("{}", report::summary(all.iter().map(|(_, findings)| findings)));
    }
    let mut figures = all.iter().flat_map(|(_, findings)| findings.figures());
    if figures.any(|figure| figure.verdict.is_failure()) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Serves until standard input ends, which it does with the process that started this one.
fn serve_upstream(workers: usize) -> ExitCode {
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    match service::serve(0, workers, |address| println!("{address}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the upstream ended: {error}");
            ExitCode::FAILURE
        }
    }
}
