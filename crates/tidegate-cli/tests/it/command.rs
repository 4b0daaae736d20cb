//! Running the command.

use std::process::{Command, Output};

pub(crate) fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    // The test may itself run as a service.
    command.env_remove("TIDEGATE_LOG").env_remove("STATE_DIRECTORY");
    command
}

pub(crate) fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = tidegate().args(arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}
