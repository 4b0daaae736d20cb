//! A command that runs for minutes: its output goes to a log, and a line says every ten seconds how
//! far the suite is.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::cargo::for_each_line;

/// The time between two progress lines.
const EVERY: Duration = Duration::from_secs(10);

/// The output of a command that has ended.
#[derive(Debug)]
pub(super) struct WatchedOutput {
    /// The lines of standard output and standard error, as they came.
    pub(super) lines: Vec<String>,
    pub(super) succeeded: bool,
}

/// Runs the command. Its output is added to the file `log`.
pub(super) fn run(
    command: &mut Command,
    log: &Path,
    line: impl Fn() -> String,
) -> Result<WatchedOutput, String> {
    run_every(EVERY, command, log, |since| println!("{} for {} s", line(), since.as_secs()))
}

/// As [`run`]; `tell` is called every so often, with the time since the start.
pub(super) fn run_every(
    every: Duration,
    command: &mut Command,
    log: &Path,
    mut tell: impl FnMut(Duration),
) -> Result<WatchedOutput, String> {
    let unwritable = |error| format!("{}: {error}", log.display());
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).map_err(unwritable)?;
    }
    let mut log_file = OpenOptions::new().create(true).append(true).open(log).map_err(unwritable)?;
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("could not start {command:?}: {error}"))?;
    let output = child.stdout.take().expect("standard output was piped above");
    let errors = child.stderr.take().expect("standard error was piped above");
    let (sender, receiver) = mpsc::channel();
    let other_sender = sender.clone();
    let mut lines = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || send_lines(output, &sender));
        scope.spawn(move || send_lines(errors, &other_sender));
        let began = Instant::now();
        let mut told = began;
        loop {
            match receiver.recv_timeout(every.saturating_sub(told.elapsed())) {
                Ok(line) => {
                    // The log is for people; a full disk does not end the suite.
                    let _ = writeln!(log_file, "{line}");
                    lines.push(line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if told.elapsed() >= every {
                tell(began.elapsed());
                told = Instant::now();
            }
        }
    });
    let status = child.wait().map_err(|error| format!("could not wait for {command:?}: {error}"))?;
    Ok(WatchedOutput { lines, succeeded: status.success() })
}

/// Sends each line, until the output ends.
fn send_lines(output: impl Read, sender: &Sender<String>) {
    for_each_line(output, |line| {
        // The receiver is gone once the suite has ended; the rest of the output is not wanted.
        let _ = sender.send(String::from_utf8_lossy(line).trim_end().to_owned());
    });
}
