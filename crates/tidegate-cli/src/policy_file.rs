//! Reading a configuration file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tidegate_policy::bounds::TEXT_BYTES_MAX;
use tidegate_policy::{Checked, Problems, parse_bytes};

/// Why there is no configuration.
#[derive(Debug)]
pub(crate) enum NoPolicy {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// It was read, and has problems.
    Problems(Problems),
}

/// Reads and checks a file; `${VARIABLES}` come from the environment.
pub(crate) fn read(path: &Path) -> Result<Checked, NoPolicy> {
    let file = File::open(path).map_err(NoPolicy::Unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than the bound: enough for the parser to say that there is too much.
    let bound = TEXT_BYTES_MAX as u64 + 1;
    file.take(bound).read_to_end(&mut bytes).map_err(NoPolicy::Unreadable)?;
    let name = path.display().to_string();
    parse_bytes(&name, &bytes, &|variable| std::env::var(variable).ok()).map_err(NoPolicy::Problems)
}
