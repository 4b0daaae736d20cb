//! `tidegate simulate capacity`.

use std::fs;

use tidegate_test_support::TemporaryFolder;

use crate::command::run;

const TABLES: &str = "\
seconds: 40
nodes:
  - { name: east, units: 1000 }
  - { name: west, units: 1000 }
tables:
  - name: orders
    units: 400
    ceiling: 150
    partitions: 4
    demand:
      - { units: 100 }
      - { from: 20, units: 300, pattern: one_key, percent: 60 }
  - { name: audit, units: 100, tenant: true, operation: write, demand: [{ units: 40 }] }
";

fn with_tables(text: &str, more: &[&str]) -> (i32, String, String) {
    let folder = TemporaryFolder::new();
    let path = folder.path().join("tables.yaml");
    fs::write(&path, text).unwrap();
    let arguments = ["simulate", "capacity", "--tables", path.to_str().unwrap()];
    let (code, out, err) = run(&[&arguments[..], more].concat());
    (code, out, err.replace(path.to_str().unwrap(), "tables.yaml"))
}

#[test]
fn tables_of_ones_own_are_simulated() {
    let (code, out, err) = with_tables(TABLES, &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("seed 1, 40 s, "), "{out}");
    assert!(out.contains("\n  orders "), "{out}");
    assert!(out.contains("refusals of tenants within their throughput, of "), "{out}");
    assert_eq!(with_tables(TABLES, &[]).1, out, "the same seed gives the same report");
    // Tenants are not compared.
    assert!(!out.contains("\n  audit "), "{out}");
}

#[test]
fn the_tables_of_the_documentation_are_simulated() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/capacity-simulation.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    let (tables, _) = rest.split_once("```").unwrap();
    let (_, out, err) = with_tables(tables, &["--seconds", "120"]);
    assert_eq!(err, "");
    assert!(out.contains("\n  orders "), "{out}");
}

#[test]
fn mistakes_in_tables_are_said_all_at_once_with_what_was_probably_meant() {
    let text = TABLES
        .replace("ceiling", "cieling")
        .replace("one_key", "one-keys")
        .replace("seconds: 40", "seconds: 1");
    let (code, _, err) = with_tables(&text, &[]);
    assert_eq!(code, 2);
    for part in ["tables.yaml:1:", "seconds", "did you mean `ceiling`?", "one_key"] {
        assert!(err.contains(part), "{part}: {err}");
    }
}

#[test]
fn tables_that_the_plane_refuses_are_said_with_what_to_do() {
    let (code, _, err) = with_tables(&TABLES.replace("units: 400", "units: 4000"), &[]);
    assert_eq!(code, 2);
    assert!(err.starts_with("tidegate: the capacity plane refuses the scenario"), "{err}");
    let (code, _, err) = with_tables(&TABLES.replace("one_key", "tail"), &[]);
    assert_eq!(code, 2);
    assert!(err.contains("partition the table by the order of its keys"), "{err}");
    assert_eq!(run(&["simulate", "capacity", "--tables", "/nowhere.yaml"]).0, 3);
}

#[test]
fn the_report_is_written_as_one_page() {
    let folder = TemporaryFolder::new();
    let path = folder.path().join("report.html");
    let (_, _, err) = with_tables(TABLES, &["--html", path.to_str().unwrap()]);
    assert_eq!(err, "");
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"), "{page}");
    let (code, _, err) = with_tables(TABLES, &["--html", "/dev/null/report"]);
    assert_eq!(code, 3);
    assert!(err.contains("cannot write to /dev/null/report"), "{err}");
}

#[test]
fn options_of_the_comparison_say_where_they_went() {
    for option in ["--workload=W1", "--experiment=E-ETL", "--design=gp", "--scale=1/50"] {
        let (code, _, err) = run(&["simulate", "capacity", option]);
        assert_eq!(code, 2, "{option}");
        let name = option.split('=').next().unwrap();
        assert!(err.contains(&format!("'{name}' is an option of the laboratory")), "{err}");
        assert!(err.contains("cargo run --release -p tidegate-lab -- capacity --help"), "{err}");
    }
    let (code, _, err) = run(&["simulate", "capacity"]);
    assert_eq!(code, 2);
    assert!(err.contains("--tables <FILE>"), "{err}");
    assert!(err.contains("cargo run --release -p tidegate-lab -- capacity --help"), "{err}");
}
