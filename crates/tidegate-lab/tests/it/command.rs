//! Running the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The exit code, the output and the errors of a command line.
pub(crate) fn run(arguments: &[&str]) -> (i32, String, String) {
    let command = Command::new(env!("CARGO_BIN_EXE_lab")).args(arguments).output();
    let Output { status, stdout, stderr } = command.unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// The path of a file of this name that one test alone writes.
pub(crate) fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
