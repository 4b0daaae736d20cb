//! How the process ends: documented exit codes, and the line that says why.

use std::io::{self, Write};
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// The configuration has problems, the request that was asked about is refused, or a checker of
    /// a simulation found something.
    Problems = 1,
    /// The request is invalid. clap uses the same code for an invalid command line.
    Untaken = 2,
    /// A file cannot be read, or the output cannot be written.
    Unreadable = 3,
    /// The daemon cannot start.
    CannotStart = 4,
    /// The daemon had to cut requests off when it ended.
    CutOff = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The text of `--help` about exit codes.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done; the configuration is valid; the daemon drained
  1  the configuration has problems, or warnings with --deny-warnings
  2  the command line is wrong
  3  a file cannot be read, or the output cannot be written
  4  the daemon cannot start: an address or its store is in use, or the system refuses
  5  the daemon was told to end and had to cut requests off";

/// The text of `--help` about exit codes of commands that ask about a request.
pub(crate) const ASKING: &str = "\
Exit codes:
  0  the request is admitted, or would be
  1  it is refused, or would be
  2  the question is invalid: the command line or the configuration is wrong, or the daemon does not accept it
  3  a file cannot be read, the output cannot be written, or the daemon does not answer";

/// The text of `--help` about exit codes of commands that look at a daemon or change what it
/// counts.
pub(crate) const OPERATING: &str = "\
Exit codes:
  0  done
  2  the command line is wrong, the caller may not do it, or there is no such namespace, limit or key
  3  a file cannot be read, the output cannot be written, or the daemon does not answer";

/// The text of `--help` about exit codes of commands about leases.
pub(crate) const LEASES: &str = "\
Exit codes:
  0  done
  2  the command line is wrong, or the daemon shares no store
  3  the output cannot be written, or the daemon does not answer";

/// The text of `--help` about exit codes of simulations.
pub(crate) const SIMULATING: &str = "\
Exit codes:
  0  no checker found anything
  1  a checker found something: the report says what, and the seed that shows it again
  2  the command line is wrong, or has a value that cannot be simulated
  3  the output or the pictures cannot be written";

/// The text of `--help` about exit codes of simulations of tables.
pub(crate) const COMPARING: &str = "\
Exit codes:
  0  no line of the gate fails
  1  a line of the gate fails, which the report marks
  2  the command line is wrong, or the tables have problems or cannot be simulated
  3  a file cannot be read, or the output cannot be written";

/// Of `tidegate simulate overload`.
pub(crate) const OVERLOADING: &str = "\
A scenario for --scenario, with --html report.html for the pictures:
  seconds: 30
  services:
    - name: checkout
      workers: 10
      concurrency: 10
      mean_ms: 10
      phases: [{ from: 20, factor: 3 }]
  features:
    - name: pictures
      class: sheddable
      levels: [{ name: full, cost: 1 }, { name: small, cost: 0.3 }, { name: off, cost: 0 }]
  clients:
    - { name: gold, rate: 200, class: critical }
    - { name: viewers, rate: 200, class: sheddable, feature: pictures }
    - name: bronze
      rate: 600
      class: sheddable
      tenants: 1000
      phases: [{ from: 5, factor: 3 }, { from: 15, factor: 0.5 }]
      retry: { attempts: 3, after_ms: 100, backoff: true, honours_retry_after: true }

Exit codes:
  0  no line of the gate fails
  1  a line of the gate fails, which the report marks
  2  the command line is wrong, or the scenario has problems or cannot be simulated
  3  a file cannot be read, or the output cannot be written";

/// Says on standard error why the command ends.
pub(crate) fn complain(message: impl std::fmt::Display) {
    // A closed standard error leaves the exit code as the only answer.
    let _ = writeln!(io::stderr(), "tidegate: {message}");
}

/// Writes the answer to standard output; how the command ends then.
pub(crate) fn answer(text: &str, exit: Exit) -> Exit {
    ended(exit, io::stdout().write_all(text.as_bytes()))
}

/// How the command ends after it has written what it had to say.
///
/// A reader that has closed its pipe, as `head` does, has read what it wanted: that is no error.
pub(crate) fn ended(exit: Exit, written: io::Result<()>) -> Exit {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(format_args!("cannot write: {error}"));
            Exit::Unreadable
        }
        _ => exit,
    }
}
