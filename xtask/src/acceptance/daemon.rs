//! Suites against what is shipped: the daemon's binary, or all artifacts.

use std::path::PathBuf;

use super::{page, revision};
use crate::cargo::{cargo, succeeds, target_directory};
use crate::dist;

/// The package whose binary runs these suites.
pub(super) const PACKAGE: &str = "tidegate-blackbox";

/// The input of a suite, which is made unless the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// The daemon's binary.
    Binary,
    /// The daemon's binary, and the folder of everything that is given away.
    Artifacts,
}

/// Runs the suite with this command of [`PACKAGE`]; true if it passed. The command takes `--binary
/// PATH` for the daemon's binary, and `--artifacts FOLDER` where it needs them. A pass of the whole
/// suite is written into the page of results.
pub(super) fn run(suite: &str, subcommand: &str, needs: Needs, arguments: &[&str]) -> Result<bool, String> {
    let is_given = |option: &str| {
        arguments.iter().any(|argument| *argument == option || argument.starts_with(&format!("{option}=")))
    };
    let runs_nothing = ["--list", "--help", "-h"].into_iter().any(is_given);
    let mut command = cargo(&["run", "--locked", "--quiet", "--package", PACKAGE, "--", subcommand]);
    command.args(arguments);
    let is_binary_needed = !runs_nothing && !is_given("--binary");
    if needs == Needs::Artifacts && !runs_nothing && !is_given("--artifacts") {
        let (folder, binary) = dist::make_for_this_machine()?;
        command.arg("--artifacts").arg(folder);
        if is_binary_needed {
            command.arg("--binary").arg(binary);
        }
    } else if is_binary_needed {
        command.arg("--binary").arg(dist_binary()?);
    }
    let passed = succeeds(&mut command);
    if passed && arguments.is_empty() {
        page::write_pass(suite, &revision::of_checkout()?, "passed.")?;
    }
    Ok(passed)
}

/// Builds the daemon as it is shipped and returns the path of its binary.
fn dist_binary() -> Result<PathBuf, String> {
    let arguments = ["build", "--locked", "--profile", "dist", "--package", "tidegate-cli"];
    if !succeeds(&mut cargo(&arguments)) {
        return Err(format!("`cargo {}` failed", arguments.join(" ")));
    }
    Ok(target_directory().join("dist").join("tidegate"))
}
