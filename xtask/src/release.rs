//! `cargo xtask release`: what must hold before something is given away, beyond what the gate of
//! each change checks.

use crate::cargo::{add_flags, cargo, succeeds, target_directory};
use crate::gate::{FACADE, toolchain_hint};
use crate::packages::{self, Depth};
use crate::steps::{StepReport, Steps, check, plain, skipped};
use crate::workspace::{self, Member};
use crate::{acceptance, feature_sets, prerequisites, public_api};

/// Runs everything; true when nothing failed.
pub(crate) fn run() -> bool {
    workspace::with_members(run_steps)
}

fn run_steps(members: &[Member]) -> bool {
    let mut steps = Steps::begin();
    steps.run("docs", || toolchain_hint(document()));
    steps.run("api", || check_public_api(members));
    steps.run("features", || check_feature_sets(members));
    steps.run("oldest", || check_oldest_rust(members));
    steps.run("packages", || plain(packages::check(members, Depth::Compiled)));
    steps.run("deny", deny);
    steps.run("advisories", advisories);
    print!("\n{}", acceptance::last_passes());
    steps.finish("")
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

/// Every published crate that has features, with each set of them, as its users may build it.
fn check_feature_sets(members: &[Member]) -> StepReport {
    let mut report = StepReport::default();
    for member in members.iter().filter(|member| member.is_published && !member.features.is_empty()) {
        for set in feature_sets::of(&member.features) {
            let name = format!("{} with features [{set}]", member.name);
            println!("{name}");
            let package = ["clippy", "--locked", "--package", &member.name];
            let features = ["--no-default-features", "--features", &set, "--", "--deny", "warnings"];
            let arguments = [package.as_slice(), &features].concat();
            let StepReport { tally, .. } = report.parts.measure(name, || check(&arguments));
            report.tally = report.tally.plus(tally);
        }
    }
    report
}

/// Compiles what is published on the oldest Rust that the crates say they are for.
fn check_oldest_rust(members: &[Member]) -> StepReport {
    let oldest = members.first().map_or("", |member| &member.rust_version);
    let mut command = match prerequisites::cargo_of(oldest) {
        Ok(command) => command,
        Err(reason) => return skipped(reason),
    };
    command.args(["check", "--locked"]);
    command.args(["--package", "tidegate", "--package", "tidegate-cli", "--features", FACADE]);
    command.env("CARGO_TARGET_DIR", target_directory().join("oldest"));
    plain(succeeds(&mut command))
}

fn deny() -> StepReport {
    match prerequisites::cargo_deny() {
        Ok(()) => check(&["deny", "--locked", "check", "bans", "licenses", "sources"]),
        Err(reason) => skipped(reason),
    }
}

/// Holds the dependencies against the advisories of today. Skipped where the database cannot be
/// fetched, since a machine without a network must be able to run everything else.
fn advisories() -> StepReport {
    match prerequisites::cargo_deny().and_then(|()| prerequisites::advisory_database()) {
        Ok(()) => check(&["deny", "--locked", "check", "--disable-fetch", "advisories"]),
        Err(reason) => skipped(format!("advisories: {reason}")),
    }
}
