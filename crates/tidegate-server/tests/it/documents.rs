//! The documents say what there is: every reason, metric, fault and route has its row.

use tidegate_core::Reason;
use tidegate_server::metrics;
use tidegate_wire::{FaultCode, Meaning};

const OPERATIONS: &str = include_str!("../../../../docs/operations.md");
const HTTP: &str = include_str!("../../../../docs/http.md");

fn row<'a>(document: &'a str, name: &str) -> &'a str {
    let start = format!("| `{name}`");
    document.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no row for {name}"))
}

#[test]
fn every_reason_has_a_row_with_what_happened_who_can_fix_it_and_how() {
    for reason in Reason::ALL {
        let row = row(OPERATIONS, reason.as_str());
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{row}");
        assert!(cells[1].contains(&Meaning::of(reason).status.to_string()), "{row}");
    }
}

#[test]
fn every_metric_is_documented() {
    for (name, _) in metrics::TABLE.into_iter().chain(metrics::PROCESS_TABLE) {
        let rows = [format!("| `{name}` |"), format!("| `{name}_total` | counter |")];
        let is_there = OPERATIONS.lines().any(|line| rows.iter().any(|row| line.starts_with(row)));
        assert!(is_there, "no row for {name}");
    }
}

#[test]
fn every_fault_is_documented_with_its_status() {
    for code in FaultCode::ALL {
        let row = row(HTTP, code.as_str());
        assert!(row.contains(&code.status().to_string()), "{row}");
    }
}

#[test]
fn every_route_is_documented() {
    let document: serde_json::Value = serde_json::from_str(tidegate_server::openapi_document()).unwrap();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(HTTP.contains(path.as_str()), "{path}");
    }
}
