//! The suites, as data. A new suite is one more row in [`SUITES`] and two markers in the page.

use std::process::Command;

use super::figures::Figures;
use super::part::{Part, PartKind};
use crate::cargo::{cargo, output_of};
use crate::checkout;
use crate::compilers::Compiler;
use crate::gate::FACADE;
use crate::planted_faults::{self, TestTarget};

/// A suite.
pub(super) struct Suite {
    pub(super) name: &'static str,
    /// Its time on two idle cores, without builds.
    pub(super) takes: &'static str,
    pub(super) about: &'static str,
    pub(super) kind: SuiteKind,
}

/// How a suite runs.
pub(super) enum SuiteKind {
    /// This command of `tidegate-blackbox` runs it against a build of the daemon.
    Daemon { subcommand: &'static str },
    /// This command of `tidegate-blackbox` runs it against everything that is given away.
    Artifacts { subcommand: &'static str },
    /// Part by part.
    Parted(PartedSuite),
}

/// A suite that is divided into parts.
pub(super) struct PartedSuite {
    /// Its parts, in the order in which they run.
    pub(super) parts: fn() -> Result<Vec<Part>, String>,
    /// The reason why it cannot run here.
    pub(super) check_tools: fn() -> Result<(), String>,
    pub(super) expectation: Expectation,
}

/// The condition on the figures of all parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// That each part has passed is enough.
    EveryPartPassed,
    /// Every number of this column is zero.
    Zero(&'static str),
    /// No number of this column is zero.
    NotZero(&'static str),
}

impl Expectation {
    /// Lines that say which figures are not as expected.
    pub(super) fn violations(self, figures: &Figures) -> Vec<String> {
        let (column, is_zero_expected) = match self {
            Self::EveryPartPassed => return Vec::new(),
            Self::Zero(column) => (column, true),
            Self::NotZero(column) => (column, false),
        };
        let wrong = figures.column(column).filter(|(_, number)| (*number == 0) != is_zero_expected);
        wrong.map(|(row, number)| format!("{row}: {column} is {number}")).collect()
    }
}

pub(super) const SUITES: &[Suite] = &[
    Suite {
        name: "abuse",
        takes: "15 min",
        about: "attacks by strangers, neighbours and broken stores: --only NAME, --list, --json, --minutes N",
        kind: SuiteKind::Daemon { subcommand: "attack" },
    },
    Suite {
        name: "faults",
        takes: "10 min",
        about: "every planted fault, over 1 000 seeds of the fleet simulator and in the tests of each pure crate",
        kind: SuiteKind::Parted(PartedSuite {
            parts: || Ok(fault_parts()),
            check_tools: || Ok(()),
            expectation: Expectation::NotZero("found"),
        }),
    },
    Suite {
        name: "fleet",
        takes: "5 min",
        about: "10 000 seeds of the fleet simulator, every fourth also with limits decided by the store, 120 with tables",
        kind: SuiteKind::Parted(PartedSuite {
            parts: || Ok(fleet_parts()),
            check_tools: || Ok(()),
            expectation: Expectation::Zero("violated"),
        }),
    },
    Suite {
        name: "fuzz",
        takes: "10 min a target",
        about: "every target of the fuzzer, for ten minutes; needs the nightly toolchain and cargo-fuzz",
        kind: SuiteKind::Parted(PartedSuite {
            parts: fuzz_parts,
            check_tools: check_fuzzer,
            expectation: Expectation::EveryPartPassed,
        }),
    },
    Suite {
        name: "metering",
        takes: "1 min",
        about: "rows of /v1/usage against clients whose connections are cut, while policies change: --seconds N, --seed N",
        kind: SuiteKind::Daemon { subcommand: "metering" },
    },
    Suite {
        name: "model",
        takes: "20 min",
        about: "the lease protocol in every order of events, one tick further than the gate looks",
        kind: SuiteKind::Parted(PartedSuite {
            parts: || Ok(model_parts()),
            check_tools: || Ok(()),
            expectation: Expectation::EveryPartPassed,
        }),
    },
    Suite {
        name: "overload",
        takes: "10 min",
        about: "live load beyond what upstreams can serve, through the proxy: --only NAME, --list, --json, --quick",
        kind: SuiteKind::Daemon { subcommand: "load" },
    },
    Suite {
        name: "packages",
        takes: "25 min",
        about: "what `cargo xtask dist` makes, unpacked, installed and started: --only NAME, --before FOLDER, --list, --json",
        kind: SuiteKind::Artifacts { subcommand: "packages" },
    },
    Suite {
        name: "plain",
        takes: "12 min",
        about: "every test of the workspace at its full size, without places for planted faults, which the gate compiles in",
        kind: SuiteKind::Parted(PartedSuite {
            parts: || Ok(plain_parts()),
            check_tools: || Ok(()),
            expectation: Expectation::EveryPartPassed,
        }),
    },
    Suite {
        name: "quota",
        takes: "25 min",
        about: "real Envoys that hold parts of limits, while daemons, Envoys and Redis fail: --only NAME, --list, --json, --quick",
        kind: SuiteKind::Daemon { subcommand: "quota" },
    },
    Suite {
        name: "reproduction",
        takes: "10 min",
        about: "what `cargo xtask dist` makes, made once more in another folder: the same checksums",
        kind: SuiteKind::Artifacts { subcommand: "reproduction" },
    },
];

/// The sizes of tests that are smaller in the gate.
const FULL_SIZES: [(&str, &str); 5] = [
    ("TIDEGATE_OVERRIDE_CHANGES", "3000000"),
    ("TIDEGATE_FLOOD_KEYS", "10000000"),
    ("TIDEGATE_METRIC_KEYS", "100000"),
    ("TIDEGATE_WORKER_REQUESTS", "2000"),
    ("TIDEGATE_USUAL_LOADS", "1000,2000,3000,4000,4400"),
];

/// Every test of the workspace without places for planted faults.
fn plain_parts() -> Vec<Part> {
    let part = |name: &str, arguments: &'static [&'static str]| Part {
        name: name.to_owned(),
        kind: PartKind::Tests,
        command: Box::new(move || {
            let mut command =
                cargo(&["test", "--locked", "--workspace", "--features", FACADE, "--no-fail-fast"]);
            command.args(arguments).envs(FULL_SIZES);
            command
        }),
    };
    // The two selections together are all that `cargo test` runs.
    vec![
        part("programs", &["--lib", "--bins", "--tests", "--examples"]),
        part("examples in documentation", &["--doc"]),
    ]
}

/// Tests with the profile `release`, with a variable of the environment.
fn tests(package: &'static str, target: TestTarget, filter: &str, variable: (&str, &str)) -> Command {
    let mut command = cargo(&["test", "--locked", "--release", "--package", package]);
    command.args(target.arguments()).arg(filter).args(["--", "--nocapture"]);
    command.env(variable.0, variable.1);
    command
}

/// Ranges of `step` seeds, from 0 to `end`.
fn seed_ranges(end: u64, step: usize) -> impl Iterator<Item = String> {
    (0..end).step_by(step).map(move |first| format!("{first}..{}", (first + step as u64).min(end)))
}

fn fleet_parts() -> Vec<Part> {
    let part = |range: String| Part {
        name: range.clone(),
        kind: PartKind::Tests,
        command: Box::new(move || {
            tests("tidegate-sim", TestTarget::Integration, "seeds::", ("TIDEGATE_SEEDS", &range))
        }),
    };
    seed_ranges(10_000, 250).map(part).collect()
}

fn fault_parts() -> Vec<Part> {
    let tests_of = |package: &'static str, target: TestTarget, name: String, seeds: String| Part {
        name,
        kind: PartKind::Tests,
        command: Box::new(move || {
            let mut command = tests(package, target, planted_faults::FILTER, ("TIDEGATE_SEEDS", &seeds));
            if seeds.is_empty() {
                command.env_remove("TIDEGATE_SEEDS");
            }
            Compiler::Faults.serve(&mut command, None);
            command
        }),
    };
    let of_crates = planted_faults::PACKAGES.iter().map(|(package, target)| {
        let tests = if *target == TestTarget::Unit { "unit tests" } else { "tests" };
        tests_of(package, *target, format!("{tests} of {package}"), String::new())
    });
    let of_seeds = seed_ranges(1000, 25).map(|range| {
        let name = format!("seeds {range}");
        tests_of("tidegate-sim", TestTarget::Integration, name, range)
    });
    of_crates.chain(of_seeds).collect()
}

fn model_parts() -> Vec<Part> {
    let part = |name: &'static str| Part {
        name: name.replace('_', " "),
        kind: PartKind::Tests,
        command: Box::new(move || {
            tests("tidegate-core", TestTarget::Integration, name, ("TIDEGATE_MODEL_TICKS", "1"))
        }),
    };
    let names = [
        "nothing_is_found_when_nothing_goes_wrong",
        "nothing_is_found_when_messages_are_lost_and_repeated",
        "nothing_is_found_when_members_crash_and_clocks_run_apart",
        "nothing_is_found_when_the_record_is_lost",
    ];
    names.into_iter().map(part).collect()
}

