//! Running cargo, with the same toolchain that runs this program.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::checkout;

/// A `cargo` command in the root of the workspace, without input.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.args(arguments).current_dir(checkout::root()).stdin(Stdio::null());
    // `cargo run` describes this crate to us in variables. Passed on, they make some build scripts
    // believe that their own crate changed, and everything above it is built again.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name == "CARGO_MANIFEST_DIR" || name.starts_with("CARGO_PKG_")) {
            command.env_remove(name);
        }
    }
    command
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
        Err(error) => {
            println!("could not start {}: {error}", command.get_program().display());
            false
        }
    }
}

/// As [`succeeds`], and shows each line of standard output to `read` as it is printed.
pub(crate) fn succeeds_reading(command: &mut Command, mut read: impl FnMut(&str)) -> bool {
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("could not start {}: {error}", command.get_program().display());
            return false;
        }
    };
    let mut output = BufReader::new(child.stdout.take().expect("standard output was piped above"));
    let mut line = Vec::new();
    // A test may print bytes that are not UTF-8; they are passed on as they are.
    while output.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        // Nobody may be listening any more, and then the exit code is all that is left to give.
        let _ = std::io::stdout().write_all(&line);
        read(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    child.wait().is_ok_and(|status| status.success())
}

/// What the command printed, or what went wrong.
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
