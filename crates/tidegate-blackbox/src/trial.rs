//! One trial of the daemon: an attack that it must withstand, or an experiment under load.

#![expect(clippy::cast_precision_loss, reason = "the memory of a machine is far below 2^52 bytes")]

use std::time::{Duration, Instant};

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate, Verdict};

/// How long a trial runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A few seconds, also against a debug build. The gate runs it.
    Brief,
    /// Longer, or only of use against a release build.
    Long,
}

/// The part that is repeated, once, when a generator of load was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// The run in which it was late; the trial sees to that.
    Run,
    /// The trial, which is one run.
    Trial,
}

/// A trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Its name, unique in its suite, as `--only` takes it.
    pub name: &'static str,
    /// The claim that it tests.
    pub claim: &'static str,
    /// How long it runs.
    pub pace: Pace,
    /// The part that is repeated when the generator was late.
    pub repeats: Repetition,
    /// The most memory that the daemon may take above idle, in MiB; nothing if it is not judged.
    pub mebibytes_max: Option<u32>,
    /// Runs it. Figures that were found before it failed are kept.
    pub run: fn(&RunContext, &mut Findings) -> Result<(), Failure>,
}

/// A trial that has been run.
#[derive(Debug)]
pub struct Outcome {
    /// The trial.
    pub trial: Trial,
    /// Its figures.
    pub findings: Findings,
    /// The most memory of the daemon above idle, in MiB.
    pub mebibytes: f64,
    /// How long it took.
    pub took: Duration,
}

impl Trial {
    /// Runs the trial, and again if that is needed so that its figures count.
    pub fn run_in(self, context: &RunContext) -> Outcome {
        let began = Instant::now();
        let mut outcome = self.run_once(context);
        if outcome.findings.verdict() == Verdict::Uncounted && self.repeats == Repetition::Trial {
            outcome = self.run_once(context);
        }
        Outcome { took: began.elapsed(), ..outcome }
    }

    fn run_once(self, context: &RunContext) -> Outcome {
        let mut findings = Findings::default();
        let result = (self.run)(context, &mut findings);
        let mebibytes = context.take_memory_above_idle() as f64 / f64::from(1 << 20);
        match (result, self.mebibytes_max) {
            (Err(failure), _) => findings.end(&failure),
            (Ok(()), None) => {}
            (Ok(()), Some(most)) => {
                findings.gated("memory above idle", mebibytes, "MiB", Gate::AtMost(most.into()), "");
            }
        }
        Outcome { trial: self, findings, mebibytes, took: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn verdict(run: fn(&RunContext, &mut Findings) -> Result<(), Failure>) -> Verdict {
        let trial = Trial {
            name: "one",
            claim: "nothing",
            pace: Pace::Brief,
            repeats: Repetition::Run,
            mebibytes_max: Some(256),
            run,
        };
        trial.run_in(&RunContext::new(Path::new("/none"), 1.0)).findings.verdict()
    }

    #[test]
    fn an_attack_that_holds_fails_when_the_daemon_takes_too_much_memory() {
        let at_the_bound = verdict(|context, findings| {
            context.note_memory(256 << 20);
            findings.attacked(Ok("held".to_owned()))
        });
        assert_eq!(at_the_bound, Verdict::Passed);
        let above_it = verdict(|context, findings| {
            context.note_memory((256 << 20) + 1);
            findings.attacked(Ok("held".to_owned()))
        });
        assert_eq!(above_it, Verdict::Failed);
    }

    #[test]
    fn an_attack_that_could_not_be_finished_is_a_failure_and_a_skipped_one_is_none() {
        let unfinished = verdict(|_, _| Err(Failure::Unfinished("no answer".to_owned())));
        let skipped = verdict(|_, _| Err(Failure::Skipped("no redis-server".to_owned())));
        assert_eq!((unfinished, skipped), (Verdict::Absent, Verdict::Skipped));
        assert!(unfinished.is_failure() && !skipped.is_failure());
    }
}
