//! A daemon in a root of its own, from its start to its end.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_test_support::{ChildProcess, holds_within};

use crate::attack::{AttackResult, Failure, require};
use crate::daemon::{lines_of, printed_address, process_memory};

/// How long it may take to start.
const START_MAX: Duration = Duration::from_secs(30);

/// How long it may take to stop.
const STOP_MAX: Duration = Duration::from_secs(45);

/// A daemon that prints its addresses on standard output.
#[derive(Debug)]
pub(super) struct ServedDaemon {
    process: ChildProcess,
    addresses: BTreeMap<String, SocketAddr>,
    /// Everything that it printed on standard output until it served.
    pub(super) printed: String,
    /// The time from its start until it printed its addresses.
    pub(super) served_after: Duration,
}

impl ServedDaemon {
    /// Starts a command that ends in `tidegate serve ..` and replaces its process by it. The error
    /// has what it printed.
    pub(super) fn start(command: &mut Command) -> Result<Self, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let began = Instant::now();
        let mut process = ChildProcess::spawn(command)?;
        let no_pipe = || Failure::Unfinished("the daemon's output is not piped".to_owned());
        let output = process.child().stdout.take().ok_or_else(no_pipe)?;
        let mut errors = process.child().stderr.take().ok_or_else(no_pipe)?;
        let log = thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        let lines = lines_of(output);
        let mut daemon = Self {
            process,
            addresses: BTreeMap::new(),
            printed: String::new(),
            served_after: Duration::ZERO,
        };
        loop {
            match lines.recv_timeout(START_MAX.saturating_sub(began.elapsed())) {
                Ok(line) => {
                    daemon.note(&line);
                    // The line below the addresses.
                    if line.trim_start().starts_with("store ") {
                        daemon.served_after = began.elapsed();
                        break;
                    }
                }
                Err(reason) => {
                    daemon.process.kill();
                    let log = log.join().unwrap_or_default();
                    let word = if reason == RecvTimeoutError::Timeout { "did not serve" } else { "ended" };
                    return Err(Failure::Unfinished(format!("the daemon {word}: {}", log.trim())));
                }
            }
        }
        // The lines to paste.
        while let Ok(line) = lines.recv_timeout(Duration::from_millis(50)) {
            daemon.note(&line);
        }
        Ok(daemon)
    }

    fn note(&mut self, line: &str) {
        if let Some((listener, address)) = printed_address(line) {
            self.addresses.entry(listener.to_owned()).or_insert(address);
        }
        self.printed.push_str(line);
        self.printed.push('\n');
    }

    /// The address of a listener, by its word in the output: `callers`, `operators`, `redis`.
    pub(super) fn address(&self, listener: &str) -> Result<SocketAddr, Failure> {
        let address = self.addresses.get(listener).copied();
        address.ok_or_else(|| Failure::Unfinished(format!("the daemon printed no address for {listener}")))
    }

    /// The memory that it has now, in MiB.
    pub(super) fn mebibytes(&self) -> Option<f64> {
        mebibytes_of(self.process.id())
    }

    /// Ends it by SIGTERM, as service managers do.
    pub(super) fn end(self) -> AttackResult {
        end_by_term(self.process)
    }
}

/// The memory that a process has now, in MiB.
pub(super) fn mebibytes_of(process: u32) -> Option<f64> {
    process_memory(process, "VmRSS:").map(|bytes| bytes as f64 / f64::from(1 << 20))
}

/// Ends a daemon by SIGTERM, after which its exit code is 0.
pub(super) fn end_by_term(mut process: ChildProcess) -> AttackResult {
    let signalled = process.signal("TERM");
    let has_ended = holds_within(STOP_MAX, || !process.is_running());
    let status = if has_ended { process.wait()?.to_string() } else { "still running".to_owned() };
    require!(signalled && status == "exit status: 0", "after SIGTERM: {status}")?;
    Ok(status)
}

/// The error of a command that must not start, and its exit code.
pub(super) fn refusal_to_start(command: &mut Command) -> Result<(Option<i32>, String), Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = ChildProcess::spawn(command)?;
    let has_ended = holds_within(START_MAX, || !process.is_running());
    require!(has_ended, "it started")?;
    let mut text = String::new();
    if let Some(mut errors) = process.child().stderr.take() {
        errors.read_to_string(&mut text)?;
    }
    Ok((process.wait()?.code(), text.trim().to_owned()))
}
