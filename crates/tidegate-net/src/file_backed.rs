//! Values that are loaded from files, and loaded anew when the files change: certificates, keys,
//! tokens.
//!
//! The files are read again every [`LOOK_EVERY`] and compared whole, which sees a file that was
//! written in place, one that was replaced and one behind a link that now leads elsewhere. Files
//! that cannot be used leave the earlier value in use, which is logged once.

use core::fmt;
use core::time::Duration;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use tidegate_core::error_chain;

use crate::regular_file::read_regular;

/// How often files are looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The largest file in bytes, a few hundred certificates. A larger one counts as one that cannot be
/// read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Files, and the value that is loaded from them.
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// The loaded value. A clone is cheap.
    type Made: Clone + Send + Sync;
    /// The error of a file.
    type Error: core::error::Error;

    /// The name of the value in the plural, for the log.
    const WHAT: &'static str;

    /// The largest file in bytes. A larger one counts as one that cannot be read.
    const BYTES_MAX: u64 = FILE_BYTES_MAX;

    /// The files.
    fn paths(&self) -> Vec<&Path>;

    /// A file cannot be read.
    fn unreadable(path: &Path, source: io::Error) -> Self::Error;

    /// Loads the value from the texts of the files, in the order of [`Source::paths`].
    fn make(&self, texts: &[Vec<u8>]) -> Result<Self::Made, Self::Error>;
}

/// A value that was loaded from files, in its current version.
pub struct FileBacked<S: Source> {
    source: S,
    now: ArcSwap<LoadedFiles<S::Made>>,
    /// The error that was logged last; `None` once the files are valid again.
    logged: Mutex<Option<String>>,
}

struct LoadedFiles<M> {
    made: M,
    /// The texts of the files.
    texts: Vec<Vec<u8>>,
}

impl<S: Source> FileBacked<S> {
    /// Reads the files.
    pub fn open(source: S) -> Result<Self, S::Error> {
        let texts = read(&source)?;
        let current = LoadedFiles { made: source.make(&texts)?, texts };
        Ok(Self { source, now: ArcSwap::from_pointee(current), logged: Mutex::default() })
    }

    /// The files.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// As it is now.
    pub fn get(&self) -> S::Made {
        self.now.load().made.clone()
    }

    /// Reloads the value if the files have changed; `Ok(true)` if so. An error leaves what there
    /// was.
    pub fn refresh(&self) -> Result<bool, S::Error> {
        let texts = read(&self.source)?;
        if self.now.load().texts == texts {
            return Ok(false);
        }
        self.now.store(Arc::new(LoadedFiles { made: self.source.make(&texts)?, texts }));
        Ok(true)
    }
}

// The texts of the files may be secret.
tidegate_core::debug_fields!(FileBacked<S: Source> { source });

fn read<S: Source>(source: &S) -> Result<Vec<Vec<u8>>, S::Error> {
    let paths = source.paths();
    paths
        .into_iter()
        .map(|path| read_regular(path, S::BYTES_MAX).map_err(|error| S::unreadable(path, error)))
        .collect()
}

/// A value whose files are checked at intervals.
pub trait Refresh: Send + Sync {
    /// Reloads the value if its files have changed, and logs the result. Reads files, so a task
    /// must not call it.
    fn look(&self);
}

impl<S: Source> Refresh for FileBacked<S> {
    fn look(&self) {
        let refreshed = self.refresh();
        // The lock guards one value, which a panic elsewhere leaves whole.
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        match refreshed {
            Ok(changed) => {
                if changed {
                    tracing::info!(source = ?self.source, "renewed {} are in use", S::WHAT);
                }
                *logged = None;
            }
            Err(error) => {
                let error = error_chain(&error);
                if logged.as_ref() != Some(&error) {
                    tracing::error!(error, "the {} in use stay", S::WHAT);
                    *logged = Some(error);
                }
            }
        }
    }
}

