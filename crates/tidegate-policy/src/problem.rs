//! The problems of a configuration, as data and as lines that read like a compiler's messages.

use core::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::path::{Path, ProblemSpot};
use crate::printable::{printable, shown};
use crate::tree::{Node, Position};

/// The most problems that are listed; looking for more stops there.
pub const PROBLEMS_MAX: usize = 100;

/// The longest half of a message, in characters.
const MESSAGE_CHARS_MAX: usize = 1000;

/// One thing that is wrong, or for a warning: probably not meant.
///
/// Reads as `FILE:LINE:COLUMN: PATH: PROBLEM; FIX`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The file, by the name that was given to [`crate::parse()`].
    pub file: String,
    /// The path of the field, as `namespaces.api.limits[2].rate`; empty for the file as a whole.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The value as it stands in the file (before `${VARIABLES}` are replaced); `None` for lists,
    /// mappings and what is missing. Shortened to 80 characters.
    pub value: Option<String>,
    /// The problem.
    pub what: String,
    /// The fix.
    pub fix: String,
}

impl Problem {
    /// A problem of a section at the top of a file with this text. Its line is that of the key; 1
    /// if it is not written at the beginning of a line.
    pub fn from_section((file, text): (&str, &[u8]), section: &str, what: String, fix: String) -> Self {
        let key = section.as_bytes();
        let is_key = |line: &[u8]| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(b":"));
        let line = text.split(|byte| *byte == b'\n').position(is_key).map_or(1, |at| at + 1);
        let (file, path) = (file.to_owned(), section.to_owned());
        Self { file, path, line, column: 1, value: None, what, fix }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}; {}", self.what, self.fix)
    }
}

/// Everything that is wrong with a configuration, in the order of the file. Never empty.
///
/// ```
/// # use tidegate_policy::parse;
/// let limits = "[{ name: reads, rate: 0/s }, { name: writes, rate: fast }]";
/// let text = format!("namespaces:\n  api:\n    limits: {limits}\n");
/// let problems = parse("tidegate.yaml", &text, &|_| None).unwrap_err();
/// let paths = problems.problems.iter().map(|one| one.path.as_str());
/// assert!(paths.eq(["namespaces.api.limits[0].rate", "namespaces.api.limits[1].rate"]));
/// assert_eq!(problems.problems[0].line, 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problems {
    /// The problems, at most [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// Whether there were so many that looking for more was stopped.
    pub truncated: bool,
}

impl fmt::Display for Problems {
    /// A line for each problem, and one that says so if there may be more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        if self.truncated {
            f.write_str("\nand perhaps more; fix these first")?;
        }
        Ok(())
    }
}

impl core::error::Error for Problems {}

