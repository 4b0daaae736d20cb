//! The gate: every check a change must pass, in the order in which failures are cheapest to learn.
//!
//! Tests run under plain `cargo test` and under nothing else. It is in every toolchain, runs the
//! examples in the documentation too, and runs a binary's tests in one process, which is how users
//! of `cargo test` will see them. `cargo nextest run` is faster at the desk, but a second runner
//! here would be a second truth.

use std::time::{Duration, Instant};

use crate::cargo::{add_flags, cargo, output_of, succeeds, succeeds_reading, target_directory};
use crate::tally::{Tally, TestOutput};
use crate::workspace::{self, Member};
use crate::{checkout, feature_sets, language, layers, prerequisites};

/// The variable that property tests take their seed from.
const PROPTEST_SEED: &str = "PROPTEST_RNG_SEED";

/// What came of one step.
struct Outcome {
    name: &'static str,
    took: Duration,
    tally: Tally,
    /// Why it could not run, or what would help; empty when there is nothing to say.
    note: String,
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
            let arguments =
                ["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"];
            toolchain_hint(check(&arguments), &members)
        }),
        step("docs", || toolchain_hint(document(), &members)),
        step("tests", test),
        step("loom", || explore_interleavings(&members)),
        step("deny", deny),
        step("advisories", advisories),
        step("features", || check_feature_sets(&members)),
    ];
    let ran = steps.iter().filter(|step| step.tally != Tally::default());
    println!("\n{:<10}{:>9}   result", "step", "time");
    ran.for_each(print_row);
    let total = steps.iter().fold(Tally::default(), |sum, step| sum.plus(step.tally));
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

fn step(name: &'static str, run: impl FnOnce() -> (Tally, String)) -> Outcome {
    println!("\n== {name}");
    let began = Instant::now();
    let (tally, note) = run();
    let outcome = Outcome { name, took: began.elapsed(), tally, note };
    println!("== {name}: {} in {:.1} s", outcome.word(), outcome.took.as_secs_f64());
    outcome
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self.tally {
            Tally { failed: 1.., .. } => "FAILED",
            Tally { passed: 1.., .. } => "passed",
            Tally { skipped: 1.., .. } => "skipped",
            _ => "nothing to do",
        }
    }
}

fn print_row(step: &Outcome) {
    let time = format!("{:.1} s", step.took.as_secs_f64());
    let note = if step.note.is_empty() { String::new() } else { format!(" ({})", step.note) };
    println!("{:<10}{time:>9}   {}: {}{note}", step.name, step.word(), step.tally);
}

fn plain(passed: bool) -> (Tally, String) {
    (Tally::of(passed), String::new())
}

fn check(arguments: &[&str]) -> (Tally, String) {
    plain(succeeds(&mut cargo(arguments)))
}

fn set_up() -> (Tally, String) {
    let missing = prerequisites::set_up();
    for line in &missing {
        println!("skipped: {line}");
    }
    let skipped = missing.len() as u64;
    (Tally { skipped, passed: u64::from(skipped == 0), failed: 0 }, missing.join("; "))
}

fn document() -> (Tally, String) {
    // Libraries only: the documentation of the binary `tidegate` would be written over that of the
    // library.
    let mut command = cargo(&["doc", "--workspace", "--lib", "--no-deps", "--locked"]);
    add_flags(&mut command, "RUSTDOCFLAGS", "--deny warnings");
    plain(succeeds(&mut command))
}

fn test() -> (Tally, String) {
    let mut command = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    // The same commit is judged by the same cases; other ones are tried at the desk.
    if std::env::var_os(PROPTEST_SEED).is_none() {
        command.env(PROPTEST_SEED, "1");
    }
    let mut output = TestOutput::default();
    let succeeded = succeeds_reading(&mut command, |line| output.read(line));
    (output.finish(succeeded), String::new())
}

/// Loom models of the crates that have them, optimised: unoptimised they explore for minutes.
fn explore_interleavings(members: &[Member]) -> (Tally, String) {
    let mut total = Tally::default();
    for member in members.iter().filter(|member| member.needs.iter().any(|needed| needed == "loom")) {
        let mut command = cargo(&[
            "test",
            "--locked",
            "--profile",
            "dist",
            "--package",
            &member.name,
            "--lib",
            "--no-fail-fast",
            "loom",
        ]);
        // Under the flag every dependency is built again, so that without a folder of its own the
        // next ordinary build would start from nothing.
        add_flags(&mut command, "RUSTFLAGS", "--cfg tidegate_loom");
        command.env("CARGO_TARGET_DIR", target_directory().join("loom"));
        let mut output = TestOutput::default();
        let succeeded = succeeds_reading(&mut command, |line| output.read(line));
        total = total.plus(output.finish(succeeded));
    }
    (total, String::new())
}

/// Holds the dependencies against the advisories of today. Skipped where the database cannot be
/// fetched, since a machine without a network must be able to run the gate.
fn advisories() -> (Tally, String) {
    let fetched = prerequisites::cargo_deny().and_then(|()| prerequisites::advisory_database());
    match fetched {
        Ok(()) => check(&["deny", "--locked", "check", "--disable-fetch", "advisories"]),
        Err(reason) => {
            println!("skipped: advisories: {reason}");
            (Tally::SKIPPED, reason)
        }
    }
}

fn deny() -> (Tally, String) {
    match prerequisites::cargo_deny() {
        Ok(()) => check(&["deny", "--locked", "check", "bans", "licenses", "sources"]),
        Err(reason) => {
            println!("skipped: {reason}");
            (Tally::SKIPPED, reason)
        }
    }
}

/// Every published crate that has features, with each set of them, as its users may build it.
fn check_feature_sets(members: &[Member]) -> (Tally, String) {
    let mut total = Tally::default();
    for member in members.iter().filter(|member| member.is_published && !member.features.is_empty()) {
        for set in feature_sets::of(&member.features) {
            println!("{} with features [{set}]", member.name);
            let package = ["clippy", "--locked", "--package", &member.name];
            let features = ["--no-default-features", "--features", &set, "--", "--deny", "warnings"];
            total = total.plus(check(&[package.as_slice(), &features].concat()).0);
        }
    }
    (total, String::new())
}

/// Lints differ between versions of Rust. Where one failed under another version than ours, says
/// how to use ours.
fn toolchain_hint((tally, note): (Tally, String), members: &[Member]) -> (Tally, String) {
    let ours = members.first().map_or("", |member| &member.rust_version);
    let running = output_of(std::process::Command::new("rustc").arg("--version")).unwrap_or_default();
    if tally.failed == 0 || ours.is_empty() || running.starts_with(&format!("rustc {ours}.")) {
        return (tally, note);
    }
    let hint = format!(
        "lints are kept clean on Rust {ours}; this is {}; try `cargo +{ours} xtask test`",
        running.trim()
    );
    println!("{hint}");
    (tally, hint)
}