/// Looks at everything that `all` names, for ever. `all` is called each time, since a reload
/// changes the values in use.
pub async fn look_at(all: impl Fn() -> Vec<Arc<dyn Refresh>>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let all = all();
        if all.is_empty() {
            continue;
        }
        let looked = tokio::task::spawn_blocking(move || all.iter().for_each(|one| one.look()));
        if let Err(error) = looked.await {
            tracing::error!(%error, "reading certificates and keys failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::fs;
    use std::path::PathBuf;

    use tidegate_test_support::{MountedVolume, TemporaryFile};

    use super::*;

    #[derive(Debug)]
    struct Text {
        path: PathBuf,
        /// Removed with the value.
        _file: Option<TemporaryFile>,
    }

    impl Text {
        fn one() -> Self {
            let file = TemporaryFile::new("one");
            Self { path: file.path().to_owned(), _file: Some(file) }
        }
    }

    impl Source for Text {
        type Made = String;
        type Error = io::Error;

        const WHAT: &'static str = "texts";

        fn paths(&self) -> Vec<&Path> {
            vec![&self.path]
        }

        fn unreadable(_: &Path, source: io::Error) -> io::Error {
            source
        }

        fn make(&self, texts: &[Vec<u8>]) -> io::Result<String> {
            String::from_utf8(texts[0].clone()).map_err(io::Error::other)
        }
    }

    /// Counts lines of errors.
    #[derive(Clone, Default)]
    struct Errors(Arc<AtomicUsize>);

    impl tracing::Subscriber for Errors {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            if *event.metadata().level() == tracing::Level::ERROR {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn what_is_wrong_is_said_once_until_it_is_something_else_or_was_right_in_between() {
        let renewed = FileBacked::open(Text::one()).unwrap();
        let path = renewed.source().path.clone();
        let errors = Errors::default();
        let looked = |times: usize| {
            tracing::subscriber::with_default(errors.clone(), || (0..times).for_each(|_| renewed.look()));
            errors.0.load(Ordering::Relaxed)
        };
        assert_eq!(looked(3), 0);
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(looked(3), 1);
        fs::remove_file(&path).unwrap();
        assert_eq!(looked(3), 2, "something else is wrong");
        assert_eq!(renewed.get(), "one");
        fs::write(&path, "two").unwrap();
        assert_eq!((looked(3), renewed.get()), (2, "two".to_owned()));
        fs::remove_file(&path).unwrap();
        assert_eq!(looked(3), 3);
    }

    #[test]
    fn a_secret_that_the_kubelet_exchanges_is_renewed() {
        let mut volume = MountedVolume::new("token", "one").unwrap();
        let renewed = FileBacked::open(Text { path: volume.path(), _file: None }).unwrap();
        volume.exchange("two").unwrap();
        renewed.look();
        assert_eq!(renewed.get(), "two");
    }

    #[test]
    fn a_file_larger_than_any_that_is_needed_is_not_read() {
        let renewed = FileBacked::open(Text::one()).unwrap();
        fs::write(&renewed.source().path, vec![b'a'; 1 << 20]).unwrap();
        assert!(renewed.refresh().unwrap());
        fs::write(&renewed.source().path, vec![b'a'; (1 << 20) + 1]).unwrap();
        assert!(renewed.refresh().unwrap_err().to_string().contains("larger than 1048576 bytes"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_broken_keeps_nothing_else_from_being_renewed() {
        let broken = Arc::new(FileBacked::open(Text::one()).unwrap());
        let fine = Arc::new(FileBacked::open(Text::one()).unwrap());
        fs::write(&broken.source().path, [0xff]).unwrap();
        fs::write(&fine.source().path, "two").unwrap();
        let all = [Arc::clone(&broken) as Arc<dyn Refresh>, Arc::clone(&fine) as Arc<dyn Refresh>];
        let looking = tokio::spawn(look_at(move || all.to_vec()));
        // Sleeps: on tokio's paused clock, no real time passes.
        tokio::time::sleep(LOOK_EVERY * 3 / 2).await;
        looking.abort();
        assert_eq!((broken.get(), fine.get()), ("one".to_owned(), "two".to_owned()));
    }
}
