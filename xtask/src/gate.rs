//! The gate: every check a change must pass, in the order in which failures are cheapest to learn.
//!
//! Tests run under plain `cargo test` and under nothing else. It is in every toolchain, runs the
//! examples in the documentation too, and runs a binary's tests in one process, which is how users
//! of `cargo test` will see them. `cargo nextest run` is faster at the desk, but a second runner
//! here would be a second truth.

use std::time::{Duration, Instant};

use crate::cargo::{
    add_flags, cargo, output_of, succeeds, succeeds_reading, succeeds_reading_silently, target_directory,
};
use crate::checkout;
use crate::packages::{self, Depth};
use crate::planted_faults::{self, TestTarget};
use crate::step_times::StepTimes;
use crate::tally::{Tally, TestOutput};
use crate::test_binaries::TestBinaries;
use crate::workspace::{self, Member};
use crate::{feature_sets, language, layers, prerequisites, public_api};

/// The features of the facade that are not on by default: its tests and examples need them.
pub(crate) const FACADE: &str = "tidegate/policy,tidegate/redis,tidegate/tower";

/// The version of Rust whose lints are kept clean.
const LINTS_RUST: &str = "1.95";

/// The variable that property tests take their seed from.
const PROPTEST_SEED: &str = "PROPTEST_RNG_SEED";

/// How many of the slowest steps are listed at the end. Parts of a step count as steps.
const SLOWEST_LISTED: usize = 10;

/// The result of one step, given by the step itself.
#[derive(Default)]
struct StepReport {
    tally: Tally,
    /// The reason why it could not run, or advice; empty when there is nothing to say.
    note: String,
    /// The times of its parts; empty for a step without parts.
    parts: StepTimes,
}

/// A step that has run.
struct FinishedStep {
    name: &'static str,
    took: Duration,
    report: StepReport,
}

/// Runs everything; true when nothing failed.
pub(crate) fn run() -> bool {
    let members = match workspace::members() {
        Ok(members) => members,
        Err(error) => {
            println!("{error}");
            println!("{}", Tally::FAILED);
            return false;
        }
    };
    let steps = [
        step("tools", set_up),
        step("format", || check(&["fmt", "--all", "--check"])),
        step("layering", || plain(layers::run())),
        step("language", || plain(language::check())),
        step("clippy", || {
            let arguments = [
                "clippy",
                "--workspace",
                "--all-targets",
                "--features",
                FACADE,
                "--locked",
                "--",
                "--deny",
                "warnings",
            ];
            toolchain_hint(check(&arguments))
        }),
        step("docs", || toolchain_hint(document())),
        step("api", || check_public_api(&members)),
        step("tests", test),
        step("loom", || explore_interleavings(&members)),
        step("faults", find_planted_faults),
        step("deny", deny),
        step("advisories", advisories),
        step("features", || check_feature_sets(&members)),
        step("oldest", || check_oldest_rust(&members)),
        step("package", || plain(packages::check(&members, Depth::Packed))),
    ];
    println!("\nslowest steps:");
    let mut times = StepTimes::default();
    for step in &steps {
        times.add_step(step.name, step.took, &step.report.parts);
    }
    print!("{}", times.slowest(SLOWEST_LISTED));
    println!("\n{:<10}{:>9}   result", "step", "time");
    steps.iter().filter(|step| step.report.tally != Tally::default()).for_each(print_row);
    let total = steps.iter().fold(Tally::default(), |sum, step| sum.plus(step.report.tally));
    println!("\n{total}");
    total.failed == 0
}

/// As [`run`], on exactly what is committed: a change left behind, before or after, is a failure.
pub(crate) fn run_on_clean_checkout() -> bool {
    let is_clean = |when: &str| match uncommitted() {
        Ok(changes) if changes.is_empty() => true,
        Ok(changes) => {
            println!("the checkout has uncommitted changes {when}:\n{changes}");
            false
        }
        Err(error) => {
            println!("{error}");
            false
        }
    };
    // The second look finds what a test has written, and a `Cargo.lock` that was not up to date.
    let passed = is_clean("before the gate") && run();
    passed && is_clean("after the gate")
}

