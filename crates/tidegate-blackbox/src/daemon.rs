//! The daemon under attack: a process with a policy file, its addresses, its log and its memory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_test_support::{ChildProcess, TemporaryFolder, holds_within};

use crate::attack::{Failure, RunContext};
use crate::http1;

/// How long a daemon may take to start.
pub const START_MAX: Duration = Duration::from_secs(10);

/// How long a daemon may take to stop.
const STOP_MAX: Duration = Duration::from_mins(1);

/// How often a starting daemon is looked at.
const START_LOOK: Duration = Duration::from_millis(10);

/// Ticks a second in the statistics that Linux shows, on every machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// The most bytes of the daemon's log that are kept. Later lines are only counted.
const LOG_BYTES_MAX: usize = 4 << 20;

/// The log lines of the daemon.
#[derive(Debug, Default)]
struct DaemonLog {
    text: String,
    lines: u64,
}

/// A daemon that is stopped, by its id, when the value is dropped.
#[derive(Debug)]
pub struct Daemon<'context> {
    context: &'context RunContext,
    process: ChildProcess,
    folder: TemporaryFolder,
    addresses: BTreeMap<String, SocketAddr>,
    log: Arc<Mutex<DaemonLog>>,
    start_peak_bytes: u64,
    idle_bytes: u64,
}

/// A daemon that did not start.
#[derive(Debug)]
pub struct StartFailure {
    /// Its exit status; nothing if it was still starting after [`START_MAX`] and had to be stopped.
    pub status: Option<ExitStatus>,
    /// The output of the process.
    pub log: String,
    /// The most memory it had, in bytes.
    pub peak_bytes: u64,
}

impl<'context> Daemon<'context> {
    /// Starts the daemon with the policy `config`.
    pub fn start(context: &'context RunContext, config: &str) -> Result<Self, Failure> {
        Self::start_in(context, TemporaryFolder::new(), config)
    }

    /// As [`Daemon::start`], in a folder that may hold files the policy refers to.
    pub fn start_in(
        context: &'context RunContext,
        folder: TemporaryFolder,
        config: &str,
    ) -> Result<Self, Failure> {
        Self::start_by(context, folder, config, Command::new(context.binary()))
    }

    fn start_by(
        context: &'context RunContext,
        folder: TemporaryFolder,
        config: &str,
        command: Command,
    ) -> Result<Self, Failure> {
        Self::spawn(context, folder, config, command)?.map_err(|failure| {
            let status = failure.status.map_or("still starting".to_owned(), |status| status.to_string());
            Failure::Unfinished(format!("the daemon did not start ({status}): {}", failure.log.trim()))
        })
    }

    /// As [`Daemon::start`]; the allocator gives memory that is free back to the system at once.
    pub fn start_without_spare_memory(context: &'context RunContext, config: &str) -> Result<Self, Failure> {
        let mut command = Command::new(context.binary());
        command.env("MIMALLOC_PURGE_DELAY", "0");
        Self::start_by(context, TemporaryFolder::new(), config, command)
    }

    /// As [`Daemon::start`], on one processor.
    pub fn start_on_processor(
        context: &'context RunContext,
        config: &str,
        processor: u32,
    ) -> Result<Self, Failure> {
        let mut command = Command::new("taskset");
        command.arg("-c").arg(processor.to_string()).arg(context.binary());
        Self::start_by(context, TemporaryFolder::new(), config, command)
    }

    /// As [`Daemon::start_in`], with files of at most `kib` KiB until
    /// [`Daemon::allow_large_files`]. A write beyond fails as on a full disk.
    pub fn start_on_small_disk(
        context: &'context RunContext,
        config: &str,
        kib: u32,
    ) -> Result<Self, Failure> {
        let mut shell = Command::new("sh");
        // An ignored signal stays ignored in the daemon, whose writes then fail with EFBIG. The
        // soft limit may be raised again. POSIX leaves the unit of `ulimit -f` at 512 bytes;
        // `prlimit` has no such doubt.
        let script =
            format!("trap '' XFSZ; prlimit --pid $$ --fsize={}: && exec \"$0\" \"$@\"", u64::from(kib) << 10);
        shell.arg("-c").arg(script).arg(context.binary());
        Self::start_by(context, TemporaryFolder::new(), config, shell)
    }

