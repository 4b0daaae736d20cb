//! The steps of a command: each runs, is timed and counted, and has a row in the table at the end.

use std::time::{Duration, Instant};

use crate::cargo::{cargo, succeeds};
use crate::step_times::{StepTimes, in_words};
use crate::tally::Tally;

/// How many of the slowest steps are listed at the end. Parts of a step count as steps.
const SLOWEST_LISTED: usize = 10;

/// The result of one step, given by the step itself.
#[derive(Default)]
pub(crate) struct StepReport {
    pub(crate) tally: Tally,
    /// The reason why it could not run, or advice; empty when there is nothing to say.
    pub(crate) note: String,
    /// The times of its parts; empty for a step without parts.
    pub(crate) parts: StepTimes,
}

/// A step that has run.
struct FinishedStep {
    name: &'static str,
    took: Duration,
    report: StepReport,
}

/// The steps that have run.
pub(crate) struct Steps {
    began: Instant,
    finished: Vec<FinishedStep>,
}

impl Steps {
    /// No steps; the total time begins now.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), finished: Vec::new() }
    }

    /// Runs a step.
    pub(crate) fn run(&mut self, name: &'static str, run: impl FnOnce() -> StepReport) {
        println!("\n== {name}");
        let began = Instant::now();
        let report = run();
        let step = FinishedStep { name, took: began.elapsed(), report };
        println!("== {name}: {} in {:.1} s", step.word(), step.took.as_secs_f64());
        self.finished.push(step);
    }

    /// Prints the slowest steps, a row for each step, the total time with `beside` and, on the last
    /// line, the counts; true when nothing failed.
    pub(crate) fn finish(self, beside: &str) -> bool {
        println!("\nslowest steps:");
        let mut times = StepTimes::default();
        for step in &self.finished {
            times.add_step(step.name, step.took, &step.report.parts);
        }
        print!("{}", times.slowest(SLOWEST_LISTED));
        println!("\n{:<13}{:>9}   result", "step", "time");
        self.finished.iter().filter(|step| step.report.tally != Tally::default()).for_each(print_row);
        let total = format!("{:<13}{:>9}   {beside}", "total", in_words(self.began.elapsed()));
        println!("{}", total.trim_end());
        let total = self.finished.iter().fold(Tally::default(), |sum, step| sum.plus(step.report.tally));
        println!("\n{total}");
        total.failed == 0
    }
}

impl FinishedStep {
    fn word(&self) -> &'static str {
        match self.report.tally {
            Tally { failed: 1.., .. } => "FAILED",
            Tally { passed: 1.., .. } => "passed",
            Tally { skipped: 1.., .. } => "skipped",
            _ => "nothing to do",
        }
    }
}

fn print_row(step: &FinishedStep) {
    let StepReport { tally, note, .. } = &step.report;
    let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
    println!("{:<13}{:>9}   {}: {tally}{note}", step.name, in_words(step.took), step.word());
}

/// The report of a step that passed or failed.
pub(crate) fn plain(passed: bool) -> StepReport {
    StepReport { tally: Tally::of(passed), ..StepReport::default() }
}

/// The report of a step that is one command of cargo.
pub(crate) fn check(arguments: &[&str]) -> StepReport {
    plain(succeeds(&mut cargo(arguments)))
}

/// The report of a step that could not run.
pub(crate) fn skipped(reason: String) -> StepReport {
    println!("skipped: {reason}");
    StepReport { tally: Tally::SKIPPED, note: reason, ..StepReport::default() }
}
