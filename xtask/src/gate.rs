//! `cargo xtask test`: what must hold at each change, in the order in which failures are cheapest
//! to learn.
//!
//! The test programs are compiled once, with faults that can be planted and with clippy's lints as
//! errors; loom needs a second build of a few libraries. Then the programs, the models and the
//! examples in the documentation run side by side, and the instructions of the paths that must stay
//! quick are counted. The checks before a release are in [`crate::release`].

use std::process::Command;

use crate::cargo::{cargo, output_of};
use crate::compilers::Compiler;
use crate::packages::{self, Depth};
use crate::step_times::StepTimes;
use crate::steps::{StepReport, Steps, check, plain};
use crate::tally::Tally;
use crate::test_jobs::{self, JobKind, TestJob};
use crate::timing_report::TimingReport;
use crate::tree_state::TreeState;
use crate::workspace::{self, Member};
use crate::workspace_build::{TestProgram, build};
use crate::{checkout, documents, instructions, language, layers, planted_faults, prerequisites};

/// The features of the facade that are not on by default: its tests and examples need them.
pub(crate) const FACADE: &str = "tidegate/policy,tidegate/redis,tidegate/tower";

/// The version of Rust whose lints are kept clean.
const LINTS_RUST: &str = "1.95";

/// The variable that property tests take their seed from.
const PROPTEST_SEED: &str = "PROPTEST_RNG_SEED";

/// A part of the names of loom's models, and of no other test.
const LOOM_FILTER: &str = "loom";

/// The programs that the tests are in.
#[derive(Default)]
struct BuiltPrograms {
    tests: Vec<TestProgram>,
    /// Libraries under loom.
    models: Vec<TestProgram>,
    /// Whether nothing is missing.
    is_complete: bool,
    /// Of the tree before the build.
    state: Option<TreeState>,
}

/// Runs everything; true when nothing failed. A table of all times is written to `timings`.
pub(crate) fn run(timings: Option<TimingReport>) -> bool {
    workspace::with_members(|members| run_steps(members, timings))
}

fn run_steps(members: &[Member], mut timings: Option<TimingReport>) -> bool {
    let mut steps = Steps::begin();
    steps.run("tools", set_up);
    steps.run("format", || check(&["fmt", "--all", "--check"]));
    steps.run("layering", || plain(layers::run()));
    steps.run("language", || plain(language::check()));
    steps.run("documents", || plain(documents::run()));
    let mut programs = BuiltPrograms::default();
    steps.run("build", || {
        let report;
        (report, programs) = compile(members, timings.as_mut());
        toolchain_hint(report)
    });
    steps.run("tests", || test(&programs, timings.as_mut()));
    steps.run("instructions", instructions::check);
    steps.run("package", || plain(packages::check(members, Depth::Packed)));
    if let Some(timings) = timings {
        timings.write();
    }
    steps.finish(&programs.state.map_or_else(String::new, TreeState::committed))
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
    let passed = is_clean("before the gate") && run(None);
    passed && is_clean("after the gate")
}

fn uncommitted() -> Result<String, String> {
    let mut git = Command::new("git");
    output_of(git.args(["status", "--porcelain"]).current_dir(checkout::root()))
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

/// Compiles every target, with clippy's lints, and the libraries under loom.
fn compile(members: &[Member], mut timings: Option<&mut TimingReport>) -> (StepReport, BuiltPrograms) {
    let mut parts = StepTimes::default();
    let mut part = |name: &'static str, compiler, arguments: &[&str]| {
        let link_times = timings.as_ref().map(|timings| timings.link_times());
        let outcome = parts.measure(name.to_owned(), || build(compiler, arguments, link_times.as_deref()));
        if let Some(timings) = &mut timings {
            timings.add_build(name, &outcome.programs);
        }
        outcome
    };
    let all = ["test", "--no-run", "--workspace", "--all-targets", "--features", FACADE];
    let tests = part("programs", Compiler::Faults, &all);
    let mut libraries = vec!["test", "--no-run", "--lib"];
    for member in members.iter().filter(|member| member.has_loom_models) {
        libraries.extend(["--package", &member.name]);
    }
    let models = part("loom", Compiler::Loom, &libraries);
    let tally = Tally::of(tests.is_complete).plus(Tally::of(models.is_complete));
    let programs = BuiltPrograms {
        is_complete: tests.is_complete && models.is_complete,
        state: Some(TreeState::of_build(tests.built, tests.unchanged)),
        tests: tests.programs,
        models: models.programs,
    };
    (StepReport { tally, parts, ..StepReport::default() }, programs)
}

/// Runs the test programs, the examples in the documentation and the models of loom.
fn test(programs: &BuiltPrograms, timings: Option<&mut TimingReport>) -> StepReport {
    let mut report = StepReport::default();
    if !programs.is_complete {
        report.tally = Tally::FAILED;
        "not everything was built".clone_into(&mut report.note);
        return report;
    }
    let jobs = jobs_of(programs).into_iter().map(|mut job| {
        // Each commit is judged by the same cases; other cases are tried at the desk.
        if std::env::var_os(PROPTEST_SEED).is_none() {
            job.command.env(PROPTEST_SEED, "1");
        }
        if timings.is_some() {
            job.print_times();
        }
        job
    });
    let finished = test_jobs::run(jobs.collect());
    let mut counts = Vec::new();
    for kind in JobKind::ALL {
        let of_kind = finished.iter().filter(|job| job.kind == kind);
        let tally = of_kind.fold(Tally::default(), |sum, job| sum.plus(job.tally));
        report.tally = report.tally.plus(tally);
        counts.push(format!("{} {}", kind.word(), tally.passed));
    }
    report.note = format!("passed: {}", counts.join(", "));
    if report.tally.passed == 0 {
        report.tally = report.tally.plus(Tally::FAILED);
    }
    for job in &finished {
        report.parts.add(job.name.clone(), job.took);
    }
    if let Some(timings) = timings {
        timings.add_jobs(&finished);
    }
    report
}

fn jobs_of(programs: &BuiltPrograms) -> Vec<TestJob> {
    let mut jobs = vec![documentation_examples()];
    for program in &programs.tests {
        let has_faults = planted_faults::PACKAGES
            .iter()
            .any(|(package, target)| *package == program.package && target.kind() == program.kind);
        let mut tests = TestJob::of_program(JobKind::Tests, program.name.clone(), program);
        if has_faults {
            // The faults have a job of their own, which begins early.
            tests.command.args(["--skip", planted_faults::FILTER]);
            let mut faults =
                TestJob::of_program(JobKind::Faults, format!("{}, faults", program.name), program);
            faults.command.arg(planted_faults::FILTER);
            jobs.push(faults);
        }
        jobs.push(tests);
    }
    for program in &programs.models {
        let mut models = TestJob::of_program(JobKind::Loom, format!("{}, loom", program.package), program);
        models.command.arg(LOOM_FILTER);
        jobs.push(models);
    }
    jobs
}

/// The examples in the documentation, which no program holds: rustdoc compiles them as they run.
fn documentation_examples() -> TestJob {
    let mut command =
        cargo(&["test", "--workspace", "--features", FACADE, "--locked", "--no-fail-fast", "--doc"]);
    Compiler::Faults.serve(&mut command, None);
    TestJob { kind: JobKind::Examples, name: "examples in the documentation".to_owned(), command }
}

/// Lints differ between versions of Rust. A step that failed under another version than ours gets a
/// note that says how to use ours.
pub(crate) fn toolchain_hint(report: StepReport) -> StepReport {
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