    /// Starts the daemon and tells apart that it serves and that it does not start.
    pub fn try_start(
        context: &'context RunContext,
        folder: TemporaryFolder,
        config: &str,
    ) -> Result<Result<Self, StartFailure>, Failure> {
        Self::spawn(context, folder, config, Command::new(context.binary()))
    }

    fn spawn(
        context: &'context RunContext,
        folder: TemporaryFolder,
        config: &str,
        mut command: Command,
    ) -> Result<Result<Self, StartFailure>, Failure> {
        let policy = folder.write("policy.yaml", config);
        command.arg("serve").arg("--config").arg(policy).current_dir(folder.path());
        // The suite may itself run as a service.
        command.env_remove("TIDEGATE_LOG").env_remove("STATE_DIRECTORY").env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = ChildProcess::spawn(&mut command)?;
        let printed =
            process.child().stdout.take().map(lines_of).ok_or_else(|| no_pipe("standard output"))?;
        let log = Arc::new(Mutex::new(DaemonLog::default()));
        let errors = process.child().stderr.take().ok_or_else(|| no_pipe("standard error"))?;
        let reader = keep_log(errors, Arc::clone(&log));
        let mut daemon = Self {
            context,
            process,
            folder,
            addresses: BTreeMap::new(),
            log,
            start_peak_bytes: 0,
            idle_bytes: 0,
        };
        if let Err(status) = daemon.read_addresses(&printed) {
            daemon.process.kill();
            // The pipe ends with the process, so the reader ends too.
            let _ = reader.join();
            let (log, peak_bytes) = (daemon.log(), daemon.start_peak_bytes);
            return Ok(Err(StartFailure { status, log, peak_bytes }));
        }
        daemon.idle_bytes = daemon.memory("VmRSS:").unwrap_or(0);
        // 5 resets the peak, so that what starting took does not count.
        let _ = fs::write(format!("/proc/{}/clear_refs", daemon.process.id()), "5");
        Ok(Ok(daemon))
    }

    /// Reads the addresses that the daemon prints when it serves. The error is its exit status, if
    /// it has ended.
    fn read_addresses(&mut self, printed: &Receiver<String>) -> Result<(), Option<ExitStatus>> {
        let deadline = Instant::now() + START_MAX;
        loop {
            // The peak of a process that has ended cannot be read any more.
            self.start_peak_bytes = self.start_peak_bytes.max(self.memory("VmHWM:").unwrap_or(0));
            match printed.recv_timeout(START_LOOK) {
                // The line below the addresses.
                Ok(line) if line.trim_start().starts_with("store ") => return Ok(()),
                Ok(line) => self.note_address(&line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.process.wait().ok()),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(RecvTimeoutError::Timeout) => return Err(None),
            }
        }
    }

    fn note_address(&mut self, line: &str) {
        if let Some((listener, address)) = printed_address(line) {
            self.addresses.insert(listener.to_owned(), address);
        }
    }

    fn address(&self, listener: &str) -> Result<SocketAddr, Failure> {
        let found = self.addresses.get(listener).copied();
        found.ok_or_else(|| Failure::Unfinished(format!("the daemon printed no address for `{listener}`")))
    }

    /// The listener for `/v1/check` and the others.
    pub fn http(&self) -> Result<SocketAddr, Failure> {
        self.address("callers")
    }

    /// The listener for metrics and changes.
    pub fn admin(&self) -> Result<SocketAddr, Failure> {
        self.address("operators").or_else(|_| self.http())
    }

    /// The reverse proxy.
    pub fn proxy(&self) -> Result<SocketAddr, Failure> {
        self.address("proxy")
    }

    /// The listener for Redis clients.
    pub fn resp(&self) -> Result<SocketAddr, Failure> {
        self.address("redis")
    }

    /// The listener for Envoy's rate limit service.
    pub fn grpc(&self) -> Result<SocketAddr, Failure> {
        self.address("grpc")
    }

