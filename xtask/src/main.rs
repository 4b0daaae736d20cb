//! The project's own commands, run as `cargo xtask COMMAND`.
//!
//! `test` is the gate of each change, `release` what else must hold before something is given away,
//! `acceptance` what takes longer. Each goes on after a failure, so that one run shows all of them;
//! `test` and `release` end with one line that counts. CI runs `test` and nothing else.

mod acceptance;
mod cargo;
mod checkout;
mod compilers;
mod crate_tree;
mod dist;
mod documents;
mod feature_sets;
mod gate;
mod instructions;
mod language;
mod layers;
mod lines;
mod markdown;
mod module_tree;
mod notices;
mod packages;
mod planted_faults;
mod prerequisites;
mod public_api;
mod release;
mod sleeps;
mod step_times;
mod steps;
mod tally;
mod test_jobs;
mod timing_report;
mod tree_state;
mod workspace;
mod workspace_build;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test        set up what the tests need, check what must hold at each change, count it on the last line; with
              --timings, also write a table of all times: compiling, linking, programs, tests
  ci          the same, and refuse a checkout that has uncommitted changes before or after
  release     check what else must hold before something is given away: warnings of rustdoc, public API, sets of
              features, the oldest Rust, packages compiled from their own files, licences, advisories
  layering    check which crate may depend on which, and within each crate: circles between files, unique type names,
              names of files, the names and stops of docs/internals/three-requests.md
  sleeps      list the sleeps in tests with their reasons
  lines       count lines of code by category and by crate: product, simulators, verification, tools, tests; and of
              Markdown
  instructions
              count instructions and allocations of the paths that must stay quick under valgrind, and compare them
              with crates/tidegate-bench/instructions.txt; with --bless, write that file
  documents   compare the sizes of the pages with their bounds, and list what they promised to users and no longer say;
              with --promises-of FOLDER, print what the pages of that checkout promise
  language    list the lines of comments and messages that break the rules for English
  acceptance  run the suite of the next argument, which takes minutes and goes on where it was interrupted; without
              one, list the suites with their times
  public-api  write the public API of each published library into xtask/public-api, with which `release` compares it;
              with --check, compare only
  package     pack what is published and compile each package from its own files alone, which takes minutes
  dist        make everything that is given away, into target/artifacts: archives, Debian package, images, chart, SBOM,
              checksums; with --target T (several), --out FOLDER; with --strict, fail where something cannot be made;
              with --check, check only what a release needs, and with --tag TAG that the tag is that of the version
  notices     print the crates of others in the binary `tidegate`, with the texts of their licences

exit code: 0 when everything passed, 1 when something failed or no test ran, 2 when the command is not known";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match arguments.as_slice() {
        ["test"] => gate::run(None),
        ["test", "--timings"] => gate::run(Some(timing_report::TimingReport::begin())),
        ["release"] => release::run(),
        ["ci"] => gate::run_on_clean_checkout(),
        ["layering"] => layers::run(),
        ["instructions"] => instructions::run_check(),
        ["instructions", "--bless"] => instructions::bless(),
        ["documents"] => documents::run(),
        ["documents", "--promises-of", folder] => documents::print_promises(folder),
        ["language"] => language::check(),
        ["sleeps"] => list_sleeps(),
        ["lines"] => lines::print(),
        ["acceptance", arguments @ ..] => {
            let Some(passed) = acceptance::run(arguments) else {
                eprintln!("no suite is called {:?}; list them with `cargo xtask acceptance`", arguments[0]);
                return ExitCode::from(2);
            };
            passed
        }
        ["public-api", "--check"] => public_api::run_check(gate::FACADE),
        ["public-api"] => public_api::write(gate::FACADE),
        ["dist", arguments @ ..] => match dist::run(arguments) {
            Ok(passed) => passed,
            Err(misuse) => {
                eprintln!("{misuse}");
                return ExitCode::from(2);
            }
        },
        ["package"] => packages::run(),
        ["notices"] => notices::print(),
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

/// Lists the sleeps in tests.
fn list_sleeps() -> bool {
    let listed = sleeps::list();
    if let Err(error) = &listed {
        println!("{error}");
    }
    listed.is_ok()
}
