//! Suites against a build of the daemon as it is shipped.

use std::path::PathBuf;

use super::{page, revision};
use crate::cargo::{cargo, succeeds, target_directory};

/// The package whose binary runs these suites.
pub(super) const PACKAGE: &str = "tidegate-blackbox";

/// Runs the suite with this command of [`PACKAGE`]; true if it passed. The command takes `--binary
/// PATH` for the daemon's binary. A pass of the whole suite is written into the page of results.
pub(super) fn run(suite: &str, subcommand: &str, arguments: &[&str]) -> Result<bool, String> {
    let needs_binary = !arguments.iter().any(|argument| {
        ["--binary", "--list", "--help", "-h"].contains(argument) || argument.starts_with("--binary=")
    });
    let mut command = cargo(&["run", "--locked", "--quiet", "--package", PACKAGE, "--", subcommand]);
    command.args(arguments);
    if needs_binary {
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
