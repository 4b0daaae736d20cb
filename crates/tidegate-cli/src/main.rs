//! The program `tidegate`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// A request takes and gives back many small pieces of memory, and a static binary would otherwise
/// have the slow allocator of musl.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tidegate_cli::run()
}
