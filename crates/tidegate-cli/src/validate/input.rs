//! The input of the command. A file is read once, because a pipe can be read only once.

use std::io;
use std::path::Path;

use tidegate_policy::envoy::{Text, is_such_a_file};
use tidegate_server::EnvoySource;

use crate::policy_file;

/// A file, or the files of a directory.
#[derive(Debug)]
pub(super) enum Input {
    File { name: String, bytes: Vec<u8> },
    Folder { name: String, files: Vec<EnvoySource> },
}

impl Input {
    /// Reads what stands at `path`; `-` is standard input.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            let files = EnvoySource::read_folder(path).map_err(|(_, error)| error)?;
            if files.is_empty() {
                return Err(io::Error::other("no file in it ends in .yaml or .yml"));
            }
            return Ok(Self::Folder { name: path.display().to_string(), files });
        }
        let bytes = policy_file::bytes(path)?;
        Ok(Self::File { name: policy_file::name(path), bytes })
    }

    /// Whether this is for envoyproxy/ratelimit: a directory, or a file that begins with `domain`.
    pub(super) fn is_ratelimit(&self) -> bool {
        match self {
            Self::Folder { .. } => true,
            Self::File { bytes, .. } => is_such_a_file(bytes),
        }
    }

    /// The name of the input in messages.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::File { name, .. } | Self::Folder { name, .. } => name,
        }
    }

    /// The texts in it.
    pub(super) fn texts(&self) -> Vec<Text<'_>> {
        match self {
            Self::File { name, bytes } => vec![Text { name, bytes }],
            Self::Folder { files, .. } => files.iter().map(EnvoySource::text).collect(),
        }
    }
}
