//! How the command ends: its output, its exit code, and the line that says why.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use tidegate_core::error_chain;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// No line of the gate fails.
    Done = 0,
    /// A line of the gate fails.
    Failed = 1,
    /// The command line is wrong, or a scenario cannot be simulated. clap uses the same code.
    Untaken = 2,
    /// A file cannot be read, or the output cannot be written.
    Unreadable = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// Says why a scenario cannot be simulated.
    pub(crate) fn not_simulated(error: &dyn Error) -> Self {
        complain(error_chain(error));
        Self::Untaken
    }
}

/// Says on standard error why the command ends.
pub(crate) fn complain(message: impl std::fmt::Display) {
    // A closed standard error leaves the exit code as the only answer.
    let _ = writeln!(io::stderr(), "tidegate-lab: {message}");
}

/// A report, as it is written.
pub(crate) struct WrittenReport<'a, R> {
    /// The report.
    pub(crate) report: &'a R,
    /// Its page, if one is asked for, and the file that it is written to.
    pub(crate) page: Option<(&'a Path, String)>,
    /// Whether it is written as JSON.
    pub(crate) json: bool,
    /// Whether no line of its gate fails.
    pub(crate) passes: bool,
}

impl<R: Serialize + std::fmt::Display> WrittenReport<'_, R> {
    /// Writes the report to standard output, and its page to its file.
    pub(crate) fn write(&self) -> Exit {
        if let Some((path, html)) = &self.page
            && let Err(error) = fs::write(path, html)
        {
            complain(format_args!("cannot write to {}: {error}", path.display()));
            return Exit::Unreadable;
        }
        let text = if self.json {
            serde_json::to_string_pretty(self.report).expect("text and numbers always serialise") + "\n"
        } else {
            self.report.to_string()
        };
        match io::stdout().write_all(text.as_bytes()) {
            // A reader that has closed its pipe, as `head` does, has read what it wanted.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                complain(format_args!("cannot write: {error}"));
                Exit::Unreadable
            }
            _ if self.passes => Exit::Done,
            _ => Exit::Failed,
        }
    }
}