fn uncommitted() -> Result<String, String> {
    let mut git = std::process::Command::new("git");
    output_of(git.args(["status", "--porcelain"]).current_dir(checkout::root()))
}

fn step(name: &'static str, run: impl FnOnce() -> StepReport) -> FinishedStep {
    println!("\n== {name}");
    let began = Instant::now();
    let report = run();
    let step = FinishedStep { name, took: began.elapsed(), report };
    println!("== {name}: {} in {:.1} s", step.word(), step.took.as_secs_f64());
    step
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
    let time = format!("{:.1} s", step.took.as_secs_f64());
    let StepReport { tally, note, .. } = &step.report;
    let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
    println!("{:<10}{time:>9}   {}: {tally}{note}", step.name, step.word());
}

fn plain(passed: bool) -> StepReport {
    StepReport { tally: Tally::of(passed), ..StepReport::default() }
}

fn check(arguments: &[&str]) -> StepReport {
    plain(succeeds(&mut cargo(arguments)))
}

fn set_up() -> StepReport {
    let missing = prerequisites::set_up();
    for line in &missing {
        println!("skipped: {line}");
    }
    let skipped = missing.len() as u64;
    let tally = Tally { skipped, passed: u64::from(skipped == 0), failed: 0 };
    StepReport { tally, note: missing.join("; "), ..StepReport::default() }
}

fn document() -> StepReport {
    // Libraries only: the documentation of the binary `tidegate` would be written over that of the
    // library.
    let mut command = cargo(&["doc", "--workspace", "--lib", "--features", FACADE, "--no-deps", "--locked"]);
    add_flags(&mut command, "RUSTDOCFLAGS", "--deny warnings");
    plain(succeeds(&mut command))
}

fn check_public_api(members: &[Member]) -> StepReport {
    let public_api::Checked { tally, skipped } = public_api::check(members, FACADE);
    StepReport { tally, note: skipped, ..StepReport::default() }
}

fn test() -> StepReport {
    let mut binaries = TestBinaries::default();
    binaries.times.begin("build".to_owned(), Instant::now());
    // A build of its own has a time of its own, and names the package of each binary.
    let mut build = cargo(&["test", "--workspace", "--features", FACADE, "--locked", "--no-run"]);
    build.arg("--message-format=json-render-diagnostics");
    if !succeeds_reading_silently(&mut build, |line| binaries.read_built(line)) {
        return plain(false);
    }
    binaries.times.end(Instant::now());
    let mut command = cargo(&["test", "--workspace", "--features", FACADE, "--locked", "--no-fail-fast"]);
    // Each commit is judged by the same cases; other cases are tried at the desk.
    if std::env::var_os(PROPTEST_SEED).is_none() {
        command.env(PROPTEST_SEED, "1");
    }
    let mut output = TestOutput::default();
    let succeeded =
        succeeds_reading(&mut command, |line| output.read(line), |line| binaries.read(line, Instant::now()));
    binaries.times.end(Instant::now());
    StepReport { tally: output.finish(succeeded), parts: binaries.times, ..StepReport::default() }
}

/// Loom models of the crates that have them, optimised in full: that saves a third of the time of
/// exploration over the profile `release`, and minutes over `dev`.
fn explore_interleavings(members: &[Member]) -> StepReport {
    let mut report = StepReport::default();
    for member in members.iter().filter(|member| member.has_loom_models) {
        report.parts.begin(member.name.clone(), Instant::now());
        let mut command = cargo(&["test", "--locked", "--profile", "dist", "--package", &member.name]);
        command.args(["--lib", "--no-fail-fast", "loom"]);
        // Under the flag every dependency is built again, so that without a folder of its own the
        // next ordinary build would start from nothing.
        add_flags(&mut command, "RUSTFLAGS", "--cfg tidegate_loom");
        command.env("CARGO_TARGET_DIR", target_directory().join("loom"));
        let mut output = TestOutput::default();
        let succeeded = succeeds_reading(&mut command, |line| output.read(line), |_| {});
        report.tally = report.tally.plus(output.finish(succeeded));
    }
    report.parts.end(Instant::now());
    report
}