/// Collects what is found in one file.
///
/// A problem of *shape* (unknown key, wrong type) makes whatever is found later on the same line of
/// descent a mere consequence, which is not reported: a limit whose `rate` is misspelt is not also
/// said to lack an algorithm.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    file: &'a str,
    root: Option<&'a Node>,
    problems: Vec<Problem>,
    misshapen: Vec<Path>,
    warnings: Vec<Problem>,
    effective: Vec<(Path, Value)>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(file: &'a str) -> Self {
        Self {
            file,
            root: None,
            problems: Vec::new(),
            misshapen: Vec::new(),
            warnings: Vec::new(),
            effective: Vec::new(),
        }
    }

    /// From now on positions are looked up in this tree.
    pub(crate) fn locate_in(&mut self, root: &'a Node) {
        self.root = Some(root);
    }

    /// Adds a problem of the file at a position, when there is no tree to look it up in.
    pub(crate) fn unreadable(&mut self, at: Position, what: impl fmt::Display, fix: impl fmt::Display) {
        let problem = self.make(&Path::default(), at, None, &what.to_string(), &fix.to_string());
        self.add(problem);
    }

    /// Adds a problem of shape.
    pub(crate) fn shape(
        &mut self,
        path: &Path,
        spot: (Position, Option<&str>),
        what: impl fmt::Display,
        fix: impl fmt::Display,
    ) {
        let problem = self.make(path, spot.0, spot.1, &what.to_string(), &fix.to_string());
        self.misshapen(path);
        self.add(problem);
    }

    /// Marks what stands at `path` as misshapen, where the problem itself is told elsewhere.
    pub(crate) fn misshapen(&mut self, path: &Path) {
        if self.misshapen.len() < 2 * PROBLEMS_MAX {
            self.misshapen.push(path.clone());
        }
    }

    /// Whether something at `path`, above it or below it is misshapen.
    pub(crate) fn is_misshapen(&self, path: &Path) -> bool {
        self.misshapen.iter().any(|broken| broken.is_in_line_with(path))
    }

    /// Adds a problem of meaning with the value at `path`.
    pub(crate) fn value(&mut self, path: &Path, what: impl fmt::Display, fix: impl fmt::Display) {
        self.meaning(path, ProblemSpot::Value, &what.to_string(), &fix.to_string());
    }

    /// Whether there are at most `most` of something, such as `routes`; adds a problem of meaning
    /// if there are more.
    pub(crate) fn check_count(&mut self, path: &Path, count: usize, of: &str, most: usize) -> bool {
        let is_within = count <= most;
        if !is_within {
            self.value(path, format_args!("{count} {of}"), format_args!("use at most {most}"));
        }
        is_within
    }

    /// Adds a problem of meaning with the key at the end of `path`.
    pub(crate) fn key(&mut self, path: &Path, what: impl fmt::Display, fix: impl fmt::Display) {
        self.meaning(path, ProblemSpot::Key, &what.to_string(), &fix.to_string());
    }

    /// Adds a problem of meaning whose text is one sentence `what; fix`, as errors of the crate
    /// `tidegate` are.
    pub(crate) fn error(&mut self, path: &Path, error: &impl fmt::Display) {
        let message = error.to_string();
        let (what, fix) = split(&message);
        self.meaning(path, ProblemSpot::Value, what, fix);
    }

    /// Adds a warning about the value at `path`.
    pub(crate) fn warn(&mut self, path: &Path, what: impl fmt::Display, fix: impl fmt::Display) {
        if self.warnings.len() < PROBLEMS_MAX {
            let (at, value) = self.locate(path, ProblemSpot::Value);
            let warning = self.make(path, at, value, &what.to_string(), &fix.to_string());
            self.warnings.push(warning);
        }
    }

    /// Notes the value in force of the key at `path`, where it depends on other keys or may be
    /// written in several ways. A comparison shows that value.
    pub(crate) fn effective(&mut self, path: &Path, value: impl Into<Value>) {
        self.effective.push((path.clone(), value.into()));
    }

    /// All that [`Report::effective`] noted.
    pub(crate) fn take_effective(&mut self) -> Vec<(Path, Value)> {
        core::mem::take(&mut self.effective)
    }

    /// Whether as many warnings were found as are told, so that looking further has no use.
    pub(crate) fn has_all_warnings(&self) -> bool {
        self.warnings.len() >= PROBLEMS_MAX
    }

    /// Whether there is a problem, so that no warning is told.
    pub(crate) fn count(&self) -> usize {
        self.problems.len()
    }

    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    /// The line in which the value at `path` begins.
    pub(crate) fn line_of(&self, path: &Path) -> usize {
        self.locate(path, ProblemSpot::Value).0.line
    }

    fn meaning(&mut self, path: &Path, spot: ProblemSpot, what: &str, fix: &str) {
        // Looking up the position takes time that is linear in the file; for what is dropped anyway
        // that adds up.
        if self.is_full() || self.is_misshapen(path) {
            return;
        }
        let (at, value) = self.locate(path, spot);
        let problem = self.make(path, at, value, what, fix);
        self.add(problem);
    }

    /// Whether as many problems were found as are listed, so that looking further has no use.
    pub(crate) fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    fn locate(&self, path: &Path, spot: ProblemSpot) -> (Position, Option<&'a str>) {
        self.root.map_or((Position::START, None), |root| root.locate(path, spot))
    }

    fn make(&self, path: &Path, at: Position, value: Option<&str>, what: &str, fix: &str) -> Problem {
        Problem {
            file: self.file.to_owned(),
            path: path.to_string(),
            line: at.line,
            column: at.column,
            value: value.map(shown),
            what: printable(what, MESSAGE_CHARS_MAX),
            fix: printable(fix, MESSAGE_CHARS_MAX),
        }
    }

    fn add(&mut self, problem: Problem) {
        if !self.is_full() {
            self.problems.push(problem);
        }
    }

    /// The warnings if there is no problem, otherwise the problems, in the order of the file.
    pub(crate) fn finish(mut self) -> Result<Vec<Problem>, Problems> {
        let order = |problem: &Problem| (problem.line, problem.column);
        if self.problems.is_empty() {
            self.warnings.sort_by_key(order);
            return Ok(self.warnings);
        }
        self.problems.sort_by_key(order);
        let truncated = self.is_full();
        Err(Problems { problems: self.problems, truncated })
    }
}

/// The two halves of `what; fix`. A value quoted in `what` may contain the separator, so the last
/// one counts.
pub(crate) fn split(message: &str) -> (&str, &str) {
    message.rsplit_once("; ").unwrap_or((message, "see the configuration reference"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fix_is_what_follows_the_last_semicolon() {
        assert_eq!(split("rate \"a; b\" is invalid; write 1/s"), ("rate \"a; b\" is invalid", "write 1/s"));
    }
}
