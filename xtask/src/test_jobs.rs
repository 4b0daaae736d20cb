//! Test programs that run side by side, one more at once than the machine has processors, since
//! many tests wait for sockets and processes.
//!
//! Each job is one process: a test program, or `cargo test --doc`. Its output is kept, so that the
//! lines of two jobs never mix, and that of failed jobs is shown after the last one, without the
//! lines of tests that passed. Plain `cargo test` runs the same tests
//! one program after the other.

use std::collections::VecDeque;
use std::fmt::Write;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::cargo::{could_not_start, for_each_line};
use crate::tally::{Tally, TestOutput};
use crate::workspace_build::TestProgram;

/// The jobs that take longest, longest first: they begin first, so that none runs alone at the end.
/// The others follow by name.
const LONGEST: &[&str] = &[
    "tidegate-cli, test it",
    "tidegate-core, unit tests",
    "tidegate-sim, test it",
    "tidegate-server, test it",
    "tidegate-core, loom",
    "tidegate-capacity, test it",
    "tidegate-store-redis, test it",
    "tidegate-core, test it",
    "tidegate-lab, test it",
    "tidegate-store-redb, test it",
    "tidegate-overload, unit tests",
    "examples in the documentation",
];

/// The kind of tests in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// Ordinary tests.
    Tests,
    /// Examples in the documentation.
    Examples,
    /// Models that loom explores.
    Loom,
    /// Tests that plant a fault and expect another test to find it.
    Faults,
}

impl JobKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 4] = [Self::Tests, Self::Examples, Self::Loom, Self::Faults];

    /// The word for it in the table of steps.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Tests => "tests",
            Self::Examples => "examples",
            Self::Loom => "loom",
            Self::Faults => "faults",
        }
    }
}

/// A job.
#[derive(Debug)]
pub(crate) struct TestJob {
    pub(crate) kind: JobKind,
    /// Its name, unique among all jobs.
    pub(crate) name: String,
    pub(crate) command: Command,
}

impl TestJob {
    /// A job that runs a test program as cargo does: in the folder of its package.
    pub(crate) fn of_program(kind: JobKind, name: String, program: &TestProgram) -> Self {
        let mut command = Command::new(&program.executable);
        command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        Self { kind, name, command }
    }

    /// Has a test program print the time of each test, which is not stable in the test harness.
    pub(crate) fn print_times(&mut self) {
        if self.kind != JobKind::Examples {
            self.command.env("RUSTC_BOOTSTRAP", "1").args(["-Zunstable-options", "--report-time"]);
        }
    }
}

/// A job that has run.
#[derive(Debug)]
pub(crate) struct FinishedJob {
    pub(crate) kind: JobKind,
    pub(crate) name: String,
    pub(crate) tally: Tally,
    pub(crate) took: Duration,
    /// The times of its tests, where the program printed them.
    pub(crate) tests: Vec<(String, Duration)>,
    /// Its output without the tests that passed, if it failed.
    failure: String,
}

/// Runs all jobs, several at once, and prints a line for each when it ends, then what failed.
pub(crate) fn run(mut jobs: Vec<TestJob>) -> Vec<FinishedJob> {
    jobs.sort_by_key(|job| (rank(&job.name), job.name.clone()));
    let at_once = available_parallelism().map_or(1, usize::from) + 1;
    let waiting = Mutex::new(VecDeque::from(jobs));
    let finished = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(job) = next(&waiting) {
                    let job = run_one(job);
                    finished.lock().expect("no job panics while it is kept").push(job);
                }
            });
        }
    });
    let finished = finished.into_inner().expect("no job panics while it is kept");
    for job in finished.iter().filter(|job| job.tally.failed > 0) {
        println!("\nFAILED: {}\n{}", job.name, job.failure);
    }
    finished
}

fn next(waiting: &Mutex<VecDeque<TestJob>>) -> Option<TestJob> {
    waiting.lock().expect("taking a job does not panic").pop_front()
}

/// The place of a job in [`LONGEST`]; the end for all others.
fn rank(name: &str) -> usize {
    LONGEST.iter().position(|long| *long == name).unwrap_or(LONGEST.len())
}

fn run_one(mut job: TestJob) -> FinishedJob {
    let began = Instant::now();
    job.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = match job.command.spawn() {
        Ok(child) => JobOutput::read(child),
        Err(error) => {
            could_not_start(&job.command, &error);
            JobOutput::default()
        }
    };
    let took = began.elapsed();
    // A program may have no tests; a filter that finds none is out of date.
    let may_be_empty = job.kind == JobKind::Tests && output.succeeded;
    let tally = if may_be_empty && output.counts.is_without_tests() {
        Tally::default()
    } else {
        output.counts.finish(output.succeeded)
    };
    let text = String::from_utf8_lossy(&output.text);
    print(&job.name, &text, tally, took);
    let failure = if tally.failed > 0 { without_passed(&text) } else { String::new() };
    FinishedJob { kind: job.kind, name: job.name, tally, took, tests: output.tests, failure }
}

/// Prints the skipped tests of a job and its result.
fn print(name: &str, text: &str, tally: Tally, took: Duration) {
    let is_shown = |line: &&str| line.contains("skipped: ");
    let mut shown: String = text.lines().filter(is_shown).flat_map(|line| [line, "\n"]).collect();
    let _ = writeln!(shown, "{name}: {tally} in {:.1} s", took.as_secs_f64());
    // In one piece, so that the lines of two jobs do not mix.
    print!("{shown}");
}

