//! Suites against a build of the daemon as it is shipped.

use std::path::PathBuf;

use crate::cargo::{cargo, succeeds, target_directory};

/// Runs the binary of `package`, which runs the suite. It takes `--binary PATH` for the daemon's
/// binary.
pub(super) fn run(package: &str, arguments: &[&str]) -> bool {
    let needs_binary = !arguments.iter().any(|argument| {
        ["--binary", "--list", "--help", "-h"].contains(argument) || argument.starts_with("--binary=")
    });
    let mut command = cargo(&["run", "--locked", "--quiet", "--package", package, "--"]);
    command.args(arguments);
    if needs_binary {
        match dist_binary() {
            Ok(binary) => command.arg("--binary").arg(binary),
            Err(error) => {
                eprintln!("acceptance: {error}");
                return false;
            }
        };
    }
    succeeds(&mut command)
}

/// Builds the daemon as it is shipped and returns the path of its binary.
fn dist_binary() -> Result<PathBuf, String> {
    let arguments = ["build", "--locked", "--profile", "dist", "--package", "tidegate-cli"];
    if !succeeds(&mut cargo(&arguments)) {
        return Err(format!("`cargo {}` failed", arguments.join(" ")));
    }
    Ok(target_directory().join("dist").join("tidegate"))
}
