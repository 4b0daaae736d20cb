//! `tidegate-lab overload`.

use std::fs;

use crate::command::{path_of, run};

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

#[test]
fn an_experiment_is_reported_as_json_and_as_one_page() {
    let path = path_of("overload.html");
    let page = path.to_str().unwrap();
    let arguments = ["overload", "--experiment", "e3", "--design", "codel,tidegate", "--json"];
    let (code, out, err) = run(&[&arguments[..], &["--html", page]].concat());
    assert_eq!(err, "");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["variants"].as_array().unwrap().len(), 3);
    let lines = report["gate"].as_array().unwrap();
    let has_failed = lines.iter().any(|line| line["outcome"] == "fail");
    assert_eq!(code, i32::from(has_failed));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"), "{page}");
    assert!(page.contains("who was refused and why"), "{page}");
}

#[test]
fn a_scenario_of_ones_own_is_compared_under_every_design() {
    let path = path_of("scenario.yaml");
    fs::write(&path, SCENARIO).unwrap();
    let arguments = ["overload", "--scenario", path.to_str().unwrap()];
    let (code, out, err) = run(&arguments);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("\n    tidegate ") && out.contains("\n    gradient2 "), "{out}");
    assert_eq!(run(&arguments).1, out);
    let (_, out, _) = run(&[&arguments[..], &["--design", "codel,tidegate"]].concat());
    assert!(out.contains("\n    codel ") && !out.contains("\n    gradient2 "), "{out}");
}

#[test]
fn what_is_not_there_is_refused() {
    assert_eq!(run(&["overload", "--experiment", "E7"]).0, 2);
    assert_eq!(run(&["overload", "--scenario", "/nowhere.yaml"]).0, 3);
}
