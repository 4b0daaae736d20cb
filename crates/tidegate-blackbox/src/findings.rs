//! Figures, the gates that they are held against, and verdicts.

use std::time::Duration;

use crate::attack::{AttackResult, Failure};
use crate::load::measurement::{LATENESS_P99_MAX, Measurement, Percentiles, millis};

/// The figure of an attack, which is a verdict alone.
const ATTACK: &str = "the daemon withstands it";

/// The condition on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// It is at least this.
    AtLeast(f64),
    /// It is at most this.
    AtMost(f64),
}

impl Gate {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

/// Whether a figure is as it must be. The last of several verdicts is that of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It has no gate.
    #[default]
    Shown,
    /// It meets its gate.
    Passed,
    /// Something that it needs is missing on this machine.
    Skipped,
    /// The generator was late, so the figure says nothing; a failure of the suite too.
    Uncounted,
    /// It could not be read, which is a failure of the suite too.
    Absent,
    /// It does not meet its gate.
    Failed,
}

impl Verdict {
    /// Those that are counted, in the order of reports.
    pub const COUNTED: [Self; 5] = [Self::Passed, Self::Failed, Self::Absent, Self::Uncounted, Self::Skipped];

    /// A word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Shown => "",
            Self::Passed => "pass",
            Self::Skipped => "skipped",
            Self::Uncounted => "DOES NOT COUNT",
            Self::Absent => "ABSENT",
            Self::Failed => "FAIL",
        }
    }

    /// Whether the suite fails because of it.
    pub fn is_failure(self) -> bool {
        self >= Self::Uncounted
    }
}

/// A figure of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its value; nothing if it could not be read.
    pub value: Option<f64>,
    /// The unit of value and gate; empty for a ratio.
    pub unit: &'static str,
    /// Its condition.
    pub gate: Option<Gate>,
    /// Its verdict.
    pub verdict: Verdict,
    /// Details.
    pub note: String,
}

/// The figures of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    figures: Vec<Figure>,
    is_counted: bool,
}

impl Default for Findings {
    fn default() -> Self {
        Self { figures: Vec::new(), is_counted: true }
    }
}

impl Findings {
    /// Notes that the figures from now on are those of `run`, with how late its generator was. They
    /// count only if it was on time.
    pub fn begin_run(&mut self, name: &str, run: &Measurement) {
        self.begin_load(name, run.lateness(), LATENESS_P99_MAX, &run.endings());
    }

    /// As [`Findings::begin_run`], for a load whose generator had this lateness and may have this
    /// one.
    pub fn begin_load(&mut self, name: &str, lateness: Percentiles, at_most: Duration, endings: &str) {
        self.is_counted = lateness.p99 <= at_most;
        let note = format!(
            "p50 {:.1}, max {:.1} ms; {} requests: {endings}",
            millis(lateness.p50),
            millis(lateness.max),
            lateness.count,
        );
        let (value, gate) = (millis(lateness.p99), Gate::AtMost(millis(at_most)));
        self.gated(&format!("{name}: lateness p99"), value, "ms", gate, &note);
    }

    /// Adds a figure with a condition.
    pub fn gated(&mut self, name: &str, value: f64, unit: &'static str, gate: Gate, note: &str) {
        let verdict = match (self.is_counted, gate.is_met_by(value)) {
            (false, _) => Verdict::Uncounted,
            (true, true) => Verdict::Passed,
            (true, false) => Verdict::Failed,
        };
        self.add(name, Some(value), unit, Some(gate), verdict, note);
    }

    /// Adds a figure without a condition.
    pub fn shown(&mut self, name: &str, value: f64, unit: &'static str, note: &str) {
        self.add(name, Some(value), unit, None, Verdict::Shown, note);
    }

    /// Adds a time with the longest that it may be. The error says why it could not be read.
    pub fn timed(&mut self, name: &str, time: Result<Duration, impl AsRef<str>>, at_most: Duration) {
        let gate = Gate::AtMost(millis(at_most));
        match time {
            Ok(time) => self.gated(name, millis(time), "ms", gate, ""),
            Err(reason) => self.add(name, None, "ms", Some(gate), Verdict::Absent, reason.as_ref()),
        }
    }

