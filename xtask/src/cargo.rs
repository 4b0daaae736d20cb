//! Running cargo, with the same toolchain that runs this program.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::checkout;

/// A `cargo` command in the root of the workspace, without input.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.args(arguments).current_dir(checkout::root()).stdin(Stdio::null());
    forget_variables_of_a_build(&mut command);
    command
}

/// Keeps from a cargo what this program inherits of other builds.
pub(crate) fn forget_variables_of_a_build(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(describes_a_build) {
            command.env_remove(name);
        }
    }
}

/// Whether a variable tells cargo of another build than the one that it is asked for.
///
/// `cargo run` describes this crate to us in variables. Passed on, they make some build scripts
/// believe that their own crate changed, and everything above it is built again. The compiler of
/// our crates is chosen here for each step anew; another Rust cannot read what it has compiled.
fn describes_a_build(variable: &str) -> bool {
    matches!(variable, "CARGO_MANIFEST_DIR" | "RUSTC_WORKSPACE_WRAPPER") || variable.starts_with("CARGO_PKG_")
}

/// Adds `flag` to the compiler flags that the caller of this program has set in the variable
/// `name`.
pub(crate) fn add_flags(command: &mut Command, name: &str, flag: &str) {
    let mut flags = std::env::var(name).unwrap_or_default();
    if !flags.is_empty() {
        flags.push(' ');
    }
    flags.push_str(flag);
    command.env(name, flags);
}

/// Whether the command could be started and succeeded. Its output goes where ours goes.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => could_not_start(command, &error),
    }
}

/// As [`succeeds`], and shows each line of standard output to `read` instead of printing it.
pub(crate) fn succeeds_reading(command: &mut Command, mut read: impl FnMut(&str)) -> bool {
    match command.stdout(Stdio::piped()).spawn() {
        Ok(mut child) => {
            let output = child.stdout.take().expect("standard output was piped above");
            for_each_line(output, |line| read(String::from_utf8_lossy(line).trim_end()));
            child.wait().is_ok_and(|status| status.success())
        }
        Err(error) => could_not_start(command, &error),
    }
}

/// Says that a command could not be started; false, for the caller to return.
pub(crate) fn could_not_start(command: &Command, error: &std::io::Error) -> bool {
    println!("could not start {}: {error}", command.get_program().display());
    false
}

/// Calls `read` with each line, its end included. A test may print bytes that are not UTF-8.
pub(crate) fn for_each_line(output: impl Read, mut read: impl FnMut(&[u8])) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        read(&line);
        line.clear();
    }
}

/// The standard output of the command, or the reason why it failed.
pub(crate) fn output_of(command: &mut Command) -> Result<String, String> {
    let name = format!("{command:?}");
    let output = command.output().map_err(|error| format!("could not start {name}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{name} failed:\n{}", String::from_utf8_lossy(&output.stderr).trim_end()))
    }
}

/// Where cargo builds: `CARGO_TARGET_DIR`, or `target` in the root.
pub(crate) fn target_directory() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    checkout::root().join(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_build_set_is_not_passed_on_and_what_a_user_chose_is() {
        for variable in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "RUSTC_WORKSPACE_WRAPPER"] {
            assert!(describes_a_build(variable), "{variable}");
        }
        for variable in ["RUSTC_WRAPPER", "RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_HOME", "PATH"] {
            assert!(!describes_a_build(variable), "{variable}");
        }
    }

    #[test]
    fn lines_of_output_are_read_and_the_end_of_the_command_is_told() {
        for (end, succeeds) in [("exit 0", true), ("exit 3", false)] {
            let mut lines = Vec::new();
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo one; printf 'no end'; {end}")]);
            assert_eq!(succeeds_reading(&mut command, |line| lines.push(line.to_owned())), succeeds);
            assert_eq!(lines, ["one", "no end"]);
        }
    }
}
