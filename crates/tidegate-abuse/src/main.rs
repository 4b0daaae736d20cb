//! Runs the suite of attacks against a daemon's binary.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tidegate_abuse::attack::AttackContext;
use tidegate_abuse::{report, suite};

/// Attack a daemon on loopback, and report whether it held.
///
/// The daemon is started by the suite and stopped by its id. Exit code: 0 when no attack failed, 1
/// when one did, 2 when the command line is wrong.
#[derive(Debug, Parser)]
struct Arguments {
    /// The daemon's binary.
    #[arg(long, value_name = "PATH", required_unless_present = "list")]
    binary: Option<PathBuf>,
    /// Only the attack of this name, or those whose names begin with it; may be given several
    /// times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the attacks and what each expects, and run none.
    #[arg(long)]
    list: bool,
    /// Print the results as a JSON array.
    #[arg(long)]
    json: bool,
    /// How long the hostile namespace runs beside the honest one.
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
    minutes: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_name = |part: &str| suite::ATTACKS.iter().any(|attack| attack.name == part);
    let is_chosen = |name: &str| {
        // A whole name means that attack alone, although others may begin with it.
        let is_meant = |part: &String| name == part || !is_name(part) && name.starts_with(part.as_str());
        arguments.only.is_empty() || arguments.only.iter().any(is_meant)
    };
    let chosen: Vec<_> = suite::ATTACKS.iter().filter(|attack| is_chosen(attack.name)).collect();
    if chosen.is_empty() {
        eprintln!("no attack is called {:?}; list them with --list", arguments.only);
        return ExitCode::from(2);
    }
    if arguments.list {
        for attack in chosen {
            println!("{}\n    {}", attack.name, attack.expects);
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
    let context = AttackContext::new(&binary, arguments.minutes);
    let mut outcomes = Vec::new();
    for attack in chosen {
        let outcome = attack.run_in(&context);
        if !arguments.json {
            println!("{}", report::paragraph(&outcome));
        }
        outcomes.push(outcome);
    }
    if arguments.json {
        println!("{:#}", report::json(&outcomes));
    } else {
        println!("\n{}", report::table(&outcomes));
    }
    if outcomes.iter().any(tidegate_abuse::attack::Outcome::is_failure) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
