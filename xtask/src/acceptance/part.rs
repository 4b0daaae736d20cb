//! A part of a suite: one command whose output has figures.

use std::path::Path;
use std::process::Command;

use super::figures::Figures;
use super::watched;

/// A part.
pub(super) struct Part {
    /// Its name, unique in the suite.
    pub(super) name: String,
    pub(super) kind: PartKind,
    /// Makes the command.
    pub(super) command: Box<dyn Fn() -> Command>,
}

/// How the output of a part is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// Tests, which print rows. If they print none, their number is the row.
    Tests,
    /// A run of libFuzzer, which prints the number of inputs it has tried.
    Fuzzing {
        /// The name of the target.
        target: &'static str,
    },
}

impl Part {
    /// Runs the part; the reason why it failed. `line` is printed every ten seconds, and the output
    /// is added to `log`.
    pub(super) fn run(&self, log: &Path, line: impl Fn() -> String) -> Result<Figures, String> {
        let output = watched::run(&mut (self.command)(), log, line)?;
        self.read(output.lines.iter().map(String::as_str), output.succeeded)
    }

    /// The figures of the output.
    pub(super) fn read<'a>(
        &self,
        lines: impl Iterator<Item = &'a str>,
        succeeded: bool,
    ) -> Result<Figures, String> {
        let mut figures = Figures::default();
        let mut count = 0;
        for line in lines {
            figures.read(line);
            count += match self.kind {
                PartKind::Tests => number_between(line, "test result: ok. ", " passed"),
                PartKind::Fuzzing { .. } => number_between(line, "Done ", " runs in "),
            }
            .unwrap_or(0);
        }
        if !succeeded {
            return Err("the command failed".to_owned());
        }
        match self.kind {
            PartKind::Tests if count == 0 => return Err("no test ran".to_owned()),
            PartKind::Tests if figures.is_empty() => figures.count(&self.name, "tests", count),
            PartKind::Tests => {}
            PartKind::Fuzzing { .. } if count == 0 => return Err("no input was tried".to_owned()),
            PartKind::Fuzzing { target } => figures.count(target, "inputs", count),
        }
        Ok(figures)
    }
}

/// The number in a line between two texts.
fn number_between(line: &str, before: &str, after: &str) -> Option<u64> {
    let (_, rest) = line.split_once(before)?;
    rest.split_once(after)?.0.parse().ok()
}
