//! `tidegate simulate overload`.

use std::fs;

use tidegate_test_support::TemporaryFolder;

use crate::command::run;

const SCENARIO: &str = "\
seconds: 8
services:
  - name: checkout
    mean_ms: 10
    phases: [{ from: 6, factor: 3 }]
  - { name: search, distribution: sleep, mean_ms: 20 }
clients:
  - { name: gold, rate: 200, class: critical }
  - name: bronze
    rate: 600
    class: sheddable
    tenants: 1000
    phases: [{ from: 2, factor: 3 }, { from: 5, factor: 0.5 }]
    retry: { attempts: 3, after_ms: 100, backoff: true, honours_retry_after: true }
  - { name: side, service: search, rate: 100 }
faults: [{ at: 3, what: restart }]
";

fn with_scenario(text: &str, more: &[&str]) -> (i32, String, String) {
    let folder = TemporaryFolder::new();
    let path = folder.path().join("scenario.yaml");
    fs::write(&path, text).unwrap();
    let arguments = ["simulate", "overload", "--scenario", path.to_str().unwrap()];
    let (code, out, err) = run(&[&arguments[..], more].concat());
    (code, out, err.replace(path.to_str().unwrap(), "scenario.yaml"))
}

#[test]
fn a_scenario_of_ones_own_is_simulated_and_its_report_is_the_same_each_time() {
    let (code, out, err) = with_scenario(SCENARIO, &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("seed 1, ") && out.contains("gold: ok, p99 ms"), "{out}");
    assert!(out.contains("\n    tidegate ") && !out.contains("\n    gradient2 "), "{out}");
    assert_eq!(with_scenario(SCENARIO, &[]).1, out);
    assert_ne!(with_scenario(SCENARIO, &["--seed", "2"]).1, out);
}

#[test]
fn the_scenario_of_the_help_is_simulated() {
    let (_, help, _) = run(&["simulate", "overload", "--help"]);
    let (_, rest) = help.split_once("for the pictures:\n").unwrap();
    let (scenario, _) = rest.split_once("\n\nExit codes").unwrap();
    let scenario: String =
        scenario.lines().map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned() + "\n").collect();
    let (code, out, err) = with_scenario(&scenario, &["--seconds", "5"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
}

#[test]
fn mistakes_in_a_scenario_are_said_with_what_was_probably_meant() {
    let text = SCENARIO.replace("tenants:", "tennants:").replace("seconds: 8", "seconds: 0");
    let (code, _, err) = with_scenario(&text, &[]);
    assert_eq!(code, 2);
    for part in ["scenario.yaml:1:", "seconds", "did you mean `tenants`?"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let (code, _, err) = with_scenario(&SCENARIO.replace("service: search", "service: serach"), &[]);
    assert_eq!(code, 2);
    assert!(err.contains("\"serach\", which does not exist; use checkout, search"), "{err}");
    assert_eq!(run(&["simulate", "overload", "--scenario", "/nowhere.yaml"]).0, 3);
}

#[test]
fn the_report_is_written_as_json_and_as_one_page() {
    let folder = TemporaryFolder::new();
    let path = folder.path().join("report.html");
    let (code, out, err) = with_scenario(SCENARIO, &["--json", "--html", path.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["variants"][0]["designs"].as_array().unwrap().len(), 1);
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"), "{page}");
    assert!(page.contains("who was refused and why"), "{page}");
}

#[test]
fn options_of_the_comparison_say_where_they_went() {
    for option in ["--experiment=E1", "--design=codel"] {
        let (code, _, err) = run(&["simulate", "overload", option]);
        assert_eq!(code, 2, "{option}");
        let name = option.split('=').next().unwrap();
        assert!(err.contains(&format!("'{name}' is an option of the laboratory")), "{err}");
        assert!(err.contains("cargo run --release -p tidegate-lab -- overload --help"), "{err}");
    }
    let (code, _, err) = run(&["simulate", "overload"]);
    assert_eq!(code, 2);
    assert!(err.contains("--scenario <FILE>"), "{err}");
    assert!(err.contains("cargo run --release -p tidegate-lab -- overload --help"), "{err}");
}
