//! One attack: its name, what it expects, and what it reports.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The most memory that the daemon may take above idle in any attack, in bytes. Above it the attack
/// fails, whatever else it has seen.
pub const MEMORY_ABOVE_IDLE_MAX: u64 = 256 << 20;

/// How long an attack runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A few seconds, also against a debug build. The gate runs it.
    Brief,
    /// Longer, or only of use against a release build.
    Long,
}

/// An attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Its name, unique in the suite, as `--only` takes it.
    pub name: &'static str,
    /// The claim that the attack tests.
    pub expects: &'static str,
    /// How long it runs.
    pub pace: Pace,
    /// Runs it; the text says what was seen when the daemon held.
    pub run: fn(&RunContext) -> AttackResult,
}

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

/// The settings that all attacks and experiments share.
#[derive(Debug)]
pub struct RunContext {
    binary: PathBuf,
    minutes: f64,
    is_quick: bool,
    // Statistics of one attack: no other memory is published through it, so relaxed order is
    // enough.
    memory_above_idle: AtomicU64,
}

impl RunContext {
    /// A context for the daemon's `binary`. `minutes` is how long the attack of a hostile
    /// namespace beside an honest one runs.
    pub fn new(binary: &Path, minutes: f64) -> Self {
        Self { binary: binary.to_owned(), minutes, is_quick: false, memory_above_idle: AtomicU64::new(0) }
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
}

/// An attack that has been run.
#[derive(Debug)]
pub struct Outcome {
    /// Which attack.
    pub attack: Attack,
    /// The observation that the report shows.
    pub seen: AttackResult,
    /// The most memory of the daemon above idle, in bytes.
    pub memory_above_idle: u64,
    /// How long it took.
    pub took: Duration,
}

impl Attack {
    /// Runs the attack, and holds the memory of the daemon against [`MEMORY_ABOVE_IDLE_MAX`].
    pub fn run_in(self, context: &RunContext) -> Outcome {
        context.memory_above_idle.store(0, Ordering::Relaxed);
        let began = Instant::now();
        let seen = (self.run)(context);
        let memory_above_idle = context.memory_above_idle.load(Ordering::Relaxed);
        let seen = seen.and_then(|text| {
            let (used, allowed) = (memory_above_idle >> 20, MEMORY_ABOVE_IDLE_MAX >> 20);
            require!(
                memory_above_idle <= MEMORY_ABOVE_IDLE_MAX,
                "{used} MiB above idle, where {allowed} MiB are allowed; {text}"
            )?;
            Ok(text)
        });
        Outcome { attack: self, seen, memory_above_idle, took: began.elapsed() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(attack: fn(&RunContext) -> AttackResult) -> Outcome {
        let attack = Attack { name: "one", expects: "nothing", pace: Pace::Brief, run: attack };
        attack.run_in(&RunContext::new(Path::new("/none"), 1.0))
    }

    #[test]
    fn an_attack_that_holds_fails_when_the_daemon_takes_too_much_memory() {
        let at_the_bound = run(|context| {
            context.note_memory(MEMORY_ABOVE_IDLE_MAX);
            Ok("held".to_owned())
        });
        assert_eq!(at_the_bound.seen, Ok("held".to_owned()));
        let above_it = run(|context| {
            context.note_memory(MEMORY_ABOVE_IDLE_MAX + 1);
            Ok("held".to_owned())
        });
        assert!(matches!(above_it.seen, Err(Failure::GotThrough(_))), "{above_it:?}");
    }

    #[test]
    fn an_attack_that_could_not_be_finished_is_a_failure_and_a_skipped_one_is_none() {
        assert!(run(|_| Err(Failure::Unfinished("no answer".to_owned()))).is_failure());
        assert!(!run(|_| Err(Failure::Skipped("no redis-server".to_owned()))).is_failure());
    }
}
