//! The compilers of the tests: scripts that cargo calls in place of rustc for the crates of this
//! workspace alone (`RUSTC_WORKSPACE_WRAPPER`).
//!
//! A cfg that only our crates read goes in here and not into `RUSTFLAGS`, which would have every
//! dependency built again. Cargo keeps what each script builds apart by the path of the script, so
//! both share the folder `target` with ordinary builds.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checkout;

/// The variable that names the file for the times of the linker.
const LINK_TIMES: &str = "TIDEGATE_LINK_TIMES";

/// A program that compiles our crates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// Faults can be planted, and clippy's lints are errors.
    Faults,
    /// Atomics and locks are loom's.
    Loom,
}

impl Compiler {
    fn script(self) -> PathBuf {
        let name = match self {
            Self::Faults => "faults",
            Self::Loom => "loom",
        };
        checkout::root().join("xtask/compilers").join(name)
    }

    /// Has `cargo` compile our crates with this compiler. The linker appends its times to the file
    /// `link_times`.
    pub(crate) fn serve(self, cargo: &mut Command, link_times: Option<&Path>) {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", self.script());
        // One build of everything gains nothing from increments, which cost time and disk to write.
        cargo.env("CARGO_INCREMENTAL", "0");
        match link_times {
            Some(file) => cargo.env(LINK_TIMES, file),
            None => cargo.env_remove(LINK_TIMES),
        };
    }
}