/// The tests that each planted fault is found.
fn find_planted_faults() -> StepReport {
    let mut report = StepReport::default();
    for (name, target) in [("unit tests", TestTarget::Unit), ("integration tests", TestTarget::Integration)] {
        report.parts.begin(name.to_owned(), Instant::now());
        let mut output = TestOutput::default();
        let succeeded =
            succeeds_reading(&mut planted_faults::command(target), |line| output.read(line), |_| {});
        report.tally = report.tally.plus(output.finish(succeeded));
    }
    report.parts.end(Instant::now());
    report
}

/// Holds the dependencies against the advisories of today. Skipped where the database cannot be
/// fetched, since a machine without a network must be able to run the gate.
fn advisories() -> StepReport {
    let fetched = prerequisites::cargo_deny().and_then(|()| prerequisites::advisory_database());
    match fetched {
        Ok(()) => check(&["deny", "--locked", "check", "--disable-fetch", "advisories"]),
        Err(reason) => {
            println!("skipped: advisories: {reason}");
            StepReport { tally: Tally::SKIPPED, note: reason, ..StepReport::default() }
        }
    }
}

fn deny() -> StepReport {
    match prerequisites::cargo_deny() {
        Ok(()) => check(&["deny", "--locked", "check", "bans", "licenses", "sources"]),
        Err(reason) => {
            println!("skipped: {reason}");
            StepReport { tally: Tally::SKIPPED, note: reason, ..StepReport::default() }
        }
    }
}

/// Every published crate that has features, with each set of them, as its users may build it.
fn check_feature_sets(members: &[Member]) -> StepReport {
    let mut report = StepReport::default();
    for member in members.iter().filter(|member| member.is_published && !member.features.is_empty()) {
        for set in feature_sets::of(&member.features) {
            let name = format!("{} with features [{set}]", member.name);
            println!("{name}");
            report.parts.begin(name, Instant::now());
            let package = ["clippy", "--locked", "--package", &member.name];
            let features = ["--no-default-features", "--features", &set, "--", "--deny", "warnings"];
            report.tally = report.tally.plus(check(&[package.as_slice(), &features].concat()).tally);
        }
    }
    report.parts.end(Instant::now());
    report
}

/// Compiles what is published on the oldest Rust that the crates say they are for.
fn check_oldest_rust(members: &[Member]) -> StepReport {
    let oldest = members.first().map_or("", |member| &member.rust_version);
    let mut command = match prerequisites::cargo_of(oldest) {
        Ok(command) => command,
        Err(reason) => {
            println!("skipped: {reason}");
            return StepReport { tally: Tally::SKIPPED, note: reason, ..StepReport::default() };
        }
    };
    command.args(["check", "--locked"]);
    command.args(["--package", "tidegate", "--package", "tidegate-cli", "--features", FACADE]);
    command.env("CARGO_TARGET_DIR", target_directory().join("oldest"));
    let tally = if succeeds(&mut command) { Tally::PASSED } else { Tally::FAILED };
    StepReport { tally, ..StepReport::default() }
}

/// Lints differ between versions of Rust. A step that failed under another version than ours gets a
/// note that says how to use ours.
fn toolchain_hint(report: StepReport) -> StepReport {
    let ours = LINTS_RUST;
    if report.tally.failed == 0 || prerequisites::is_running_rust(ours) {
        return report;
    }
    let note = format!(
        "lints are kept clean on Rust {ours}; this is {}; try `cargo +{ours} xtask test`",
        prerequisites::running_rust().trim()
    );
    println!("{note}");
    StepReport { note, ..report }
}
