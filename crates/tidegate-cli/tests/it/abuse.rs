//! The brief attacks of the abuse suite, against the debug build. `cargo xtask acceptance abuse`
//! runs all of them against a release.

use std::io::Write;
use std::path::Path;

use tidegate_blackbox::attack::RunContext;
use tidegate_blackbox::attacks::suite;
use tidegate_blackbox::findings::Verdict;
use tidegate_blackbox::report;
use tidegate_blackbox::trial::Pace;

/// Whether an attack is one on the parts of those who share a resource.
fn is_on_parts(name: &str) -> bool {
    ["shared-tenants", "shared-numbers", "shared-classes"].iter().any(|attack| name.starts_with(attack))
}

#[test]
fn the_daemon_withstands_the_brief_attacks() {
    withstands(|name| !is_on_parts(name), "the_daemon_withstands_the_brief_attacks");
}

/// Callers of these sleep most of the time, so that the others can run beside them.
#[test]
fn the_daemon_withstands_the_brief_attacks_on_a_shared_resource() {
    withstands(is_on_parts, "the_daemon_withstands_the_brief_attacks_on_a_shared_resource");
}

fn withstands(is_meant: impl Fn(&str) -> bool, test: &str) {
    let context = RunContext::new(Path::new(env!("CARGO_BIN_EXE_tidegate")), 0.1);
    let (mut failures, mut skipped) = (Vec::new(), Vec::new());
    for attack in suite::gated().filter(|attack| is_meant(attack.name)) {
        let outcome = attack.run_in(&context);
        match outcome.findings.verdict() {
            Verdict::Skipped => {
                let reasons = outcome.findings.figures().iter().map(|figure| &*figure.note);
                skipped.push(format!("{} ({})", attack.name, reasons.collect::<Vec<_>>().join(", ")));
            }
            verdict if verdict.is_failure() => failures.push(report::table(&outcome)),
            _ => {}
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // One line, since the gate counts a line as a test.
    if !skipped.is_empty() {
        let skipped = skipped.join(", ");
        let _ = writeln!(std::io::stdout(), "skipped: {test}: {skipped}");
    }
}

#[test]
fn every_attack_that_is_left_out_of_the_gate_is_a_brief_one() {
    for name in suite::NOT_YET_HELD {
        let attack = suite::ATTACKS.iter().find(|attack| attack.name == *name);
        assert!(attack.is_some_and(|attack| attack.pace == Pace::Brief), "{name} is no brief attack");
    }
}
