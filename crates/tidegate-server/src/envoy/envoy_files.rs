//! The files of envoyproxy/ratelimit that a daemon decides by. They are read when a policy comes
//! into force, and again when one of them is changed, added or removed, as by the swap of a link.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use tidegate_net::regular_file::open_regular;
use tidegate_policy::Problems;
use tidegate_policy::bounds::TEXT_BYTES_MAX;
use tidegate_policy::envoy::{Files, Settings, Text};
use tidegate_policy::policy::envoy::EnvoyRatelimit;

use crate::metrics::{LimitFamilies, NamespaceTable};
use crate::no_store::{NoStore, quota_of_files};

/// The most files that are read from one directory. Above it: an error.
const FILES_MAX: usize = 4096;

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvoyFilesError {
    /// The directory, or a file in it, cannot be read.
    #[error("envoy_ratelimit.path: {} cannot be read; name a file or a directory that can", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// They bring a quota, and the daemon has no store to keep it in.
    #[error(transparent)]
    NoStore(#[from] NoStore),
    /// The files have problems.
    #[error("the files of envoy_ratelimit have problems\n{0}")]
    Problems(Problems),
}

impl From<Problems> for EnvoyFilesError {
    fn from(problems: Problems) -> Self {
        Self::Problems(problems)
    }
}

/// The files of envoyproxy/ratelimit as they are now.
#[derive(Clone)]
pub struct EnvoyFiles(Arc<EnvoyFilesState>);

struct EnvoyFilesState {
    path: PathBuf,
    settings: Settings,
    now: ArcSwap<CurrentFiles>,
    /// The error that was logged last; `None` once the files are valid again.
    logged: Mutex<Option<String>>,
    /// Set if the daemon has no store for quotas: where it would keep them if it were started with
    /// some.
    refuses_quotas: OnceLock<String>,
}

/// The files as they are at a time.
pub(crate) struct CurrentFiles {
    files: Files,
    sources: Vec<EnvoySource>,
    /// The series of their limits, from the first decision on.
    series: OnceLock<NamespaceTable>,
}

impl core::ops::Deref for CurrentFiles {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

/// A file of envoyproxy/ratelimit with its text.
#[derive(Debug, PartialEq, Eq)]
pub struct EnvoySource {
    name: String,
    bytes: Vec<u8>,
}

impl EnvoySource {
    /// The file at `path`. One that is larger than a policy may be is read just far enough to say
    /// so.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        // One byte more than the bound: enough for the parser to say that there is too much.
        open_regular(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        Ok(Self { name: path.display().to_string(), bytes })
    }

    /// The files of the directory `folder` that end in `.yaml` or `.yml`, in the order of their
    /// names, at most 4096. Those that begin with a dot are not read: a `ConfigMap` keeps its
    /// versions there. An error names the file or directory that could not be read.
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

    /// The text in the form that the parser of such files accepts.
    pub fn text(&self) -> Text<'_> {
        Text { name: &self.name, bytes: &self.bytes }
    }
}

impl EnvoyFiles {
    /// Reads the files that a policy names.
    pub fn open(wanted: &EnvoyRatelimit) -> Result<Self, EnvoyFilesError> {
        let path = PathBuf::from(&wanted.path);
        let current = CurrentFiles::read(sources(&path)?, &wanted.settings)?;
        let settings = wanted.settings.clone();
        Ok(Self(Arc::new(EnvoyFilesState {
            path,
            settings,
            now: ArcSwap::from_pointee(current),
            logged: Mutex::default(),
            refuses_quotas: OnceLock::new(),
        })))
    }

    /// The file or the directory that they are read from.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// The error that was logged last; `None` once the files are valid again.
    pub(crate) fn logged(&self) -> MutexGuard<'_, Option<String>> {
        // The lock guards one value: a panic elsewhere leaves it whole.
        self.0.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As they are now.
    pub(crate) fn get(&self) -> Arc<CurrentFiles> {
        self.0.now.load_full()
    }

    /// Goes on with the series of the files before, of those rules that are still there.
    pub(crate) fn replace(&self, before: &Self) {
        let (before, now) = (before.get(), self.get());
        if let Some(series) = before.series.get() {
            // No request has been decided by these files yet.
            let _ = now.series.set(series.replaced_by(now.files.rules()));
        }
    }

    /// Takes the series of all rules off the metrics page.
    pub(crate) fn forget(&self) {
        if let Some(series) = self.get().series.get() {
            let _ = series.replaced_by(core::iter::empty::<(&str, core::iter::Empty<&str>)>());
        }
    }

    /// From now on, files that bring a quota are rejected. `place` is where a daemon that is
    /// started anew keeps quotas.
    pub(crate) fn refuse_quotas(&self, place: String) {
        // The same policy names the same place each time.
        let _ = self.0.refuses_quotas.set(place);
    }

    /// Reloads the files if they have changed; `Ok(true)` if so. An error leaves what there was.
    pub(crate) fn refresh(&self) -> Result<bool, EnvoyFilesError> {
        let sources = sources(&self.0.path)?;
        if self.0.now.load().sources == sources {
            return Ok(false);
        }
        let current = CurrentFiles::read(sources, &self.0.settings)?;
        if let (Some(place), Some(quota)) = (self.0.refuses_quotas.get(), current.files.quotas().next()) {
            return Err(NoStore { quota: quota_of_files(quota), place: place.clone() }.into());
        }
        if let Some(series) = self.0.now.load().series.get() {
            let _ = current.series.set(series.replaced_by(current.files.rules()));
        }
        self.0.now.store(Arc::new(current));
        Ok(true)
    }
}

impl CurrentFiles {
    /// The series of their limits, named as the rules are.
    pub(crate) fn series(&self, families: &LimitFamilies) -> &NamespaceTable {
        self.series.get_or_init(|| families.table(self.files.rules()))
    }

    fn read(sources: Vec<EnvoySource>, settings: &Settings) -> Result<Self, Problems> {
        let texts: Vec<_> = sources.iter().map(EnvoySource::text).collect();
        let read = Files::read(&texts, settings.clone())?;
        for warning in &read.warnings {
            tracing::warn!(target: "tidegate::reload", "{warning}");
        }
        Ok(Self { files: read.files, sources, series: OnceLock::new() })
    }
}

tidegate_core::debug_fields!(EnvoyFiles { path: 0.path });

/// The file at `path`, or those of the directory.
fn sources(path: &Path) -> Result<Vec<EnvoySource>, EnvoyFilesError> {
    let unreadable = |(path, source)| EnvoyFilesError::Unreadable { path, source };
    if path.is_dir() {
        return EnvoySource::read_folder(path).map_err(unreadable);
    }
    let source = EnvoySource::read(path).map_err(|error| unreadable((path.to_owned(), error)))?;
    Ok(vec![source])
}

#[cfg(test)]
mod tests {
    use tidegate_test_support::TemporaryFile;

    use super::*;

    #[test]
    fn a_file_that_brings_a_quota_to_a_daemon_without_a_store_is_not_taken_up() {
        let file = TemporaryFile::new("");
        let write = |unit: &str| {
            let rule = format!("{{ key: user, rate_limit: {{ unit: {unit}, requests_per_unit: 2 }} }}");
            fs::write(file.path(), format!("domain: shop\ndescriptors: [{rule}]\n")).unwrap();
        };
        write("minute");
        let wanted = EnvoyRatelimit { path: file.as_str().to_owned(), settings: Settings::default() };
        let files = EnvoyFiles::open(&wanted).unwrap();
        write("second");
        assert!(files.refresh().unwrap());
        files.refuse_quotas("./tidegate-data".to_owned());
        write("day");
        let error = files.refresh().unwrap_err().to_string();
        assert!(error.starts_with("limit \"shop.user\" of envoy_ratelimit is a quota"), "{error}");
        assert!(error.contains("./tidegate-data") && error.contains("`store: { kind: memory }`"), "{error}");
        assert_eq!(files.get().quotas().count(), 0, "the files in force stay");
        write("minute");
        assert!(files.refresh().unwrap());
    }
}
