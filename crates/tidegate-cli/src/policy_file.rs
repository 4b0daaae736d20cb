//! Reading a configuration file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tidegate_policy::bounds::TEXT_BYTES_MAX;
use tidegate_policy::{Checked, Problems, parse_bytes};
use tidegate_server::policy_file::PolicyFile;

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
    check(path, &bytes)
}

/// A file that is followed, and what was read of it first.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) file: PolicyFile,
    pub(crate) text: Vec<u8>,
}

/// As [`read`], for a daemon that goes on looking at the file.
pub(crate) fn follow(path: &Path) -> Result<(Source, Checked), NoPolicy> {
    let (file, text) = PolicyFile::open(path).map_err(NoPolicy::Unreadable)?;
    let checked = check(path, &text)?;
    Ok((Source { file, text }, checked))
}

fn check(path: &Path, bytes: &[u8]) -> Result<Checked, NoPolicy> {
    let name = path.display().to_string();
    parse_bytes(&name, bytes, &|variable| std::env::var(variable).ok()).map_err(NoPolicy::Problems)
}
