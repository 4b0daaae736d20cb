//! The programs that the tests start: in `PATH`, where the system keeps servers, or where the gate
//! puts them.

use std::io::Write;
use std::path::PathBuf;

use tidegate_test_support::{fetched, find_program};

/// The program, or nothing and a line that says which test did not run.
pub(crate) fn find_or_skip(program: &str, test: &str) -> Option<PathBuf> {
    let found = find_program(program);
    if found.is_none() {
        skip(test, &format!("{program} is not installed; `cargo xtask test` installs it"));
    }
    found
}

/// Says past the test harness that a test did not run, so that it is seen and counted.
pub(crate) fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {test}: {reason}");
}

/// A file of what the gate fetches from registries; or nothing and a line that says which test did
/// not run.
pub(crate) fn fetched_or_skip(set: &str, file: &str, test: &str) -> Option<PathBuf> {
    let found = fetched(set, file);
    if found.is_none() {
        skip(test, &format!("{set} is not installed; `cargo xtask test` installs it"));
    }
    found
}