/// An output without the lines of tests that passed.
fn without_passed(text: &str) -> String {
    let is_passed = |line: &str| line.starts_with("test ") && line.contains(" ... ok");
    text.lines().filter(|line| !is_passed(line)).flat_map(|line| [line, "\n"]).collect()
}

/// The output of a job.
#[derive(Debug, Default)]
struct JobOutput {
    /// Both streams, in the order in which their lines came.
    text: Vec<u8>,
    counts: TestOutput,
    tests: Vec<(String, Duration)>,
    succeeded: bool,
}

impl JobOutput {
    /// Reads both streams of a process until it ends.
    fn read(mut child: Child) -> Self {
        let output = child.stdout.take().expect("standard output was piped above");
        let errors = child.stderr.take().expect("standard error was piped above");
        let read = Mutex::new(Self::default());
        std::thread::scope(|scope| {
            scope.spawn(|| for_each_line(errors, |line| locked(&read).text.extend_from_slice(line)));
            for_each_line(output, |line| locked(&read).take_output(line));
        });
        let mut read = read.into_inner().expect("taking a line does not panic");
        read.succeeded = child.wait().is_ok_and(|status| status.success());
        read
    }

    /// Takes a line of standard output.
    fn take_output(&mut self, line: &[u8]) {
        self.text.extend_from_slice(line);
        let line = String::from_utf8_lossy(line);
        self.counts.read(line.trim_end());
        self.tests.extend(time_of_test(line.trim_end()));
    }
}

fn locked(read: &Mutex<JobOutput>) -> MutexGuard<'_, JobOutput> {
    read.lock().expect("taking a line does not panic")
}

/// Name and time of a test, from a line `test NAME ... ok <0.123s>`.
fn time_of_test(line: &str) -> Option<(String, Duration)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = result.rsplit_once(" <")?.1.strip_suffix("s>")?.parse().ok()?;
    Some((name.to_owned(), Duration::try_from_secs_f64(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str) -> TestJob {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        TestJob { kind: JobKind::Tests, name: script.to_owned(), command }
    }

    #[test]
    fn every_job_runs_and_is_counted_by_its_output_and_its_end() {
        let passed = "echo running 2 tests; echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        let died = "echo running 1 test; exit 3";
        let mut finished = run(vec![job(passed), job(died), job("exit 0")]);
        finished.sort_by_key(|job| job.tally.failed + job.tally.passed);
        let tallies: Vec<(&str, Tally)> = finished.iter().map(|job| (job.name.as_str(), job.tally)).collect();
        assert!(tallies.contains(&(passed, Tally { passed: 2, failed: 0, skipped: 0 })));
        assert!(tallies.contains(&(died, Tally::FAILED)));
        assert!(tallies.contains(&("exit 0", Tally::FAILED)), "a job without a result is a failure");
    }

    #[test]
    fn a_program_may_have_no_tests_but_a_filter_must_find_some() {
        for (kind, tally) in [(JobKind::Tests, Tally::default()), (JobKind::Loom, Tally::FAILED)] {
            let empty = "echo running 0 tests; echo 'test result: ok. 0 passed; 0 failed; 0 ignored'";
            let finished = run(vec![TestJob { kind, ..job(empty) }]);
            assert_eq!(finished[0].tally, tally, "{kind:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure() {
        let command = Command::new("/no/such/program");
        let finished = run(vec![TestJob { kind: JobKind::Tests, name: "absent".to_owned(), command }]);
        assert_eq!(finished[0].tally, Tally::FAILED);
    }

    #[test]
    fn both_streams_are_kept_line_by_line_and_only_standard_output_is_counted() {
        let mut command = Command::new("sh");
        let script = "echo running 1 test >&2; printf 'no end'; echo skipped: x >&2";
        let child = command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let output = JobOutput::read(child.unwrap());
        let text = String::from_utf8(output.text).unwrap();
        for line in ["running 1 test\n", "skipped: x\n", "no end"] {
            assert!(text.contains(line), "{line:?} is missing in {text:?}");
        }
        assert_eq!(output.counts.finish(true), Tally::FAILED);
    }

    #[test]
    fn a_failed_job_shows_everything_but_the_tests_that_passed() {
        let script = "echo 'test a ... ok'; echo 'test b ... FAILED'; echo why >&2; exit 1";
        let failure = run(vec![job(script)]).remove(0).failure;
        let mut lines: Vec<&str> = failure.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["test b ... FAILED", "why"]);
        assert_eq!(
            run(vec![job("echo 'test a ... ok'; echo 'test result: ok. 1 passed'")]).remove(0).failure,
            ""
        );
    }

    #[test]
    fn the_time_of_a_test_is_read_where_it_is_printed() {
        let time = Duration::from_millis(1_500);
        assert_eq!(time_of_test("test a::b ... ok <1.500s>"), Some(("a::b".to_owned(), time)));
        assert_eq!(time_of_test("test a::b ... ok"), None);
        assert_eq!(time_of_test("test result: ok. 1 passed; finished in 0.1s"), None);
    }
}
