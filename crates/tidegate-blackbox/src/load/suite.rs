//! The table of the experiments.

use crate::attack::{Failure, RunContext};
use crate::load::experiments::{authorize, crashes, factors, neighbour, step, waits};
use crate::load::findings::{Findings, Verdict};

/// The part that is repeated, once, when the generator was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// The run in which it was late; the experiment sees to that.
    Run,
    /// The experiment, which is one run.
    Experiment,
}

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name, unique in the suite, as `--only` takes it.
    pub name: &'static str,
    /// The question that it answers.
    pub asks: &'static str,
    /// The part that is repeated when the generator was late.
    pub repeats: Repetition,
    /// Runs it. Figures that were found before it failed are kept.
    pub run: fn(&RunContext, &mut Findings) -> Result<(), Failure>,
}

impl Experiment {
    /// Runs it, and again if that is needed so that its figures count.
    pub fn findings(&self, context: &RunContext) -> Findings {
        let first = self.run_once(context);
        let is_late = first.figures().iter().any(|figure| figure.verdict == Verdict::Uncounted);
        if is_late && self.repeats == Repetition::Experiment { self.run_once(context) } else { first }
    }

    fn run_once(&self, context: &RunContext) -> Findings {
        let mut findings = Findings::default();
        if let Err(failure) = (self.run)(context, &mut findings) {
            let (Failure::GotThrough(text) | Failure::Unfinished(text) | Failure::Skipped(text)) = failure;
            findings.unfinished(&text);
        }
        findings
    }
}

macro_rules! experiments {
    ($($name:literal $repeats:ident $run:path: $asks:literal;)*) => {
        &[$(Experiment { name: $name, asks: $asks, repeats: Repetition::$repeats, run: $run }),*]
    };
}

/// All experiments, in the order in which they run.
pub const EXPERIMENTS: &[Experiment] = experiments! {
    "factors" Run factors::run:
        "E1 and E2: goodput at 1, 2, 5 and 10 times the capacity, and the tenant that matters";
    "step" Experiment step::run:
        "E3: a step from 0.8 to 2 times the capacity and down to 0.5";
    "neighbour" Run neighbour::run:
        "an upstream beside one that is offered 10 times its capacity";
    "killed-upstream" Experiment crashes::killed_upstream:
        "kill -9 of the upstream at 5 times its capacity";
    "killed-daemon" Experiment crashes::killed_daemon:
        "kill -9 and restart of the daemon at 5 times the capacity";
    "authorize" Experiment authorize::run:
        "a daemon that is asked only by /v1/authorize, 100 times a second";
    "waits" Experiment waits::run:
        "a client that opens 1 000 requests, which wait, and leaves";
};
