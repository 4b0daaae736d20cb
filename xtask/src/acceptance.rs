//! Acceptance suites: they run the daemon as it is shipped, take minutes, and are no part of the
//! gate.

use std::fmt::Write;
use std::path::PathBuf;

use crate::cargo::{cargo, succeeds, target_directory};

/// A suite. A new one is one more row in [`SUITES`].
struct Suite {
    name: &'static str,
    about: &'static str,
    /// The package whose binary of the same name runs the suite. It takes `--binary PATH` for the
    /// daemon's binary.
    package: &'static str,
}

const SUITES: &[Suite] = &[Suite {
    name: "abuse",
    about: "attacks by strangers, neighbours and broken stores: --only NAME, --list, --json, --minutes N",
    package: "tidegate-abuse",
}];

/// Runs the suite that `arguments` begin with, with the rest of them; without any, lists the
/// suites. `None` when there is no suite of that name.
pub(crate) fn run(arguments: &[&str]) -> Option<bool> {
    let [name, rest @ ..] = arguments else {
        print!("{}", list());
        return Some(true);
    };
    let suite = SUITES.iter().find(|suite| suite.name == *name)?;
    Some(run_suite(suite, rest))
}

fn list() -> String {
    let mut text = String::from("usage: cargo xtask acceptance SUITE [--binary PATH] [OPTIONS]\n\n");
    for suite in SUITES {
        let _ = writeln!(text, "  {:<8}{}", suite.name, suite.about);
    }
    text.push_str("\nwithout --binary the daemon is built first, with the profile dist\n");
    text
}

fn run_suite(suite: &Suite, arguments: &[&str]) -> bool {
    let needs_binary = !arguments.iter().any(|argument| {
        ["--binary", "--list", "--help", "-h"].contains(argument) || argument.starts_with("--binary=")
    });
    let mut command = cargo(&["run", "--locked", "--quiet", "--package", suite.package, "--"]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_is_listed_with_its_options() {
        let text = list();
        for suite in SUITES {
            assert!(text.contains(&format!("  {:<8}{}\n", suite.name, suite.about)), "{text}");
        }
    }

    #[test]
    fn a_suite_that_does_not_exist_is_not_run() {
        assert_eq!(run(&["no-such-suite"]), None);
    }

    #[test]
    fn the_package_of_every_suite_is_in_the_workspace_and_never_published() {
        let members = crate::workspace::members().unwrap();
        for suite in SUITES {
            let member = members.iter().find(|member| member.name == suite.package);
            assert!(member.is_some_and(|member| !member.is_published), "{}", suite.package);
        }
    }
}