    /// The value of a series of its metrics, a whole number: `name{label="value"}`.
    pub fn metric(&self, series: &str) -> Result<u64, Failure> {
        let metrics = http1::ask(self.admin()?, http1::get("/metrics"))?.text();
        let value =
            metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
        value.ok_or_else(|| Failure::Unfinished(format!("/metrics has no whole number `{series}`")))
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The folder it runs in.
    pub fn folder(&self) -> &TemporaryFolder {
        &self.folder
    }

    /// Replaces its policy file, which it follows.
    pub fn rewrite_policy(&self, config: &str) -> std::io::Result<()> {
        let path = self.folder.write("policy.yaml.new", config);
        fs::rename(path, self.folder.join("policy.yaml"))
    }

    /// Makes it look at its policy file at once.
    pub fn look_at_policy(&self) -> bool {
        self.process.signal("HUP")
    }

    /// Asks it to stop, and waits until it has.
    pub fn terminate(mut self) -> Result<(), Failure> {
        let has_ended = self.process.signal("TERM") && holds_within(STOP_MAX, || !self.process.is_running());
        if has_ended { Ok(()) } else { Err(Failure::Unfinished("the daemon does not stop".to_owned())) }
    }

    /// The part of its log that is kept.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).text.clone()
    }

    /// How many lines it has written to its log.
    pub fn log_lines(&self) -> u64 {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).lines
    }

    /// Waits until the log contains `word`, at most `for_at_most`.
    pub fn logs(&self, word: &str, for_at_most: Duration) -> bool {
        holds_within(for_at_most, || {
            self.log.lock().unwrap_or_else(PoisonError::into_inner).text.contains(word)
        })
    }

    /// Lets it write files of any size again.
    pub fn allow_large_files(&self) -> Result<(), Failure> {
        let id = self.process.id().to_string();
        let status = Command::new("prlimit").args(["--pid", &id, "--fsize=unlimited:"]).status()?;
        if status.success() { Ok(()) } else { Err(Failure::Unfinished(format!("prlimit failed: {status}"))) }
    }

    /// The most memory it had while it started, in bytes.
    pub fn start_peak_bytes(&self) -> u64 {
        self.start_peak_bytes
    }

    /// Whether the process is still there.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// The most memory it has had since it was idle, above what it had then, in bytes.
    pub fn memory_above_idle(&self) -> u64 {
        self.memory("VmHWM:").unwrap_or(0).saturating_sub(self.idle_bytes)
    }

    /// The memory that it has now, above what it had when it was idle, in bytes.
    pub fn growth(&self) -> u64 {
        self.memory("VmRSS:").unwrap_or(0).saturating_sub(self.idle_bytes)
    }

    fn memory(&self, field: &str) -> Option<u64> {
        process_memory(self.process.id(), field)
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        self.context.note_memory(self.memory_above_idle());
    }
}

fn no_pipe(name: &str) -> Failure {
    Failure::Unfinished(format!("the daemon's {name} is not piped"))
}

/// The listener and its address in a line that the daemon prints when it serves.
pub(crate) fn printed_address(line: &str) -> Option<(&str, SocketAddr)> {
    let mut words = line.split_whitespace();
    let (listener, text) = (words.next()?, words.next()?);
    let mut address: SocketAddr = text.rsplit("//").next().unwrap_or(text).parse().ok()?;
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    Some((listener, address))
}

/// A field of the status of a process that the kernel counts in KiB, in bytes.
pub(crate) fn process_memory(process: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The lines of a pipe, which is read to its end.
pub(crate) fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // A daemon that was dropped has no receiver any more; the rest is read so that it never
            // blocks on a full pipe.
            let _ = sender.send(line);
        }
    });
    receiver
}

fn keep_log(output: impl Read + Send + 'static, log: Arc<Mutex<DaemonLog>>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.lines += 1;
            if log.text.len() + line.len() < LOG_BYTES_MAX {
                log.text.push_str(&line);
                log.text.push('\n');
            }
        }
    })
}

/// Seconds of processor time that a process has taken, by its id.
pub(crate) fn processor_seconds(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name, which may contain anything.
    ticks(stat.rsplit(')').next().unwrap_or_default(), &[11, 12])
}

/// The sum of these fields of a line of statistics, in seconds.
pub(crate) fn ticks(line: &str, fields: &[usize]) -> f64 {
    let numbers = line.split_whitespace().enumerate().filter(|(index, _)| fields.contains(index));
    numbers.filter_map(|(_, number)| number.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}
