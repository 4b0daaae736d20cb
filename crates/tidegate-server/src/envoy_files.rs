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
    sources: Vec<EnvoySource>,
}

/// A file of envoyproxy/ratelimit with what is in it.
#[derive(Debug, PartialEq, Eq)]
pub struct EnvoySource {
    name: String,
    bytes: Vec<u8>,
}

impl EnvoySource {
    /// The file at `path`. One that is larger than a policy may be is read just far enough to say so.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        // One byte more than the bound: enough for the reader to say that there is too much.
        File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        Ok(Self { name: path.display().to_string(), bytes })
    }

    /// The files of the directory `folder` that end in `.yaml` or `.yml`, in the order of their names, at most 4096. Those that
    /// begin with a dot are not read: a `ConfigMap` keeps its versions there. An error comes with what could not be read.
    pub fn read_folder(folder: &Path) -> Result<Vec<Self>, (PathBuf, io::Error)> {
        let unreadable = |error| (folder.to_owned(), error);
        let listed =
            || fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>();
        let mut paths: Vec<PathBuf> = listed().map_err(unreadable)?;
        paths.retain(|path| {
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
            is_yaml && !is_hidden && path.is_file()
        });
        paths.sort();
        if paths.len() > FILES_MAX {
            let text = format!("{} files in it, more than the {FILES_MAX} allowed", paths.len());
            return Err(unreadable(io::Error::other(text)));
        }
        paths.into_iter().map(|path| Self::read(&path).map_err(|error| (path, error))).collect()
    }

    /// What the reader of such files takes.
    pub fn text(&self) -> Text<'_> {
        Text { name: &self.name, bytes: &self.bytes }
    }
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
    fn read(sources: Vec<EnvoySource>, settings: &Settings) -> Result<Self, Problems> {
        let texts: Vec<_> = sources.iter().map(EnvoySource::text).collect();
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

/// The file at `path`, or those of the directory.
fn sources(path: &Path) -> Result<Vec<EnvoySource>, EnvoyFilesError> {
    let unreadable = |(path, source)| EnvoyFilesError::Unreadable { path, source };
    if path.is_dir() {
        return EnvoySource::read_folder(path).map_err(unreadable);
    }
    let source = EnvoySource::read(path).map_err(|error| unreadable((path.to_owned(), error)))?;
    Ok(vec![source])
}
