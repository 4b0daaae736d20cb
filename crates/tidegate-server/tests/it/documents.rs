//! The documents say what there is: every reason, metric, fault and route has its row, and the
//! table of reasons has no other rows.

use std::path::{Path, PathBuf};

use tidegate_core::{Plane, Reason};
use tidegate_server::metrics;
use tidegate_wire::{FaultCode, Meaning};

const REASONS: &str = include_str!("../../../../docs/reasons.md");
const METRICS: &str = include_str!("../../../../docs/metrics.md");
const RUNBOOK: &str = include_str!("../../../../docs/runbook.md");
const RUNBOOK_OVERLOAD: &str = include_str!("../../../../docs/runbook-overload.md");
const ERRORS: &str = include_str!("../../../../docs/http-errors.md");
const HTTP: [&str; 2] =
    [include_str!("../../../../docs/http.md"), include_str!("../../../../docs/http-operators.md")];

fn row<'a>(document: &'a str, name: &str) -> &'a str {
    let start = format!("| `{name}`");
    document.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no row for {name}"))
}

#[test]
fn every_reason_has_a_row_with_what_happened_who_can_fix_it_and_how() {
    for reason in &Reason::ALL {
        let row = row(REASONS, reason.as_str());
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{row}");
        assert!(cells[1].contains(&Meaning::from_reason(*reason).status.to_string()), "{row}");
    }
    let (_, table) = REASONS.split_once("| reason | status |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|')).count();
    assert_eq!(rows, Reason::ALL.len(), "the table has rows of other reasons");
}

#[test]
fn every_reason_leads_to_a_section_of_a_runbook() {
    for reason in Reason::ALL {
        let page = if reason.plane() == Plane::Limits { RUNBOOK } else { RUNBOOK_OVERLOAD };
        let mut rows = page.lines().filter(|line| line.starts_with('|'));
        assert!(
            rows.any(|row| row.split(" | ").next().is_some_and(|cell| cell.contains(&format!("`{reason}`")))),
            "no row has {reason} in its first cell"
        );
        if reason.plane() != Plane::Limits {
            let (_, text) = page.split_once("\n## ").unwrap();
            assert!(text.contains(&format!("`{reason}`")), "no section says what {reason} is");
        }
    }
}

/// The lists of all reasons, which name each of them once.
const LISTS: [&str; 3] =
    ["tidegate-core/src/refusal.rs", "tidegate-core/src/request_outcome.rs", "tidegate-wire/src/reason.rs"];

#[test]
fn some_plane_refuses_with_each_reason() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    for name in ["core", "capacity", "overload", "engine", "driver", "server", "proxy", "tower"] {
        add_files(&crates.join(format!("tidegate-{name}/src")), "rs", &mut paths);
    }
    let is_list = |path: &PathBuf| LISTS.iter().any(|list| path.ends_with(list));
    // Tests name reasons that nothing refuses with, too.
    let is_test = |path: &PathBuf| {
        path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
    };
    let sources: Vec<String> = paths
        .iter()
        .filter(|path| !is_list(path) && !is_test(path))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    for reason in Reason::ALL {
        let is_named = sources.iter().any(|source| source.contains(&format!("Reason::{reason:?}")));
        assert!(is_named, "{reason}");
    }
}

fn add_files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_files(&path, extension, found);
        } else if path.extension().is_some_and(|known| known == extension) {
            found.push(path);
        }
    }
}

#[test]
fn every_metric_is_documented() {
    for (name, _) in metrics::TABLE.iter().copied().chain(metrics::PROCESS_TABLE) {
        let rows = [format!("| `{name}` |"), format!("| `{name}_total` | counter |")];
        let is_there = METRICS.lines().any(|line| rows.iter().any(|row| line.starts_with(row)));
        assert!(is_there, "no row for {name}");
    }
}

#[test]
fn every_fault_is_documented_with_its_status() {
    for code in FaultCode::ALL {
        let row = row(ERRORS, code.as_str());
        assert!(row.contains(&code.status().to_string()), "{row}");
    }
}

#[test]
fn every_route_is_documented() {
    let document: serde_json::Value = serde_json::from_str(tidegate_server::openapi_document()).unwrap();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(HTTP.iter().any(|page| page.contains(path.as_str())), "{path}");
    }
}
