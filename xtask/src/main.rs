//! The project's own commands, run as `cargo xtask COMMAND`.
//!
//! `test` is the whole gate: it checks the tools it needs, runs every check there is, goes on after
//! a failure so that one run shows all of them, and ends with one line that counts. CI runs the
//! same command and nothing else.

mod acceptance;
mod cargo;
mod feature_sets;
mod gate;
mod layers;
mod prerequisites;
mod tally;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test        set up what the tests need, run every check and test, count them on the last line
  ci          the same, and refuse a checkout that has uncommitted changes before or after
  layering    check only which crate may depend on which
  acceptance  run the suite of the next argument against a release build of the daemon; without one, list the suites

exit code: 0 when everything passed, 1 when something failed or no test ran, 2 when the command is not known";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match arguments.as_slice() {
        ["test"] => gate::run(),
        ["ci"] => gate::run_on_clean_checkout(),
        ["layering"] => layers::run(),
        ["acceptance", arguments @ ..] => {
            let Some(passed) = acceptance::run(arguments) else {
                eprintln!("no suite is called {:?}; list them with `cargo xtask acceptance`", arguments[0]);
                return ExitCode::from(2);
            };
            passed
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            true
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
