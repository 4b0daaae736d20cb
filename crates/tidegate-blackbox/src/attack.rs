//! The result of an attack, and the settings that all trials share.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The most memory that the daemon may take above idle in any attack, in MiB. Above it the attack
/// fails, whatever else it has seen.
pub const MEBIBYTES_ABOVE_IDLE_MAX: u32 = 256;

/// The observation of an attack that the daemon withstood, otherwise the reason why it did not.
pub type AttackResult = Result<String, Failure>;

/// Why an attack does not count as held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The attack got through.
    GotThrough(String),
    /// The attack could not be run to its end, which counts as a failure.
    Unfinished(String),
    /// Something that the attack needs is missing on this machine.
    Skipped(String),
    /// The reader of the output has closed its pipe.
    Unread,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GotThrough(text) | Self::Unfinished(text) | Self::Skipped(text) => f.write_str(text),
            Self::Unread => f.write_str("the output is not read"),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Unfinished(error.to_string())
    }
}

/// Fails with a text, which is formatted, unless the condition holds.
macro_rules! require {
    ($held:expr, $($text:tt)+) => {
        if $held { Ok(()) } else { Err($crate::attack::Failure::GotThrough(format!($($text)+))) }
    };
}
pub(crate) use require;

/// The results of `run` for each item, all at once on threads of their own.
pub(crate) fn in_parallel<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    run: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || run(item))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an attack does not panic")).collect()
    })
}

/// Joins the results of several attacks, which hold only together.
pub(crate) fn all_hold(results: impl IntoIterator<Item = AttackResult>) -> AttackResult {
    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(text) => seen.push(text),
            Err(Failure::GotThrough(text)) => failed.push(text),
            Err(failure) => return Err(failure),
        }
    }
    let seen = seen.join("; ");
    require!(failed.is_empty(), "failed: {}; held: {seen}", failed.join("; "))?;
    Ok(seen)
}

/// The settings that all trials share.
#[derive(Debug)]
pub struct RunContext {
    binary: PathBuf,
    artifacts: Option<PathBuf>,
    artifacts_before: Option<PathBuf>,
    minutes: f64,
    is_quick: bool,
    // Statistics of one trial: no other memory is published through it, so relaxed order is
    // enough.
    memory_above_idle: AtomicU64,
}

impl RunContext {
    /// A context for the daemon's `binary`. `minutes` is how long the attack of a hostile
    /// namespace beside an honest one runs.
    pub fn new(binary: &Path, minutes: f64) -> Self {
        Self {
            binary: binary.to_owned(),
            artifacts: None,
            artifacts_before: None,
            minutes,
            is_quick: false,
            memory_above_idle: AtomicU64::new(0),
        }
    }

    /// A context for a binary that a user names. The error says what is wrong with it.
    pub fn of_binary(binary: &Path) -> Result<Self, String> {
        // Daemons run in folders of their own.
        let found = binary.canonicalize().map_err(|error| {
            let build = "build it with `cargo build --profile dist -p tidegate-cli`";
            format!("{}: {error}; {build}", binary.display())
        });
        Ok(Self::new(&found?, 0.0))
    }

    /// The same with another length of that attack.
    #[must_use]
    pub fn with_minutes(self, minutes: f64) -> Self {
        Self { minutes, ..self }
    }

    /// The same with the folder that `cargo xtask dist` wrote, and the one that it wrote at an
    /// earlier commit.
    #[must_use]
    pub fn with_artifacts(self, folder: Option<&Path>, before: Option<&Path>) -> Self {
        // Parts of the suite run commands in folders of their own.
        let found = |folder: &Path| folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Self { artifacts: folder.map(found), artifacts_before: before.map(found), ..self }
    }

    /// The artifact whose name ends like this, such as `_amd64.deb`. Where `cargo xtask dist` made
    /// none, the part that asks is skipped.
    pub(crate) fn artifact(&self, name_end: &str) -> Result<PathBuf, Failure> {
        let folder = self.artifacts.as_ref().ok_or_else(|| {
            Failure::Unfinished("no folder of artifacts was named; use --artifacts FOLDER".to_owned())
        })?;
        Self::artifact_of(folder, name_end)
    }

    /// The same of the earlier commit; `None` if no folder of one was named.
    pub(crate) fn artifact_before(&self, name_end: &str) -> Result<Option<PathBuf>, Failure> {
        self.artifacts_before.as_ref().map(|folder| Self::artifact_of(folder, name_end)).transpose()
    }

    fn artifact_of(folder: &Path, name_end: &str) -> Result<PathBuf, Failure> {
        let entries = fs::read_dir(folder)
            .map_err(|error| Failure::Unfinished(format!("{}: {error}", folder.display())))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut found: Vec<PathBuf> =
            paths.filter(|path| path.to_string_lossy().ends_with(name_end)).collect();
        found.sort_unstable();
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(Failure::Skipped(format!(
                "{} has no file *{name_end}; `cargo xtask dist` says why it made none",
                folder.display()
            ))),
            several => Err(Failure::Unfinished(format!(
                "{} has {} files *{name_end}; empty it and run `cargo xtask dist` again",
                folder.display(),
                several.len()
            ))),
        }
    }

    /// The daemon's binary.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// How long the attack of a hostile namespace beside an honest one runs.
    pub fn minutes(&self) -> f64 {
        self.minutes
    }

    /// The same for experiments that take a sixth of the time, and judge less strictly where a
    /// figure needs more samples than it has.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }

    /// `whole`, or `quick` in a quick run.
    pub fn either<T>(&self, whole: T, quick: T) -> T {
        if self.is_quick { quick } else { whole }
    }

    /// Notes that a daemon took `bytes` more than when it was idle.
    pub(crate) fn note_memory(&self, bytes: u64) {
        self.memory_above_idle.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The most bytes that a daemon took above idle since this was asked for last.
    pub(crate) fn take_memory_above_idle(&self) -> u64 {
        self.memory_above_idle.swap(0, Ordering::Relaxed)
    }
}
