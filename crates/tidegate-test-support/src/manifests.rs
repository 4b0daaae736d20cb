//! The files of `deploy` as Helm and kustomize render them, and the complaints of the schemas of
//! Kubernetes.
//!
//! Helm, kustomize and the schemas are Python packages that the gate fetches. Each function starts
//! one process for all its requests, since the libraries take half a second to load.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::fetched;

/// A program of the packages failed, which no input may cause.
const RUNS: &str = "the Python packages of the gate run";

/// Asks Helm and the schemas. Each answer is an object that has `error` where the request could not
/// be served. `None` if the packages are not there.
///
/// # Panics
///
/// If the program fails.
pub fn ask_kubernetes_tools(requests: &[Value]) -> Option<Vec<Value>> {
    let python = fetched("kubernetes", "bin/python")?;
    let mut command = Command::new(python);
    command.args(["-c", include_str!("manifests/kubernetes.py")]);
    let lines: Vec<String> = requests.iter().map(Value::to_string).collect();
    let answers = answers(&mut command, lines.join("\n") + "\n");
    assert_eq!(answers.len(), requests.len(), "one answer for each request");
    Some(answers)
}

/// The request for [`ask_kubernetes_tools`] to render a chart. The answer has `objects`.
pub fn chart_request(chart: &Path, values: &str, release: &str) -> Value {
    json!({ "do": "chart", "chart": chart, "values": values, "release": release, "namespace": "limits" })
}

/// The request to check a chart as `helm lint --strict` does. The answer has `complaints`.
pub fn lint_request(chart: &Path) -> Value {
    json!({ "do": "lint", "chart": chart })
}

/// The request to check objects by the strict schemas of the oldest and the newest version. The
/// answer has `complaints`.
pub fn complaints_request(objects: &[Value]) -> Value {
    json!({ "do": "complaints", "objects": objects })
}

/// The request to parse YAML, in which no key may be repeated. The answer has `documents`.
pub fn documents_request(text: &str) -> Value {
    json!({ "do": "documents", "text": text })
}

/// Builds folders with kustomize. Each answer has `objects` or `error`. `None` if the package is
/// not there.
///
/// # Panics
///
/// If the program fails.
pub fn build_kustomizations(folders: &[&Path]) -> Option<Vec<Value>> {
    let python = fetched("kustomize", "bin/python")?;
    let mut command = Command::new(python);
    command.args(["-c", include_str!("manifests/kustomize.py")]).args(folders);
    Some(answers(&mut command, String::new()))
}

/// The lines that a program prints, as JSON.
fn answers(command: &mut Command, input: String) -> Vec<Value> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect(RUNS);
    let mut pipe = child.stdin.take().expect("standard input is piped");
    // On a thread of its own, so that neither side waits for a full pipe.
    let writer = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect(RUNS);
    let _ = writer.join();
    assert!(output.status.success(), "{RUNS}: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}
