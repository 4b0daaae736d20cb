//! `tidegate-lab capacity`.

use std::fs;

use crate::command::{path_of, run};

const SMALL: [&str; 7] = ["capacity", "--workload", "w1,w5", "--seconds", "30", "--scale", "1/50"];

fn small(more: &[&str]) -> (i32, String, String) {
    run(&[&SMALL[..], more].concat())
}

#[test]
fn designs_are_compared_and_the_report_is_the_same_each_time() {
    let (code, out, err) = small(&["--design", "g,s"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("seed 1, 30 s, rates at 1/50, "), "{out}");
    // In their order, whatever the order of the flags.
    assert!(out.contains("W5: order of S, G: "), "{out}");
    assert!(out.contains("  not judged  E-MOVE   W5 GP: splits: - (at most 0)\n"), "{out}");
    assert!(out.contains("breaches of I14 in "), "{out}");
    assert_eq!(small(&["--design", "g,s"]).1, out);
    assert_ne!(small(&["--design", "g,s", "--seed", "2"]).1, out);
}

#[test]
fn an_experiment_runs_by_its_name_and_without_workloads() {
    let (code, out, err) = run(&["capacity", "--experiment", "e-read,E-WRITE"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("\nE-WRITE: writes to groups with one full follower, 300 s\n"), "{out}");
    assert!(
        out.contains("  pass        E-READ   G: throughput of three replicas, in terms of one: "),
        "{out}"
    );
    assert!(!out.contains("W1") && !out.contains("E-BIG"), "{out}");
    let (code, _, err) = run(&["capacity", "--experiment", "E-NONE"]);
    assert_eq!(code, 2);
    assert!(err.contains("E-ISO-1, E-WRITE, E-READ, E-BIG"), "{err}");
}

#[test]
fn several_seeds_show_median_and_worst() {
    let (code, out, _) = small(&["--design", "s,b", "--seeds", "3", "--json"]);
    assert_eq!(code, 0, "{out}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["runs"].as_array().unwrap().len(), 6);
    let moving = &report["tables"][1];
    assert_eq!(moving["id"], "W5");
    let shares = &moving["designs"][0];
    assert!(
        shares["median"].as_f64().unwrap() > 0.1 && shares["worst"].as_f64() >= shares["median"].as_f64()
    );
}

#[test]
fn the_report_is_written_as_one_page() {
    let path = path_of("capacity.html");
    let (code, _, err) = small(&["--design", "s", "--html", path.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"), "{page}");
    let (code, _, err) = small(&["--design", "s", "--html", "/dev/null/report"]);
    assert_eq!(code, 3);
    assert!(err.contains("cannot write to /dev/null/report"), "{err}");
}

#[test]
fn a_gate_that_fails_ends_with_1() {
    // At this scale a key has a burst of few units, and five minutes are just long enough to judge.
    let (code, out, _) =
        run(&["capacity", "--workload", "W4", "--design", "GP", "--seconds", "300", "--scale", "1/50"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("  FAIL        E-SKEW "), "{out}");
}

#[test]
fn tables_of_ones_own_are_compared_under_the_designs_that_are_asked_for() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/capacity-simulation.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    let (tables, _) = rest.split_once("```").unwrap();
    let path = path_of("tables.yaml");
    fs::write(&path, tables).unwrap();
    let tables = ["capacity", "--tables", path.to_str().unwrap(), "--seconds", "120"];
    let (_, out, err) = run(&[&tables[..], &["--design", "s,g"]].concat());
    assert_eq!(err, "");
    assert!(out.contains("\n  orders ") && out.contains(": order of S, G: "), "{out}");
    assert_eq!(run(&["capacity", "--tables", "/nowhere.yaml"]).0, 3);
}

#[test]
fn what_is_not_there_is_refused() {
    assert_eq!(run(&["capacity", "--scale", "2"]).0, 2);
    assert_eq!(run(&["capacity", "--workload", "W11"]).0, 2);
}
