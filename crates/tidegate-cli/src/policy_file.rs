//! Reading a configuration file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tidegate_policy::bounds::TEXT_BYTES_MAX;
use tidegate_policy::{Checked, Problems, parse_bytes};
use tidegate_server::policy_file::PolicyFile;

use crate::client::ClientError;

/// The name of a file that stands for standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// Why there is no configuration.
#[derive(Debug)]
pub(crate) enum PolicyFileError {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// It was read, and has problems.
    Problems(Problems),
}

impl PolicyFileError {
    /// The error of a command that reads the file at `path` in place of asking a daemon.
    pub(crate) fn for_command(self, path: &Path) -> ClientError {
        match self {
            Self::Unreadable(error) => ClientError::File(format!("cannot read {}: {error}", path.display())),
            Self::Problems(problems) => {
                ClientError::Untaken(format!("the configuration has problems\n{problems}"))
            }
        }
    }
}

/// Reads and checks a file; `${VARIABLES}` come from the environment.
pub(crate) fn read(path: &Path) -> Result<Checked, PolicyFileError> {
    let bytes = bytes(path).map_err(PolicyFileError::Unreadable)?;
    check(&name(path), &bytes).map_err(PolicyFileError::Problems)
}

/// The bytes of a file, of a pipe, or for `-` of standard input. A pipe can be read only once.
pub(crate) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    // One byte more than the bound: enough for the parser to say that there is too much.
    let bound = TEXT_BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    if path == Path::new(STANDARD_INPUT) {
        io::stdin().lock().take(bound).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(bound).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The name of the file at `path` in messages.
pub(crate) fn name(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) { "<stdin>".to_owned() } else { path.display().to_string() }
}

/// A file that is followed, and what was read of it first.
#[derive(Debug)]
pub(crate) struct WatchedPolicy {
    pub(crate) file: PolicyFile,
    pub(crate) text: Vec<u8>,
}

/// As [`read`], for a daemon that goes on looking at the file.
pub(crate) fn follow(path: &Path) -> Result<(WatchedPolicy, Checked), PolicyFileError> {
    let (file, text) = PolicyFile::open(path).map_err(PolicyFileError::Unreadable)?;
    let checked = check(&name(path), &text).map_err(PolicyFileError::Problems)?;
    Ok((WatchedPolicy { file, text }, checked))
}

/// Checks the text of the file called `name`.
pub(crate) fn check(name: &str, bytes: &[u8]) -> Result<Checked, Problems> {
    parse_bytes(name, bytes, &|variable| std::env::var(variable).ok())
}
