//! The files of envoyproxy/ratelimit that a daemon answers by: read when a policy is taken over, and again when one of them
//! is changed, added or removed, as by the swap of a link.

use core::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tidegate_policy::Problems;
use tidegate_policy::bounds::TEXT_BYTES_MAX;
use tidegate_policy::envoy::{Files, Settings, Text};
use tidegate_policy::policy::envoy::EnvoyRatelimit;

use crate::renewed::Look;

/// The most files that are read from one directory. Above it: an error.
const FILES_MAX: usize = 4096;

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvoyFilesError {
    /// The directory, or a file in it, cannot be read.
    #[error("envoy_ratelimit.path: {} cannot be read: {source}; name a file or a directory that can", path.display())]
    Unreadable {
        /// What was to be read.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The files have problems.
    #[error("the files of envoy_ratelimit have problems\n{0}")]
    Problems(#[from] Problems),
}

/// The files of envoyproxy/ratelimit as they are now.
#[derive(Clone)]
pub struct EnvoyFiles(Arc<Followed>);

struct Followed {
    path: PathBuf,
    settings: Settings,
    now: ArcSwap<Current>,
    /// What was last said to be wrong; gone when it no longer is.
    said: Mutex<Option<String>>,
}

struct Current {
    files: Arc<Files>,
    sources: Vec<Source>,
}

/// A file with what is in it.
#[derive(PartialEq, Eq)]
struct Source {
    name: String,
    bytes: Vec<u8>,
}

impl EnvoyFiles {
    /// Reads the files that a policy names.
    pub fn open(wanted: &EnvoyRatelimit) -> Result<Self, EnvoyFilesError> {
        let path = PathBuf::from(&wanted.path);
        let current = Current::read(sources(&path)?, &wanted.settings)?;
        let settings = wanted.settings.clone();
        Ok(Self(Arc::new(Followed {
            path,
            settings,
            now: ArcSwap::from_pointee(current),
            said: Mutex::default(),
        })))
    }

    /// As they are now.
    pub(crate) fn get(&self) -> Arc<Files> {
        Arc::clone(&self.0.now.load().files)
    }

    /// Takes them up again if they hold something else; `Ok(true)` if so. An error leaves what there was.
    fn refresh(&self) -> Result<bool, EnvoyFilesError> {
        let sources = sources(&self.0.path)?;
        if self.0.now.load().sources == sources {
            return Ok(false);
        }
        self.0.now.store(Arc::new(Current::read(sources, &self.0.settings)?));
        Ok(true)
    }
}

impl Current {
    fn read(sources: Vec<Source>, settings: &Settings) -> Result<Self, Problems> {
        let texts: Vec<_> = sources.iter().map(|one| Text { name: &one.name, bytes: &one.bytes }).collect();
        let read = Files::read(&texts, settings.clone())?;
        for warning in &read.warnings {
            tracing::warn!(target: "tidegate::reload", "{warning}");
        }
        Ok(Self { files: Arc::new(read.files), sources })
    }
}

impl fmt::Debug for EnvoyFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvoyFiles").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl Look for EnvoyFiles {
    fn look(&self) {
        let path = self.0.path.display();
        let refreshed = self.refresh();
        // What is under the lock is one value: a panic elsewhere leaves it whole.
        let mut said = self.0.said.lock().unwrap_or_else(PoisonError::into_inner);
        match refreshed {
            Ok(changed) => {
                if changed {
                    tracing::info!(target: "tidegate::reload", %path, "new files of envoy_ratelimit are in force");
                }
                *said = None;
            }
            Err(error) => {
                let error = error.to_string();
                if said.as_ref() != Some(&error) {
                    tracing::error!(target: "tidegate::reload", %path, "the files in force stay: {error}");
                    *said = Some(error);
                }
            }
        }
    }
}

/// The file at `path`, or those of the directory that end in `.yaml` or `.yml`, in the order of their names. Those that
/// begin with a dot are not read: a `ConfigMap` keeps its versions there.
fn sources(path: &Path) -> Result<Vec<Source>, EnvoyFilesError> {
    let unreadable = |path: &Path, source| EnvoyFilesError::Unreadable { path: path.to_owned(), source };
    if !path.is_dir() {
        return Ok(vec![source(path).map_err(|error| unreadable(path, error))?]);
    }
    let listed =
        || fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>();
    let mut paths: Vec<PathBuf> = listed().map_err(|error| unreadable(path, error))?;
    paths.retain(|path| {
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        is_yaml && !is_hidden && path.is_file()
    });
    paths.sort();
    if paths.len() > FILES_MAX {
        let text = format!("{} files in it, more than the {FILES_MAX} allowed", paths.len());
        return Err(unreadable(path, io::Error::other(text)));
    }
    paths.iter().map(|path| source(path).map_err(|error| unreadable(path, error))).collect()
}

fn source(path: &Path) -> io::Result<Source> {
    let mut bytes = Vec::new();
    // One byte more than the bound: enough for the reader to say that there is too much.
    File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Source { name: path.display().to_string(), bytes })
}