/// Every target for ten minutes, a minute at a time: found inputs are kept, so that the next minute
/// goes on from there.
fn fuzz_parts() -> Result<Vec<Part>, String> {
    const MINUTES: u32 = 10;
    let folder = checkout::root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut targets: Vec<String> =
        paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    targets.sort_unstable();
    let part = |target: &'static str, minute: u32| Part {
        name: format!("{target}, minute {minute} of {MINUTES}"),
        kind: PartKind::Fuzzing { target },
        command: Box::new(move || {
            let found = format!("fuzz/found/{target}");
            // cargo-fuzz does not make the folder.
            let _ = std::fs::create_dir_all(checkout::root().join(&found));
            let mut command = fuzzer();
            command.args(["run", target, &found, &format!("fuzz/corpus/{target}"), "--"]);
            command.args(["-max_total_time=60", "-timeout=5", "-malloc_limit_mb=64", "-max_len=70000"]);
            command
        }),
    };
    // The names live as long as the program, which runs one suite.
    let targets = targets.into_iter().map(|target| &*target.leak());
    Ok(targets.flat_map(|target| (1..=MINUTES).map(move |minute| part(target, minute))).collect())
}

fn fuzzer() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz"]).current_dir(checkout::root());
    // Variables of the toolchain that runs this program.
    command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    command
}

fn check_fuzzer() -> Result<(), String> {
    output_of(fuzzer().arg("--version"))
        .map(|_| ())
        .map_err(|error| format!("install a nightly toolchain and `cargo install cargo-fuzz` first: {error}"))
}