    /// Adds the result of an attack.
    pub fn attacked(&mut self, result: AttackResult) -> Result<(), Failure> {
        self.add(ATTACK, None, "", None, Verdict::Passed, &result?);
        Ok(())
    }

    /// Adds a claim that was found to hold.
    pub fn held(&mut self, claim: &str, note: &str) {
        self.add(claim, None, "", None, Verdict::Passed, note);
    }

    /// Adds a claim with the result of looking at it. A trial goes on after a claim that does not
    /// hold or cannot be tried here.
    pub fn claimed(&mut self, claim: &str, result: AttackResult) {
        match result {
            Ok(note) => self.held(claim, &note),
            Err(failure) => {
                let verdict = match failure {
                    Failure::GotThrough(_) => Verdict::Failed,
                    Failure::Unfinished(_) | Failure::Unread => Verdict::Absent,
                    Failure::Skipped(_) => Verdict::Skipped,
                };
                self.add(claim, None, "", None, verdict, &failure.to_string());
            }
        }
    }

    /// Notes why the trial ended before its time.
    pub fn end(&mut self, failure: &Failure) {
        let (name, verdict) = match failure {
            Failure::GotThrough(_) => (ATTACK, Verdict::Failed),
            Failure::Unfinished(_) | Failure::Unread => ("the trial could not be finished", Verdict::Absent),
            Failure::Skipped(_) => ("the trial could not be run", Verdict::Skipped),
        };
        self.add(name, None, "", None, verdict, &failure.to_string());
    }

    /// The verdict on all figures together.
    pub fn verdict(&self) -> Verdict {
        self.figures.iter().map(|figure| figure.verdict).max().unwrap_or_default()
    }

    fn add(
        &mut self,
        name: &str,
        value: Option<f64>,
        unit: &'static str,
        gate: Option<Gate>,
        verdict: Verdict,
        note: &str,
    ) {
        self.figures.push(Figure {
            name: name.to_owned(),
            value,
            unit,
            gate,
            verdict,
            note: note.to_owned(),
        });
    }

    /// The figures, in the order in which they were added.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::measurement::{Ending, Sample};
    use crate::load::schedule::Schedule;

    fn run(lateness_ms: u64) -> Measurement {
        let (at, took) = (Duration::ZERO, Duration::ZERO);
        let lateness = Duration::from_millis(lateness_ms);
        let sample = Sample { stream: 0, at, lateness, took, ending: Ending::Answered };
        Measurement::new(&Schedule::default(), vec![sample])
    }

    #[test]
    fn a_figure_passes_at_its_bound_and_fails_beyond() {
        let mut findings = Findings::default();
        findings.gated("a", 0.95, "", Gate::AtLeast(0.95), "");
        findings.gated("b", 0.94, "", Gate::AtLeast(0.95), "");
        findings.gated("c", 2.0, "", Gate::AtMost(2.0), "");
        findings.gated("d", f64::NAN, "", Gate::AtMost(2.0), "");
        let verdicts: Vec<Verdict> = findings.figures().iter().map(|figure| figure.verdict).collect();
        assert_eq!(verdicts, [Verdict::Passed, Verdict::Failed, Verdict::Passed, Verdict::Failed]);
    }

    #[test]
    fn the_figures_of_a_late_generator_do_not_count_and_those_of_the_next_run_do() {
        let mut findings = Findings::default();
        findings.begin_run("late", &run(6));
        findings.gated("a", 1.0, "", Gate::AtLeast(0.5), "");
        findings.begin_run("on time", &run(5));
        findings.gated("b", 1.0, "", Gate::AtLeast(0.5), "");
        let verdicts: Vec<Verdict> = findings.figures().iter().map(|figure| figure.verdict).collect();
        assert_eq!(verdicts[..2], [Verdict::Uncounted; 2]);
        assert_eq!(verdicts[2..], [Verdict::Passed; 2]);
    }

    #[test]
    fn a_figure_that_could_not_be_read_fails_the_suite() {
        let mut findings = Findings::default();
        findings.timed("a", Err("answers 404"), Duration::from_secs(6));
        assert!(findings.figures()[0].verdict.is_failure());
    }
}
