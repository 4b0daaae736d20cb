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

const FEATURES: &str = "\
features:
  - name: pictures
    resource: checkout
    class: sheddable
    levels: [{ name: full, cost: 1 }, { name: small, cost: 0.3 }, { name: off, cost: 0 }]
    min_dwell: 1s
";

/// The scenario with a feature, whose service degrades at this pressure.
fn with_features(features: &str) -> String {
    let levels = "    levels: { brownout: 0.75 }\n  - { name: search";
    let scenario = SCENARIO.replace("  - { name: search", levels).replace("clients:\n", "clients:\n  - { name: viewers, rate: 300, class: sheddable, feature: pictures, stops_while_off: true, arrivals: even }\n");
    scenario.replace("clients:", &format!("warm_up_percent: 0\n{features}clients:"))
}

#[test]
fn a_feature_of_a_scenario_degrades_and_its_changes_are_reported() {
    let folder = TemporaryFolder::new();
    let path = folder.path().join("report.html");
    let (code, out, err) = with_scenario(&with_features(FEATURES), &["--html", path.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("pictures: changes") && out.contains("utility"), "{out}");
    let page = fs::read_to_string(&path).unwrap();
    for part in ["level of each feature", ">T1</text>", "small at ", "Smoothed pressure of the first service"]
    {
        assert!(page.contains(part), "{part}");
    }
    let (_, out, _) = with_scenario(&with_features(FEATURES), &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let changes = &report["runs"][0]["designs"][0]["features"][0]["transitions"];
    assert_eq!(changes[0]["from"], "full", "{changes}");
    assert!(report["variants"][0]["designs"][0]["utility"].as_f64().unwrap() > 0.0);
}

#[test]
fn mistakes_in_features_of_a_scenario_are_those_of_a_policy() {
    let wrong = FEATURES.replace("resource: checkout", "resource: checkuot").replace("cost: 0.3", "cost: 1");
    let wrong = with_features(&wrong).replace("brownout: 0.75", "brownout: 0.65");
    let (code, _, err) = with_scenario(&wrong, &[]);
    assert_eq!(code, 2);
    for part in [
        "features[0].resource: resource \"checkuot\" does not exist; did you mean checkout?",
        "features[0].levels[1].cost",
        "services[0].levels",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let (code, _, err) = with_scenario(&with_features(""), &[]);
    assert_eq!(code, 2);
    assert!(err.contains("client \"viewers\" names feature \"pictures\", which is not among"), "{err}");
}

/// A batch of 3000 requests at once, whose callers come back with their tickets.
const DEFERRED: &str = "\
seconds: 25
warm_up_percent: 0
services: [{ name: shop, defer: { classes: [sheddable], share: 0.5 } }]
clients:
  - name: batch
    rate: 3000
    class: sheddable
    tenants: 1000
    phases: [{ from: 1, factor: 0 }]
    retry: { attempts: 9, tickets: whole_seconds }
";

#[test]
fn a_scenario_with_defer_gives_tickets_with_which_each_caller_comes_back_once() {
    let (code, out, err) = with_scenario(DEFERRED, &["--json"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let batch = &report["runs"][0]["designs"][0]["clients"][0];
    let count = |name: &str| batch[name].as_u64().unwrap();
    let deferred = batch["causes"]["deferred"].as_u64().unwrap();
    assert_eq!(count("succeeded"), count("operations"), "{batch}");
    assert!(deferred > 1_000 && count("attempts") <= count("operations") + deferred, "{batch}");
    let without = DEFERRED.replace(", defer: { classes: [sheddable], share: 0.5 }", "");
    let (_, out, _) = with_scenario(&without, &["--json"]);
    assert!(!out.contains("\"deferred\""), "{out}");
}

#[test]
fn mistakes_in_defer_of_a_scenario_are_those_of_a_policy() {
    let wrong = DEFERRED.replace("share: 0.5", "share: 0.95, horizon: 5s");
    let (code, _, err) = with_scenario(&wrong, &[]);
    assert_eq!(code, 2);
    for part in ["services[0].defer.share", "services[0].defer.horizon"] {
        assert!(err.contains(part), "{part}: {err}");
    }
}

/// A service of ten workers at twice what it can do, with so much concurrency.
fn with_concurrency(concurrency: &str) -> String {
    format!(
        "seconds: 20\nservices: [{{ name: shop, workers: 10, mean_ms: 10, concurrency: {concurrency} }}]\n\
         clients:\n  - {{ name: users, rate: 300, class: critical }}\n  \
         - {{ name: batch, rate: 1700, class: sheddable, tenants: 1000 }}\n"
    )
}

/// The goodput of the first service, and the p99 of the first client in milliseconds.
fn goodput_and_p99(scenario: &str) -> (f64, f64) {
    let (code, out, err) = with_scenario(scenario, &["--json"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let design = &report["variants"][0]["designs"][0];
    (design["goodput"].as_f64().unwrap(), design["clients"][0]["p99_ms"].as_f64().unwrap())
}

#[test]
fn too_little_concurrency_leaves_workers_idle_and_too_much_moves_the_queue_into_the_service() {
    let (goodput, p99) = goodput_and_p99(&with_concurrency("10"));
    assert!(goodput > 0.94 && p99 < 75.0, "{goodput} {p99}");
    let (goodput, _) = goodput_and_p99(&with_concurrency("5"));
    assert!((0.45..0.52).contains(&goodput), "{goodput}");
    let (goodput, p99) = goodput_and_p99(&with_concurrency("40"));
    assert!(goodput > 0.94 && p99 > 75.0, "{goodput} {p99}");
    let (goodput, _) = goodput_and_p99(&with_concurrency("auto"));
    assert!(goodput > 0.9, "{goodput}");
    let unnamed = with_concurrency("10").replace(", concurrency: 10", "");
    assert_eq!(with_scenario(&unnamed, &[]), with_scenario(&with_concurrency("10"), &[]));
}

#[test]
fn a_concurrency_that_is_none_says_where_it_stands_and_what_to_use() {
    for (written, found) in [
        ("0", "0 is out of range"),
        ("1000001", "1000001 is out of range"),
        ("2.5", "expected a whole number, found \"2.5\""),
        ("many", "expected a whole number, found \"many\""),
    ] {
        let (code, _, err) = with_scenario(&with_concurrency(written), &[]);
        assert_eq!(code, 2, "{written}");
        let told = format!("scenario.yaml:2:65: services[0].concurrency: {found}; use a whole number");
        assert!(err.contains(&told) && err.contains(" from 1 to 1000000, or auto"), "{err}");
    }
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
